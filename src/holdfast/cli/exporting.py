"""`holdfast export`: a session as a document."""

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.place import Place, placed

if TYPE_CHECKING:
    from holdfast.export.files import Format
    from holdfast.ports import EventStore

FORMATS: Final = ("workflow", "json", "markdown", "html")
NAMES: "Final[dict[str, Format]]" = {
    "workflow": "workflow",
    "yaml": "workflow",
    "yml": "workflow",
    "json": "json",
    "markdown": "markdown",
    "md": "markdown",
    "html": "html",
    "htm": "html",
}
"""What `--format` takes, and what it means."""


@click.command("export")
@click.argument("session")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file to write; - for standard output.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(tuple(NAMES)),
    metavar=f"[{'|'.join(FORMATS)}]",
    help="What to write; by the file's ending when left out.",
)
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

    chosen = NAMES[kind] if kind else ENDINGS.get(output.suffix.lower())
    if chosen is None:
        endings = ", ".join(f"{ending} ({meant})" for ending, meant in ENDINGS.items())
        raise click.UsageError(f"{output.name!r} does not say what to write: end it in {endings}, or give --format.")
    async with place.opened() as store:
        meta = await find(store, session, complain)
        if str(output) == "-":
            await _print(chosen, store, meta.id)
            return 0
        text = await _exporter(chosen)(store, meta.id, output, clock=SystemClock())
    say(f"{output}: {len(text.encode()):,} bytes of {chosen}")
    return 0


async def _print(kind: "Format", store: "EventStore", session: str) -> None:
    import sys

    from holdfast.export.files import note_export
    from holdfast.export.record import record_text
    from holdfast.export.transcripts import page
    from holdfast.export.workflow import workflow_text
    from holdfast.runtime.clock import SystemClock

    match kind:
        case "workflow":
            text = await workflow_text(store, session)
        case "json":
            text = await record_text(store, session)
        case "markdown" | "html":
            text = await page(store, session, kind)
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
    await note_export(store, session, kind, text, clock=SystemClock())


def _exporter(kind: str) -> Callable[..., Awaitable[str]]:
    from holdfast.export.record import export_record
    from holdfast.export.transcripts import export_html, export_markdown
    from holdfast.export.workflow import export_workflow

    return {"workflow": export_workflow, "json": export_record, "markdown": export_markdown, "html": export_html}[kind]
