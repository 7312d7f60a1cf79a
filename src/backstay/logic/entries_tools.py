"""What the history says of a call that is over: the files that it changed, line by line, and what a command gave back.

All of it is worked out from the call's arguments, its result, and what is known of the files before it; nothing is stored beside the log.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from backstay.logic.diff_lines import MOST_LINES, Diff, DiffKind, DiffLine, between, read_unified, replaced
from backstay.logic.patch import patch_of, read_patch
from backstay.logic.patch_lines import Section
from backstay.vocab.errors import UserError

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
    """The arguments of a call; empty when they cannot be read."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}


def file_diffs(tool: str, args: Args, result: str, before: str | None = None) -> tuple[FileDiff, ...]:
    """What a call that went well changed. `before` is what a written file held; None when nobody knows."""
    found = _DIFFS.get(tool)
    return found(args, result, before) if found is not None else ()


def result_content(tool: str, args: Args, result: str, code: str, *, whole: bool = True) -> dict[str, object] | None:
    """What a command gave back, as data: the object that it printed, or its output and how it ended; None for other tools."""
    if tool in _DIFFS:
        return None
    whole = whole and len(result) <= RESULT_CHARS
    if isinstance(args.get("command"), str):
        ended = re.fullmatch(r"exit:(\d{1,3})", code)
        status = int(ended[1]) if ended else None if code else 0
        return {"output": result if whole else f"{result[:RESULT_CHARS]}…", "exitCode": status}
    return arguments(result) or None if whole and result.startswith("{") else None


def first_argument(args: Args) -> str:
    """The first argument that is a text, on one line and not too long: its beginning and its end."""
    text = next((value for value in args.values() if isinstance(value, str) and value), "")
    flat = " ".join(text[: ARG_CHARS * 50].split())
    return flat if len(flat) <= ARG_CHARS else f"{flat[: ARG_CHARS - ARG_TAIL - 1]}…{flat[-ARG_TAIL:]}"


def diff_fields(diffs: Sequence[FileDiff]) -> dict[str, object]:
    """The fields of an entry about changed files: those of the first, and all of them when there are several."""
    if not diffs:
        return {}
    plain = [{"diffFile": each.file, "diffLines": list(map(msgspec.to_builtins, each.lines))} for each in diffs]
    return {**plain[0], **({"diffs": plain} if len(plain) > 1 else {})}


class KnownFiles:
    """What files hold, as far as the calls of one turn tell. What a turn before it left may have been changed by anybody."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._kept = kept
        self._held: dict[str, str] = {}

    def forget(self) -> None:
        """Know nothing: another turn begins."""
        self._held = {}

    def before(self, call: str, args: Args) -> str | None:
        """What the file of a call held before it."""
        return self._kept.get(call, self._held.get(str(args.get("file_path"))))

    def learn(self, tool: str, args: Args, before: str | None, *, ok: bool) -> None:
        """Take in what a call did."""
        if tool in _LOOKING or (tool in _DIFFS and not ok):
            return
        path = args.get("file_path")
        if tool not in _DIFFS or not isinstance(path, str):
            self._held = {}  # whatever it was, it may have changed any file
            return
        after = args.get("content") if tool == "Write" else _edited(before, args)
        if isinstance(after, str):
            self._held[path] = after
        else:
            self._held.pop(path, None)


def _edited(text: str | None, args: Args) -> str | None:
    for old, new, every in _edits(args):
        if text is None or old not in text or not old:
            return None
        text = text.replace(old, new, -1 if every else 1)
    return text


def _edits(args: Args) -> Iterator[tuple[str, str, bool]]:
    """The replacements of an `Edit` or a `MultiEdit`."""
    edits = args.get("edits", [args])
    for each in edits if isinstance(edits, list) else ():
        if isinstance(each, Mapping):
            old, new = each.get("old_string"), each.get("new_string")
            if isinstance(old, str) and isinstance(new, str):
                yield old, new, each.get("replace_all") is True


def _edit(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    lines = read_unified(result)
    if not lines:
        found = _AT_LINE.search(result)
        edits = tuple(_edits(args))
        start = int(found[1]) if found and len(edits) == 1 else 0
        lines = tuple(line for old, new, _ in edits for line in replaced(old, new, start))
    return (FileDiff(file=str(args.get("file_path", "")), lines=lines),)


def _write(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    held = "" if before is None and re.search(r"^Created '", result, re.MULTILINE) else before
    content = args.get("content")
    lines = between(held, content) if held is not None and isinstance(content, str) else ()
    return (FileDiff(file=str(args.get("file_path", "")), lines=lines),)


def _patch(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    try:
        sections = read_patch(patch_of(dict(args)))
    except UserError:
        return ()
    reports = _reports(result)
    shown = reports if len(reports) == len(sections) else [""] * len(sections)
    return tuple(map(_patched, sections, shown))


def _reports(result: str) -> list[str]:
    """What a patch's result says of each file. A line of a difference has a sign before it and is not mistaken for a beginning."""
    starts = [found.start() for found in _REPORT.finditer(result)]
    return [result[start:end] for start, end in zip(starts, [*starts[1:], len(result)], strict=False)]


def _patched(section: Section, report: str) -> FileDiff:
    if section.kind == "add":
        return FileDiff(file=section.path, lines=between("", section.content))
    written = [DiffLine(type=_SIGNS[line.sign], text=line.text) for hunk in section.hunks for line in hunk.lines]
    return FileDiff(file=section.move or section.path, lines=read_unified(report) or tuple(written[:MOST_LINES]))


_SIGNS: Final[Mapping[str, DiffKind]] = {"+": "add", "-": "remove", " ": "context"}
_DIFFS: Final[Mapping[str, Callable[[Args, str, str | None], tuple[FileDiff, ...]]]] = {
    "Edit": _edit,
    "MultiEdit": _edit,
    "Write": _write,
    "apply_patch": _patch,
}
