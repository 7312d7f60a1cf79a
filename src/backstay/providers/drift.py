"""How a request differs from the one that a recorded session made at the same place.

Ids differ in every session and say nothing, so calls are compared by their order. What only its provider can read is not compared.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from backstay.logic.parts import digest
from backstay.logic.words import counted
from backstay.ports import ModelRequest
from backstay.vocab.events import ModelAsked
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    MediaRef,
    Message,
    ServerBlock,
    TextRef,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import ToolSpec

SHOWN: Final = 60
"""Characters of a text that a note shows."""
BEFORE: Final = 12
"""Of these, characters before the first that differs."""


class AskedThen(msgspec.Struct, frozen=True, kw_only=True):
    """What the recorded session asked."""

    asked: ModelAsked
    messages: tuple[Message, ...]
    instructions: str
    tools: tuple[ToolSpec, ...]


def drift(then: AskedThen, now: ModelRequest, *, compare_model: bool) -> tuple[str, ...]:
    """A sentence for everything that is different; empty when the same was asked."""
    found = [*_messages(then.messages, now.messages), *_instructions(then.instructions, now.instructions)]
    found += [*_tools(then, now.tools), *_parameters(then.asked.parameters, now.parameters)]
    if compare_model and now.model != then.asked.model:
        found.append(f"the model is {now.model!r} and was {then.asked.model!r}")
    return tuple(f"not what was asked when this was recorded: {each}" for each in found)


def _messages(then: Sequence[Message], now: Sequence[Message]) -> Iterator[str]:
    pairs = itertools.zip_longest(_plain(now), _plain(then))
    for index, (new, old) in enumerate(pairs):
        if new == old:
            continue
        if old is None or new is None:
            said = f"is new: {_cut(str(new))}" if old is None else f"is missing, and was {_cut(str(old))}"
        else:
            said = "is {} and was {}".format(*_apart(str(new), str(old)))
        yield f"messages[{index}] {said} ({counted(len(now), 'message')}, and {len(then)} then)"
        return


def _instructions(then: str, now: str) -> Iterator[str]:
    if now != then:
        new, old = _apart(now, then)
        yield f"the instructions ({_short_hash(now)}) were others ({_short_hash(then)}): {new} and then {old}"


def _tools(then: AskedThen, now: tuple[ToolSpec, ...]) -> Iterator[str]:
    hashed = digest(msgspec.json.encode(now))
    if hashed == then.asked.tools or (not now and not then.asked.tools):
        return
    old, new = {tool.name: tool for tool in then.tools}, {tool.name: tool for tool in now}
    names = {
        "added": new.keys() - old.keys(),
        "gone": old.keys() - new.keys(),
        "changed": {name for name in new.keys() & old.keys() if new[name] != old[name]},
    }
    words = "; ".join(f"{what}: {', '.join(sorted(which))}" for what, which in names.items() if which)
    yield f"the tools ({hashed[:8]}) were others ({then.asked.tools[:8]}): {words or 'in another order'}"


def _parameters(then: dict[str, object], now: dict[str, object]) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        if then.get(name) != now.get(name):
            yield f"the parameter {name!r} is {now.get(name)!r:.60} and was {then.get(name)!r:.60}"


# --- messages without ids ------------------------------------------------------------------------------------------------------


def _plain(messages: Sequence[Message]) -> Iterator[str]:
    """Each message as a text that is the same whenever the same is said."""
    numbers: dict[str, int] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                numbers[part.id] = len(numbers) + 1
        yield f"{message.role}: " + "; ".join(_said(part, numbers) for part in message.parts)


def _said(part: InFlightPart | TextRef, numbers: dict[str, int]) -> str:
    match part:
        case ToolCall():
            return f"[call {numbers[part.id]}: {part.name} {part.args}]"
        case ToolResult():
            content = "; ".join(_said(each, numbers) for each in part.content)
            return f"[{'error' if part.is_error else 'result'} of call {numbers.get(part.call, 0)}: {content}]"
        case InlineMedia():
            return f"[{part.media_type} {digest(part.content)}]"
        case MediaRef():
            return f"[{part.media_type} {part.sha256}]"
        case MediaLink():
            return f"[{part.media_type} {part.url}]"
        case ServerBlock():
            return f"[{part.kind} {part.name} {part.content}]"
        case TextRef():
            return part.head
        case _:
            return part.text


def _apart(new: str, old: str) -> tuple[str, str]:
    """Both texts from a little before the first character that differs."""
    same = next((i for i, (one, other) in enumerate(zip(new, old, strict=False)) if one != other), None)
    at = max(0, (min(len(new), len(old)) if same is None else same) - BEFORE)
    return _cut(new, at), _cut(old, at)


def _cut(text: str, at: int = 0) -> str:
    piece = text[at : at + SHOWN]
    return f"{'...' if at else ''}{piece!r}{'...' if at + SHOWN < len(text) else ''}"


def _short_hash(text: str) -> str:
    return digest(text.encode("utf-8", "replace"))[:8]
