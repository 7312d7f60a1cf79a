"""Write a conversation as a Markdown document."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, assert_never

from msgspec import Struct

from backstay.export.dialogue import (
    Argument,
    Block,
    CallBlock,
    Collapsible,
    Dialogue,
    DialogueMessage,
    Fact,
    Media,
    Note,
    PageTurn,
    Paragraph,
)
from backstay.logic.text import describe_size, shorten_to_line, show_lines

_OPENING: Final = re.compile(r"( *(?:(?:[-*+]|\d{1,9}[.)]) +)*)(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)")
"""The beginning of a block of code, also where it is an item of a list."""
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+#.-]{1,20}(?=\s|$)")
_TICKS: Final = re.compile("`+")
_SPECIAL: Final = re.compile(r"\\[!-/:-@\[-`{-~]|`+|<(?=[A-Za-z/!?])|!\[|\]:|\]\((?:([^\s()<>`\"'\\\[\]]*)\))?")
"""Markup: an escape, code, a tag, an image, a definition, a link (with its address, if that is a plain one)."""
_IN_CELLS: Final = re.compile(r"<[A-Za-z/!?]|!\[|\]\(|\]:")
"""Markup that would live where a cell ends the piece of code around it."""
_SAFE: Final = re.compile(r"(?:https?:|mailto:[^&]*|[^:&]*)(?:[/?#].*)?", re.IGNORECASE)
"""Addresses that a link may lead to."""
_PUNCTUATION: Final = re.compile(r"([\\`*_\[\]<>&~#])")
_INSTEAD: Final = {"<": "&lt;", "![": "!\\[", "]:": "]\\:", "](": "]\\("}


class Segment(Struct, frozen=True, kw_only=True):
    """Lines of a text: a block of code, or other lines."""

    lines: Sequence[str]
    code: bool = False
    language: str = ""


def fence(text: str, language: str = "") -> str:
    """Return `text` as a block of code that it cannot end."""
    return _fence(show_lines(text).removesuffix("\n"), language)


def quote(text: str, *, hard: bool = False) -> str:
    """Return a quotation of `text`, which is Markdown; `hard` keeps the line breaks as they were typed."""
    lines = "\n".join(_contain(show_lines(text).strip("\n"), hard=hard)).split("\n")
    return "\n".join([f"> {line}" if line else ">" for line in lines])


def in_code(text: str) -> str:
    """Return `text` as code for the inside of a line."""
    flat = shorten_to_line(show_lines(text)) or " "
    ticks = "`" * (1 + max(map(len, _TICKS.findall(flat)), default=0))
    space = " " if "`" in flat else ""
    return f"{ticks}{space}{flat}{space}{ticks}"


def in_words(text: str) -> str:
    """Return `text` for the inside of a line, with all markup escaped."""
    return _PUNCTUATION.sub(r"\\\1", shorten_to_line(show_lines(text)))


def in_html(text: str) -> str:
    """Return `text` for the inside of a line of HTML."""
    return escape(shorten_to_line(show_lines(text)))


def segments(text: str) -> Iterator[Segment]:
    """Split `text` into blocks of code and the lines between them."""
    lines = text.split("\n")
    start = at = 0
    while at < len(lines):
        opening = _OPENING.fullmatch(lines[at])
        if opening is None:
            at += 1
            continue
        before = [*lines[start:at], *filter(None, (opening[1].rstrip(),))]
        if before:
            yield Segment(lines=before)
        end = _end_of(lines, at + 1, opening[2])
        language = _LANGUAGE.match(opening[3])
        code = [_dedent(line, opening.start(2)) for line in lines[at + 1 : end]]
        yield Segment(lines=code, code=True, language=language[0] if language else "")
        start = at = end + 1
    if start < len(lines):
        yield Segment(lines=lines[start:])


def _contain(text: str, *, hard: bool) -> Iterator[str]:
    before = ""
    for segment in segments(text):
        if segment.code:  # at the margin, where no list and no quotation around it can change what it is
            lines: Sequence[str] = (_fence("\n".join(segment.lines), segment.language),)
        else:
            lines = [_escape_line(line.rstrip(" ")) for line in segment.lines]
            if hard:
                followed = zip(lines, (*lines[1:], ""), strict=True)
                lines = [f"{line}  " if line and after else line for line, after in followed]
        yield from ("",) if before and lines[0] else ()
        yield from lines
        before = lines[-1]


def _fence(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _dedent(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def _end_of(lines: Sequence[str], start: int, fence: str) -> int:
    for at in range(start, len(lines)):
        bare = lines[at].strip(" \t")
        if len(bare) >= len(fence) and not bare.strip(fence[0]):
            return at
    return len(lines)


def _escape_line(line: str) -> str:
    """Escape a line outside of blocks of code."""
    if "|" in line and _IN_CELLS.search(line):  # in a table, a cell ends a piece of code
        return "|".join(map(_escape_cell, line.split("|")))
    return _escape_cell(line)


def _escape_cell(text: str) -> str:
    given: list[str] = []
    at = 0
    while found := _SPECIAL.search(text, at):
        given.append(text[at : found.start()])
        sign, at = found[0], found.end()
        if sign[0] == "`":
            if (end := _code_end(text, at, len(sign))) < 0:
                given.append("\\`" * len(sign))  # it would look for its end in the lines that follow
            else:
                given.append(text[found.start() : end])
                at = end
        elif found[1] is not None:
            given.append(sign if _SAFE.fullmatch(found[1]) else f"]\\{sign[1:]}")
        else:
            given.append(_INSTEAD.get(sign, sign))
    return "".join((*given, text[at:]))


def _code_end(text: str, start: int, ticks: int) -> int:
    """Return where code ends that began with so many backticks; -1 when it does not end in this line."""
    return next((run.end() for run in _TICKS.finditer(text, start) if len(run[0]) == ticks), -1)


def markdown_page(dialogue: Dialogue) -> Iterator[str]:
    """Yield the document, a turn at a time."""
    head = [f"# {in_words(dialogue.title)}", "", *map(_fact, dialogue.facts)]
    yield "\n".join(head) + "\n"
    for turn in dialogue.turns:
        yield "\n" + "\n".join(_turn(turn)) + "\n"
    if dialogue.ending:
        yield f"\n**{in_words(dialogue.ending)}**\n"


def _fact(fact: Fact) -> str:
    return f"- **{fact.label}:** {in_code(fact.value) if fact.literal else in_words(fact.value)}"


def _turn(turn: PageTurn) -> Iterator[str]:
    yield f"## Turn {turn.number}" if turn.number else "## Before the first turn"
    yield from ("", f"*{turn.at}*")
    for part in turn.parts:
        yield ""
        if isinstance(part, Note):
            yield from _note(part)
        else:
            yield from _message(part)


def _message(speech: DialogueMessage) -> Iterator[str]:
    model = f"Model {in_code(speech.label)}" if speech.label else "Model"
    yield f"### {model if speech.who == 'model' else in_words(speech.label)}"
    for block in speech.blocks:
        yield ""
        yield from _block(block, hard=speech.who != "model")


def _block(block: Block, *, hard: bool) -> Iterator[str]:
    match block:
        case Paragraph():
            yield quote(block.text, hard=hard)
        case Collapsible():
            yield _details(block.title, quote(block.text, hard=hard))
        case CallBlock():
            yield from _call(block)
        case Media():
            yield f"*Not shown:* {in_code(block.name)}"
        case Note():
            yield from _note(block)
        case _:
            assert_never(block)


def _call(call: CallBlock) -> Iterator[str]:
    yield f"**Tool {in_code(call.name)}: {in_words(call.ending)}**"
    yield from _arguments(call.given)
    if call.changed:
        yield from ("", "The model had wanted to give it this, and a hook or the person changed it:")
        yield from _arguments(call.changed)
    if call.child:
        yield from ("", f"A session of its own answered: {in_code(call.child)} (`backstay export` writes it, too)")
    for part in call.result:
        yield ""
        if isinstance(part, Media):
            yield f"*Not shown:* {in_code(part.name)}"
        else:
            yield _details(f"Result{describe_size(part)}", fence(part.text, "text"), shown=not call.succeeded)


def _arguments(given: Iterable[Argument]) -> Iterator[str]:
    for each in given:
        label = in_code(each.name) if each.name else "Arguments"
        yield from ("", f"{label}{describe_size(each.value) if each.value.left_out else ''}:", "")
        yield fence(each.value.text, "text" if each.name else "json")


def _note(note: Note) -> Iterator[str]:
    yield f"*{in_words(note.text)}*"
    if not note.detail:
        return
    yield ""
    detail = fence(note.detail, "text")
    yield _details(note.title, detail) if note.title else detail


def _details(title: str, content: str, *, shown: bool = False) -> str:
    """Return a text that a reader may open. Its title is HTML; the empty lines let Markdown be read inside."""
    return f"<details{' open' if shown else ''}><summary>{in_html(title)}</summary>\n\n{content}\n\n</details>"
