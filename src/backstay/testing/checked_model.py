"""A model that checks each request against the shape that every provider's format demands.

    model = CheckedModel(ScriptedModel.of([...]))
    ... run a session on it ...
    assert model.broken == []

The shape is which message may follow which, and what it may hold. Every rule is a function whose docstring is the rule; it yields a
sentence for each place that breaks it. `RULES` says which rules a format has. A provider answers a broken one with a refusal, and the
session is stuck; so the transcript is tested against them, for any history.

The adapters of `anthropic` and `google` merge neighbouring messages of one role and send tool results as the user, so their rules look at
merged turns, in which the roles alternate by themselves. A message that its own provider is sent back as it wrote it (`Message.opaque`)
counts by its parts; what other providers are sent of it is its parts alone.
"""

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from backstay.ports import Model, ModelReply, ModelRequest
from backstay.providers.wrapper import ModelAround
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import UserError
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    MediaRef,
    Message,
    Reasoning,
    Role,
    ServerBlock,
    SignedReasoning,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)


def check_shape(
    format: str, messages: Sequence[Message], *, provider: str = "", prefill: bool = False
) -> tuple[str, ...]:
    """Return the rules of `format` that `messages` break, as `rule: messages[i]: what is wrong`; empty when there are none.

    `provider` is who will read the request, where it is not the one that the format is named after; `prefill` allows
    the last message to be the beginning of the answer.
    """
    if format not in RULES:
        raise UserError(f"{format!r} is not a format. Use one of {', '.join(RULES)}.")
    request = Request(
        format=format,
        providers=frozenset({provider} if provider else {format, _PROVIDERS[format]}),
        prefill=prefill,
        messages=tuple(messages),
        turns=tuple(_turns(messages, merged=format in _MERGING)),
    )
    return tuple(f"{rule.__name__}: {broken}" for rule in RULES[format] for broken in rule(request))


class RequestTurn(Struct, frozen=True):
    """Messages as they arrive at the provider: one message, or neighbours merged into one. Without system messages."""

    role: Role
    first: int
    """The index of its first message."""
    parts: tuple[InFlightPart, ...]
    calls: list[ToolCall]
    """The tool calls in it."""
    results: list[ToolResult]
    """The tool results in it."""


class Request(Struct, frozen=True, kw_only=True):
    """A request that is checked, and the provider's rules that it must keep."""

    format: str
    providers: frozenset[str]
    """Whose signatures may be in it."""
    prefill: bool
    messages: tuple[Message, ...]
    turns: tuple[RequestTurn, ...]


Rule = Callable[[Request], Iterator[str]]


# --- who speaks ------------------------------------------------------------------------------------------------------


def something_is_said(request: Request) -> Iterator[str]:
    """Check that a request holds a message that is not a system message."""
    if not request.turns:
        yield f"messages[0:{len(request.messages)}]: nobody says anything"


def system_comes_first(request: Request) -> Iterator[str]:
    """System messages stand before all others."""
    begun = False
    for index, message in enumerate(request.messages):
        begun = begun or message.role != "system"
        if begun and message.role == "system":
            yield f"messages[{index}]: a system message in the middle"


def user_begins(request: Request) -> Iterator[str]:
    """Check that the first message that is not a system message is the user's."""
    first = next(((i, m) for i, m in enumerate(request.messages) if m.role != "system"), None)
    if first is not None and first[1].role != "user":
        yield f"messages[{first[0]}]: the conversation begins with {first[1].role!r}"


def user_ends(request: Request) -> Iterator[str]:
    """Check that the last message is the user's or a tool's, unless the answer may be begun for the model."""
    if request.turns and request.turns[-1].role == "assistant" and not request.prefill:
        yield f"messages[{request.turns[-1].first}]: the conversation ends with the assistant"


def beginning_of_answer_ends_in_ink(request: Request) -> Iterator[str]:
    """Check that a last message of the assistant, the beginning of its answer, does not end in white space."""
    last = request.turns[-1] if request.turns else None
    if last is not None and last.role == "assistant" and last.parts:
        final = last.parts[-1]
        if isinstance(final, Text) and final.text != final.text.rstrip():
            yield f"messages[{last.first}]: the beginning of the answer ends in white space"


# --- what is said ----------------------------------------------------------------------------------------------------


def parts_fit_their_role(request: Request) -> Iterator[str]:
    """Check that each role holds only its own parts: calls, reasoning and server blocks are the assistant's, results a tool's.

    Only `openai-chat` refuses results in a user message. Media may be anybody's: where a provider does not take them,
    the adapter names them in words.
    """
    for index, message in enumerate(request.messages):
        for part in message.parts:
            if not isinstance(part, _fitting(message.role, request.format)):
                yield f"messages[{index}]: {message.role!r} cannot hold a {type(part).__name__}"


