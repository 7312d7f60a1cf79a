"""`backstay export`: write a session as a document."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from backstay.cli.output import print_line, warn
from backstay.cli.secrets import redactor_of
from backstay.cli.shared_options import StoreLocation, with_location
from backstay.export.formats import ENDINGS, Format, export, format_of, note_export, write_pieces
from backstay.headless.lookup import find
from backstay.logic.text import show_invisible
from backstay.system.machine import SystemClock
from backstay.vocab.errors import UserError

NAMES: Final[dict[str, Format]] = {"workflow": "workflow", **{ending[1:]: kind for ending, kind in ENDINGS.items()}}
"""The values of `--format`: the formats and the endings of their files."""


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
    metavar=f"[{'|'.join(dict.fromkeys(NAMES.values()))}]",
    help="What to write; by the file's ending when left out.",
)
@with_location
async def command(location: StoreLocation, session: str, output: Path, kind: str | None) -> int:
    """Write a session to a file that only you can read.

    The conversation as people read it (.md, .html), a workflow scaffold (.yaml), or the record of the session (.json),
    each without secrets. The pages for people show the current path, shorten long results and name media; an HTML
    page is one file, without scripts and without anything from outside.
    """
    chosen = _choose_format(output, kind)

    def write(pieces: Iterable[str]) -> None:
        if str(output) != "-":
            write_pieces(output, pieces)
            return
        for piece in pieces:
            sys.stdout.buffer.write((show_invisible(piece) if sys.stdout.isatty() else piece).encode())
        sys.stdout.buffer.flush()

    redactor = await redactor_of(location)
    async with location.open() as store:
        meta = await find(store, session, warn)
        made, size = await export(store, meta.id, chosen, write, redactor)
        if why := await note_export(store, meta.id, made, clock=SystemClock()):
            warn(f"{why}. So the log of {meta.id!r} does not mention this export, which is whole.")
    if str(output) != "-":
        print_line(f"{output}: {size:,} bytes of {chosen}")
    return 0


def _choose_format(output: Path, kind: str | None) -> Format:
    try:
        return NAMES[kind] if kind else format_of(output)
    except UserError as exc:
        raise click.UsageError(f"{exc} Or give --format.") from exc
