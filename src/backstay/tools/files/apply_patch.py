"""The tool `apply_patch`: changes to several files at once, all of them or none."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Final

import anyio.to_thread
from msgspec import Struct, field

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.files.edit import HAD_CHANGED
from backstay.tools.files.encoding import decode
from backstay.tools.files.locked_file import FileAttributes, LockedFile, hold
from backstay.tools.files.replace_text import show_difference
from backstay.tools.files.target import FileTarget, Refused, explain_os_error, find_target, require_text
from backstay.tools.patch import PatchSection, apply_hunks, patch_of, read_patch
from backstay.vocab import events
from backstay.vocab.errors import UserError


class PlannedFile:
    """A file that is held, and what it will hold."""

    def __init__(self, held: LockedFile) -> None:
        self.held = held
        self.version = held.version
        """Before the patch."""
        self.before = held.read() if held.facts is not None else None
        """What it holds; None when there is no file."""
        self.content = self.before
        """What it will hold; None when there will be no file."""
        self.like: LockedFile | None = None
        """For a new file: the one whose mode, owner and attributes it gets."""
        self._removed: FileAttributes | None = None

    @property
    def changed(self) -> bool:
        """Return whether it is another file now than before."""
        return self.held.version != self.version

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.held.target.shown

    def write(self) -> None:
        """Do what is planned."""
        if self.content is None:
            self._removed = self.held.remove()
        else:
            self.held.replace(self.content, self.like.attributes if self.like else None)

    def put_back(self) -> None:
        """Make it as it was."""
        if self.before is None:
            self.held.remove()
        else:
            self.held.replace(self.before, self._removed)


class NotApplied(Refused):
    """A file could not be written; the message says what became of the others."""

    def __init__(self, message: str) -> None:
        super().__init__("not_applied", message)


def write_all(files: Sequence[PlannedFile]) -> None:
    """Write all that changes, new contents first and removals last. Raise `NotApplied` when that fails, with all put back."""
    changing = [file for file in files if file.content != file.before]
    done: list[PlannedFile] = []
    for file in sorted(changing, key=lambda each: each.content is None):
        try:
            file.write()
        except OSError as exc:
            raise _undo(done, file, explain_os_error(file.shown, exc)) from exc
        except Refused as refused:
            raise _undo(done, file, refused) from refused
        done.append(file)


def _undo(done: Sequence[PlannedFile], failed: PlannedFile, why: Refused) -> NotApplied:
    restored: list[str] = []
    lost: list[str] = []
    changed = [*done, *([failed] if failed.changed else [])]  # the disk may fail after the file has its new name
    for file in reversed(changed):
        try:
            file.put_back()
            restored.append(file.shown)
        except (OSError, Refused) as exc:
            lost.append(f"{file.shown!r} ({exc})")
    words = f"The patch was not applied: {failed.shown!r} could not be written. {why}"
    if restored:
        words += f" Put back as they were: {', '.join(map(repr, restored))}."
    if lost:
        words += f" NOT put back, and changed by the patch: {', '.join(lost)}."
    return NotApplied(words if lost else f"{words} Nothing is changed.")


FILES: Final = 200
"""Files of one patch; each is held open while it is applied."""
DIFF_LINES: Final = 240
"""Lines of the differences that are shown of all files together."""


@tool(name="apply_patch", touches="edits")
async def apply_patch(
    context: ToolContext,
    patch: Annotated[
        str,
        "From `*** Begin Patch` to `*** End Patch`, with `*** Add File: `, `*** Update File: ` (then `*** Move to: `, hunks that begin "
        "with `@@`, lines that begin with a blank, `+` or `-`) and `*** Delete File: `.",
    ] = "",
    input: Annotated[str, "The same as `patch`."] = "",
) -> ToolOutput:
    """Change, add, rename and remove files with a patch. Every file is checked before any is written: all is done, or nothing."""
    try:
        sections, targets = _read(context, {"patch": patch, "input": input})
        plan = _Plan(targets, {target.real_path: context.version_of(target.real_path) for target in targets.values()})
        await anyio.to_thread.run_sync(partial(_apply, sections, plan))
        output = ToolOutput(text="\n".join(plan.report()))
    except NotApplied as failed:
        output = failed.output
    except Refused as refused:
        return refused.output
    for place, version in plan.versions:
        context.note(events.FileSeen(path=place, version=version))
    return output


def _read(context: ToolContext, args: dict[str, object]) -> tuple[tuple[PatchSection, ...], dict[str, FileTarget]]:
    try:
        text = patch_of(args)
        require_text("The patch", text)
        sections = read_patch(text)
    except UserError as exc:
        raise Refused("bad_patch", str(exc)) from exc
    paths = dict.fromkeys(path for section in sections for path in (section.path, section.move) if path)
    if len(paths) > FILES:
        raise Refused(
            "bad_patch", f"The patch changes {len(paths)} files; at most {FILES} at once. Send several patches."
        )
    return sections, {path: find_target(context, path) for path in paths}


def _apply(sections: Sequence[PatchSection], plan: "_Plan") -> None:
    targets = plan.targets
    added = {
        targets[section.move or section.path].real_path for section in sections if section.kind == "add" or section.move
    }
    by_place = {target.real_path: target for target in targets.values()}
    with ExitStack() as stack:
        for place in sorted(by_place):  # every call holds files in this order, so that no two wait for each other
            plan.files[place] = _hold(stack, by_place[place], make=place in added)
        for section in sections:
            plan.include(section)
        try:
            write_all(list(plan.files.values()))
        finally:
            plan.versions = [(place, file.held.version) for place, file in plan.files.items() if file.changed]


def _hold(stack: ExitStack, target: FileTarget, *, make: bool) -> PlannedFile:
    try:
        return PlannedFile(stack.enter_context(hold(target, make=make)))
    except OSError as exc:
        raise explain_os_error(target.shown, exc) from exc


class _Plan(Struct):
    """The new content of each file, worked out before anything is written."""

    targets: dict[str, FileTarget]
    seen: dict[str, str]
    files: dict[str, PlannedFile] = field(default_factory=dict)
    versions: list[tuple[str, str]] = field(default_factory=list)
    """The files that were touched, and their versions afterwards."""
    _report: list[str] = field(default_factory=list)
    _room: int = DIFF_LINES

    def include(self, section: PatchSection) -> None:
        """Work out one section on what those before it left."""
        file = self._file(section.path)
        match section.kind:
            case "add":
                self._require_free(section.path)
                file.content = section.content.encode()
                self._add(f"Added {self._display(section.path)!r}: {section.content.count(chr(10))} lines.")
            case "delete":
                self._delete(section, file)
            case "update":
                self._update(section, file)

    def report(self) -> Sequence[str]:
        """Return what was done, file by file."""
        return self._report

    def _update(self, section: PatchSection, file: PlannedFile) -> None:
        shown = self._display(section.path)
        document = decode(shown, self._present(section.path))
        document.require("".join(line.text for hunk in section.hunks for line in hunk.lines if line.sign == "+"))
        try:
            text = apply_hunks(shown, document.text, section.hunks)
        except UserError as exc:
            raise Refused("no_match", f"{exc} Nothing was changed.") from exc
        content = document.encode(text)
        if section.move:
            self._move(section, file, content)
        elif text == document.text:
            raise Refused("no_change", f"The patch changes nothing in {shown!r}. Nothing was changed.")
        else:
            file.held.refuse_unwritable()
            file.content = content
        self._report_update(section, document.text, text)

    def _report_update(self, section: PatchSection, before: str, after: str) -> None:
        shown = self._display(section.path)
        moved = f" and moved to {self._display(section.move)!r}" if section.move else ""
        if before == after:
            self._add(f"Moved {shown!r} to {self._display(section.move)!r}.")
            return
        line, lines = show_difference(before, after, max(self._room, 1))
        self._room -= lines.count("\n") + 1
        known = self.seen[self.targets[section.path].real_path]
        stale = f" {HAD_CHANGED}" if known and known != self._file(section.path).version else ""
        self._add(f"Updated {shown!r} at line {line}{moved}.{stale}\n{lines}")

    def _move(self, section: PatchSection, file: PlannedFile, content: bytes) -> None:
        self._require_free(section.move)
        self._refuse_link(section.path)
        file.held.refuse_unwritable()
        new = self._file(section.move)
        new.content, new.like = content, file.held
        file.content = None

    def _delete(self, section: PatchSection, file: PlannedFile) -> None:
        shown = self._display(section.path)
        self._present(section.path)
        self._refuse_link(section.path)
        file.held.refuse_read_only()
        known = self.seen[self.targets[section.path].real_path]
        if known and known != file.version:
            raise Refused(
                "changed", f"{shown!r} has changed since you last saw it. Read it again. Nothing was changed."
            )
        file.content = None
        self._add(f"Removed {shown!r}.")

    def _present(self, path: str) -> bytes:
        content = self._file(path).content
        if content is None:
            raise Refused("not_found", f"There is no file {self._display(path)!r}. Nothing was changed.")
        return content

    def _require_free(self, path: str) -> None:
        if self._file(path).content is not None:
            raise Refused(
                "exists", f"{self._display(path)!r} exists already. Use `*** Update File: `. Nothing was changed."
            )

    def _refuse_link(self, path: str) -> None:
        """Refuse a link: removing the target that was judged would leave the link."""
        target = self.targets[path]
        if os.path.islink(target.shown):
            raise Refused(
                "is_link",
                f"{target.shown!r} is a link to {target.real_path!r}. Remove it with `rm`. Nothing was changed.",
            )

    def _file(self, path: str) -> PlannedFile:
        return self.files[self.targets[path].real_path]

    def _display(self, path: str) -> str:
        return self.targets[path].shown

    def _add(self, text: str) -> None:
        self._report.append(text)
