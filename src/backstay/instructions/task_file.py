"""Changes a task's file: its status, and a line about what was done."""

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from backstay.files import replace_file
from backstay.instructions.markdown import heading, lines
from backstay.vocab.errors import UserError
from backstay.vocab.messages import iso

LARGEST: Final = 1024 * 1024
"""Bytes of a task's file."""
LONGEST_NOTE: Final = 2_000
_STATUS: Final = re.compile(r"[a-z][a-z0-9 _-]{0,39}", re.IGNORECASE)
_FIELD: Final = re.compile(r"(\s{0,3}(?:[-*+]\s+)?\**status\**\s*:\s*\**\s*)(`?)[^`*\n]*?(`?\**\s*)", re.IGNORECASE)
_KEY: Final = re.compile(r"(status[ \t]*:[ \t]*)([\"']?)[^\"'#\n]*?([\"']?)([ \t]*(?:#.*)?)", re.IGNORECASE)
_PROGRESS: Final = ("progress", "progress log", "log")


class Now(Protocol):
    """The part of a clock that is needed here."""

    def now(self) -> int:
        """Microseconds since 1970."""


def update_task_file(path: str | Path, status: str, note: str, clock: Now) -> str:
    """Set the status of a task and add a dated line under "Progress"; return the new text.

    The file is replaced in one step and keeps its mode and its line ends; whoever changes it through this function at the same time waits.
    Raise `UserError` when it is not a plain text file, cannot be written, or `status` cannot be one.
    """
    path = Path(path)
    if not _STATUS.fullmatch(status):
        raise UserError(f"{status!r} cannot be a status. Use a short word, such as 'in-progress' or 'completed'.")
    try:
        with _held(path) as (content, mode):
            text = content.decode("utf-8")
            changed = updated(text, status, note, iso(clock.now())[:10])
            replace_file(path, changed.encode(), mode=mode)  # whoever could read it still can
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: This is not UTF-8 text, so it is not changed.") from exc
    except OSError as exc:
        raise UserError(f"The task {str(path)!r} cannot be changed: {exc.strerror or exc}.") from exc
    return changed


def updated(text: str, status: str, note: str, date: str) -> str:
    """The text of a task with another status, and with a line about its progress."""
    ends = "\r\n" if "\r\n" in text else "\n"
    found = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    _set_status(found, status)
    words = " ".join(note.split())[:LONGEST_NOTE]
    _add_progress(found, f"- {date}: {status}{f' - {words}' if words else ''}")
    return ends.join((*found, ""))


def _set_status(found: list[str], status: str) -> None:
    """Write the status where it stands, else before the text, else under the title."""
    closing = _closing(found)
    for number in range(1, closing):
        if key := _KEY.fullmatch(found[number]):
            found[number] = f"{key[1]}{key[2]}{status}{key[3]}{key[4]}"
            return
    if closing:
        found.insert(closing, f"status: {status}")
        return
    title = 0
    section = False
    for number, line, code in lines("\n".join(found)):
        head = None if code else heading(line)
        if head:
            title = title or (number if head[0] == 1 else 0)
            section = head[1].casefold() == "status"
        elif not code and section and line.strip():
            found[number - 1] = status
            return
        elif not code and (field := _FIELD.fullmatch(line)):
            found[number - 1] = f"{field[1]}{field[2]}{status}{field[3]}"
            return
    found[title:title] = ["", f"Status: {status}"] if title else [f"Status: {status}", ""]


def _closing(found: list[str]) -> int:
    """The index of the line that closes the keys before the text; 0 when there are none."""
    if not found or found[0].rstrip() != "---":
        return 0
    return next((number for number, line in enumerate(found) if number and line.rstrip() in ("---", "...")), 0)


def _add_progress(found: list[str], entry: str) -> None:
    """Add a line at the end of the section about progress, or make that section."""
    level, last = 0, 0
    for number, line, code in lines("\n".join(found)):
        head = None if code else heading(line)
        if head and level and head[0] <= level:
            break
        if head and not level and head[1].casefold() in _PROGRESS:
            level, last = head[0], number
        elif level and line.strip():
            last = number
    if not level:
        found += ["", "## Progress", "", entry]
        return
    found[last:last] = ["", entry] if heading(found[last - 1]) else [entry]


@contextmanager
def _held(path: Path) -> Iterator[tuple[bytes, int]]:
    """The bytes and the mode of a file while nobody else changes it this way. A link is not followed."""
    while True:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
                raise UserError(f"The task {str(path)!r} is no file, or has more than {LARGEST:,} bytes.")
            fcntl.flock(handle, fcntl.LOCK_EX)
            now = os.stat(path, follow_symlinks=False)
            if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino):
                continue  # somebody replaced it while we waited: theirs is the one to change
            with open(os.dup(handle), "rb") as file:
                yield file.read(LARGEST + 1), stat.S_IMODE(found.st_mode)
            return
        finally:
            os.close(handle)
