"""Unified differences, as `diff -u` and `git diff` write them and models imitate them."""

import re
from typing import Final

from holdfast.logic.patch_lines import Hunk, HunkLine, Section, Sign, Source, bad

_HEADER: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_NOTHING: Final = "/dev/null"
_ESCAPE: Final = re.compile(rb'\\([0-7]{1,3}|[abtnvfr"\\])')
_ESCAPED: Final = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_IGNORED: Final = (
    "index ",
    "similarity index ",
    "dissimilarity index ",
    "new file mode 100",
    "deleted file mode ",
    "Index: ",
    "====",
)
_UNDOABLE: Final = {
    "Binary files ": "it changes a binary file.",
    "GIT binary patch": "it changes a binary file.",
    "old mode ": "it changes the mode of a file; use `chmod`.",
    "new mode ": "it changes the mode of a file; use `chmod`.",
    "new file mode ": "it makes a link or a submodule; only files can be patched.",
    "copy from ": "it copies a file; use `cp`.",
}


def is_unified(source: Source) -> bool:
    """Whether a unified difference begins here."""
    return source.peek().startswith("diff --git ") or _files_follow(source)


def read_unified(source: Source) -> list[Section]:
    """All sections. Raise `UserError` with the line that cannot be read."""
    sections: list[Section] = []
    while not source.done:
        line = source.peek()
        if line.startswith("diff --git "):
            sections.append(_git_section(source))
        elif _files_follow(source):
            sections.append(_plain_section(source, source.number, "", ""))
        elif not line.strip() or line.startswith((*_IGNORED, "-- ")) or _version_line(source):
            source.take()
        else:
            raise bad(source.number, line, "the next file was expected, as in `--- a/FILE` and `+++ b/FILE`.")
    return sections


def _version_line(source: Source) -> bool:
    """Whether this is the line under the `-- ` that ends a mail with a patch."""
    return source.at > 0 and source.lines[source.at - 1] == "-- "


def _files_follow(source: Source) -> bool:
    return source.peek().startswith("--- ") and source.peek(1).startswith("+++ ")


def _git_section(source: Source) -> Section:
    number, title = source.number, source.take()
    old = new = ""
    kind = ""
    while not source.done and not source.peek().startswith(("diff --git ", "@@ ")) and not _files_follow(source):
        line = source.peek()
        if line.startswith("rename from "):
            old = _path(source, "rename from ")
        elif line.startswith("rename to "):
            new = _path(source, "rename to ")
        elif line.startswith(_IGNORED):
            kind = kind or line.partition(" ")[0]
        elif why := next((why for start, why in _UNDOABLE.items() if line.startswith(start)), ""):
            raise bad(source.number, line, why)
        elif line.strip():
            raise bad(source.number, line, "a line of `git diff` was expected.")
        source.take()
    if not source.done and _files_follow(source):
        return _plain_section(source, number, old, new)
    if old and new:
        return Section("update", old, number, move=new)
    return _empty_section(number, title, kind)


def _empty_section(number: int, title: str, kind: str) -> Section:
    """A file that is made or removed and has no lines."""
    words = title.removeprefix("diff --git ").split(" ")
    half = len(words) // 2
    one, other = " ".join(words[:half]), " ".join(words[half:])
    if kind not in ("new", "deleted") or one.removeprefix("a/") != other.removeprefix("b/"):
        raise bad(number, title, "it says nothing about what to change in the file.")
    return Section("add" if kind == "new" else "delete", one.removeprefix("a/"), number)


def _plain_section(source: Source, number: int, old: str, new: str) -> Section:
    before, after = _sides(source)
    hunks = _hunks(source)
    if _NOTHING in (before, after):
        if before == after:
            raise bad(number, f"+++ {after}", "it names no file.")
        return _made(number, after, hunks) if before == _NOTHING else _removed(number, before, hunks)
    if not hunks and not old:
        raise bad(number, f"+++ {after}", "it has no hunk, which begins with `@@`.")
    path = old or before
    moved = new or after
    return Section("update", path, number, move=moved if moved != path else "", hunks=tuple(hunks))


