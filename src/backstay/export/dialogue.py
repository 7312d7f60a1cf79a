"""The conversation of a log, turn by turn: the active path, without secrets and without what a rewind left behind."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Literal

import msgspec
from msgspec import Struct

from backstay.catalog.paged_log import PagedLog
from backstay.logic import budget
from backstay.logic.budget import BudgetState, dollars
from backstay.logic.secrets.redact import Redactor
from backstay.logic.state.conversation import Conversation, ConversationFold
from backstay.logic.state.outline import project
from backstay.logic.state.transcript import NODES
from backstay.logic.text import Excerpt, excerpt, pluralise
from backstay.vocab import events
from backstay.vocab.event import By, Recorded
from backstay.vocab.messages import (
    InlineMedia,
    MediaLink,
    MediaRef,
    Reasoning,
    ServerBlock,
    Text,
    TextRef,
    ToolCall,
    iso,
)
from backstay.vocab.specs import SessionMeta

Who = Literal["person", "model", "other"]


class Paragraph(Struct, frozen=True, kw_only=True):
    """A text of a person, a model or another speaker."""

    text: str


class Collapsible(Struct, frozen=True, kw_only=True):
    """A text that a reader may open: reasoning, a summary."""

    title: str
    text: str


class Argument(Struct, frozen=True, kw_only=True):
    """An argument of a call that has lines of its own, or all the others together as JSON."""

    name: str
    """Empty for the others."""
    value: Excerpt


class CallBlock(Struct, frozen=True, kw_only=True):
    """A call of a tool, with its result."""

    name: str
    given: tuple[Argument, ...]
    ending: str
    """How it ended, in words."""
    succeeded: bool
    changed: tuple[Argument, ...] = ()
    """The model's arguments, when a hook or the person changed them."""
    result: tuple["Excerpt | Media", ...] = ()
    child: str = ""
    """The id of the subagent that answered it."""


class Media(Struct, frozen=True, kw_only=True):
    """An image, a sound or a document: named, not shown."""

    name: str


class Note(Struct, frozen=True, kw_only=True):
    """Something that happened, and a text about it."""

    text: str
    detail: str = ""
    title: str = ""
    """The title of the detail, when a reader must open it; empty when it is always shown."""


Block = Paragraph | Collapsible | CallBlock | Media | Note


class DialogueMessage(Struct, frozen=True, kw_only=True):
    """The blocks of one speaker, until another one speaks."""

    who: Who
    label: str
    """The speaker; for a model its name, if there are several."""
    blocks: tuple[Block, ...]


class PageTurn(Struct, frozen=True, kw_only=True):
    """The messages from one input to the end of its answer. Messages before the first input have the number 0."""

    number: int
    at: str
    parts: tuple[DialogueMessage | Note, ...]


class Fact(Struct, frozen=True, kw_only=True):
    """A line of the header."""

    label: str
    value: str
    literal: bool = False
    """Whether it is a name or a path, which is shown letter for letter."""


class Dialogue(Struct, frozen=True, kw_only=True):
    """A whole conversation."""

    title: str
    facts: tuple[Fact, ...]
    turns: Iterable[PageTurn]
    ending: str = ""
    """Why it ends early, when the log cannot be read any further."""


MOST_PARTS: Final = 20
"""Parts of a result, and arguments with lines of their own, that are shown."""
ENDINGS: Final = {
    "ok": "done",
    "completed": "done",
    "failed": "failed",
    "denied": "denied: it was not run",
    "invalid": "not valid: it was not run",
    "interrupted": "interrupted",
    "abandoned": "given up",
    "unknown": "outcome unknown: the process died while it ran, and it was not run again",
}


class CallResults(Struct, kw_only=True):
    """The results of calls, by their ids. An id belongs to one reply, so calls of other paths do no harm here."""

    ends: dict[str, events.ToolFinished | events.ChildFinished] = {}
    replaced: dict[str, str] = {}
    """The texts that a hook showed the model instead of results."""
    args: dict[str, str] = {}
    """Arguments that a hook or a person changed."""
    children: dict[str, str] = {}

    def apply(self, record: Recorded) -> None:
        """Fold one event."""
        match event := record.event:
            case events.ToolFinished():
                self.ends[event.call] = event
            case events.ChildFinished():
                self.ends[event.call] = event
                self.children[event.call] = event.child
            case events.ChildStarted():
                self.children[event.call] = event.child
            case events.PermissionAnswered(allowed=True) if event.args:
                self.args[event.call] = event.args
            case events.HookFinished(event="PreToolUse" | "PermissionRequest") if event.args:
                self.args[event.subject] = event.args
            case events.HookFinished() if event.output is not None:
                self.replaced[event.subject] = event.output
            case _:
                pass


