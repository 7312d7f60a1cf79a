"""A model that answers with the replies of an earlier session, read from its log.

A session runs again offline, and the same each time. When it asks something else than the recorded one did, it is answered all the same,
and the reply carries a note that says what is different: the drift.
"""

import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

import anyio
import anyio.lowlevel
import msgspec
from msgspec.structs import replace

from backstay.logic.state.request_messages import Outgoing, find_blobs
from backstay.logic.state.transcript import Transcript
from backstay.logic.stored_content import digest
from backstay.logic.text import pluralise
from backstay.ports import Model, ModelReply, ModelRequest
from backstay.providers.registry import PROVIDERS, FindFacts, catalog_facts, parse_name
from backstay.providers.scripted import PLAYED, parse_scripted
from backstay.vocab import events
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import BlobMissing, ProviderError
from backstay.vocab.event import Recorded
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    MediaRef,
    Message,
    Reasoning,
    ServerBlock,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
    text_of,
)
from backstay.vocab.specs import ModelFacts, ToolSpec, Usage

SHOWN: Final = 60
"""Characters of a text that a note shows."""
BEFORE: Final = 12
"""Of these, characters before the first that differs."""


class AskedThen(msgspec.Struct, frozen=True, kw_only=True):
    """The request of the recorded session."""

    asked: events.ModelAsked
    messages: tuple[Message, ...]
    instructions: str
    tools: tuple[ToolSpec, ...]


def drift(then: AskedThen, now: ModelRequest, *, compare_model: bool) -> tuple[str, ...]:
    """Return a sentence for everything that is different; empty when the same was asked."""
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
        yield f"messages[{index}] {said} ({pluralise(len(now), 'message')}, and {len(then)} then)"
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
        yield f"{message.role}: " + "; ".join(_describe_part(part, numbers) for part in message.parts)


def _describe_part(part: InFlightPart | TextRef, numbers: dict[str, int]) -> str:
    match part:
        case ToolCall():
            return f"[call {numbers[part.id]}: {part.name} {part.args}]"
        case ToolResult():
            content = "; ".join(_describe_part(each, numbers) for each in part.content)
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


PREFIX: Final = "recorded:"
Blob = Callable[[str], Awaitable[bytes]]
"""Gives the bytes of a blob by its hash; raises `BlobMissing`."""

_CHUNK: Final = 16
"""Characters in a piece of the stream."""
_BURST: Final = 32
"""Pieces streamed before others get their turn."""
_FORGONE: Final = re.compile(r"\n\([^\n]* that the person gave [^\n]*\)$")
"""What is added to a summary after it was written, and will be again."""


