"""Write a conversation as one HTML file: no script, nothing from outside, every text escaped."""

from collections.abc import Iterable, Iterator
from html import escape
from importlib import resources
from typing import Final, assert_never

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
from backstay.export.markdown import segments
from backstay.logic.text import describe_size, shorten_to_line, show_lines

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may do with the page: show it."""


def html_page(dialogue: Dialogue) -> Iterator[str]:
    """Yield the document, a turn at a time."""
    title = in_line(dialogue.title)
    style = resources.files(__package__).joinpath("transcript.css").read_text(encoding="utf-8")
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(shorten_to_line(show_lines(dialogue.title)))}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header>\n<h1 dir="auto">{title}</h1>\n<dl>\n{"".join(map(_fact, dialogue.facts))}</dl>\n</header>\n<main>\n'
    )
    for turn in dialogue.turns:
        yield "".join(_turn(turn))
    ending = f'<footer>\n<p class="bad">{in_line(dialogue.ending)}</p>\n</footer>\n' if dialogue.ending else ""
    yield f"</main>\n{ending}</body>\n</html>\n"


def in_line(text: str) -> str:
    """Return `text` for the inside of a line."""
    return _escape(shorten_to_line(text))


def in_block(text: str, kind: str) -> str:
    """Return `text` with its lines and spaces."""
    # a browser drops a line's end that follows the tag at once, so there is one for it to drop
    return f'<pre class="{kind}" dir="auto">\n{_escape(text)}</pre>\n'


def _escape(text: str) -> str:
    return show_lines(escape(text), lambda sign: f'<span class="sign">{escape(sign)}</span>')


def _fact(fact: Fact) -> str:
    value = f"<code>{in_line(fact.value)}</code>" if fact.literal else in_line(fact.value)
    return f"<dt>{escape(fact.label)}</dt><dd>{value}</dd>\n"


def _turn(turn: PageTurn) -> Iterator[str]:
    name = f"turn-{turn.number}"
    title = f"Turn {turn.number}" if turn.number else "Before the first turn"
    yield f'<section class="turn" aria-labelledby="{name}">\n<h2 id="{name}">{title}</h2>\n'
    yield f'<p class="when">{escape(turn.at)}</p>\n'
    for part in turn.parts:
        yield from _note(part) if isinstance(part, Note) else _message(part)
    yield "</section>\n"


def _message(speech: DialogueMessage) -> Iterator[str]:
    model = f"Model <code>{in_line(speech.label)}</code>" if speech.label else "Model"
    yield f'<section class="speech {speech.who}">\n<h3>{model if speech.who == "model" else in_line(speech.label)}</h3>\n'
    for block in speech.blocks:
        yield from _block(block)
    yield "</section>\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph():
            yield from _passage(block.text)
        case Collapsible():
            yield _details(in_line(block.title), "".join(_passage(block.text)))
        case CallBlock():
            yield from _call(block)
        case Media():
            yield _media(block)
        case Note():
            yield from _note(block)
        case _:
            assert_never(block)


def _passage(text: str) -> Iterator[str]:
    """Yield a text as it was written, with blocks of code in its code fences."""
    for segment in segments(text.replace("\r\n", "\n").strip("\n")):
        lines = "\n".join(segment.lines)
        if segment.code or lines.strip():
            yield in_block(lines if segment.code else lines.strip("\n"), "code" if segment.code else "said")


def _call(call: CallBlock) -> Iterator[str]:
    ending = f'<span class="{"good" if call.succeeded else "bad"}">{in_line(call.ending)}</span>'
    yield f'<div class="call">\n<h4>Tool <code>{in_line(call.name)}</code>: {ending}</h4>\n'
    yield from _arguments(call.given)
    if call.changed:
        yield '<p class="label">The model had wanted to give it this, and a hook or the person changed it:</p>\n'
        yield from _arguments(call.changed)
    if call.child:
        child = f"<code>{in_line(call.child)}</code>"
        yield f"<p>A session of its own answered: {child} (<code>backstay export</code> writes it, too)</p>\n"
    for part in call.result:
        if isinstance(part, Media):
            yield _media(part)
        else:
            yield _details(f"Result{describe_size(part)}", in_block(part.text, "code"), shown=not call.succeeded)
    yield "</div>\n"


def _arguments(given: Iterable[Argument]) -> Iterator[str]:
    for each in given:
        label = f"<code>{in_line(each.name)}</code>" if each.name else "Arguments"
        yield f'<div><p class="label">{label}{describe_size(each.value) if each.value.left_out else ""}</p>\n'
        yield f"{in_block(each.value.text, 'code')}</div>\n"


def _media(media: Media) -> str:
    return f'<p class="label">Not shown: <code>{in_line(media.name)}</code></p>\n'


def _note(note: Note) -> Iterator[str]:
    yield f'<p class="note">{in_line(note.text)}</p>\n'
    if note.detail:
        detail = in_block(note.detail, "code")
        yield _details(in_line(note.title), detail) if note.title else detail


def _details(title: str, content: str, *, shown: bool = False) -> str:
    return f"<details{' open' if shown else ''}>\n<summary>{title}</summary>\n{content}</details>\n"