class CallBlocks:
    """Make the blocks of calls; `read` returns a long result in full."""

    def __init__(self, results: CallResults, read: Callable[[TextRef], str], redactor: Redactor) -> None:
        self._results = results
        self._read = read
        self._redactor = redactor

    def block(self, call: ToolCall, *, over: bool) -> CallBlock:
        """Return the block of a call; `over` says whether its turn has ended."""
        end = self._results.ends.get(call.id)
        changed = self._results.args.get(call.id, call.args)
        return CallBlock(
            name=self._redactor.text(call.name),
            given=tuple(self._arguments(changed)),
            changed=tuple(self._arguments(call.args)) if changed != call.args else (),
            ending=self._ending(call.id, over=over),
            succeeded=end is not None and end.outcome in ("ok", "completed"),
            result=tuple(self._result(call.id)),
            child=self._results.children.get(call.id, ""),
        )

    def _ending(self, call: str, *, over: bool) -> str:
        end = self._results.ends.get(call)
        if end is None:
            return "it has no result in the log" if over else "it has no result yet"
        code = "" if isinstance(end, events.ChildFinished) or end.outcome != "failed" else end.code
        hooked = "; a hook replaced what the model saw of it" if call in self._results.replaced else ""
        return f"{ENDINGS[end.outcome]}{f' ({self._redactor.text(code)})' if code else ''}{hooked}"

    def _arguments(self, args: str) -> Iterator[Argument]:
        try:
            read = msgspec.json.decode(args) if args.strip() else {}
            clean = self._redactor.value(read)
            whole = self._redactor.text(_pretty(clean))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            yield Argument(name="", value=excerpt(self._redactor.text(args)))
            return
        long = {name: text for name, text in clean.items() if _has_lines(text)} if isinstance(clean, dict) else {}
        if isinstance(clean, dict) and long and len(long) <= MOST_PARTS:
            clean = {name: value for name, value in clean.items() if name not in long}
            whole = self._redactor.text(_pretty(clean))
        if clean or not long:
            yield Argument(name="", value=excerpt(whole))
        for name, text in long.items() if len(long) <= MOST_PARTS else ():
            yield Argument(name=self._redactor.text(str(name)), value=excerpt(text))

    def _result(self, call: str) -> Iterator[Excerpt | Media]:
        end = self._results.ends.get(call)
        if (shown := self._results.replaced.get(call)) is not None:
            yield excerpt(self._redactor.text(shown))
        elif isinstance(end, events.ChildFinished):
            if end.text:
                yield excerpt(self._redactor.text(end.text))
        elif end is not None:
            for part in end.content[:MOST_PARTS]:
                yield self._part(part)
            if len(end.content) > MOST_PARTS:
                yield Media(name=f"{len(end.content) - MOST_PARTS} more parts, left out")

    def _part(self, part: Text | TextRef | MediaRef) -> Excerpt | Media:
        match part:
            case Text():
                return excerpt(self._redactor.text(part.text))
            case TextRef():
                return excerpt(self._redactor.text(self._read(part)))
            case MediaRef():
                return Media(name=self._redactor.text(media_name(part)))


def media_name(part: MediaRef | MediaLink | InlineMedia) -> str:
    """Return a name for an image, a sound or a document."""
    match part:
        case MediaRef():
            named = f"{part.name}, " if part.name else ""
            return f"{named}{part.media_type}, {part.size:,} bytes"
        case MediaLink():
            return ", ".join(filter(None, (part.name, part.media_type, part.url)))
        case InlineMedia():
            return ", ".join(filter(None, (part.name, part.media_type)))


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


SPEAKERS: Final[Mapping[By, str]] = {"hook": "Hook", "system": "Backstay", "child": "Child session", "model": "Model"}
"""The other authors of messages."""
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


class Overview(Struct, frozen=True, kw_only=True):
    """A whole conversation, and the facts of its header."""

    meta: SessionMeta
    conversation: Conversation
    turns: int
    models: tuple[str, ...]
    """The models that answered, in order."""
    rewinds: int
    cost: str
    """The cost of the session and its subagents, on every path; empty when it is unknown."""