def nothing_is_empty(request: Request) -> Iterator[str]:
    """No message is without parts that can be sent, and no part is an empty text.

    Reasoning and server blocks are sent only as part of a reply that goes back as its provider wrote it.
    """
    for index, message in enumerate(request.messages):
        if not message.parts:
            yield f"messages[{index}]: an empty message"
        elif isinstance(message.parts[0], _UNSENT) and not _can_be_sent(message, request):
            yield f"messages[{index}]: nothing that could be sent"
        for part in message.parts:
            if isinstance(part, Text) and not part.text:
                yield f"messages[{index}]: an empty text"


def no_text_is_blank(request: Request) -> Iterator[str]:
    """No text is empty or only white space, inside a result either."""
    for index, message in enumerate(request.messages):
        for part in message.parts:
            if _is_blank(part):
                yield f"messages[{index}]: a blank text"
            elif isinstance(part, ToolResult) and any(_is_blank(inner) for inner in part.content):
                yield f"messages[{index}]: a blank text in the result of {part.call!r}"


def text_is_at_hand(request: Request) -> Iterator[str]:
    """No result holds the handle of a long text in place of the text."""
    for index, message in enumerate(request.messages):
        for part in message.parts:
            if isinstance(part, ToolResult) and any(isinstance(inner, TextRef) for inner in part.content):
                yield f"messages[{index}]: the result of {part.call!r} holds a handle in place of its text"


def reasoning_has_a_successor(request: Request) -> Iterator[str]:
    """Reasoning leads to something: it is never the last part of what the assistant says."""
    for turn in request.turns:
        if turn.parts and isinstance(turn.parts[-1], Reasoning | SignedReasoning):
            yield f"messages[{turn.first}]: reasoning leads to nothing"


def signatures_are_at_home(request: Request) -> Iterator[str]:
    """Signed reasoning goes only to the provider that signed it."""
    for index, message in enumerate(request.messages):
        for part in message.parts:
            if isinstance(part, SignedReasoning) and part.provider not in request.providers:
                yield f"messages[{index}]: reasoning signed by {part.provider!r} goes to {request.format!r}"


# --- calls and results -----------------------------------------------------------------------------------------------


def call_ids_are_unique(request: Request) -> Iterator[str]:
    """No two calls have the same id."""
    seen: set[str] = set()
    for turn in request.turns:
        for call in turn.calls:
            if call.id in seen:
                yield f"messages[{turn.first}]: the call id {call.id!r} occurs twice"
            seen.add(call.id)


def results_are_unique(request: Request) -> Iterator[str]:
    """No call has two results."""
    seen: set[str] = set()
    for turn in request.turns:
        for result in turn.results:
            if result.call in seen:
                yield f"messages[{turn.first}]: a second result for the call {result.call!r}"
            seen.add(result.call)


def results_have_calls(request: Request) -> Iterator[str]:
    """Every result comes after its call."""
    made: set[str] = set()
    for turn in request.turns:
        for result in turn.results:
            if result.call not in made:
                yield f"messages[{turn.first}]: a result without its call {result.call!r}"
        made |= {call.id for call in turn.calls}


def results_are_in_the_next_turn(request: Request) -> Iterator[str]:
    """Check that all calls of the assistant's turn have their results in the user's turn right after it."""
    for turn, answer in _with_next(request.turns):
        given = {result.call for result in answer.results} if answer else set()
        for call in turn.calls:
            if call.id not in given:
                yield f"messages[{turn.first}]: the call {call.id!r} has no result in the next turn"


def results_stand_first(request: Request) -> Iterator[str]:
    """In the turn that answers calls, the results stand before everything else."""
    for turn in request.turns:
        kinds = [isinstance(part, ToolResult) for part in turn.parts]
        if kinds != sorted(kinds, reverse=True):
            yield f"messages[{turn.first}]: something stands before a result"


def tool_messages_follow_their_call(request: Request) -> Iterator[str]:
    """Each call is answered by a tool message before any other message comes."""
    for index, turn in enumerate(request.turns):
        if turn.calls:
            given = {result.call for answer in _tools_after(request.turns, index) for result in answer.results}
            for call in turn.calls:
                if call.id not in given:
                    yield f"messages[{turn.first}]: no tool message for the call {call.id!r} follows"


def outputs_come_before_the_model_goes_on(request: Request) -> Iterator[str]:
    """Each function call has its output before the assistant speaks again, and before the end."""
    waiting: dict[str, int] = {}
    for turn in request.turns:
        if turn.role == "assistant":
            yield from _calls_without_output(waiting)
            waiting = {call.id: turn.first for call in turn.calls}
        for result in turn.results:
            waiting.pop(result.call, None)
    yield from _calls_without_output(waiting)


