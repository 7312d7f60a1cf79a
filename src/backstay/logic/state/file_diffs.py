"""Work out which files a call changed, line by line, and what a command gave back.

It comes from the call's arguments, its result, and what is known of the files before it; nothing is stored beside the log.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from backstay.tools.patch import PatchSection, patch_of, read_patch
from backstay.vocab.errors import UserError

DiffKind = Literal["hunk", "context", "remove", "add"]
MOST_LINES: Final = 400
"""Lines of one difference that are kept."""
LINE_CHARS: Final = 400
"""Characters of each."""
CONTEXT: Final = 3
"""Unchanged lines around a change."""
COMPARED: Final = 2_000
"""Lines that are compared with each other; of more, what went and what came is listed without looking for what stayed."""
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


class DiffLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a difference."""

    type: DiffKind
    text: str
    """Without the sign; of a hunk, its header."""
    line: int = 0
    """Its number: in the new file, or in the old one for a line that was removed; 0 when it is not known."""


Diff = tuple[DiffLine, ...]


def diff_texts(before: str, after: str) -> Diff:
    """Return the difference that makes `after` of `before`."""
    old, new = _lines(before), _lines(after)
    head = _common(old, new)
    tail = min(_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    start = max(0, head - CONTEXT)
    removed = old[start : len(old) - max(0, tail - CONTEXT)]
    added = new[start : len(new) - max(0, tail - CONTEXT)]
    if len(removed) + len(added) > COMPARED:
        return _bound(_number_lines(_whole(removed, added, start + 1, start + 1)))
    made = difflib.unified_diff(removed, added, lineterm="", n=CONTEXT)
    return _bound(_number_lines(_shift_header(line, start) for line in list(made)[2:]))


def diff_replacement(old: str, new: str, start: int = 0) -> Diff:
    """Return the difference of a text that stands where another stood; `start` is its first line, 0 when that is not known."""
    if start:
        return _bound(_number_lines(_whole(_lines(old), _lines(new), start, start)))
    gone = (DiffLine(type="remove", text=line) for line in _lines(old))
    return _bound((*gone, *(DiffLine(type="add", text=line) for line in _lines(new))))


def parse_unified_diff(text: str) -> Diff:
    """Return the lines of the unified difference in `text`; text around its hunks is passed over."""
    return _bound(_number_lines(text.split("\n")))


def _number_lines(lines: Iterable[str]) -> Iterator[DiffLine]:
    old = new = old_left = new_left = 0
    for line in lines:
        sign, content = line[:1] or " ", line[1:]
        if not old_left and not new_left:
            if found := _HUNK.match(line):
                old, new = int(found[1]), int(found[3])
                old_left, new_left = int(found[2] or 1), int(found[4] or 1)
                yield DiffLine(type="hunk", text=line)
        elif sign == "-" and old_left:
            yield DiffLine(type="remove", text=content, line=old)
            old, old_left = old + 1, old_left - 1
        elif sign == "+" and new_left:
            yield DiffLine(type="add", text=content, line=new)
            new, new_left = new + 1, new_left - 1
        elif sign == " " and old_left and new_left:
            yield DiffLine(type="context", text=content, line=new)
            old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
        else:  # the difference was cut off here
            old_left = new_left = 0


def _whole(removed: Sequence[str], added: Sequence[str], old: int, new: int) -> Iterator[str]:
    yield f"@@ -{old if removed else old - 1},{len(removed)} +{new if added else new - 1},{len(added)} @@"
    yield from (f"-{line}" for line in removed)
    yield from (f"+{line}" for line in added)


def _shift_header(line: str, base: int) -> str:
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + base}", line)


def _bound(lines: Iterable[DiffLine]) -> Diff:
    kept: list[DiffLine] = []
    for line in lines:
        if len(kept) == MOST_LINES:
            kept.append(DiffLine(type="hunk", text="(there is more)"))
            break
        cut = line.text if len(line.text) <= LINE_CHARS else f"{line.text[:LINE_CHARS]}…"
        kept.append(line if cut is line.text else msgspec.structs.replace(line, text=cut))
    return tuple(kept)


def _lines(text: str) -> list[str]:
    """Return lines without their ends; what follows the last end is no line when it is empty."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return at
    return min(len(one), len(other))


RESULT_CHARS: Final = 30_000
"""Characters of a result that an entry holds."""
ARG_CHARS, ARG_TAIL = 80, 30
"""Characters of a call's first argument that a summary shows, and how many of them are its last."""
_AT_LINE: Final = re.compile(r"^Edited .{1,4200} at line (\d{1,9})", re.MULTILINE)
_REPORT: Final = re.compile(r"^(?:Added|Updated|Moved|Removed) (?=['\"])", re.MULTILINE)
_LOOKING: Final = frozenset(("Read", "Glob", "Grep", "TodoWrite", "WebFetch", "WebSearch", "AskUserQuestion"))
"""Tools that change no file."""
Args = Mapping[str, object]


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a call changed, and how."""

    file: str
    lines: Diff
    """Empty when what it held before is not in the log."""


def arguments(text: str) -> dict[str, object]:
    """Return the arguments of a call; empty when they cannot be read."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}