def _made(number: int, path: str, hunks: list[Hunk]) -> Section:
    lines = [line for hunk in hunks for line in hunk.lines]
    if any(line.sign != "+" for line in lines):
        raise bad(number, f"+++ {path}", "a new file has no lines to keep or to remove.")
    content = "\n".join(line.text for line in lines) + ("\n" if lines and not lines[-1].open_end else "")
    return Section("add", path, number, content=content)


def _removed(number: int, path: str, hunks: list[Hunk]) -> Section:
    if any(line.sign != "-" for hunk in hunks for line in hunk.lines):
        raise bad(number, f"--- {path}", "a file that is removed keeps no lines.")
    return Section("delete", path, number, hunks=tuple(hunks))


def _sides(source: Source) -> tuple[str, str]:
    """The names of the file before and after, without the prefixes `a/` and `b/` when both have them."""
    before = _path(source, "--- ")
    source.take()
    after = _path(source, "+++ ")
    source.take()
    prefixed = before == _NOTHING or before.startswith("a/"), after == _NOTHING or after.startswith("b/")
    if all(prefixed):
        return before.removeprefix("a/"), after.removeprefix("b/")
    return before, after


def _path(source: Source, start: str) -> str:
    text = source.peek().removeprefix(start)
    path = _unquoted(text) if text.startswith('"') else text.partition("\t")[0].strip()
    if not path or "\0" in path:
        raise bad(source.number, source.peek(), "it names no file.")
    return path


def _unquoted(text: str) -> str:
    """A name that git put in quotes because of its letters."""
    raw = text.strip()[1:].rpartition('"')[0].encode("utf-8", "surrogatepass")

    def plain(found: re.Match[bytes]) -> bytes:
        sign = found[1]
        return _ESCAPED.get(sign, sign) if not sign[:1].isdigit() else bytes([int(sign, 8) & 0xFF])

    return _ESCAPE.sub(plain, raw).decode("utf-8", "surrogateescape")


def _hunks(source: Source) -> list[Hunk]:
    hunks: list[Hunk] = []
    while not source.done and source.peek().startswith("@@"):
        hunks.append(_hunk(source))
    return hunks


def _hunk(source: Source) -> Hunk:
    number, header = source.number, source.take()
    found = _HEADER.match(header)
    if not found:
        raise bad(number, header, "a hunk begins with `@@ -LINE,COUNT +LINE,COUNT @@`.")
    old, new = (int(found[2] or 1), int(found[4] or 1))
    lines: list[HunkLine] = []
    blank = 0
    while not source.done and _goes_on(source, old, new):
        line = source.take()
        blank = 0 if line else blank + 1
        if line.startswith("\\"):
            lines[-1:] = [HunkLine(lines[-1].sign, lines[-1].text, open_end=True)] if lines else []
            continue
        sign = _sign(line, source.number - 1)
        old -= sign != "+"
        new -= sign != "-"
        lines.append(HunkLine(sign, line[1:]))
    if blank and (old > 0 or new > 0):
        del lines[-blank:]  # the counts are wrong, so that nothing says that these are lines of the file
    if not lines:
        raise bad(number, header, "the hunk is empty.")
    return Hunk(number, tuple(lines), start=int(found[1]))


def _goes_on(source: Source, old: int, new: int) -> bool:
    """Whether the next line belongs to the hunk. Its counts say so, unless they are wrong, which models' often are."""
    line = source.peek()
    if line.startswith(("@@ -", "diff --git ")) or (_files_follow(source) and source.peek(2).startswith("@@ -")):
        return False
    if line.startswith("\\") or old > 0 or new > 0:
        return True
    return line[:1] in (" ", "+", "-") and not _files_follow(source) and line != "-- "


def _sign(line: str, number: int) -> Sign:
    match line[:1]:
        case "" | " ":
            return " "
        case "-":
            return "-"
        case "+":
            return "+"
        case _:
            raise bad(number, line, "a line of a hunk begins with a blank, `+` or `-`.")