def dialogue_of(log: PagedLog, redactor: Redactor) -> Dialogue:
    """Return the conversation of a log. Its turns are made one at a time, when they are read."""
    found = _overview(log)
    trouble = log.trouble.detail if log.trouble is not None else ""
    return Dialogue(
        title=redactor.text(found.meta.name) or found.meta.id,
        facts=tuple(_facts(found, redactor)),
        turns=_TurnBuilder(log.text, found, redactor).turns(),
        ending=f"The log goes no further: {trouble}" if trouble else "",
    )


def _overview(log: PagedLog) -> Overview:
    meta, fold, money = SessionMeta(id=log.session), ConversationFold(), BudgetState()
    priced = unknown = rewinds = turns = 0
    for records in log.pages():
        meta = project(meta, records)
        for record in records:
            event = record.event
            fold.apply(record)
            rewinds += isinstance(event, events.Rewound)
            if type(event) in budget.FOLDS_ON:
                money = budget.fold_budget(money, record)
            if isinstance(event, events.ModelReplied | events.ModelFailed) and event.usage:
                priced, unknown = priced + 1, unknown + (event.cost is None)
    conversation = fold.over(log, log.session)
    models: dict[str, None] = {}
    for record in filter(conversation.path.holds, log):
        turns += isinstance(record.event, events.TurnStarted)
        if isinstance(record.event, events.ModelReplied):
            models[record.event.model or meta.model] = None
    unpriced = f", without {pluralise(unknown, 'answer')} of unknown price" if unknown else ""
    cost = dollars(money.spent) + unpriced if money.spent or unknown != priced else ""
    return Overview(meta=meta, conversation=conversation, turns=turns, models=tuple(models), rewinds=rewinds, cost=cost)


def _facts(found: Overview, redactor: Redactor) -> Iterator[Fact]:
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
        yield Fact(label="Rewound", value=f"{pluralise(found.rewinds, 'time')}; what was left behind is not shown")


