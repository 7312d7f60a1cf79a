"""`backstay export`: a session as a document."""

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from backstay.cli.location import StoreLocation, placed
from backstay.logic.text import show_invisible

if TYPE_CHECKING:
    from backstay.export.files import Format

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
def command(place: StoreLocation, **given: Any) -> int:  # Any: each flag has a type of its own
    """Write a session to a file that only you can read.

    The conversation as people read it (.md, .html), a workflow scaffold (.yaml), or the record of the session (.json),
    each without secrets. The pages for people show the current path, shorten long results and name media; an HTML
    page is one file, without scripts and without anything from outside.
    """
    import anyio

    code: int = anyio.run(functools.partial(_export, place, **given))
    return code


async def _export(place: StoreLocation, *, session: str, output: Path, kind: str | None) -> int:
    from collections.abc import Iterable

    from backstay.cli.output import say, warn
    from backstay.cli.secret_actions import redactor_of
    from backstay.export.files import write_pieces
    from backstay.export.formats import export, note_export
    from backstay.headless.run import find
    from backstay.system.machine import SystemClock

    chosen = _chosen(output, kind)

    def take(pieces: Iterable[str]) -> None:
        if str(output) != "-":
            write_pieces(output, pieces)
            return
        for piece in pieces:
            sys.stdout.buffer.write((show_invisible(piece) if sys.stdout.isatty() else piece).encode())
        sys.stdout.buffer.flush()

    redactor = await redactor_of(place)
    async with place.opened() as store:
        meta = await find(store, session, warn)
        made, size = await export(store, meta.id, chosen, take, redactor)
        if why := await note_export(store, meta.id, made, clock=SystemClock()):
            warn(f"{why}. So the log of {meta.id!r} does not mention this export, which is whole.")
    if str(output) != "-":
        say(f"{output}: {size:,} bytes of {chosen}")
    return 0


def _chosen(output: Path, kind: str | None) -> "Format":
    from backstay.export.files import format_of
    from backstay.vocab.errors import UserError

    try:
        return NAMES[kind] if kind else format_of(output)
    except UserError as exc:
        raise click.UsageError(f"{exc} Or give --format.") from exc
