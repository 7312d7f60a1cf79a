"""A model that plays a script: for tests, demos and examples, through the same port as a real one."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Meta

from backstay.logic.context_usage import estimate_text
from backstay.logic.text import pluralise
from backstay.ports import Clock, Model, ModelReply, ModelRequest
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ErrorKind, ProviderError, UserError
from backstay.vocab.event import Stop
from backstay.vocab.messages import InFlightPart, Message, Reasoning, Text, TextRef, ToolCall, ToolResult
from backstay.vocab.specs import ModelFacts, Prices, Usage


class _Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScriptedCall(_Shape, frozen=True, kw_only=True):
    """A tool call of a reply."""

    name: str
    args: dict[str, object] = {}


class RawArgs(_Shape, frozen=True, kw_only=True):
    """A tool call whose arguments are any text, well formed or not."""

    name: str
    text: str


class Expectation(_Shape, frozen=True, kw_only=True):
    """A text that must stand in the newest messages of the request."""

    contains: str


class ScriptedError(_Shape, frozen=True, kw_only=True):
    """The reply fails."""

    kind: ErrorKind
    retry_after_s: float | None = None
    message: str = ""


class Reply(_Shape, frozen=True, kw_only=True):
    """One reply of a script. `text` and `reasoning` are streamed before an error or a hang."""

    text: str = ""
    reasoning: str = ""
    chunk: Annotated[int, Meta(ge=1)] = 16
    """Characters in a piece of the stream."""
    delay_ms: Annotated[float, Meta(ge=0)] = 0
    """Between two pieces."""
    calls: tuple[ScriptedCall, ...] = ()
    raw_args: RawArgs | None = None
    usage: Usage | None = None
    stop: Stop | None = None
    expect: Expectation | None = None
    error: ScriptedError | None = None
    hang: bool = False


def read_script(path: str | Path) -> tuple[Reply, ...]:
    """Read a script. Raise `UserError` naming the file and the reply when something in it is not known."""
    file = Path(path)
    try:
        content = file.read_bytes()
    except OSError as exc:
        raise UserError(f"The script {str(path)!r} cannot be read: {exc.strerror or exc}.") from exc
    raw = _from_json(content, str(path)) if file.suffix == ".json" else _from_yaml(content, str(path))
    if not isinstance(raw, list) or not raw:
        raise UserError(f"The script {str(path)!r} must be a list of replies, such as `- text: Hello`.")
    return make_replies(raw, str(path))


def make_replies(raw: Sequence[object], source: str) -> tuple[Reply, ...]:
    """Check plain objects and make replies of them; `source` is how messages call the script."""
    return tuple(_reply(each, f"Reply {number} of the script {source!r}") for number, each in enumerate(raw, 1))


def _reply(raw: object, called: str) -> Reply:
    try:
        return msgspec.convert(raw, Reply)
    except msgspec.ValidationError as exc:
        known = ", ".join(Reply.__struct_fields__)
        raise UserError(f"{called} is wrong: {exc}. A reply has the keys {known}.") from exc


def _from_json(content: bytes, source: str) -> object:
    try:
        raw: object = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise UserError(f"The script {source!r} is not JSON: {exc}.") from exc
    return raw


def _from_yaml(content: bytes, source: str) -> object:
    from backstay.system.yaml import BrokenYaml, read_yaml  # noqa: PLC0415  # loaded only by those who have a YAML script

    try:
        return read_yaml(content.decode())
    except BrokenYaml as exc:
        raise UserError(f"The script {source!r} is not YAML: line {exc.line}: {exc}.") from exc
    except UnicodeDecodeError as exc:
        raise UserError(f"The script {source!r} is not YAML: it is not UTF-8 text ({exc}).") from exc


_PREFIX: Final = "scripted:"
_BURST: Final = 32
"""Pieces streamed without delay before others get their turn."""


PLAYED: Final = ModelFacts(known=True, summarises=False, prices=Prices(input=300_000_000, output=1_500_000_000))
"""What is known of a script, unless something else is said. Nobody pays for it; it has a usual price so that budgets can be tried."""


class ScriptedModel:
    """Plays replies in order.

    Which one comes next is told by the request's place alone, so a resume goes on where the log ends.
    """

    def __init__(
        self,
        replies: Sequence[Reply],
        start: int = 0,
        *,
        name: str,
        format: str = "anthropic",
        clock: Clock | None = None,
        facts: ModelFacts = PLAYED,
    ) -> None:
        self._facts = facts
        self._replies = tuple(replies)
        self._name = name
        self._start = start
        self._format = format
        self._clock = clock

    @classmethod
    def load(
        cls,
        path: str | Path,
        start: int = 0,
        *,
        name: str = "",
        format: str = "anthropic",
        clock: Clock | None = None,
    ) -> "ScriptedModel":
        """Read a script from a file and pass over its first `start` replies. Raise `UserError` when it is not one."""
        name = name or f"scripted:{path}{f'@{start + 1}' if start else ''}"
        return cls(read_script(path), start, name=name, format=format, clock=clock)

    @classmethod
    def of(
        cls,
        replies: Sequence[Mapping[str, object]],
        start: int = 0,
        *,
        name: str = "scripted:inline",
        format: str = "anthropic",
        clock: Clock | None = None,
        facts: ModelFacts = PLAYED,
    ) -> "ScriptedModel":
        """Take the replies as Python objects, with the keys of a file."""
        return cls(make_replies(replies, name), start, name=name, format=format, clock=clock, facts=facts)

    @property
    def name(self) -> str:
        """As it is written in the log."""
        return self._name

    @property
    def format(self) -> str:
        """The wire format whose shape rules its requests obey."""
        return self._format

    @property
    def facts(self) -> ModelFacts:
        """What it plays: a model of the usual price, unless something else was said."""
        return self._facts

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Play the reply of this place."""
        number = self._start + (request.position if request.place is None else request.place) + 1
        reply = self._reply(number)
        if reply.expect is not None:
            _refuse_unexpected(self._name, number, reply.expect.contains, request)
        for piece, delta in enumerate(_deltas(reply)):
            if reply.delay_ms and piece:
                await self._sleep(reply.delay_ms / 1000)
            elif piece % _BURST == 0:
                await anyio.lowlevel.checkpoint()
            yield delta
        if reply.hang:
            await anyio.sleep_forever()
        if reply.error is not None:
            error = reply.error
            message = error.message or f"Reply {number} of {self._name!r} is the error {error.kind!r}."
            raise ProviderError(error.kind, message, retry_after_s=error.retry_after_s)
        parts = _parts(reply, number)
        calls = any(isinstance(part, ToolCall) for part in parts)
        yield ModelReply(
            parts=parts,
            stop=reply.stop or ("tool_calls" if calls else "end"),
            usage=reply.usage or _estimate(request, parts),
            model=self._name,
        )

    def _reply(self, number: int) -> Reply:
        if number > len(self._replies):
            last = self._replies[-1].error if self._replies else None
            raise ProviderError(
                "bad_request",
                f"The script {self._name!r} has {pluralise(len(self._replies), 'reply', 'replies')} "
                f"and reply {number} was asked for{f' after the error {last.kind!r}' if last else ''}. "
                "Add a reply, or let the session end earlier.",
            )
        return self._replies[number - 1]

    async def _sleep(self, seconds: float) -> None:
        await (anyio.sleep(seconds) if self._clock is None else self._clock.sleep(seconds))


