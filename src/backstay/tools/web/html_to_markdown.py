"""Convert HTML to Markdown for a model: the text of a page, without scripts, hidden parts and navigation."""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from html import unescape
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin

from msgspec import Struct, field

CHUNK: Final = 64 * 1024
"""Characters that are parsed at once. A tag that is longer is passed over: the parser would keep every one of its attributes."""
TAIL: Final = 64
"""Characters of something that has not ended which are enough to see it end."""
STEPS: Final = 250_000
"""Tags, attributes and pieces of text that are looked at, so that a page made to take long does not."""
LOOK: Final = 1000
"""Steps between two looks at whether the caller still waits."""


class Enough(Exception):
    """The page has more parts than are looked at, or the caller is gone."""


class BoundedParser(HTMLParser):
    """Parse a page piece by piece, and count the steps."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        super().__init__(convert_charrefs=True)
        self._stopped = stopped
        self._steps = 0

    def take(self, html: str) -> None:
        """Parse a page. Raise `Enough` when it has too many parts. What has not ended at the end is left in `rawdata`."""
        at = 0
        while at < len(html):
            self.step()
            self.feed(html[at : at + CHUNK])
            at += CHUNK
            if len(self.rawdata) <= CHUNK:
                continue
            if self.cdata_elem is not None:
                self.rawdata = self.rawdata[-TAIL:]
            elif self.rawdata.startswith("<!--"):
                self.rawdata = "<!--x" + self.rawdata[-TAIL:]  # with the letter, no `>` that follows ends it at once
            else:
                self.rawdata = ""
                at = html.find(">", at) + 1 or len(html)

    def step(self, count: int = 1) -> None:
        """Count steps."""
        before, self._steps = self._steps, self._steps + count
        if self._steps > STEPS or (self._steps // LOOK > before // LOOK and self._stopped()):
            raise Enough


BREAK: Final = "\x1e"
"""A line break that was asked for, among blanks that mean nothing."""
TOTAL: Final = 2_000_000
"""Characters that are written at most."""
COLUMNS: Final = 50
"""Columns that a table may have."""


class Frame(Struct):
    """An element that indents its blocks: an item of a list, a quotation."""

    first: str
    rest: str
    used: bool = False


class TableReader(Struct):
    """A table that is being read. One with a table inside only lays out the page, and is read as text."""

    rows: list[list[str]] = field(default_factory=list)
    layout: bool = False


class Blocks:
    """A growing Markdown text."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._pieces: list[str] = []
        self._size = 0
        self._after_item = False

    @property
    def full(self) -> bool:
        """Return whether nothing more is taken."""
        return self._size > TOTAL

    def mark(self) -> int:
        """Return a place to cut at."""
        return len(self._pieces)

    def text(self, start: int = 0, end: int | None = None) -> str:
        """Return the text, or a part of it."""
        return "".join(self._pieces[start:end]).strip("\n")

    def write(self, text: str) -> None:
        """Add a block of one or more lines."""
        if not text.strip() or self.full:
            return
        item = bool(self.frames) and not self.frames[-1].used and self.frames[-1].first != self.frames[-1].rest
        gap = "\n" if item and self._after_item else "\n\n"
        first = "".join(frame.rest if frame.used else frame.first for frame in self.frames)
        rest = "".join(frame.rest for frame in self.frames)
        for frame in self.frames:
            frame.used = True
        lines = text.split("\n")
        whole = gap + "\n".join([first + lines[0], *((rest + line).rstrip() for line in lines[1:])])
        self._pieces.append(whole)
        self._size += len(whole)
        self._after_item = bool(self.frames) and (item or self._after_item)

    def end_list(self) -> None:
        """Let the block after a whole list stand apart from it."""
        self._after_item = self._after_item and bool(self.frames)

    def write_table(self, table: TableReader) -> None:
        """Add a table; one with a single column is no table."""
        rows = [row for row in table.rows if any(row)]
        width = min(COLUMNS, max(map(len, rows), default=0))
        if width < 2:
            for row in rows:
                self.write(row[0])
            return
        padded = [[*row[:width], *[""] * (width - len(row))] for row in rows]
        lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in padded]
        self.write("\n".join([lines[0], "|" + " --- |" * width, *lines[1:]]))

    def write_code(self, code: str, language: str) -> None:
        """Add code, fenced so that it cannot end the fence itself."""
        code = code.strip("\n")
        if code.strip():
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", code)), default=0))
            self.write(f"{fence}{language}\n{code}\n{fence}")


