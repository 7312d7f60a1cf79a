"""`holdfast export`: a session as a document."""

import functools
from pathlib import Path
from typing import Any

import click

from holdfast.cli.place import Place, placed

FORMATS = ("workflow", "json")


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
    from holdfast.cli.telling import say
    from holdfast.export.record import export_record
    from holdfast.export.workflow import export_workflow
    from holdfast.headless import find
    from holdfast.runtime.clock import SystemClock

    chosen = kind or ("json" if output.suffix == ".json" else "workflow")
    export = export_record if chosen == "json" else export_workflow
    async with place.opened() as store:
        meta = await find(store, session)
        text = await export(store, meta.id, output, clock=SystemClock())
    say(f"{output}: {len(text.encode()):,} bytes of {chosen}")
    return 0
