"""Long outputs: decode terminal output, keep it within bounds, store it whole, and read it page by page."""

import codecs
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, cast

import anyio.to_thread
from msgspec import Meta
from msgspec.structs import replace

from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.files.target import Refused
from backstay.tools.ripgrep import select_lines
from backstay.vocab.errors import BackstayError
from backstay.vocab.specs import ToolSpec

HEAD: Final = 15_000
"""Characters kept of the beginning."""
TAIL: Final = 15_000
"""Characters kept of the end."""
LIVE: Final = 256 * 1024
"""Characters that a watcher is shown in a second."""


class BoundedText:
    """A growing text of which only the beginning and the end are kept."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._tail_limit = tail
        self._head: list[str] = []
        self._room = head
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._left_out = 0

    def add(self, text: str) -> None:
        """Append a piece."""
        if self._room:
            self._head.append(text[: self._room])
            text, self._room = text[self._room :], max(0, self._room - len(text))
        if text:
            self._tail.append(text)
            self._tail_size += len(text)
            while self._tail_size - len(self._tail[0]) >= self._tail_limit:
                self._drop(len(self._tail.popleft()))

    @property
    def text(self) -> str:
        """What is kept, with a note in the middle of how much is not."""
        return self.render()

    @property
    def left_out(self) -> int:
        """Characters that are not kept."""
        return self._left_out + max(0, self._tail_size - self._tail_limit)

    @property
    def next_line(self) -> int:
        """The number of the line, counted from 1, in which the beginning ends."""
        return 1 + sum(piece.count("\n") for piece in self._head)

    def render(self, hint: str = "") -> str:
        """Return what is kept, with a note in the middle of how much is not; `hint` says where to find it."""
        tail = "".join(self._tail)
        note = f"\n[{self.left_out} characters are left out here{hint}]\n" if self.left_out else ""
        return "".join(self._head) + note + tail[max(0, len(tail) - self._tail_limit) :]

    def _drop(self, size: int) -> None:
        self._tail_size -= size
        self._left_out += size


class LiveText:
    """Show a growing text to a watcher, so much in a second; cut a flood, and count what was held back."""

    def __init__(self, show: Callable[[str], None], per_second: int = LIVE) -> None:
        self._show = show
        self._per_second = per_second
        self._room = per_second
        self._since = 0.0
        self._held = 0

    def add(self, text: str, now: float) -> None:
        """Show a piece, or as much of it as there is room for in this second."""
        if now >= self._since + 1:
            self.close()
            self._since, self._room = now, self._per_second
        if shown := text[: self._room]:
            self._show(shown)
        self._room -= len(shown)
        self._held += len(text) - len(shown)

    def close(self) -> None:
        """Say what was held back."""
        if self._held:
            self._show(f"\n[{self._held} characters are not shown live]\n")
            self._held = 0


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
    """Turn bytes into text without escape sequences; what is not text becomes U+FFFD and is counted."""

    def __init__(self) -> None:
        self.replaced = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._begun = ""

    def add(self, piece: bytes, *, final: bool = False) -> str:
        """Add text and return the lines that it completes. With `final`, return all that is left."""
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


class LineBuffer:
    """Pass lines on once nothing can overwrite them: of a progress bar only its last state is left."""

    def __init__(self) -> None:
        self._line = ""

    def add(self, text: str, *, final: bool = False) -> str:
        """Add text and return the lines that it completes. With `final`, return all that is left."""
        whole = self._line + text
        at = len(whole) if final else whole.rfind("\n") + 1
        if len(whole) - at > LONGEST_LINE:
            at = len(whole)
        done, self._line = whole[:at], whole[at:]
        if "\r" in done or "\b" in done:
            return "\n".join(map(_overwritten, done.split("\n")))
        return done


def read_screen(raw: bytes) -> tuple[str, int]:
    """Return an output as text, and how many bytes of it were none."""
    plain = TextDecoder()
    text = LineBuffer().add(plain.add(raw, final=True), final=True)
    return text, plain.replaced


def _overwritten(line: str) -> str:
    """Apply the carriage returns and backspaces of a line."""
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


async def show_in_part(text: BoundedText, whole: Callable[[], bytes], keep: Keep | None) -> str:
    """Return the part of an output that the model sees; when something is left out, keep the whole and say how to read it."""
    if not text.left_out or keep is None:
        return text.text
    raw = await anyio.to_thread.run_sync(whole)
    try:
        output_id = await keep(raw)
    except (OSError, BackstayError) as exc:
        return text.render(f", and could not be kept: {exc}")
    return text.render(f"; they go on in line {text.next_line}: ReadOutput with output_id={output_id!r}")


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


class BoundedTool:
    """A tool whose results have `chars` characters at most: the beginning, a note about what is left out, the end."""

    def __init__(self, inner: Tool, chars: int, keep: Keep, *, readable: bool) -> None:
        self._inner = inner
        self._half = chars // 2
        self._keep = keep
        self._readable = readable
        """Whether the model has the tool that reads the whole."""

    @property
    def spec(self) -> ToolSpec:
        """What the model and the policy know of it."""
        return self._inner.spec

    def problem(self, args: dict[str, object]) -> str:
        """Explain why these arguments cannot be used; empty when they can."""
        return self._inner.problem(args)

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Run the tool."""
        return await self._within(await self._inner.run(args, context))

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Find out whether it happened."""
        found = await self._inner.check(args, context)
        return None if found is None else await self._within(found)

    async def _within(self, output: ToolOutput) -> ToolOutput:
        text = output.text
        if len(text) <= 2 * self._half:
            return output
        bounded = BoundedText(self._half, self._half)
        bounded.add(text)
        whole = text.encode("utf-8", "replace")
        if self._readable:
            return replace(output, text=await show_in_part(bounded, lambda: whole, self._keep))
        return replace(output, text=bounded.render(f"; the log has the whole as {await self._keep(whole)}"))


if TYPE_CHECKING:
    _: Tool = BoundedTool(cast(Tool, None), 0, cast(Keep, None), readable=True)