def in_lines(pieces: list[str]) -> str:
    """Join flowing text: blanks become one blank, breaks that were asked for stay."""
    text = re.sub(r"[^\S\x1e\xa0]+", " ", "".join(pieces)).replace("\xa0", " ")
    return re.sub(rf" *{BREAK}[ {BREAK}]*", "\n", text).strip()


def in_one_line(pieces: list[str]) -> str:
    """Join flowing text in one line."""
    return " ".join(in_lines(pieces).split())


DEPTH: Final = 200
"""Elements inside each other that are looked at; a page that nests deeper is read as if it did not."""
ATTRIBUTES: Final = 100
"""Attributes of an element that are looked at."""
LINK_CHARS: Final = 2000
"""A longer address is no link that can be followed."""
MAIN_CHARS: Final = 200
"""So much text makes a page's main part worth reading alone."""


class MarkdownPage(Struct, frozen=True):
    """A page as it reads."""

    title: str
    text: str


def to_markdown(html: str, url: str, stopped: Callable[[], bool] = lambda: False) -> MarkdownPage:
    """Read a page. `url` completes its links. The time taken is proportional to the size of the page.

    It ends soon, with what it has, once `stopped` says that the caller is gone.
    """
    reader = _MarkdownReader(url, noise=False, stopped=stopped)
    reader.read(html)
    if reader.unfinished:
        reader = _MarkdownReader(url, noise=True, stopped=stopped)
        reader.read(html)
    return MarkdownPage(in_one_line(reader.title), reader.main())