def file_diffs(tool: str, args: Args, result: str, before: str | None = None) -> tuple[FileDiff, ...]:
    """Return the changes of a call that went well. `before` is what a written file held; None when that is not known."""
    found = _DIFFS.get(tool)
    return found(args, result, before) if found is not None else ()


def result_content(tool: str, args: Args, result: str, code: str, *, whole: bool = True) -> dict[str, object] | None:
    """Return the result of a command as data: the object that it printed, or its output and how it ended; None for other tools."""
    if tool in _DIFFS:
        return None
    whole = whole and len(result) <= RESULT_CHARS
    if isinstance(args.get("command"), str):
        ended = re.fullmatch(r"exit:(\d{1,3})", code)
        status = int(ended[1]) if ended else None if code else 0
        return {"output": result if whole else f"{result[:RESULT_CHARS]}…", "exitCode": status}
    return arguments(result) or None if whole and result.startswith("{") else None


def first_argument(args: Args) -> str:
    """Return the first argument that is a text, on one line and not too long: its beginning and its end."""
    text = next((value for value in args.values() if isinstance(value, str) and value), "")
    flat = " ".join(text[: ARG_CHARS * 50].split())
    return flat if len(flat) <= ARG_CHARS else f"{flat[: ARG_CHARS - ARG_TAIL - 1]}…{flat[-ARG_TAIL:]}"


def diff_fields(diffs: Sequence[FileDiff]) -> dict[str, object]:
    """Return the fields of an entry about changed files: those of the first, and all of them when there are several."""
    if not diffs:
        return {}
    plain = [{"diffFile": each.file, "diffLines": list(map(msgspec.to_builtins, each.lines))} for each in diffs]
    return {**plain[0], **({"diffs": plain} if len(plain) > 1 else {})}


class KnownFiles:
    """The contents of files, as far as the calls of one turn say. After an earlier turn, any program may have changed them."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._kept = kept
        self._contents: dict[str, str] = {}

    def forget(self) -> None:
        """Know nothing: another turn begins."""
        self._contents = {}

    def before(self, call: str, args: Args) -> str | None:
        """Return what the file of a call held before it."""
        return self._kept.get(call, self._contents.get(str(args.get("file_path"))))

    def learn(self, tool: str, args: Args, before: str | None, *, ok: bool) -> None:
        """Take in what a call did."""
        if tool in _LOOKING or (tool in _DIFFS and not ok):
            return
        path = args.get("file_path")
        if tool not in _DIFFS or not isinstance(path, str):
            self._contents = {}  # it may have changed any file
            return
        after = args.get("content") if tool == "Write" else _apply_edits(before, args)
        if isinstance(after, str):
            self._contents[path] = after
        else:
            self._contents.pop(path, None)


def _apply_edits(text: str | None, args: Args) -> str | None:
    for old, new, every in _edits(args):
        if text is None or old not in text or not old:
            return None
        text = text.replace(old, new, -1 if every else 1)
    return text


def _edits(args: Args) -> Iterator[tuple[str, str, bool]]:
    """Yield the replacements of an `Edit` or a `MultiEdit`."""
    edits = args.get("edits", [args])
    for each in edits if isinstance(edits, list) else ():
        if isinstance(each, Mapping):
            old, new = each.get("old_string"), each.get("new_string")
            if isinstance(old, str) and isinstance(new, str):
                yield old, new, each.get("replace_all") is True


def _edit(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    lines = parse_unified_diff(result)
    if not lines:
        found = _AT_LINE.search(result)
        edits = tuple(_edits(args))
        start = int(found[1]) if found and len(edits) == 1 else 0
        lines = tuple(line for old, new, _ in edits for line in diff_replacement(old, new, start))
    return (FileDiff(file=str(args.get("file_path", "")), lines=lines),)


def _write(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    held = "" if before is None and re.search(r"^Created '", result, re.MULTILINE) else before
    content = args.get("content")
    lines = diff_texts(held, content) if held is not None and isinstance(content, str) else ()
    return (FileDiff(file=str(args.get("file_path", "")), lines=lines),)


def _patch(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    try:
        sections = read_patch(patch_of(dict(args)))
    except UserError:
        return ()
    reports = _reports(result)
    shown = reports if len(reports) == len(sections) else [""] * len(sections)
    return tuple(map(_diff_section, sections, shown))


def _reports(result: str) -> list[str]:
    """Split a patch's result by file. A line of a difference has a sign before it and is not mistaken for a beginning."""
    starts = [found.start() for found in _REPORT.finditer(result)]
    return [result[start:end] for start, end in zip(starts, [*starts[1:], len(result)], strict=False)]


def _diff_section(section: PatchSection, report: str) -> FileDiff:
    if section.kind == "add":
        return FileDiff(file=section.path, lines=diff_texts("", section.content))
    written = [DiffLine(type=_SIGNS[line.sign], text=line.text) for hunk in section.hunks for line in hunk.lines]
    return FileDiff(file=section.move or section.path, lines=parse_unified_diff(report) or tuple(written[:MOST_LINES]))


_SIGNS: Final[Mapping[str, DiffKind]] = {"+": "add", "-": "remove", " ": "context"}
_DIFFS: Final[Mapping[str, Callable[[Args, str, str | None], tuple[FileDiff, ...]]]] = {
    "Edit": _edit,
    "MultiEdit": _edit,
    "Write": _write,
    "apply_patch": _patch,
}
