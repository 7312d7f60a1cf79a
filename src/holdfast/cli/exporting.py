"""`holdfast export`: a session as a document."""

import functools
from pathlib import Path
from typing import Any, Final

import click

from holdfast.cli.place import Place, placed

ENDINGS: Final = {".yaml": "workflow", ".yml": "workflow", ".json": "json"}
"""What a file's ending says about its format."""
FORMATS: Final = tuple(dict.fromkeys(ENDINGS.values()))


@click.command("export")
@click.argument("session")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write."
)
@click.option("--format", "kind", type=click.Choice(FORMATS), help="What to write; by the file's ending when left out.")
@placed
def command(place: Place, **given: Any) -> int:  # Any: each flag has a type of its own
    """Write a session to a file: a workflow scaffold (.yaml) or its record (.json)."""
    import anyio

    code: int = anyio.run(functools.partial(_export, place, **given))
    return code


async def _export(place: Place, *, session: str, output: Path, kind: str | None) -> int:
    from holdfast.cli.telling import complain, say
    from holdfast.export.record import export_record
    from holdfast.export.workflow import export_workflow
    from holdfast.headless import find
    from holdfast.runtime.clock import SystemClock

    chosen = kind or ENDINGS.get(output.suffix.lower())
    if chosen is None:
        endings = ", ".join(f"{ending} ({meant})" for ending, meant in ENDINGS.items())
        raise click.UsageError(f"{output.name!r} does not say what to write: end it in {endings}, or give --format.")
    export = export_record if chosen == "json" else export_workflow
    async with place.opened() as store:
        meta = await find(store, session, complain)
        text = await export(store, meta.id, output, clock=SystemClock())
    say(f"{output}: {len(text.encode()):,} bytes of {chosen}")
    return 0
