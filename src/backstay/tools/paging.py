"""Long outputs: the whole is kept, the model sees its beginning and its end, and `ReadOutput` shows it page by page."""

import codecs
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol, cast

import anyio.to_thread
from msgspec import Meta

from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.system.files import replace_file
from backstay.tools.define import tool
from backstay.tools.files.target import Refused
from backstay.tools.output import BoundedText
from backstay.tools.ripgrep import select_lines
from backstay.vocab.errors import BackstayError

LONGEST_ESCAPE: Final = 4096
"""Characters of an escape sequence that are waited for; what is longer is none."""
LONGEST_LINE: Final = 16_384
"""Characters of an unfinished line that are held back, since a carriage return may still overwrite them."""

_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links and other strings
    r"|\x1b(?:[ -/]+[0-~]|[0-OQ-WYZ\\`a-~])"  # character sets, keypad, reset
)
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)\Z")
_SILENT: Final = re.compile(r"[\x07\x0e\x0f\x1b\x7f-\x9f]")
_NOT_TEXT: Final = re.compile(r"[\x00-\x06\x10-\x1a\x1c-\x1f\udc80-\udcff]")


class TextDecoder:
    """Turns bytes into text without escape sequences; what is not text becomes U+FFFD and is counted."""

    def __init__(self) -> None:
        self.replaced = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._begun = ""

    def add(self, piece: bytes, *, final: bool = False) -> str:
        """The text of the next piece. With `final`, nothing is held back any more."""
        text = self._begun + self._decoder.decode(piece, final=final)
        self._begun = ""
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
            if not final and (begun := _BEGUN.search(text, max(0, len(text) - LONGEST_ESCAPE))):
                text, self._begun = text[: begun.start()], begun[0]
        text = _SILENT.sub("", text)
        text, count = _NOT_TEXT.subn("\ufffd", text)
        self.replaced += count
        return text


class SettledLines:
    """Lets lines through once nothing can overwrite them: of a progress bar only its last state is left."""

    def __init__(self) -> None:
        self._line = ""

    def add(self, text: str, *, final: bool = False) -> str:
        """The lines that `text` completes. With `final`, the unfinished one too."""
        whole = self._line + text
        at = len(whole) if final else whole.rfind("\n") + 1
        if len(whole) - at > LONGEST_LINE:
            at = len(whole)
        done, self._line = whole[:at], whole[at:]
        if "\r" in done or "\b" in done:
            return "\n".join(map(_overwritten, done.split("\n")))
        return done


def read_screen(raw: bytes) -> tuple[str, int]:
    """The whole of an output as text, and how many bytes of it were none."""
    plain = TextDecoder()
    text = SettledLines().add(plain.add(raw, final=True), final=True)
    return text, plain.replaced


def _overwritten(line: str) -> str:
    """A line after its carriage returns and backspaces."""
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    if "\b" not in line:
        return line
    left: list[str] = []
    for character in line:
        if character != "\b":
            left.append(character)
        elif left:
            left.pop()
    return "".join(left)


LINES: Final = 500
"""Lines that one page shows when the call does not say."""
LINE_CHARS: Final = 2000
"""Characters of a line; a longer one counts as several, so that every part of it can be reached."""
PAGE_CHARS: Final = 30_000
"""Characters that one page has at most."""

Keep = Callable[[bytes], Awaitable[str]]
"""Keeps the bytes of an output for the session and gives the id that they are known by."""
Fetch = Callable[[str], Awaitable[bytes]]
"""Gives the bytes of an output back; raises `LookupError` when the session has none of that id."""

_ID: Final = re.compile(r"[0-9a-f]{16}")


class Outputs(Protocol):
    """Where whole outputs are kept."""

    async def keep(self, content: bytes) -> str:
        """Keep an output; return its id."""

    async def fetch(self, output_id: str) -> bytes:
        """Give it back; raise `LookupError` when there is none."""


class OutputFolder:
    """Keeps whole outputs as files of one folder, for a session that has no store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, content: bytes) -> str:
        """Write the output to a file; the same output is written once."""
        return await anyio.to_thread.run_sync(self._write, content)

    async def fetch(self, output_id: str) -> bytes:
        """Read it again."""
        if not _ID.fullmatch(output_id):
            raise LookupError(output_id)
        try:
            return await anyio.to_thread.run_sync((self._folder / output_id).read_bytes)
        except FileNotFoundError as exc:
            raise LookupError(output_id) from exc

    def _write(self, content: bytes) -> str:
        output_id = hashlib.sha256(content).hexdigest()[:16]
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self._folder / output_id, content, durable=False)
        return output_id


def read_output(fetch: Fetch) -> Tool:
    """Make the tool that shows an output page by page."""

    @tool(name="ReadOutput", effect="pure", touches="notes")
    async def read_page(
        context: ToolContext,
        output_id: Annotated[str, "The id that the shortened output names."],
        offset: Annotated[int, Meta(ge=1, description="The first line to show, counted from 1.")] = 1,
        limit: Annotated[int, Meta(ge=1, description="How many lines to show.")] = LINES,
        pattern: Annotated[str, "Show only lines that match this regular expression, as Grep takes it."] = "",
    ) -> ToolOutput:
        """Read a long output of an earlier call page by page. Lines come numbered; the number and the tab are not part of the output."""
        try:
            raw = await fetch(output_id)
        except LookupError:
            text = f"This session has no output {output_id!r}. Take the id from the note in the shortened output."
            return ToolOutput(text=text, failed=True, code="not_found")
        lines = await anyio.to_thread.run_sync(_lines_of, raw)
        try:
            numbers = await select_lines(lines, pattern, context.cwd) if pattern else range(len(lines))
        except Refused as refused:
            return refused.output
        return _page(lines, numbers, offset, limit)

    return cast("Tool", read_page)


async def shown_in_part(text: BoundedText, whole: Callable[[], bytes], keep: Keep | None) -> str:
    """What the model sees of an output; when something is left out, the whole is kept and the note says how to read it."""
    if not text.left_out or keep is None:
        return text.text
    raw = await anyio.to_thread.run_sync(whole)
    try:
        output_id = await keep(raw)
    except (OSError, BackstayError) as exc:
        return text.shown(f", and could not be kept: {exc}")
    return text.shown(f"; they go on in line {text.next_line}: ReadOutput with output_id={output_id!r}")


def _lines_of(raw: bytes) -> list[str]:
    text, _ = read_screen(raw)
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[at : at + LINE_CHARS] for line in lines for at in range(0, len(line) or 1, LINE_CHARS)]


def _page(lines: list[str], numbers: Sequence[int], offset: int, limit: int) -> ToolOutput:
    left = [number for number in numbers if number >= offset - 1]
    if not left:
        text = f"Nothing from line {offset} on: the output has {len(lines)} lines, {len(numbers)} of them asked for."
        return ToolOutput(text=text, failed=offset > max(1, len(lines)), code="past_end" if offset > len(lines) else "")
    shown: list[str] = []
    size = 0
    for number in left[:limit]:
        shown.append(f"{number + 1:>6}\t{lines[number]}")
        size += len(shown[-1]) + 1
        if size > PAGE_CHARS:
            break
    rest = left[len(shown) :]
    more = f"\n({len(rest)} more lines: go on with offset={rest[0] + 1}.)" if rest else ""
    return ToolOutput(text="\n".join(shown) + more)


if TYPE_CHECKING:
    _: Outputs = OutputFolder(Path())
