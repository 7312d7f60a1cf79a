"""What the command line says to people: plain where it is read by programs, with rich on a terminal."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from backstay.logic.text import show_invisible

if TYPE_CHECKING:
    from backstay.vocab.errors import BackstayError

DONE = 0
COULD_NOT = 1
USAGE = 2
INTERRUPTED = 130


def warn(message: str) -> None:
    """Say something on standard error, where it disturbs no format. What it quotes of others is made visible."""
    with contextlib.suppress(OSError):  # nobody listens: then there is nobody to tell
        print(f"backstay: {show_invisible(message)}", file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Print a line: on a terminal with nothing in it that a terminal obeys, elsewhere as it is."""
    if sys.stdout.isatty():
        text = escape_terminal(text, keep="\n\t")
    sys.stdout.write(text.encode(sys.stdout.encoding or "utf-8", "replace").decode(sys.stdout.encoding or "utf-8"))
    sys.stdout.write("\n")


def say_version() -> int:
    """Print the version, with the commit when it is known."""
    say(f"backstay {full_version()}")
    return 0


def full_version() -> str:
    """Return the version, with the commit when it is known."""
    from backstay.system.installation import find_commit
    from backstay.version import VERSION

    commit = find_commit()
    return f"{VERSION} ({commit})" if commit else VERSION


def with_stdout(work: Callable[[], int]) -> int:
    """Do what prints, and see that it is printed; the exit code says when it could not be.

    A reader that has enough and goes away, as `head` does, is no failure.
    """
    code = DONE
    try:
        code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        forget_output()
        return code
    except OSError as exc:
        if exc.filename is not None:  # not a stream: nobody foresaw this one
            raise
        forget_output()
        warn(f"Standard output could not be written: {exc.strerror}.")
    return COULD_NOT


def escape_terminal(text: str, *, keep: str = "") -> str:
    """Return `text` as `shown` makes it; on one line unless `keep` says otherwise."""
    return show_invisible(text, keep=keep)


def say_json(content: object) -> None:
    """Print one JSON document, readable on a terminal and on one line otherwise."""
    import msgspec

    from backstay.wire.json_text import json_line

    encoded = json_line(content)
    say((msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded).decode())


def say_pieces(pieces: Iterable[bytes]) -> None:
    """Print a long text that comes in pieces, and a line end."""
    for piece in pieces:
        text = piece.decode()
        if sys.stdout.isatty():
            text = escape_terminal(text, keep="\n\t")
        sys.stdout.write(text.encode(sys.stdout.encoding or "utf-8", "replace").decode(sys.stdout.encoding or "utf-8"))
    sys.stdout.write("\n")


def say_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: with lines and colours on a terminal, as aligned columns otherwise."""
    rows = [[escape_terminal(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*titles, box=box.SIMPLE_HEAD, header_style="bold")
        for row in rows:
            table.add_row(*(Text(cell, overflow="ellipsis", no_wrap=len(cell) < 30) for cell in row))
        Console().print(table)
        return
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    for row in (titles, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def exit_code_of(error: "BackstayError") -> int:
    """How to end after an error: 2 when the command was typed wrong, 1 otherwise."""
    from backstay.vocab.errors import BadId, InputConflict

    return USAGE if isinstance(error, BadId | InputConflict) else COULD_NOT


def forget_output() -> None:
    """Let nothing more be written to a standard output that nobody reads."""
    from backstay.headless.stdio import forget

    forget(sys.stdout)