class _TurnBuilder:
    def __init__(self, read: Callable[[TextRef], str], found: Overview, redactor: Redactor) -> None:
        self._read = read
        self._conversation = found.conversation
        self._redactor = redactor
        self._calls = CallBlocks(CallResults(), read, redactor)
        self._inputs: dict[str, Recorded] = {}
        self._child = bool(found.meta.parent)
        self._several = len(found.models) > 1
        self._over = False
        """Whether the current turn has ended."""

    def turns(self) -> Iterator[PageTurn]:
        """Yield the turns, each with the results of its calls. One turn of the log is in memory at a time."""
        turns = enumerate(self._conversation.turns())
        number, records = next(turns)
        for following, later in turns:
            yield from self._turn(number, records, last=False)
            number, records = following, later
        yield from self._turn(number, records, last=True)

    def _turn(self, number: int, records: Sequence[Recorded], *, last: bool) -> Iterator[PageTurn]:
        results = CallResults()
        for record in records:
            results.apply(record)
        self._calls = CallBlocks(results, self._read, self._redactor)
        self._inputs = {r.event.input: r for r in records if isinstance(r.event, events.InputReceived)}
        self._over = any(isinstance(record.event, events.TurnCompleted) for record in records)
        parts = [part for record in records for part in self._parts(record)]
        if number and last and not self._over:
            parts.append(Note(text="This turn has no end in the log."))
        if number or parts:
            at = next(record.at for record in records if type(record.event) in NODES)
            yield PageTurn(number=number, at=moment(at), parts=tuple(_join(parts)))

    def _parts(self, record: Recorded) -> Iterator[DialogueMessage | Note]:
        match event := record.event:
            case events.InputTaken():
                for input in event.inputs:
                    if (received := self._inputs.get(input)) is not None:
                        yield from self._input(received)
            case events.ModelReplied():
                yield from self._reply(event)
            case events.MessageInjected():
                label = f"Added to the conversation, as {'the model' if event.role == 'assistant' else event.role}"
                yield DialogueMessage(who="other", label=label, blocks=tuple(self._blocks(event.parts)))
            case events.ChildFinished(skill=str() as skill) if skill and (report := events.child_report(event)):
                blocks = tuple(self._blocks((Text(text=report),)))
                yield DialogueMessage(who="other", label="Added to the conversation, as user", blocks=blocks)
            case events.EntryAdded():
                shown = excerpt(self._redactor.text(event.content)).text
                yield Note(text=f"Note: {self._redactor.text(event.kind)}", detail=shown, title="More")
            case events.HistoryCleared():
                yield Note(text="The conversation was cleared here: the model saw nothing of what stands above.")
            case events.Compacted():
                yield self._compaction(event)
            case events.CompactionUndone():
                yield Note(text="A compaction was undone here: the model saw the conversation whole again.")
            case events.TurnCompleted() if event.outcome in ENDS:
                why = ": ".join(filter(None, (event.code, event.message)))
                yield Note(text=ENDS[event.outcome], detail=self._redactor.text(why))
            case _:
                pass

    def _input(self, record: Recorded) -> Iterator[DialogueMessage]:
        event = record.event
        assert isinstance(event, events.InputReceived)
        blocks = tuple(self._blocks(event.parts))
        if event.display:
            given = "\n".join(block.text for block in blocks if isinstance(block, Paragraph))
            others = (block for block in blocks if not isinstance(block, Paragraph))
            shown = self._redactor.text(event.display)
            folded = (Collapsible(title="What the model was given", text=given),) if given and given != shown else ()
            blocks = (Paragraph(text=shown), *folded, *others)
        who: Who = "person" if record.by == "user" and not self._child else "other"
        label = "Person" if who == "person" else SPEAKERS.get(record.by, "The session that opened this one")
        if blocks:
            yield DialogueMessage(who=who, label=label, blocks=blocks)

    def _reply(self, event: events.ModelReplied) -> Iterator[DialogueMessage]:
        blocks = list(self._blocks(event.parts))
        if event.stop in STOPS:
            blocks.append(Note(text=STOPS[event.stop]))
        if event.problem:
            blocks.append(
                Note(text="The answer could not be taken as it is.", detail=self._redactor.text(event.problem))
            )
        if blocks:
            label = self._redactor.text(event.model) if self._several else ""
            yield DialogueMessage(who="model", label=label, blocks=tuple(blocks))

    def _blocks(self, parts: Iterable[object]) -> Iterator[Block]:
        texts: list[str] = []
        for part in parts:
            if isinstance(part, Text | TextRef):
                texts.append(self._text(part))
                continue
            yield from self._paragraph(texts)
            texts = []
            if (block := self._block(part)) is not None:
                yield block
        yield from self._paragraph(texts)

    def _paragraph(self, texts: Sequence[str]) -> Iterator[Paragraph]:
        text = self._redactor.text("".join(texts))  # together: a secret may lie over two parts
        if text.strip():
            yield Paragraph(text=text)

    def _block(self, part: object) -> Block | None:
        match part:
            case Reasoning():
                return (
                    Collapsible(title="Reasoning", text=self._redactor.text(part.text)) if part.text.strip() else None
                )
            case ToolCall():
                return self._call(part)
            case MediaRef() | MediaLink():
                return Media(name=self._redactor.text(media_name(part)))
            case ServerBlock():
                title = f"Done by the provider: {self._redactor.text(part.name or part.kind)}"
                return Collapsible(title=title, text=excerpt(self._redactor.text(part.content)).text)
            case _:
                return None

    def _call(self, call: ToolCall) -> CallBlock:
        return self._calls.block(call, over=self._over)

    def _text(self, part: Text | TextRef) -> str:
        return part.text if isinstance(part, Text) else self._read(part)

    def _compaction(self, event: events.Compacted) -> Note:
        sizes = f", from about {event.before:,} to {event.after:,} tokens" if event.before else ""
        why = TRIGGERS[event.trigger]
        text = f"The conversation was shortened here{sizes}, {why}. From here on the model saw a summary of what stands above."
        summary = "" if event.summary is None else self._redactor.text(self._text(event.summary))
        return Note(text=text, detail=summary, title="The summary")


def moment(at: int) -> str:
    """Return a time in words."""
    return f"{iso(at)[:19].replace('T', ' ')} UTC"


def _join(parts: Iterable[DialogueMessage | Note]) -> Iterator[DialogueMessage | Note]:
    """Join the successive replies of one model."""
    for label, group in groupby(
        parts, lambda part: part.label if isinstance(part, DialogueMessage) and part.who == "model" else None
    ):
        if label is None:
            yield from group
        else:
            blocks = (block for part in group if isinstance(part, DialogueMessage) for block in part.blocks)
            yield DialogueMessage(who="model", label=label, blocks=tuple(blocks))
