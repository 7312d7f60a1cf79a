"""Print what the command line has to say: plain where a program reads it, with rich on a terminal."""

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from backstay.logic.text import show_invisible

if TYPE_CHECKING:
    from backstay.vocab.errors import BackstayError

DONE = 0
COULD_NOT = 1
USAGE = 2
HALTED = 3
"""A person would have to be asked, and there is none."""
INTERRUPTED = 130
_LONGEST: Final = 2_000
_PADDING: Final = re.compile(r"\s{8,}")


def warn(message: str) -> None:
    """Print a message to standard error, with hidden characters made visible."""
    with contextlib.suppress(OSError):  # standard error is closed: the message is lost
        print(f"backstay: {show_invisible(message)}", file=sys.stderr, flush=True)


def print_line(text: str) -> None:
    """Print a line: on a terminal without control characters, elsewhere as it is."""
    print_pieces((text,))


def print_pieces(pieces: Iterable[str]) -> None:
    """Print a long text that comes in pieces, and a line end."""
    encoding = sys.stdout.encoding or "utf-8"
    for piece in pieces:
        text = show_invisible(piece) if sys.stdout.isatty() else piece
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.write("\n")


def print_json(content: object) -> None:
    """Print one JSON document: indented on a terminal, on one line elsewhere."""
    import msgspec

    from backstay.wire.write_json import json_line

    encoded = json_line(content)
    print_line((msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded).decode())


def print_outcome(content: object, words: str, *, as_json: bool) -> int:
    """Print the outcome of a command, to a program or to a person, and return 0."""
    if as_json:
        print_json(content)
    else:
        print_line(words)
    return DONE


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: with lines and colours on a terminal, as aligned columns elsewhere."""
    rows = [[escape_line(cell) for cell in row] for row in rows]
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
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_version() -> int:
    """Print the version, with the commit when it is known."""
    print_line(f"backstay {full_version()}")
    return DONE


def full_version() -> str:
    """Return the version, with the commit when it is known."""
    from backstay.system.installation import find_commit
    from backstay.version import VERSION

    commit = find_commit()
    return f"{VERSION} ({commit})" if commit else VERSION


def with_stdout(work: Callable[[], int]) -> int:
    """Run `work`, flush standard output, and return the exit code: 1 when the output could not be written.

    A reader that has read enough and goes away, as `head` does, is no failure.
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
        if exc.filename is not None:  # it is about a file and not about a stream
            raise
        forget_output()
        warn(f"Standard output could not be written: {exc.strerror}.")
    return COULD_NOT


def forget_output() -> None:
    """Drop what is written to standard output from now on: its reader is gone."""
    from backstay.headless.stdio import forget

    forget(sys.stdout)


def exit_code_of(error: "BackstayError") -> int:
    """Return the exit code for an error: 2 when the command was typed wrong, 1 otherwise."""
    from backstay.vocab.errors import BadId, InputConflict

    return USAGE if isinstance(error, BadId | InputConflict) else COULD_NOT


def is_unicode(text: str) -> bool:
    """Return whether `text` has no bytes that could not be decoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escape_line(text: str) -> str:
    """Return `text` on one line, with a sign for each control and hidden character."""
    return show_invisible(text, keep="")


def escape_untrusted(text: str) -> str:
    """Return text of others as `escape_line` does, shortened, with a count in place of blanks that could push its end out of sight."""
    plain = _PADDING.sub(lambda found: f" [{len(found[0])} blanks] ", text.encode("utf-8", "replace").decode())
    more = f" [{len(plain) - _LONGEST:,} more characters]" if len(plain) > _LONGEST else ""
    return escape_line(plain[:_LONGEST] + more)


def redact_untrusted(text: str) -> str:
    """Return text of others as `escape_untrusted` does, without secrets."""
    from backstay.logic.secrets.redact import Redactor

    return escape_untrusted(Redactor().text(text))
