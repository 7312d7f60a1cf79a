"""The tool `Glob`: the files that match a pattern, as ripgrep lists them, the newest first."""

import heapq
import os
from typing import Annotated, Final

import anyio.to_thread
import msgspec
from msgspec import Meta

from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.search.grep import STOPPED, SearchRoot, Withholds, changed, denied_note, find_place, shown_name
from backstay.tools.search.ripgrep import NoRipgrep, Result, only_unreadable, run_ripgrep

MOST: Final = 1000
"""Files that one call lists."""
TOTAL_CHARS: Final = 120_000
"""Characters that one call shows at most."""
LISTING: Final = 64 * 1024 * 1024
"""Bytes of names that are looked at."""


class GlobArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `Glob`."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1, description="Such as `**/*.py`, `src/**/*.{ts,tsx}`, `!*.md`; without a slash, at any depth."
        ),
    ]
    path: Annotated[
        str, Meta(description="The folder that the pattern starts at; the working folder when left out.")
    ] = ""
    hidden: Annotated[bool, Meta(description="List hidden files and folders too, except `.git`.")] = False
    no_ignore: Annotated[bool, Meta(description="List what .gitignore and the like leave out, too.")] = False


def make_glob(withholds: Withholds | None = None) -> Tool:
    """Make the tool `Glob`. Denied files are counted and not listed; sensitive ones are: a name is no secret, what is in the file is."""

    @tool(arguments=GlobArguments, validate=_validate, name="Glob", effect="pure", touches="reads")
    async def glob(context: ToolContext, given: GlobArguments) -> ToolOutput:
        """Find files by name, the newest first. Links are not followed; hidden files and those of .gitignore are left out."""
        place = await anyio.to_thread.run_sync(find_place, context, given.path)
        if isinstance(place, ToolOutput):
            return place
        try:
            result = await run_ripgrep(_arguments(given, place), place.path, limit=LISTING)
        except NoRipgrep as exc:
            return ToolOutput(text=str(exc), failed=True, code="no_ripgrep")
        except NotADirectoryError:
            return ToolOutput(text=f"{given.path!r} is not a folder.", failed=True, code="not_folder")
        except OSError as exc:
            return ToolOutput(text=f"The search could not be started: {exc}", failed=True, code="not_started")
        return await anyio.to_thread.run_sync(_report, given, place, result, withholds)

    return glob


def _validate(given: GlobArguments) -> str:
    if "\0" in given.pattern or "\0" in given.path:
        return "A pattern or path cannot contain a NUL character."
    if len(given.pattern.encode("utf-8", "replace")) > 100_000:
        return "The pattern has more than 100,000 bytes."
    if ".." in given.pattern.split("/") or given.pattern.startswith("~"):
        return f"The pattern {given.pattern!r} leads out of its folder. Give the folder as `path`."
    return ""


def _below(pattern: str, place: SearchRoot) -> str:
    """The pattern as seen from the place. An absolute one may lie below it; any other is not found, since nobody judged its folder."""
    bang, rest = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    if rest.startswith("./"):
        rest = rest[1:]
    for root in (place.path, place.written):
        if root != "/" and rest.startswith(root + "/"):
            return bang + rest[len(root) :]
    return bang + rest


def _arguments(given: GlobArguments, place: SearchRoot) -> list[str]:
    flags = ["--hidden"] * given.hidden + ["--no-ignore"] * given.no_ignore
    return ["--files", "--null", *flags, f"--glob={_below(given.pattern, place)}", "--glob=!.git", "--", "./"]


def _report(given: GlobArguments, place: SearchRoot, result: Result, withholds: Withholds | None) -> ToolOutput:
    if place.moved():
        return changed(given.path)
    if result.status == 2 and not result.output and not only_unreadable(result.errors):
        return ToolOutput(text=result.errors, failed=True, code="rg")
    names = result.output.split(b"\0")[:-1]
    found = len(names)
    if withholds is not None:
        names = [name for name in names if withholds(os.fsdecode(_joined(place.path, name))) != "denied"]
    notes = [*denied_note(found - len(names)), *([STOPPED] if result.cut else [])]
    if not names:
        return ToolOutput(text="\n".join(["(no matches)", *notes, *_hint(given)]))
    newest = [name for _, name in heapq.nsmallest(MOST, zip(_ages(place.path, names), names, strict=True))]
    inside = os.fsencode(place.cwd.rstrip("/")) + b"/"
    shown = [shown_name(_joined(place.path, name).removeprefix(inside)) for name in newest]
    while sum(map(len, shown)) > TOTAL_CHARS:
        shown = shown[: len(shown) // 2]
    if len(shown) < len(names):
        shown.append(
            f"({len(shown)} of {len(names)} files, the newest first. Make the pattern narrower to see others.)"
        )
    return ToolOutput(text="\n".join([*shown, *notes]))


def _joined(folder: str, name: bytes) -> bytes:
    """The absolute path of a name that rg gave, which begins with `./`."""
    return os.fsencode(folder.rstrip("/")) + name[1:]


def _ages(folder: str, names: list[bytes]) -> list[int]:
    """How old each file is, as a number that grows with age; for one that went away meanwhile, the highest."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return [-os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mtime_ns for name in names]
    except OSError:
        return [_age(name, descriptor) for name in names]  # slower, and used only when one is gone
    finally:
        os.close(descriptor)


def _age(name: bytes, folder: int) -> int:
    try:
        return -os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _hint(given: GlobArguments) -> list[str]:
    hints = []
    if given.pattern.startswith("/"):
        hints.append(
            "(A pattern that begins with `/` starts at the folder that is searched. For another folder, give `path`.)"
        )
    if not given.hidden and any(part.startswith(".") for part in given.pattern.split("/") if part not in (".", "..")):
        hints.append("(Hidden folders are left out; `hidden` lists them.)")
    return hints