class RecordedModel:
    """Gives the replies of a log, failures and interrupted ones too, in their order.

    Which one comes next is told by the request's position alone, so a resume goes on where its log ends, and so does a fork of the
    recorded session. A reply that a crash cut off was never written down, and is not among them.
    """

    def __init__(
        self,
        records: Sequence[Recorded],
        blob: Blob,
        start: int = 0,
        *,
        name: str,
        format: str = "anthropic",
        facts: ModelFacts | None = None,
    ) -> None:
        """`blob` gives what `records` cite. Unless `facts` are given, they are those of the model that answered then."""
        self._replies = [
            record for record in records if isinstance(record.event, events.ModelReplied | events.ModelFailed)
        ]
        self._summaries = _summaries(records)
        self._counted: set[int] = set()
        self._children = {r.event.call: r.event.child for r in records if isinstance(r.event, events.ChildStarted)}
        self._skills = tuple(
            dict.fromkeys(r.event.child for r in records if isinstance(r.event, events.ChildStarted) and r.event.skill)
        )
        self._past = _Past(records, blob)
        self._blob = blob
        self._start = start
        self._name = name
        self._format = format
        self._facts = _as_then(facts or facts_then(records), records)

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
        """What was known of the model that answered then, as far as it can be told."""
        return self._facts

    def child_of(self, position: int, index: int) -> str:
        """Return the recorded session that the `index`-th call of the reply at `position` opened; empty when it opened none."""
        at = self._start + position
        said = self._replies[at].event if 0 <= at < len(self._replies) else None
        calls = events.calls_of(said) if isinstance(said, events.ModelReplied) else ()
        return self._children.get(calls[index].id, "") if index < len(calls) else ""

    def skill_child(self, number: int) -> str:
        """Return the recorded session of the `number`-th skill that a person ran, from 1 on; empty when there is none."""
        return self._skills[number - 1] if number <= len(self._skills) else ""

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Give the reply of this position, or the summary that was made there."""
        if request.purpose == "summary":
            yield await self._summary(request)
            return
        record = self._reply(self._start + request.position)
        event = record.event
        assert isinstance(event, events.ModelReplied | events.ModelFailed)
        parts = await self._parts(event.parts)
        for number, delta in enumerate(_deltas(parts)):
            if number % _BURST == 0:
                await anyio.lowlevel.checkpoint()
            yield delta
        if isinstance(event, events.ModelFailed):
            raise ProviderError(event.kind, event.message, retry_after_s=event.retry_after_s)
        yield ModelReply(
            parts=parts,
            stop=event.stop,
            usage=event.usage,
            cost=event.cost,
            model=event.model,
            opaque=await self._bytes(event.opaque.sha256) if event.opaque is not None else b"",
            notes=await self._drift(record, request),
        )

    def _reply(self, number: int) -> Recorded:
        if number >= len(self._replies):
            raise ProviderError(
                "bad_request",
                f"The recording {self._name!r} has {pluralise(len(self._replies), 'reply', 'replies')} and reply {number + 1} "
                "was asked for. Let the session end earlier, or go on with another model.",
            )
        return self._replies[number]

    async def _drift(self, record: Recorded, request: ModelRequest) -> tuple[str, ...]:
        then = await self._past.question_of(record)
        if then is None:
            return ()
        return drift(then, request, compare_model=not request.model.startswith(PREFIX))

    async def _summary(self, request: ModelRequest) -> ModelReply:
        """Return the summary that was made after as many replies. Its usage comes with the first of the questions for it."""
        await anyio.lowlevel.checkpoint()
        place = self._start + request.position
        made = self._summaries.get(place)
        if made is None or made.summary is None:
            raise ProviderError("bad_request", f"The recording {self._name!r} has no summary for this place.")
        text = text_of(await self._parts((made.summary,)))
        usage = Usage() if place in self._counted else made.usage
        self._counted.add(place)
        return ModelReply(parts=(Text(text=_FORGONE.sub("", text)),), usage=usage)

    async def _parts(self, stored: Sequence[InFlightPart | TextRef]) -> tuple[InFlightPart, ...]:
        parts: list[InFlightPart] = []
        for part in stored:
            match part:
                case TextRef():
                    parts.append(Text(text=(await self._bytes(part.sha256)).decode("utf-8", "replace")))
                case MediaRef():
                    content = await self._bytes(part.sha256)
                    parts.append(InlineMedia(media_type=part.media_type, content=content, name=part.name))
                case _:
                    parts.append(part)
        return tuple(parts)

    async def _bytes(self, sha256: str) -> bytes:
        try:
            return await self._blob(sha256)
        except BlobMissing as exc:
            raise ProviderError("bad_request", f"The recording {self._name!r} is not whole: {exc}") from exc


def parse_recorded(name: str) -> tuple[str, int]:
    """Split `recorded:SESSION@3` into the session and how many replies to pass over: `@3` starts at the third reply."""
    return parse_scripted(name.removeprefix(PREFIX))


def facts_then(records: Sequence[Recorded], find: FindFacts | None = None) -> ModelFacts:
    """Return what is known of the model that a log asked first: from the catalog unless `find` tells it."""
    model = next((record.event.model for record in records if isinstance(record.event, events.ModelAsked)), "")
    if find is not None and model:
        return find(model)
    return catalog_facts(parse_name(model).bare) if model.partition(":")[0] in PROVIDERS else PLAYED


def _as_then(facts: ModelFacts, records: Sequence[Recorded]) -> ModelFacts:
    """Return `facts` with what the log itself says: how large the window was, and whether a model summarised."""
    window = next((r.event.window for r in records if isinstance(r.event, events.CompactionStarted)), facts.window)
    return replace(facts, window=window, summarises=any(made.model for made in _summaries(records).values()))


def _summaries(records: Sequence[Recorded]) -> dict[int, events.Compacted]:
    """Return the compactions in which a model had a part, by the replies that there were before them."""
    made: dict[int, events.Compacted] = {}
    replies = 0
    for record in records:
        replies += isinstance(record.event, events.ModelReplied | events.ModelFailed)
        if isinstance(record.event, events.Compacted) and record.event.model:
            made[replies] = record.event
    return made


def _deltas(parts: Sequence[InFlightPart]) -> Iterator[Delta]:
    calls = 0
    for part in parts:
        match part:
            case Reasoning():
                yield from (ReasoningDelta(text=piece) for piece in _pieces(part.text))
            case Text():
                yield from (TextDelta(text=piece) for piece in _pieces(part.text))
            case ToolCall():
                yield from (ToolArgsDelta(index=calls, name=part.name, text=piece) for piece in _pieces(part.args))
                calls += 1
            case _:
                pass


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK))


class _Past:
    """The request at each position of a log. Cheap when positions are asked for in order."""

    def __init__(self, records: Sequence[Recorded], blob: Blob) -> None:
        self._records = records
        self._blob = blob
        self._places = {
            record.id: place for place, record in enumerate(records) if isinstance(record.event, events.ModelAsked)
        }
        self._turn = anyio.Lock()
        self._forget()

    async def question_of(self, reply: Recorded) -> AskedThen | None:
        """Return the question that `reply` answers; None when the log or a blob does not have it any more."""
        place = self._places.get(reply.cause)
        if place is None:
            return None
        asked = self._records[place].event
        assert isinstance(asked, events.ModelAsked)
        async with self._turn:
            if place < self._read:
                self._forget()
            try:
                await self._read_to(place)
                instructions = (await self._blob(asked.instructions)).decode() if asked.instructions else ""
                schemas = await self._blob(asked.tools) if asked.tools else b"[]"
            except BlobMissing:
                return None
            return AskedThen(
                asked=asked,
                messages=tuple(self._outgoing.messages),
                instructions="\n\n".join(filter(None, (instructions, *self._outgoing.system))),
                tools=msgspec.json.decode(schemas, type=tuple[ToolSpec, ...]),
            )

    def _forget(self) -> None:
        self._transcript, self._outgoing, self._read = Transcript(), Outgoing(), 0

    async def _read_to(self, place: int) -> None:
        for record in self._records[self._read : place]:
            self._transcript.apply(record)
        self._read = place
        fresh = self._outgoing.fresh(self._transcript)
        blobs = {sha: await self._blob(sha) for sha in find_blobs(fresh, self._transcript.opaques)}
        self._outgoing.extend(fresh, blobs.__getitem__, self._transcript.opaques)


if TYPE_CHECKING:
    _: Model = RecordedModel((), cast("Blob", None), name="")