def as_many_responses_as_calls(request: Request) -> Iterator[str]:
    """Check that the turn after function calls holds exactly as many function responses."""
    for turn, answer in _with_next(request.turns):
        made, given = len(turn.calls), len(answer.results) if answer else 0
        if made and made != given:
            yield f"messages[{turn.first}]: {made} calls, but {given} responses in the next turn"


_COMMON: Final[tuple[Rule, ...]] = (
    something_is_said,
    system_comes_first,
    user_ends,
    parts_fit_their_role,
    nothing_is_empty,
    text_is_at_hand,
    reasoning_has_a_successor,
    signatures_are_at_home,
    call_ids_are_unique,
    results_are_unique,
    results_have_calls,
)
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "anthropic": (
        *_COMMON,
        user_begins,
        beginning_of_answer_ends_in_ink,
        no_text_is_blank,
        results_are_in_the_next_turn,
        results_stand_first,
    ),
    "openai-responses": (*_COMMON, outputs_come_before_the_model_goes_on),
    "openai-chat": (*_COMMON, tool_messages_follow_their_call),
    "google": (*_COMMON, user_begins, as_many_responses_as_calls),
}
"""The rules of each format."""

_MERGING: Final = ("anthropic", "google")
_MEDIA: Final = (MediaRef, MediaLink, InlineMedia)
_UNSENT: Final = (Reasoning, ServerBlock)
_PROVIDERS: Final = {
    "anthropic": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "openai-chat",
    "google": "google",
}


def _turns(messages: Sequence[Message], *, merged: bool) -> Iterator[RequestTurn]:
    open_turn: RequestTurn | None = None
    for index, message in enumerate(messages):
        if message.role == "system":
            continue
        role: Role = "user" if merged and message.role == "tool" else message.role
        if merged and open_turn is not None and open_turn.role == role:
            open_turn = _turn(role, open_turn.first, (*open_turn.parts, *message.parts))
            continue
        if open_turn is not None:
            yield open_turn
        open_turn = _turn(role, index, message.parts)
    if open_turn is not None:
        yield open_turn


def _turn(role: Role, first: int, parts: tuple[InFlightPart, ...]) -> RequestTurn:
    calls = [part for part in parts if isinstance(part, ToolCall)]
    return RequestTurn(role, first, parts, calls, [part for part in parts if isinstance(part, ToolResult)])


def _with_next(turns: Sequence[RequestTurn]) -> Iterator[tuple[RequestTurn, RequestTurn | None]]:
    return zip(turns, (*turns[1:], None), strict=False)


def _tools_after(turns: Sequence[RequestTurn], index: int) -> Iterator[RequestTurn]:
    for later in range(index + 1, len(turns)):
        if turns[later].role != "tool":
            return
        yield turns[later]


def _is_blank(part: InFlightPart | TextRef) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def _can_be_sent(message: Message, request: Request) -> bool:
    replayed = bool(message.opaque) and message.provider in request.providers
    return replayed or not all(isinstance(part, _UNSENT) for part in message.parts)


def _calls_without_output(waiting: dict[str, int]) -> Iterator[str]:
    for call, index in waiting.items():
        yield f"messages[{index}]: the call {call!r} has no output before the model goes on"


@functools.cache
def _fitting(role: Role, format: str) -> tuple[type, ...]:
    match role:
        case "system":
            return (Text,)
        case "user":
            return (Text, *_MEDIA, *(() if format == "openai-chat" else (ToolResult,)))
        case "assistant":
            return (Text, Reasoning, SignedReasoning, ToolCall, ServerBlock, *_MEDIA)
        case "tool":
            return (ToolResult,)


# --- the model -------------------------------------------------------------------------------------------------------------------

FORMATS: Final = tuple(RULES)


class CheckedModel(ModelAround):
    """Passes every request on and collects what a provider would refuse."""

    def __init__(self, inner: Model, *, formats: Sequence[str] = FORMATS) -> None:
        super().__init__(inner)
        self._formats = tuple(formats)
        self.requests: list[ModelRequest] = []
        """Everything that was asked, in order."""
        self.broken: list[str] = []
        """`format: rule: where` for each rule that a request broke."""

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Check the request, then answer as the wrapped model does."""
        self.look_at(request)
        async with self._open_stream(request) as stream:
            async for item in stream:
                yield item

    def look_at(self, request: ModelRequest) -> None:
        """Remember a request and what is wrong with it."""
        self.requests.append(request)
        for each in self._formats:
            self.broken += [f"{each}: {wrong}" for wrong in check_shape(each, request.messages)]


if TYPE_CHECKING:
    _: Model = CheckedModel(cast("Model", None))