def parse_scripted(spec: str) -> tuple[str, int]:
    """Split `FILE@3` into the file and how many replies to pass over: `@3` starts at the third reply.

    Only a number after the last `@` counts, so a file name may contain `@`; one that ends like `@3` needs `@1` after
    it. A leading `scripted:` is taken away.
    """
    path, at, number = spec.removeprefix(_PREFIX).rpartition("@")
    if not at or not re.fullmatch(r"[0-9]+", number):
        return spec.removeprefix(_PREFIX), 0
    if int(number) == 0:
        raise UserError(f"{spec!r} asks for reply 0. Replies are numbered from 1.")
    return path, int(number) - 1


def _deltas(reply: Reply) -> Iterator[Delta]:
    for piece in _pieces(reply.reasoning, reply.chunk):
        yield ReasoningDelta(text=piece)
    for piece in _pieces(reply.text, reply.chunk):
        yield TextDelta(text=piece)
    if reply.hang or reply.error is not None:
        return
    for index, (name, args) in enumerate(_calls(reply)):
        for piece in _pieces(args, reply.chunk):
            yield ToolArgsDelta(index=index, name=name, text=piece)


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def _calls(reply: Reply) -> Iterator[tuple[str, str]]:
    for call in reply.calls:
        yield call.name, msgspec.json.encode(call.args).decode()
    if reply.raw_args is not None:
        yield reply.raw_args.name, reply.raw_args.text


def _parts(reply: Reply, number: int) -> tuple[InFlightPart, ...]:
    parts: list[InFlightPart] = []
    if reply.reasoning:
        parts.append(Reasoning(text=reply.reasoning))
    if reply.text:
        parts.append(Text(text=reply.text))
    for index, (name, args) in enumerate(_calls(reply)):
        parts.append(ToolCall(id="", name=name, args=args, provider_id=f"scripted-{number}-{index}"))
    return tuple(parts)


def _refuse_unexpected(name: str, number: int, wanted: str, request: ModelRequest) -> None:
    newest = takewhile(lambda message: message.role != "assistant", reversed(request.messages))
    text = "\n".join(reversed([_text_of(message) for message in newest]))
    if wanted not in text:
        there = text if len(text) <= 600 else f"{text[:300]} ... {text[-300:]}"
        raise ProviderError(
            "bad_request",
            f"Reply {number} of {name!r} expects {wanted!r} in the newest messages. There was: {there!r}.",
        )


def _text_of(message: Message) -> str:
    texts: list[str] = []
    for part in message.parts:
        for each in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(each, Text | Reasoning):
                texts.append(each.text)
            elif isinstance(each, TextRef):
                texts.append(each.head)
            elif isinstance(each, ToolCall):
                texts.append(each.args)
    return "\n".join(texts)


def _estimate(request: ModelRequest, parts: tuple[InFlightPart, ...]) -> Usage:
    sent = estimate_text(request.instructions) + sum(estimate_text(_text_of(message)) for message in request.messages)
    return Usage(input=sent, output=estimate_text(_text_of(Message(role="assistant", parts=parts))), estimated=True)


if TYPE_CHECKING:
    _: Model = ScriptedModel((), name="")
