"""The tools `Grep` and `Glob`: ripgrep searches files and lists their names, within bounds."""

import heapq
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, Literal

import anyio
import anyio.to_thread
import msgspec
from msgspec import Meta, Struct, field

from backstay.permissions import Withheld
from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.files.target import STREAMS, Refused, is_stream
from backstay.tools.ripgrep import ERRORS, Result, only_unreadable, run_ripgrep

_ODD: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]")
_ODD_BYTE: Final = re.compile(rb"[\x00-\x1f\x7f-\xff'\\]")


def quote_name(raw: bytes) -> str:
    """Return a name as it is; one with control characters, or that is not UTF-8, as bash takes it: `$'caf\\xe9'`."""
    text = os.fsdecode(raw) if not raw.isascii() else raw.decode()
    if not _ODD.search(text):
        return text
    return "$'" + _ODD_BYTE.sub(_escape, raw).decode("ascii") + "'"


class SearchRoot(Struct, frozen=True):
    """The file or folder that a call searches."""

    cwd: str
    """The session's folder, links followed."""
    path: str
    """The file or folder, absolute, links followed."""
    written: str
    """The same as the call has it."""

    @property
    def relative(self) -> str:
        """The path as rg gets it: beginning with `./` inside the session's folder, absolute elsewhere."""
        if self.path == self.cwd:
            return "./"
        inside = self.path.startswith(self.cwd.rstrip("/") + "/")
        return f"./{self.path[len(self.cwd.rstrip('/')) + 1 :]}" if inside else self.path

    @property
    def kernel(self) -> bool:
        """Return whether files of the kernel lie below."""
        return self.path == "/" or f"{self.path}/".startswith(("/proc/", "/sys/"))

    def refuse_moved(self, path: str) -> None:
        """Refuse a root that leads through a link which was not there when the call was judged. `path` is what the call says."""
        if os.path.realpath(self.path) != self.path:
            words = f"{path!r} leads elsewhere since the call was judged. Nothing is shown; try again."
            raise Refused("changed", words)


def find_root(context: ToolContext, path: str) -> SearchRoot:
    """Find what a call searches, as it was when the call was judged. Raise `Refused` when there is nothing to search."""
    if "\0" in path:
        raise Refused("bad_path", "A path cannot contain a NUL character.")
    written = os.path.join(context.cwd, os.path.expanduser(path)) if path else context.cwd
    root = SearchRoot(
        os.path.realpath(context.cwd),
        context.links.get(written) or os.path.realpath(written),
        os.path.normpath(written),
    )
    root.refuse_moved(path)
    try:
        mode = os.stat(root.path).st_mode
    except (OSError, ValueError) as exc:
        raise Refused("not_found", f"There is no file or folder {path or context.cwd!r}.") from exc
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) or is_stream(root.path):
        words = (
            f"{path!r} is a device, a pipe, a socket or a stream of the kernel: neither a regular file nor a folder."
        )
        raise Refused("not_regular", words)
    return root


def _escape(found: "re.Match[bytes]") -> bytes:
    byte = found[0]
    return b"\\" + byte if byte in (b"'", b"\\") else b"\\n" if byte == b"\n" else b"\\x%02x" % byte[0]


TOTAL_CHARS: Final = 30_000
"""Characters that one call shows at most."""
LINE_BYTES: Final = 2000
"""Bytes of a line that are shown."""

STOPPED: Final = "(There is more than this; the search was stopped. Make the pattern, path or glob narrower.)"

MAX_LISTED: Final = 50_000
"""Names that are looked at to count what is not searched."""

Withholds = Callable[[str], Withheld]
"""Says why a file (absolute, links followed) may not be shown to the model; nothing when it may."""

_Count = Annotated[int, Meta(ge=0, le=10_000)]
_RECORD: Final = re.compile(
    rb"(?P<gap>--\n)"
    rb"|(?P<file>[^\0\n]+?): (?P<binary>(?:binary file matches|WARNING: stopped searching)[^\0\n]*)(?:\n|\Z)"
    rb"|(?P<path>[^\0]+)\0(?P<number>\d+)(?P<sign>[:-])(?P<text>[^\n]*)(?:\n|\Z)"
)
_COUNTED: Final = re.compile(rb"(?P<path>[^\0]+)\0(?P<number>\d+)\n")


class GrepArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `Grep`."""

    pattern: Annotated[str, Meta(min_length=1, description="The regular expression, as ripgrep takes it.")]
    path: Annotated[str, Meta(description="The folder or file to search; the working folder when left out.")] = ""
    glob: Annotated[
        str, Meta(description="Only files whose path matches: `*.{ts,tsx}`, `src/**/*.py`, `!*.min.js`.")
    ] = ""
    type: Annotated[str, Meta(description="Only files of this kind, as `rg --type` names it: py, js, rust ...")] = ""
    output_mode: Annotated[
        Literal["content", "files_with_matches", "count"],
        Meta(description="The matching lines, the paths of the files, or the number of matching lines of each."),
    ] = "files_with_matches"
    after: Annotated[_Count, Meta(description="Lines to show after each match (content).")] = field(
        name="-A", default=0
    )
    before: Annotated[_Count, Meta(description="Lines to show before each match (content).")] = field(
        name="-B", default=0
    )
    around: Annotated[_Count, Meta(description="Lines to show before and after each match (content).")] = field(
        name="-C", default=0
    )
    numbers: Annotated[bool, Meta(description="Show line numbers (content).")] = field(name="-n", default=True)
    ignore_case: Annotated[bool, Meta(description="Upper and lower case are the same.")] = field(
        name="-i", default=False
    )
    multiline: Annotated[bool, Meta(description="A match may span lines, and `.` matches a line end.")] = False
    head_limit: Annotated[
        int, Meta(ge=0, description="Show so many lines or files; 0 for as many as there is room for.")
    ] = 0
    offset: Annotated[int, Meta(ge=0, description="Leave out so many lines or files at the beginning.")] = 0
    hidden: Annotated[bool, Meta(description="Search hidden files and folders too, except `.git`.")] = False
    no_ignore: Annotated[bool, Meta(description="Search what .gitignore and the like leave out, too.")] = False


def make_grep(withholds: Withholds | None = None) -> Tool:
    """Make the tool `Grep`. Files that `withholds` names are counted by their names alone: nothing says whether they match.

    A sensitive file or folder that the call gives as its `path` is searched: that was judged as reading it.
    """

    @tool(arguments=GrepArguments, validate=_validate_grep, name="Grep", effect="pure", touches="reads")
    async def grep(context: ToolContext, given: GrepArguments) -> ToolOutput:
        """Search files for a regular expression with ripgrep: hidden and binary files and those of .gitignore are left out."""
        try:
            root = await anyio.to_thread.run_sync(find_root, context, given.path)
            result, listing = await _search(given, root, context.cwd, lists=withholds is not None)
            return await anyio.to_thread.run_sync(_report_matches, given, root, result, listing, withholds)
        except Refused as refused:
            return refused.output

    return grep


async def _search(given: GrepArguments, root: SearchRoot, cwd: str, *, lists: bool) -> tuple[Result, bytes]:
    """Run rg, and beside it once more for the names of all files that it looks into."""
    names: list[bytes] = []

    async def list_files() -> None:
        flags = ["--files", "--null", *_file_flags(given, root), "--", root.relative]
        names.append((await run_ripgrep(flags, cwd)).output)

    try:
        async with anyio.create_task_group() as tasks:
            if lists:
                tasks.start_soon(list_files)
            result = await run_ripgrep(_grep_flags(given, root), cwd)
    except* Refused as group:
        raise group.exceptions[0] from None  # as if it had been started alone
    return result, b"".join(names)


class _LeftOut(Struct, frozen=True):
    """The files that the policy leaves out of a search, by their names."""

    withholds: Withholds | None = None
    aimed: bool = False
    """Whether the call is about a sensitive root itself."""
    denied: int = 0
    sensitive: int = 0
    more: bool = False
    """Whether there are more files than were counted."""

    @staticmethod
    def of(root: SearchRoot, listing: bytes, withholds: Withholds | None) -> "_LeftOut":
        if withholds is None:
            return _LeftOut()
        names = listing.split(b"\0", MAX_LISTED + 1)
        why = [withholds(_absolute(name, root)) for name in names[:-1][:MAX_LISTED]]
        aimed = withholds(root.path) == "sensitive"
        return _LeftOut(withholds, aimed, why.count("denied"), why.count("sensitive"), len(names) > MAX_LISTED + 1)

    def hides(self, path: str) -> bool:
        """Return whether nothing of a file is shown."""
        if self.withholds is None:
            return False
        why = self.withholds(path)
        return why == "denied" or (why == "sensitive" and not self.aimed)

    def notes(self) -> list[str]:
        """Say what was left out."""
        least = "at least " if self.more else ""
        count = 0 if self.aimed else self.sensitive
        words = f"({least}{_files_word(count)} left out that may hold secrets. To search one, give it as `path`.)"
        return [*_note_denied(self.denied, least), *([words] if count else [])]


def _note_denied(count: int, least: str = "") -> list[str]:
    """Say how many files a rule keeps from a search."""
    return [f"({least}{_files_word(count)} left out: a rule denies reading.)"] if count else []


def _files_word(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def _validate_grep(given: GrepArguments) -> str:
    for name in ("pattern", "path", "glob", "type"):
        value = getattr(given, name)
        if "\0" in value:
            return f"Argument {name!r} contains a NUL character."
        if len(value.encode("utf-8", "replace")) > 100_000:
            return f"Argument {name!r} has more than 100,000 bytes."
    return ""


def _grep_flags(given: GrepArguments, root: SearchRoot) -> list[str]:
    flags = ["--null", "--with-filename", "--no-heading"]
    if given.output_mode == "content":
        flags += ["--line-number", f"--max-columns={LINE_BYTES}", "--max-columns-preview"]
        flags += [f"{flag}={count}" for flag, count in _context_flags(given) if count]
    else:
        flags.append("--files-with-matches" if given.output_mode == "files_with_matches" else "--count")
    flags += ["--ignore-case"] * given.ignore_case + ["--multiline", "--multiline-dotall"] * given.multiline
    return [*flags, *_file_flags(given, root), f"--regexp={given.pattern}", "--", root.relative]


def _file_flags(given: GrepArguments, root: SearchRoot) -> list[str]:
    """Return the flags that say which files are looked into."""
    flags = ["--hidden"] * given.hidden + ["--no-ignore"] * given.no_ignore
    flags += [f"--type={given.type}"] if given.type else []
    flags += [f"--glob={_resolve_glob(given.glob, root)}"] if given.glob else []
    if given.glob or given.hidden:
        flags.append("--glob=!.git")
    flags += [f"--glob=!{name}" for name in STREAMS] if root.kernel else []
    return flags


def _context_flags(given: GrepArguments) -> tuple[tuple[str, int], ...]:
    return (("--context", given.around), ("--after-context", given.after), ("--before-context", given.before))


def _resolve_glob(glob: str, root: SearchRoot) -> str:
    """Return a glob as rg reads it, from the session's folder, also when the model wrote it as seen from `path`.

    Only one with a slash inside is anchored anywhere; if it cannot match from the session's folder, it was meant from `path`.
    """
    bang, rest = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
    rest = rest.removeprefix("./")
    folder = root.relative.removeprefix("./").rstrip("/")
    anchored = "/" in rest.rstrip("/") and not rest.startswith(("/", "**/"))
    first = rest.partition("/")[0]
    if not anchored or not folder or folder.startswith("/") or re.search(r"[*?\[{\\]", first):
        return bang + rest
    return bang + rest if first == folder.partition("/")[0] else f"{bang}{_literal(folder)}/{rest}"


def _literal(path: str) -> str:
    return re.sub(r"([*?\[\]{}\\!])", r"\\\1", path)


def _report_matches(
    given: GrepArguments, root: SearchRoot, result: Result, listing: bytes, withholds: Withholds | None
) -> ToolOutput:
    root.refuse_moved(given.path)
    left = _LeftOut.of(root, listing, withholds)
    if result.status == 2 and not result.output and not only_unreadable(result.errors):
        return ToolOutput(text=result.errors, failed=True, code="rg")
    if result.status == 2 and not result.output and os.path.isfile(root.path):
        why = result.errors.rpartition(": ")[2]
        return ToolOutput(text=f"{given.path!r} could not be read: {why}.", failed=True, code="unreadable")
    files = sorted(_read_matches(given, result.output), key=lambda file: file.path.split(b"/"))
    files = [file for file in files if not left.hides(_absolute(file.path, root))]
    notes = left.notes()
    if result.cut:
        notes.append(STOPPED)
    if result.errors:
        notes.append(_note_unread(result.errors) if left.withholds is not None else f"({result.errors})")
    if not files:
        return ToolOutput(text="\n".join(["(no matches)", *notes, *_hint_matches(given)]))
    between = [_GAP] if given.output_mode == "content" and any(count for _, count in _context_flags(given)) else []
    lines = [line for index, file in enumerate(files) for line in (between * (index > 0) + file.lines)]
    what = "lines" if given.output_mode == "content" else "files"
    if given.offset >= len(lines):
        return ToolOutput(text=f"(There are {len(lines)} {what}; offset={given.offset} is past them.)")
    return ToolOutput(text="\n".join([*_page(given, lines, what), *notes]))


def _page(given: GrepArguments, lines: "list[_Line]", what: str) -> list[str]:
    """Show lines from `offset` on, as many as wanted and as there is room for, with a note of how to go on."""
    shown: list[str] = []
    size = 0
    for line in lines[given.offset : given.offset + given.head_limit if given.head_limit else None]:
        text = _format_line(given, line)
        size += len(text) + 1
        if shown and size > TOTAL_CHARS:
            break
        shown.append(text)
    end = given.offset + len(shown)
    if end < len(lines):
        shown.append(f"({end - given.offset} of {len(lines)} {what}; go on with offset={end})")
    return shown


_Line = tuple[bytes, "re.Match[bytes] | None"]
"""A path and what was found there; without a path, the mark of a gap; with a path alone, the path."""
_GAP: Final[_Line] = (b"", None)


class _FileMatches(Struct, frozen=True):
    """The matches in one file."""

    path: bytes
    lines: list[_Line]


def _read_matches(given: GrepArguments, output: bytes) -> Iterable[_FileMatches]:
    match given.output_mode:
        case "files_with_matches":
            return [_FileMatches(path, [(path, None)]) for path in output.split(b"\0")[:-1]]
        case "count":
            return [_FileMatches(found["path"], [(found["path"], found)]) for found in _COUNTED.finditer(output)]
        case "content":
            return _read_blocks(output)


def _read_blocks(output: bytes) -> Iterator[_FileMatches]:
    """Group the lines by file, with the gaps that rg marks by two dashes."""
    current = _FileMatches(b"", [])
    gap = False
    for found in _RECORD.finditer(output):
        if found["gap"]:
            gap = True
            continue
        path = found["path"] or found["file"]
        if current.path != path:
            if current.path:
                yield current
            current, gap = (
                _FileMatches(path, []),
                False,
            )  # that one stands between two files, whose order is not the last one
        if gap:
            current.lines.append(_GAP)
            gap = False
        current.lines.append((path, found))
    if current.path:
        yield current


def _format_line(given: GrepArguments, line: _Line) -> str:
    path, found = line
    name = quote_name(path.removeprefix(b"./"))
    if found is None:
        return name or "--"
    if given.output_mode == "count":
        return f"{name}:{found['number'].decode()}"
    if found["binary"]:
        return f"{name}: {found['binary'].decode('utf-8', 'replace')}"
    sign = found["sign"].decode()
    number = found["number"].decode() + sign if given.numbers else ""
    text = found["text"].removesuffix(b"\r").decode("utf-8", "replace")
    return f"{name}{sign}{number}{text}"


def _note_unread(errors: str) -> str:
    """Say how many files rg could not read, without their names: some may be denied."""
    many = len(errors) > ERRORS * 3 // 4  # what rg complains about is cut off somewhere behind that
    return f"({'At least ' * many}{_files_word(len(errors.splitlines()))} or folders could not be read.)"


def _absolute(path: bytes, root: SearchRoot) -> str:
    text = path.decode("utf-8", "surrogateescape")
    return text if text.startswith("/") else f"{root.cwd.rstrip('/')}/{text.removeprefix('./')}"


def _hint_matches(given: GrepArguments) -> list[str]:
    if given.glob and re.search(r"[, ]", re.sub(r"\{[^}]*\}", "", given.glob)):
        return ["(`glob` is one pattern. For several, write `*.{ts,tsx}`.)"]
    return []


MAX_NAMES: Final = 1000
"""Files that one call lists."""
NAMES_CHARS: Final = 120_000
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

    @tool(arguments=GlobArguments, validate=_validate_glob, name="Glob", effect="pure", touches="reads")
    async def glob(context: ToolContext, given: GlobArguments) -> ToolOutput:
        """Find files by name, the newest first. Links are not followed; hidden files and those of .gitignore are left out."""
        try:
            root = await anyio.to_thread.run_sync(find_root, context, given.path)
            result = await run_ripgrep(_glob_flags(given, root), root.path, limit=LISTING)
            return await anyio.to_thread.run_sync(_report_names, given, root, result, withholds)
        except NotADirectoryError:
            return ToolOutput(text=f"{given.path!r} is not a folder.", failed=True, code="not_folder")
        except Refused as refused:
            return refused.output

    return glob


def _validate_glob(given: GlobArguments) -> str:
    if "\0" in given.pattern or "\0" in given.path:
        return "A pattern or path cannot contain a NUL character."
    if len(given.pattern.encode("utf-8", "replace")) > 100_000:
        return "The pattern has more than 100,000 bytes."
    if ".." in given.pattern.split("/") or given.pattern.startswith("~"):
        return f"The pattern {given.pattern!r} leads out of its folder. Give the folder as `path`."
    return ""


def _anchor(pattern: str, root: SearchRoot) -> str:
    """Return the pattern as seen from the root. An absolute one may lie below it; any other is not found, as its folder was not judged."""
    bang, rest = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    if rest.startswith("./"):
        rest = rest[1:]
    for start in (root.path, root.written):
        if start != "/" and rest.startswith(start + "/"):
            return bang + rest[len(start) :]
    return bang + rest


def _glob_flags(given: GlobArguments, root: SearchRoot) -> list[str]:
    flags = ["--hidden"] * given.hidden + ["--no-ignore"] * given.no_ignore
    return ["--files", "--null", *flags, f"--glob={_anchor(given.pattern, root)}", "--glob=!.git", "--", "./"]


def _report_names(given: GlobArguments, root: SearchRoot, result: Result, withholds: Withholds | None) -> ToolOutput:
    root.refuse_moved(given.path)
    if result.status == 2 and not result.output and not only_unreadable(result.errors):
        return ToolOutput(text=result.errors, failed=True, code="rg")
    names = result.output.split(b"\0")[:-1]
    found = len(names)
    if withholds is not None:
        names = [name for name in names if withholds(os.fsdecode(_join(root.path, name))) != "denied"]
    notes = [*_note_denied(found - len(names)), *([STOPPED] if result.cut else [])]
    if not names:
        return ToolOutput(text="\n".join(["(no matches)", *notes, *_hint_names(given)]))
    newest = [name for _, name in heapq.nsmallest(MAX_NAMES, zip(_ages(root.path, names), names, strict=True))]
    inside = os.fsencode(root.cwd.rstrip("/")) + b"/"
    shown = [quote_name(_join(root.path, name).removeprefix(inside)) for name in newest]
    while sum(map(len, shown)) > NAMES_CHARS:
        shown = shown[: len(shown) // 2]
    if len(shown) < len(names):
        shown.append(
            f"({len(shown)} of {len(names)} files, the newest first. Make the pattern narrower to see others.)"
        )
    return ToolOutput(text="\n".join([*shown, *notes]))


def _join(folder: str, name: bytes) -> bytes:
    """Return the absolute path of a name that rg gave, which begins with `./`."""
    return os.fsencode(folder.rstrip("/")) + name[1:]


def _ages(folder: str, names: list[bytes]) -> list[int]:
    """Return how old each file is, as a number that grows with age; for one that is gone meanwhile, the highest."""
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


def _hint_names(given: GlobArguments) -> list[str]:
    hints = []
    if given.pattern.startswith("/"):
        hints.append(
            "(A pattern that begins with `/` starts at the folder that is searched. For another folder, give `path`.)"
        )
    if not given.hidden and any(part.startswith(".") for part in given.pattern.split("/") if part not in (".", "..")):
        hints.append("(Hidden folders are left out; `hidden` lists them.)")
    return hints