_VOID: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_NEVER: Final = frozenset(
    "script style template svg canvas iframe object audio video math map select option datalist button textarea dialog".split()
)
_NOISE: Final = frozenset(("nav", "footer", "menu"))
_NOISY_ROLES: Final = frozenset(("navigation", "search", "contentinfo", "menu", "menubar", "alertdialog", "dialog"))
_BLOCKS: Final = frozenset(
    "address article aside body center dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup "
    "html legend li main nav ol p pre section summary table tbody td tfoot th thead tr ul caption noscript blockquote head".split()
)
_IN_HEAD: Final = frozenset(("title", "noscript"))
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
_STYLES: Final = {"b": "**", "strong": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
_CODE: Final = frozenset(("code", "kbd", "samp", "tt"))
_ENDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "li": (frozenset(("li",)), frozenset(("ul", "ol"))),
    "dt": (frozenset(("dt", "dd")), frozenset(("dl",))),
    "dd": (frozenset(("dt", "dd")), frozenset(("dl",))),
    "tr": (frozenset(("tr",)), frozenset(("table",))),
    "td": (frozenset(("td", "th")), frozenset(("tr", "table"))),
    "th": (frozenset(("td", "th")), frozenset(("tr", "table"))),
    "a": (frozenset(("a",)), frozenset(("td", "th", "li"))),
}
"""Elements that a start tag ends without an end tag, and how far up they are looked for."""
_NOTHING: Final = (frozenset[str](), frozenset[str]())
_HIDDEN: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])", re.I
)
_LANGUAGE: Final = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|brush:)-?\s*([\w+#.-]{1,30})")


class _Open(Struct):
    """An element that has not ended."""

    name: str
    attributes: Mapping[str, str]
    start: int = 0
    """The position in the line at which its text begins."""


class _MarkdownReader(BoundedParser):
    """Convert a page tag by tag."""

    def __init__(self, url: str, *, noise: bool, stopped: Callable[[], bool]) -> None:
        super().__init__(stopped)
        self.title: list[str] = []
        self._base = url
        self._noise = noise
        self._blocks = Blocks()
        self._line: list[str] = []
        self._open: list[_Open] = []
        self._names: Counter[str] = Counter()
        self._tables: list[TableReader] = []
        self._lists: list[int | None] = []
        self._code: list[str] | None = None
        self._language = ""
        self._skipped = ""
        self._skips = 0
        self._main: _Open | None = None
        self._main_from = self._main_to = 0

    @property
    def unfinished(self) -> bool:
        """Return whether the page ended inside of something that was left out, which then may be all of it."""
        return bool(self._skipped) and self._skipped not in _NEVER and not self._noise

    def read(self, html: str) -> None:
        """Read a whole page. Do not tell the parser of the end: its work then grows with the square of what is left."""
        with contextlib.suppress(Enough):
            self.take(html.replace("<![", "<! ["))  # sections of XML are comments to browsers, and errors to the parser
        if not self.rawdata.startswith("<") and not self._skipped and not self._blocks.full:
            self._line.append(unescape(self.rawdata))  # it waits for the end of a last `&amp`
        while self._open:
            self._leave(self._pop())
        self._flush()

    def main(self) -> str:
        """Return the text of the page; its main part alone when it marks one."""
        whole = self._blocks.text()
        main = self._blocks.text(self._main_from, self._main_to)
        return main if len(main) >= max(MAIN_CHARS, len(whole) // 20) else whole

    # --- what the parser calls

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enter an element."""
        self.step(1 + len(attrs))
        if self._skipped:
            self._skips += tag == self._skipped
            return
        attributes = {name: value or "" for name, value in reversed(attrs[:ATTRIBUTES])}
        if tag in _VOID:
            self._void(tag, attributes)
            return
        if self._is_left_out(tag, attributes):
            self._skipped, self._skips = tag, 1
            return
        self._end_implied(tag)
        if len(self._open) >= DEPTH:
            return
        if tag in _BLOCKS:
            self._boundary()
        self._open.append(_Open(tag, attributes, len(self._line)))
        self._names[tag] += 1
        self._enter(tag, attributes)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take `<br/>`; `<div/>` is `<div>`, as browsers have it."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Leave an element, and what it held open."""
        self.step()
        if self._skipped:
            self._skips -= tag == self._skipped
            if not self._skips:
                self._skipped = ""
            return
        if tag == "p" and not self._within("p"):
            self._boundary()
        if self._within(tag):
            while (left := self._pop()).name != tag:
                self._leave(left)
            self._leave(left)

    def handle_data(self, data: str) -> None:
        """Take text."""
        self.step()
        if self._skipped or self._blocks.full:
            return
        if self._within("title"):
            self.title.append(data[: 500 - len(self.title)])
        elif self._code is not None:
            self._code.append(data)
        elif not self._within("head"):
            self._line.append(data.replace(BREAK, " "))

    # --- elements

    def _is_left_out(self, tag: str, attributes: Mapping[str, str]) -> bool:
        if tag in _NEVER:
            return True
        if self._noise or tag in ("html", "body", "main"):
            return False
        return (
            (tag in _NOISE and not self._within("article"))
            or attributes.get("role", "").lower() in _NOISY_ROLES
            or "hidden" in attributes
            or attributes.get("aria-hidden", "").lower() == "true"
            or _HIDDEN.search(attributes.get("style", "")) is not None
        )

    def _void(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "br" and self._code is not None:
            self._code.append("\n")
        elif tag == "br":
            self._line.append(BREAK)
        elif tag == "hr":
            self._boundary()
            if not self._tables:
                self._blocks.write("---")
        elif tag == "base" and attributes.get("href", "") and len(attributes["href"]) < LINK_CHARS:
            self._base = self._whole(attributes["href"]) or self._base
        elif tag == "img" and (alt := in_one_line([attributes.get("alt", "")])):
            address = self._whole(attributes.get("src", ""))
            self._line.append(f"![{alt[:500]}]({address})" if address else f"[image: {alt[:500]}]")

    def _enter(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "pre" and self._code is None:
            self._code, self._language = [], _language(attributes)
        elif tag == "code" and self._code is not None:
            self._language = self._language or _language(attributes)
        elif tag in ("ul", "ol"):
            self._lists.append(_first_number(attributes) if tag == "ol" else None)
        elif tag == "li":
            marker = "- "
            if self._lists and (number := self._lists[-1]) is not None:
                marker, self._lists[-1] = f"{number}. ", number + 1
            self._blocks.frames.append(Frame(marker, " " * len(marker)))
        elif tag == "dd":
            self._blocks.frames.append(Frame(": ", "  "))
        elif tag == "blockquote":
            self._blocks.frames.append(Frame("> ", "> "))
        elif tag == "table":
            self._enter_table()
        elif tag == "tr" and self._cells:
            self._tables[-1].rows.append([])
        elif (tag == "main" or attributes.get("role") == "main") and self._main is None:
            self._main, self._main_from = self._open[-1], self._blocks.mark()

    def _leave(self, left: _Open) -> None:
        tag = left.name
        if tag == "pre" and not self._within("pre"):
            self._leave_code()
        elif tag in _HEADINGS and not self._cells and not self._in_link:
            text, self._line = in_one_line(self._line), []
            self._blocks.write(f"{_HEADINGS[tag]} {text}" if text else "")
        elif tag in ("td", "th") and self._cells:
            self._leave_cell(left)
        elif tag == "caption" and self._cells:
            self._blocks.write(in_one_line(self._line[left.start :]))
            del self._line[left.start :]
        elif tag == "a":
            self._leave_link(left)
        elif tag in _STYLES or (tag in _CODE and self._code is None):
            self._leave_span(left)
        if tag in _BLOCKS:
            self._boundary()
        self._close_frame(left)

    def _close_frame(self, left: _Open) -> None:
        if left.name in ("li", "dd", "blockquote") and self._blocks.frames:
            self._blocks.frames.pop()
        elif left.name in ("ul", "ol") and self._lists:
            self._lists.pop()
            self._blocks.end_list()
        elif left.name == "table" and self._tables:
            table = self._tables.pop()
            if not table.layout:
                self._blocks.write_table(table)
        if left is self._main:
            self._main_to = self._blocks.mark()

    # --- tables

    @property
    def _cells(self) -> bool:
        """Return whether text goes to the cells of a table."""
        return bool(self._tables) and not self._tables[-1].layout

    def _enter_table(self) -> None:
        if self._cells:
            outer = self._tables[-1]
            outer.layout = True
            for row in outer.rows:
                self._blocks.write(" ".join(cell for cell in row if cell))
            outer.rows = []
            self._flush()
        self._tables.append(TableReader())

    def _leave_cell(self, left: _Open) -> None:
        rows = self._tables[-1].rows
        if not rows:
            rows.append([])
        row = rows[-1]
        row.append(in_one_line(self._line[left.start :]))
        del self._line[left.start :]
        span = left.attributes.get("colspan", "1")
        if re.fullmatch(r"\d{1,2}", span, re.ASCII):
            row.extend([""] * min(COLUMNS - len(row), int(span) - 1))

    # --- text in a line

    def _leave_link(self, left: _Open) -> None:
        if len(self._line) == left.start:
            return
        text = in_one_line(self._line[left.start :])
        address = self._whole(left.attributes.get("href", "")) if text and self._code is None else ""
        if address and not self._within("a"):
            before = " " if self._line[left.start :][0][:1].isspace() else ""
            self._line[left.start :] = [f"{before}[{text}]({address})"]

    def _leave_code(self) -> None:
        code, self._code = "".join(self._code or ()), None
        if self._cells:
            self._line.append(code)
        else:
            self._blocks.write_code(code, self._language)

    def _leave_span(self, left: _Open) -> None:
        text = "".join(self._line[left.start :])
        inner = text.strip()
        if not inner or BREAK in inner or self._within(left.name):
            return
        sign = _STYLES.get(left.name) or ("``" if "`" in inner else "`")
        pad = " " if sign == "``" else ""
        lead, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        self._line[left.start :] = [lead, sign, pad, inner, pad, sign, tail]

    def _whole(self, address: str) -> str:
        """Return an address as it can be called; empty for one that only a browser could use."""
        address = address.strip()
        if not address or len(address) > LINK_CHARS or address.startswith("#"):
            return ""
        try:
            whole = urljoin(self._base, re.sub(r"[\x00-\x20]", "", address))
        except ValueError:
            return ""
        if not re.match(r"(?i)(?:https?://|mailto:)", whole) or len(whole) > LINK_CHARS:
            return ""
        return whole.replace("(", "%28").replace(")", "%29").replace("<", "%3C").replace(">", "%3E")

    def _boundary(self) -> None:
        """Keep the text before and after from running together."""
        if self._cells or self._in_link:
            self._line.append(" ")
        else:
            self._flush()

    def _flush(self) -> None:
        if self._line:
            self._blocks.write(in_lines(self._line))
            self._line = []
        for each in itertools.takewhile(lambda each: each.start, reversed(self._open)):
            each.start = 0

    @property
    def _in_link(self) -> bool:
        """Return whether text belongs to a link; one that goes on and on was never ended."""
        return self._within("a") and len(self._line) < 200 and sum(map(len, self._line)) < LINK_CHARS

    def _within(self, tag: str) -> bool:
        return self._names[tag] > 0

    def _pop(self) -> _Open:
        left = self._open.pop()
        self._names[left.name] -= 1
        return left

    def _end_implied(self, tag: str) -> None:
        ended, above = _ENDS.get(tag, _NOTHING)
        if tag not in _IN_HEAD and self._open and self._open[-1].name in ("head", "title"):
            ended, above = frozenset(("head",)), frozenset()
        if tag in _BLOCKS and self._open and self._open[-1].name == "p":
            ended, above = frozenset(("p",)), frozenset()
        if not any(map(self._within, ended)):
            return
        for place in range(len(self._open) - 1, -1, -1):
            name = self._open[place].name
            if name in above:
                return
            if name in ended:
                while len(self._open) > place:
                    self._leave(self._pop())
                return


def _first_number(attributes: Mapping[str, str]) -> int:
    start = attributes.get("start", "")
    return int(start) if re.fullmatch(r"\d{1,6}", start, re.ASCII) else 1


def _language(attributes: Mapping[str, str]) -> str:
    found = _LANGUAGE.search(attributes.get("class", ""))
    return found[1] if found else ""
