"""`holdfast export`: a session as a document."""

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import click

from holdfast.cli.place import Place, placed

FORMATS: Final = ("workflow", "json", "markdown", "html")


@click.command("export")
@click.argument("session")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write."
)
@click.option("--format", "kind", type=click.Choice(FORMATS), help="What to write; by the file's ending when left out.")
@placed
def command(place: Place, **given: Any) -> int:  # Any: each flag has a type of its own
    """Write a session to a file that only you can read.

    The conversation as people read it (.md, .html), a workflow scaffold (.yaml), or the record of the session (.json).
    The pages for people show the current path without secrets, shorten long results and name media; an HTML page is
    one file, without scripts and without anything from outside.
    """
    import anyio

    code: int = anyio.run(functools.partial(_export, place, **given))
    return code


async def _export(place: Place, *, session: str, output: Path, kind: str | None) -> int:
    from holdfast.cli.telling import complain, say
    from holdfast.export.files import ENDINGS
    from holdfast.headless import find
    from holdfast.runtime.clock import SystemClock

    chosen = kind or ENDINGS.get(output.suffix.lower())
    if chosen is None:
        endings = ", ".join(f"{ending} ({meant})" for ending, meant in ENDINGS.items())
        raise click.UsageError(f"{output.name!r} does not say what to write: end it in {endings}, or give --format.")
    async with place.opened() as store:
        meta = await find(store, session, complain)
        text = await _exporter(chosen)(store, meta.id, output, clock=SystemClock())
    say(f"{output}: {len(text.encode()):,} bytes of {chosen}")
    return 0


def _exporter(kind: str) -> Callable[..., Awaitable[str]]:
    from holdfast.export.record import export_record
    from holdfast.export.transcripts import export_html, export_markdown
    from holdfast.export.workflow import export_workflow

    return {"workflow": export_workflow, "json": export_record, "markdown": export_markdown, "html": export_html}[kind]
