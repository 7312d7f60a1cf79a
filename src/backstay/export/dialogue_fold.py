"""Tells the conversation of a log: the active path, turn by turn, without secrets. What a rewind left behind is not told."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from backstay.export.dialogue import Block, Call, Dialogue, Fact, Folded, Media, Note, Passage, Speech, Turn, Who
from backstay.export.dialogue_calls import Calls, Results, media_name
from backstay.export.seen_text import excerpt
from backstay.logic import purse
from backstay.logic.branches import NODES
from backstay.logic.conversation import Conversation, ConversationFold
from backstay.logic.outline import project
from backstay.logic.pricing import dollars
from backstay.logic.purse import Purse
from backstay.logic.redact import Redactor
from backstay.logic.words import counted
from backstay.pages import PagedLog
from backstay.vocab.event import By, Recorded
from backstay.vocab.event_limits import Compacted, CompactionUndone
from backstay.vocab.events import (
    EntryAdded,
    HistoryCleared,
    InputReceived,
    InputTaken,
    MessageInjected,
    ModelFailed,
    ModelReplied,
    Rewound,
    TurnCompleted,
    TurnStarted,
)
from backstay.vocab.messages import MediaLink, MediaRef, Reasoning, ServerBlock, Text, TextRef, ToolCall, iso
from backstay.vocab.specs import SessionMeta

SPEAKERS: Final[Mapping[By, str]] = {"hook": "Hook", "system": "Backstay", "child": "Child session", "model": "Model"}
"""Who else may put something into a conversation."""
TRIGGERS: Final = {
    "manual": "because somebody asked for it",
    "auto": "because it was nearly full",
    "overflow": "because the model refused it as too long",
    "trim": "because it had too many messages",
}
ENDS: Final = {"interrupted": "This turn was interrupted.", "failed": "This turn failed.", "abandoned": "Given up."}
STOPS: Final = {
    "interrupted": "The answer was interrupted here.",
    "length": "The answer was cut off here: it reached its limit.",
    "filter": "The answer was stopped here by a filter of the provider.",
}


class Survey(Struct, frozen=True, kw_only=True):
    """What is said of a whole conversation before its turns are told."""

    meta: SessionMeta
    told: Conversation
    turns: int
    models: tuple[str, ...]
    """Those that answered, in order."""
    rewinds: int
    cost: str
    """What the session and its children cost, on every path; empty when nobody knows."""


def dialogue_of(log: PagedLog, redactor: Redactor) -> Dialogue:
    """The conversation of a log. Its turns are made one at a time, as somebody asks for them."""
    found = _survey(log)
    trouble = log.trouble.detail if log.trouble is not None else ""
    return Dialogue(
        title=redactor.text(found.meta.name) or found.meta.id,
        facts=tuple(_facts(found, redactor)),
        turns=_Teller(log.text, found, redactor).turns(),
        ending=f"The log goes no further: {trouble}" if trouble else "",
    )


def _survey(log: PagedLog) -> Survey:
    meta, fold, money = SessionMeta(id=log.session), ConversationFold(), Purse()
    told = unknown = rewinds = turns = 0
    for records in log.pages():
        meta = project(meta, records)
        for record in records:
            event = record.event
            fold.apply(record)
            rewinds += isinstance(event, Rewound)
            if type(event) in purse.HEARS:
                money = purse.fold_purse(money, record)
            if isinstance(event, ModelReplied | ModelFailed) and event.usage:
                told, unknown = told + 1, unknown + (event.cost is None)
    conversation = fold.over(log, log.session)
    models: dict[str, None] = {}
    for record in filter(conversation.path.holds, log):
        turns += isinstance(record.event, TurnStarted)
        if isinstance(record.event, ModelReplied):
            models[record.event.model or meta.model] = None
    unpriced = f", without {counted(unknown, 'answer')} of unknown price" if unknown else ""
    cost = dollars(money.spent) + unpriced if money.spent or unknown != told else ""
    return Survey(meta=meta, told=conversation, turns=turns, models=tuple(models), rewinds=rewinds, cost=cost)


def _facts(found: Survey, redactor: Redactor) -> Iterator[Fact]:
    meta = found.meta
    yield Fact(label="Session", value=meta.id, literal=True)
    models = [redactor.text(model) for model in found.models] or [meta.model]
    yield Fact(label="Model" if len(models) == 1 else "Models", value=", ".join(models), literal=True)
    if folder := meta.project or meta.cwd:
        yield Fact(label="Project", value=redactor.text(folder), literal=True)
    yield Fact(label="Started", value=moment(meta.created))
    yield Fact(label="Turns", value=str(found.turns))
    if found.cost:
        yield Fact(label="Cost", value=found.cost)
    if meta.parent:
        yield Fact(label="Opened by session", value=meta.parent, literal=True)
    if meta.origin:
        yield Fact(label="Fork of session", value=meta.origin, literal=True)
    if found.rewinds:
        yield Fact(label="Rewound", value=f"{counted(found.rewinds, 'time')}; what was left behind is not shown")


class _Teller:
    def __init__(self, read: Callable[[TextRef], str], found: Survey, redactor: Redactor) -> None:
        self._read = read
        self._told = found.told
        self._redactor = redactor
        self._calls = Calls(Results(), read, redactor)
        self._inputs: dict[str, Recorded] = {}
        self._child = bool(found.meta.parent)
        self._several = len(found.models) > 1
        self._over = False
        """Whether the turn that is told has ended."""

    def turns(self) -> Iterator[Turn]:
        """The turns, each with what came of its calls. Of the log, one turn is in memory at a time."""
        turns = enumerate(self._told.turns())
        number, heard = next(turns)
        for following, later in turns:
            yield from self._turn(number, heard, last=False)
            number, heard = following, later
        yield from self._turn(number, heard, last=True)

    def _turn(self, number: int, heard: Sequence[Recorded], *, last: bool) -> Iterator[Turn]:
        results = Results()
        for record in heard:
            results.hear(record)
        self._calls = Calls(results, self._read, self._redactor)
        self._inputs = {r.event.input: r for r in heard if isinstance(r.event, InputReceived)}
        self._over = any(isinstance(record.event, TurnCompleted) for record in heard)
        parts = [part for record in heard for part in self._parts(record)]
        if number and last and not self._over:
            parts.append(Note(text="This turn has no end in the log."))
        if number or parts:
            at = next(record.at for record in heard if type(record.event) in NODES)
            yield Turn(number=number, at=moment(at), parts=tuple(_joined(parts)))

    def _parts(self, record: Recorded) -> Iterator[Speech | Note]:
        match event := record.event:
            case InputTaken():
                for input in event.inputs:
                    if (received := self._inputs.get(input)) is not None:
                        yield from self._input(received)
            case ModelReplied():
                yield from self._reply(event)
            case MessageInjected():
                label = f"Added to the conversation, as {'the model' if event.role == 'assistant' else event.role}"
                yield Speech(who="other", label=label, blocks=tuple(self._blocks(event.parts)))
            case EntryAdded():
                shown = excerpt(self._redactor.text(event.content)).text
                yield Note(text=f"Note: {self._redactor.text(event.kind)}", detail=shown, title="More")
            case HistoryCleared():
                yield Note(text="The conversation was cleared here: the model saw nothing of what stands above.")
            case Compacted():
                yield self._compaction(event)
            case CompactionUndone():
                yield Note(text="A compaction was undone here: the model saw the conversation whole again.")
            case TurnCompleted() if event.outcome in ENDS:
                said = ": ".join(filter(None, (event.code, event.message)))
                yield Note(text=ENDS[event.outcome], detail=self._redactor.text(said))
            case _:
                pass

    def _input(self, record: Recorded) -> Iterator[Speech]:
        event = record.event
        assert isinstance(event, InputReceived)
        blocks = tuple(self._blocks(event.parts))
        if event.display:
            given = "\n".join(block.text for block in blocks if isinstance(block, Passage))
            others = (block for block in blocks if not isinstance(block, Passage))
            shown = self._redactor.text(event.display)
            folded = (Folded(title="What the model was given", text=given),) if given and given != shown else ()
            blocks = (Passage(text=shown), *folded, *others)
        who: Who = "person" if record.by == "user" and not self._child else "other"
        label = "Person" if who == "person" else SPEAKERS.get(record.by, "The session that opened this one")
        if blocks:
            yield Speech(who=who, label=label, blocks=blocks)

    def _reply(self, event: ModelReplied) -> Iterator[Speech]:
        blocks = list(self._blocks(event.parts))
        if event.stop in STOPS:
            blocks.append(Note(text=STOPS[event.stop]))
        if event.problem:
            blocks.append(
                Note(text="The answer could not be taken as it is.", detail=self._redactor.text(event.problem))
            )
        if blocks:
            label = self._redactor.text(event.model) if self._several else ""
            yield Speech(who="model", label=label, blocks=tuple(blocks))

    def _blocks(self, parts: Iterable[object]) -> Iterator[Block]:
        said: list[str] = []
        for part in parts:
            if isinstance(part, Text | TextRef):
                said.append(self._text(part))
                continue
            yield from self._passage(said)
            said = []
            if (block := self._block(part)) is not None:
                yield block
        yield from self._passage(said)

    def _passage(self, said: Sequence[str]) -> Iterator[Passage]:
        text = self._redactor.text("".join(said))  # together: a secret may lie over two parts
        if text.strip():
            yield Passage(text=text)

    def _block(self, part: object) -> Block | None:
        match part:
            case Reasoning():
                return Folded(title="Reasoning", text=self._redactor.text(part.text)) if part.text.strip() else None
            case ToolCall():
                return self._call(part)
            case MediaRef() | MediaLink():
                return Media(name=self._redactor.text(media_name(part)))
            case ServerBlock():
                title = f"Done by the provider: {self._redactor.text(part.name or part.kind)}"
                return Folded(title=title, text=excerpt(self._redactor.text(part.content)).text)
            case _:
                return None

    def _call(self, call: ToolCall) -> Call:
        return self._calls.told(call, over=self._over)

    def _text(self, part: Text | TextRef) -> str:
        return part.text if isinstance(part, Text) else self._read(part)

    def _compaction(self, event: Compacted) -> Note:
        sizes = f", from about {event.before:,} to {event.after:,} tokens" if event.before else ""
        why = TRIGGERS[event.trigger]
        text = f"The conversation was shortened here{sizes}, {why}. From here on the model saw a summary of what stands above."
        summary = "" if event.summary is None else self._redactor.text(self._text(event.summary))
        return Note(text=text, detail=summary, title="The summary")


def moment(at: int) -> str:
    """A time in words."""
    return f"{iso(at)[:19].replace('T', ' ')} UTC"


def _joined(parts: Iterable[Speech | Note]) -> Iterator[Speech | Note]:
    """Replies of one model that follow each other, as one."""
    for label, group in groupby(
        parts, lambda part: part.label if isinstance(part, Speech) and part.who == "model" else None
    ):
        if label is None:
            yield from group
        else:
            blocks = (block for part in group if isinstance(part, Speech) for block in part.blocks)
            yield Speech(who="model", label=label, blocks=tuple(blocks))
