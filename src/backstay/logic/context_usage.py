"""Context usage: estimate the tokens of any text, and fold what the conversation takes of the model's window.

*The estimate* goes by the script of a text and by how its characters follow each other, not by its length alone. A tokenizer makes one
token of a common word with the space before it, more of a long one, about one of a Chinese character, and a new one at most changes
between letters, digits and signs. So every character is reduced to a class, and neighbours are counted. The weights lie between those of
the tokenizers of three vendors, over prose, code, JSON, numbers, hashes and two dozen languages. Nothing here loops over characters: bytes
are translated and counted.

*The fold* is never a sum over calls: a request holds the whole conversation, so the provider's newest count says everything up to there.
What came since is estimated, and the estimate is corrected by what the provider counted for the newest request.
"""

import string
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from backstay.vocab import events
from backstay.vocab.event import CompactionTrigger, Event, Recorded
from backstay.vocab.messages import (
    DurablePart,
    MediaLink,
    MediaRef,
    Reasoning,
    SessionMessage,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import Usage


def estimate_text(text: str) -> int:
    """Estimate how many tokens `text` has. Never less for a longer text, and at least one for any."""
    if not text:
        return 0
    if text.isascii():
        return int(_ascii_tokens(text.encode())) + 1
    plain = text.encode("ascii", "ignore")
    return int(_ascii_tokens(plain) + _foreign_tokens(text, len(plain))) + 1


def estimate_schema(schema: bytes) -> int:
    """Estimate how many tokens a tool's description and schema have, given as JSON."""
    return estimate_text(schema.decode("utf-8", "replace"))


# --- characters in classes -------------------------------------------------------------------------------------------------------


def _table(**kinds: str) -> bytes:
    """Return a table that turns each character of a kind into the kind's letter, and every other one into a space."""
    table = bytearray(b" " * 256)
    for letter, characters in kinds.items():
        for character in characters:
            table[ord(character)] = ord(letter)
    return bytes(table)


_DIGITS, _SPACES = string.digits, string.whitespace
_SIGNS: Final = "".join(chr(code) for code in range(128) if not (chr(code).isalnum() or chr(code) in _SPACES))
_LETTERS_ONLY: Final = _table(l=string.ascii_lowercase, U=string.ascii_uppercase)
_LOWER: Final = string.ascii_lowercase.encode()
_KINDS: Final = _table(U=string.ascii_uppercase, d=_DIGITS, p=_SIGNS, n="\n", o="\t\r\v\f")
_DIGITS_ONLY: Final = _table(d=_DIGITS)
_SIGNS_ONLY: Final = _table(p=_SIGNS)
_LONG, _ENDLESS = b"l" * 9, b"l" * 18


def _ascii_tokens(text: bytes) -> float:
    text = b" " + text  # a text begins as a word does
    letters, kinds = text.translate(_LETTERS_ONLY), text.translate(_KINDS, _LOWER)
    # most of a text is lower case: what it does not have is not looked for in all of it
    capitals, digits, signs = kinds.count(b"U"), kinds.count(b"d"), kinds.count(b"p")
    long = letters.count(_LONG)
    return (
        1.0 * (letters.count(b" l") + (letters.count(b" U") + letters.count(b"lU") if capitals else 0))
        + 1.3 * long
        + 4.0 * (letters.count(_ENDLESS) if long else 0)  # no word is so long: random letters
        + 0.12 * capitals
        + 0.9 * (text.translate(_DIGITS_ONLY).count(b" d") if digits else 0)
        + 0.45 * digits
        + 0.5 * (text.translate(_SIGNS_ONLY).count(b" p") if signs else 0)
        + 0.22 * signs
        + 0.55 * kinds.count(b"n")
        + 0.045 * (kinds.count(b" ") - 1)
    )


# --- other scripts ---------------------------------------------------------------------------------------------------------------

_SCRIPTS: Final[Mapping[str, tuple[float, tuple[tuple[int, int], ...]]]] = {
    "a": (0.5, ((0x03, 0x07),)),  # Greek, Cyrillic, Armenian, Hebrew, Arabic
    "i": (0.8, ((0x09, 0x0E), (0x10, 0x10))),  # the scripts of India, Thai, Myanmar, Georgian
    "c": (1.0, ((0x11, 0x11), (0x30, 0x33), (0x4E, 0x9F), (0xAC, 0xD7), (0xFF, 0xFF))),  # Chinese, Japanese, Korean
    "s": (1.0, ((0x20, 0x2F),)),  # signs, arrows, boxes
    "e": (1.25, ((0xD8, 0xDF),)),  # halves of what lies beyond: emoji above all
    "x": (1.0, ((0x00, 0x02), (0x1E, 0x1F))),  # letters with accents; ASCII is counted elsewhere
}
_RARE: Final = 2.0


def _page_class(page: int) -> int:
    for name, (_, ranges) in _SCRIPTS.items():
        if any(first <= page <= last for first, last in ranges):
            return ord(name)
    return ord("r")


_PAGES: Final = bytes(map(_page_class, range(256)))


def _foreign_tokens(text: str, plain: int) -> float:
    """Return the tokens of the characters that are not ASCII, by the page of Unicode that each stands on."""
    pages = text.encode("utf-16-le", "surrogatepass")[1::2].translate(_PAGES)
    found = {name: pages.count(name.encode()) for name in _SCRIPTS}
    rare = len(pages) - sum(found.values())
    found["x"] -= plain
    return _RARE * rare + sum(_SCRIPTS[name][0] * times for name, times in found.items())


MESSAGE: Final = 4
"""Tokens that a message has besides its parts."""
CALL: Final = 8
"""Tokens that a call has besides its name and arguments."""
MEDIUM: Final = 1600
"""Tokens of an image or a document, when nothing is known of it: a large picture."""


class ContextState(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that the context holds, and those that it can hold."""

    used: int
    max: int
    percentage: float
    exact: bool
    """Whether `used` is what the provider counted."""

    @property
    def remaining_percentage(self) -> float:
        """How much is left."""
        return round(100 - self.percentage, 2)


def context_state(used: int, window: int, *, exact: bool) -> ContextState:
    """Return the state of a context."""
    return ContextState(used=used, max=window, percentage=round(min(100.0, 100 * used / window), 2), exact=exact)


def estimate(message: SessionMessage) -> int:
    """Estimate how many tokens a message has."""
    return tokens_of(message.content)


def tokens_of(parts: Iterable[DurablePart]) -> int:
    """Estimate how many tokens a message with these parts has."""
    return MESSAGE + sum(map(_tokens, parts))


_name_tokens = lru_cache(256)(estimate_text)  # a session has few tools, and calls them often


def _tokens(part: object) -> int:
    match part:
        case Text() | Reasoning():
            return estimate_text(part.text)
        case TextRef():
            return part.tokens
        case ToolCall():
            return CALL + _name_tokens(part.name) + estimate_text(part.args)
        case ToolResult():
            return sum(map(_tokens, part.content))
        case MediaRef() | MediaLink():
            return MEDIUM
        case _:
            return 0


# --- the fold --------------------------------------------------------------------------------------------------------------------


FRUITLESS: Final = 0.9
"""A compaction that leaves more than this share of the context has brought nothing."""
LEAST_RATIO, MOST_RATIO = 0.5, 4.0
"""How far the provider's count may be from the estimate before it is the estimate's unit that is wrong."""
PRIOR: Final = 500
"""Tokens that count as estimated well: a short request, most of which its provider added, says little about long ones."""


class ContextUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tokens of the context that the conversation takes."""

    counted: int = 0
    """By the provider, for the newest request and its reply; 0 when it says nothing about the conversation as it is now."""
    since: int = 0
    """Estimated, for what came after that."""
    guess: int = 0
    """Estimated, for the whole conversation."""
    asked: int = 0
    """Estimated, for the newest request."""
    ratio: float = 1.0
    """Counted tokens for one estimated token."""
    messages: int = 0
    prompt: int = 0
    """Estimated, for the newest input alone."""
    fruitless: int = 0
    """Compactions in a row that brought nothing."""
    tried: bool = False
    """Whether there was a compaction since anything was said."""
    trimmed: bool = False
    """Whether there is nothing left to drop before the open turn."""
    compacting: tuple[CompactionTrigger, int, int] | None = None
    """The open compaction: why, and what `guess` and `messages` were when it began. None once it was interrupted."""
    before_turn: tuple[int, int, int, int] = (0, 0, 0, 0)
    """`counted`, `since`, `guess` and `messages` when the open turn began."""
    waiting: tuple[tuple[str, int], ...] = ()
    """Queued inputs and their estimates."""

    def request_tokens(self, overhead: int) -> int:
        """Estimate the tokens of the next request; `overhead` is the estimate for instructions and tools."""
        if self.counted:
            return self.counted + int(self.since * self.ratio)
        return int((overhead + self.guess) * self.ratio)

    @property
    def exact(self) -> bool:
        """Whether the provider counted all of it."""
        return self.counted > 0 and self.since == 0


def fold_context_usage(state: ContextUsage, record: Recorded) -> ContextUsage:
    """Fold `record` into the usage of the context."""
    change = _FOLDS.get(type(record.event))
    return state if change is None else change(state, record.event)


def _add_message(state: ContextUsage, tokens: int) -> ContextUsage:
    return replace(
        state, since=state.since + tokens, guess=state.guess + tokens, messages=state.messages + 1, tried=False
    )


def _fold_received(state: ContextUsage, event: events.InputReceived) -> ContextUsage:
    return replace(state, waiting=(*state.waiting, (event.input, tokens_of(event.parts))))


def _fold_taken(state: ContextUsage, event: events.InputTaken) -> ContextUsage:
    """Count several inputs that are taken together as one message."""
    tokens = MESSAGE + sum(size - MESSAGE for name, size in state.waiting if name in event.inputs)
    return replace(_add_message(state, tokens), prompt=tokens, waiting=_drop_waiting(state, event))


def _drop_waiting(state: ContextUsage, event: events.InputTaken | events.InputDropped) -> tuple[tuple[str, int], ...]:
    return tuple(each for each in state.waiting if each[0] not in event.inputs)


def _fold_reply(state: ContextUsage, event: events.ModelReplied) -> ContextUsage:
    said = any(not isinstance(part, Text) or part.text for part in event.parts)
    added = _add_message(state, tokens_of(event.parts)) if said else state
    usage = event.usage
    if usage is None or usage.estimated:
        return added
    return replace(added, counted=usage.input + usage.output, since=0, ratio=_ratio(state, usage))


def _ratio(state: ContextUsage, usage: Usage) -> float:
    if not state.asked or not usage.input:
        return state.ratio
    return min(max((usage.input + PRIOR) / (state.asked + PRIOR), LEAST_RATIO), MOST_RATIO)


def _fold_child(state: ContextUsage, event: events.ChildFinished) -> ContextUsage:
    report = events.child_report(event)
    return _add_message(state, tokens_of((Text(text=report),))) if report else state


def _fold_turn_end(state: ContextUsage, event: events.TurnCompleted) -> ContextUsage:
    if event.outcome != "abandoned":
        return state
    counted, since, guess, messages = state.before_turn
    return replace(state, counted=counted, since=since, guess=guess, messages=messages, tried=False, trimmed=False)


def _forget_counts(state: ContextUsage, guess: int, messages: int) -> ContextUsage:
    """Drop the provider's counts: none of them is about the conversation as it is now."""
    return replace(
        state,
        counted=0,
        since=0,
        guess=guess,
        messages=messages,
        fruitless=0,
        tried=False,
        trimmed=False,
        compacting=None,
    )


def _fold_compacted(state: ContextUsage, event: events.Compacted) -> ContextUsage:
    _, guess, messages = state.compacting or (event.trigger, state.guess, state.messages)
    there = _forget_counts(state, event.guess + state.guess - guess, event.messages + state.messages - messages)
    if event.trigger == "trim":
        return replace(there, fruitless=state.fruitless, tried=state.tried)
    fruitless = state.fruitless + 1 if event.after > event.before * FRUITLESS else 0
    return replace(there, fruitless=fruitless if event.trigger != "manual" else 0, tried=True)


def _fold_failed(state: ContextUsage, _: events.CompactionFailed) -> ContextUsage:
    """Count as fruitless only a compaction that the session tried by itself and that was not interrupted."""
    trigger = state.compacting[0] if state.compacting else "manual"
    if trigger == "trim":
        return replace(state, compacting=None, trimmed=True)
    return replace(state, compacting=None, fruitless=state.fruitless + (trigger != "manual"), tried=True)


_FOLDS: Final[
    dict[type[Event], Callable[[ContextUsage, Any], ContextUsage]]
] = {  # Any: each function takes its own event
    events.InputReceived: _fold_received,
    events.InputTaken: _fold_taken,
    events.InputDropped: lambda f, e: replace(f, waiting=_drop_waiting(f, e)),
    events.ModelChanged: lambda f, e: replace(f, counted=0, since=0),
    events.TurnStarted: lambda f, e: replace(f, before_turn=(f.counted, f.since, f.guess, f.messages), trimmed=False),
    events.TurnCompleted: _fold_turn_end,
    events.ModelAsked: lambda f, e: replace(f, asked=e.tokens),
    events.ModelReplied: _fold_reply,
    events.ToolFinished: lambda f, e: _add_message(f, tokens_of(e.content)),
    events.ChildFinished: _fold_child,
    events.MessageInjected: lambda f, e: _add_message(f, tokens_of(e.parts)),
    events.HistoryCleared: lambda f, e: _forget_counts(f, 0, 0),
    events.Rewound: lambda f, e: _forget_counts(f, e.tokens, e.messages),
    events.CompactionStarted: lambda f, e: replace(f, compacting=(e.trigger, f.guess, f.messages)),
    events.Compacted: _fold_compacted,
    events.CompactionFailed: _fold_failed,
    events.Interrupted: lambda f, e: replace(f, compacting=None),
    events.Opened: lambda f, e: replace(f, compacting=None),
    events.CompactionUndone: lambda f, e: replace(_forget_counts(f, e.guess, e.messages), tried=True),
}
FOLDS_ON: Final = frozenset(_FOLDS)
"""The events that change it."""
