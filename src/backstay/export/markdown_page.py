"""A conversation as a Markdown document."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from backstay.export.dialogue import Block, Call, Dialogue, Fact, Folded, Given, Media, Note, Passage, Speech, Turn
from backstay.export.markdown_text import fenced, in_code, in_html, in_words, quoted
from backstay.export.seen_text import sized


def markdown_page(dialogue: Dialogue) -> Iterator[str]:
    """The document, a turn at a time."""
    head = [f"# {in_words(dialogue.title)}", "", *map(_fact, dialogue.facts)]
    yield "\n".join(head) + "\n"
    for turn in dialogue.turns:
        yield "\n" + "\n".join(_turn(turn)) + "\n"
    if dialogue.ending:
        yield f"\n**{in_words(dialogue.ending)}**\n"


def _fact(fact: Fact) -> str:
    return f"- **{fact.label}:** {in_code(fact.value) if fact.literal else in_words(fact.value)}"


def _turn(turn: Turn) -> Iterator[str]:
    yield f"## Turn {turn.number}" if turn.number else "## Before the first turn"
    yield from ("", f"*{turn.at}*")
    for part in turn.parts:
        yield ""
        if isinstance(part, Note):
            yield from _note(part)
        else:
            yield from _speech(part)


def _speech(speech: Speech) -> Iterator[str]:
    model = f"Model {in_code(speech.label)}" if speech.label else "Model"
    yield f"### {model if speech.who == 'model' else in_words(speech.label)}"
    for block in speech.blocks:
        yield ""
        yield from _block(block, hard=speech.who != "model")


def _block(block: Block, *, hard: bool) -> Iterator[str]:
    match block:
        case Passage():
            yield quoted(block.text, hard=hard)
        case Folded():
            yield _details(block.title, quoted(block.text, hard=hard))
        case Call():
            yield from _call(block)
        case Media():
            yield f"*Not shown:* {in_code(block.name)}"
        case Note():
            yield from _note(block)
        case _:
            assert_never(block)


def _call(call: Call) -> Iterator[str]:
    yield f"**Tool {in_code(call.name)}: {in_words(call.ending)}**"
    yield from _given(call.given)
    if call.changed:
        yield from ("", "The model had wanted to give it this, and a hook or the person changed it:")
        yield from _given(call.changed)
    if call.child:
        yield from ("", f"A session of its own answered: {in_code(call.child)} (`backstay export` writes it, too)")
    for part in call.result:
        yield ""
        if isinstance(part, Media):
            yield f"*Not shown:* {in_code(part.name)}"
        else:
            yield _details(f"Result{sized(part)}", fenced(part.text, "text"), shown=not call.went_well)


def _given(given: Iterable[Given]) -> Iterator[str]:
    for each in given:
        label = in_code(each.name) if each.name else "Arguments"
        yield from ("", f"{label}{sized(each.value) if each.value.left_out else ''}:", "")
        yield fenced(each.value.text, "text" if each.name else "json")


def _note(note: Note) -> Iterator[str]:
    yield f"*{in_words(note.text)}*"
    if not note.detail:
        return
    yield ""
    detail = fenced(note.detail, "text")
    yield _details(note.title, detail) if note.title else detail


def _details(title: str, content: str, *, shown: bool = False) -> str:
    """Something to open. Its title is HTML; the empty lines make Markdown of what is inside."""
    return f"<details{' open' if shown else ''}><summary>{in_html(title)}</summary>\n\n{content}\n\n</details>"
