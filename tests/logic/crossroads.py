"""A session at a crossroads: everything that may reach it next, in every order, and what must hold whichever comes first.

What is performed follows from the intents in the log, as in the runtime, and not from what the folds believe to be open: a performer
that was told to stop, or whose call is over, may still bring its result. After a crash nobody brings anything.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from backstay.logic.decide.policy import Policy
from backstay.logic.decide.step import settle
from backstay.logic.state.progress import Progress, fold_all
from backstay.vocab.event import Draft, Event, Recorded
from backstay.vocab.events import (
    INTENTS,
    CallProposed,
    ChildStarted,
    InputReceived,
    Interrupted,
    ModelAsked,
    Opened,
    PermissionAsked,
    Started,
    StopDeadlinePassed,
    ToolStarted,
)
from backstay.vocab.events.limits import BudgetAsked, CompactionStarted, WaitStarted
from backstay.vocab.events.tools import CallFacts, HookFinished, HookStarted
from backstay.vocab.messages import Text
from backstay.vocab.specs import SessionContext
from tests.logic.crossing_results import HUSHED, answer_of, result_of
from tests.logic.promises import broken_by, ignored

Choice = tuple[str, str]
"""What comes next: its kind, and the intent that it is about, if it is about any."""
Extra = Callable[["Road"], tuple[Draft, ...] | None]
"""Something that comes from outside: what it leaves in the inbox, or None when it is not admitted now."""

_ID: Final = re.compile(r"n\.[0-9a-z]+")
_PATHLESS: Final = ("child", "send", "fetch")
"""Tools whose calls name no files."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What a story is made of."""

    policy: Policy
    replies: tuple[tuple[str, ...], ...] = ()
    """The tools that each reply of the model calls; afterwards it calls none."""
    says: Mapping[str, HookFinished] = {}
    """What hooks say, by their event."""
    answers: tuple[str, ...] = ("allow", "refuse")
    """What a person may answer: see `crossing_results`."""
    extras: Mapping[str, Extra] = {}
    """What else may come, each once, at any time."""
    settings: Policy | None = None
    """What is read from the settings once, at any time."""
    before: tuple[Event, ...] = ()
    """What was said before the story begins."""
    crashes: int = 0
    on_crash: str = "continue"
    fails: int = 0
    """Model calls that may fail."""
    pauses: int = 0
    """Runs of children that may end because the money does."""
    pairs: bool = True
    """Whether two things may reach the session in one step."""


class Road:
    """A session, what is being performed for it, and which promises were broken on the way."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.policy = scene, scene.policy
        self.progress = Progress()
        self.log: list[Recorded] = []
        self.doing: dict[str, Recorded] = {}
        """The intents that somebody performs."""
        self.told: frozenset[str] = frozenset()
        """Those that were told to stop."""
        self.deadlines: tuple[str, ...] = ()
        self.looks: dict[str, CallFacts | None] = {}
        """What looks found that were not brought yet, by their intents."""
        self.left = tuple(scene.extras)
        self.crashes, self.fails, self.pauses = scene.crashes, scene.fails, scene.pauses
        self.replied = 0
        self.changes = 0
        """How often something was changed: what a look finds."""
        self.wrong: tuple[str, ...] = ()
        begun = Started(session="s", context=SessionContext(working_dir="/"), store="x", model="m")
        self.take(*(Draft(event=event) for event in (begun, *scene.before, said("in"))))

    # --- what may come -----------------------------------------------------------------------------------------------------------

    def choices(self) -> list[tuple[Choice, ...]]:
        """Everything that may come next: each alone, and each two together, which the runtime takes in one step."""
        found = [(kind, intent) for intent, record in self.doing.items() for kind in self._results(record)]
        found += [("deadline", each) for each in self.deadlines]
        found += [(name, "") for name in self.left if self.scene.extras[name](self) is not None]
        found += [("settings", "")] if self.scene.settings is not None and self.policy is self.scene.policy else []
        alone = [("look", intent) for intent, record in self.doing.items() if self._to_be_looked_at(record)]
        alone += [("crash", "")] if self.crashes and (found or alone) else []
        pairs = itertools.permutations(found, 2) if self.scene.pairs else ()
        together = [pair for pair in pairs if not pair[0][1] or pair[0][1] != pair[1][1]]
        return [*((each,) for each in (*found, *alone)), *together]

    def _to_be_looked_at(self, record: Recorded) -> bool:
        return isinstance(record.event, CallProposed) and record.id not in {*self.looks, *self.told}

    def _results(self, record: Recorded) -> tuple[str, ...]:
        """What a performer may bring."""
        told = record.id in self.told
        match record.event:
            case ModelAsked():
                return ("reply", *(("fail",) if self.fails else ()), *(("silence",) if told else ()))
            case CallProposed():
                return ("bring",) if record.id in self.looks else ()
            case PermissionAsked():
                return self.scene.answers[:1] if told else self.scene.answers
            case ToolStarted():
                return ("finish",)
            case ChildStarted():
                return ("finish", *(("pause",) if self.pauses else ()))
            case WaitStarted():
                return () if told else ("waited",)
            case CompactionStarted():
                return ("compacted", "uncompacted")
            case BudgetAsked():
                return ("pay",) if told else ("pay", "save", "nobody")
            case HookStarted():
                return ("hear", *(("hush",) if told else ()))
            case _:
                return ()

    # --- what comes ----------------------------------------------------------------------------------------------------------------

    def gone(self, *choices: Choice) -> Self:
        """The road after something came."""
        twin = copy(self)
        twin.log, twin.doing, twin.looks = list(self.log), dict(self.doing), dict(self.looks)
        match choices[0]:
            case ("look", intent):
                twin.looks[intent] = twin.look(intent)
            case ("crash", _):
                twin.crashes -= 1
                twin.doing, twin.looks, twin.told, twin.deadlines = {}, {}, frozenset(), ()
                twin.take(Draft(event=Opened(on_crash=self.scene.on_crash)))  # type: ignore[arg-type]  # one of two words
            case _:
                twin.take(*itertools.chain.from_iterable([twin.drafts(*choice) for choice in choices]))
        return twin

    def drafts(self, kind: str, intent: str) -> tuple[Draft, ...]:
        """What a choice leaves in the inbox."""
        if kind == "deadline":
            self.deadlines = tuple(each for each in self.deadlines if each != intent)
            return (Draft(event=StopDeadlinePassed(), cause=intent),)
        if kind == "settings":
            self.policy = self.scene.settings or self.policy
            return ()
        if not intent:
            self.left = tuple(name for name in self.left if name != kind)
            return self.scene.extras[kind](self) or ()
        record = self.doing.pop(intent)
        self.told -= {intent}
        self.fails -= kind == "fail"
        self.pauses -= kind == "pause"
        if isinstance(record.event, PermissionAsked):
            return (Draft(event=answer_of(kind, record.event.call), by="user", cause=intent),)
        return tuple(Draft(event=event, cause=intent) for event in result_of(self, kind, record))

    def take(self, *drafts: Draft) -> None:
        """One step of the runtime."""
        before = self.progress
        step = settle(before, drafts, self.policy, nonce="n", now=0)
        self.progress = step.progress
        self.log += step.records
        for record in step.records:
            if isinstance(record.event, Interrupted):
                self.told |= self.doing.keys()
                self.deadlines = (*self.deadlines, record.id)
        self.doing |= {record.id: record for record in step.records if isinstance(record.event, INTENTS)}
        self.wrong += (*broken_by(self, before, step.records), *ignored(drafts, step.records))

    # --- what is there -------------------------------------------------------------------------------------------------------------

    def look(self, intent: str) -> CallFacts | None:
        """What a look at a call finds now."""
        record = self.doing[intent]
        assert isinstance(record.event, CallProposed)
        call = next((each for each in self.progress.calls if each.id == record.event.call), None)
        return None if call is None else self.facts(call.name, call.args)

    def facts(self, name: str, args: str) -> CallFacts | None:
        """What a look at a call with these arguments finds now."""
        return None if name in _PATHLESS else CallFacts(links={"/changes": str(self.changes), "/args": args})

    def place(self) -> str:
        """Where the road stands, whatever the way to it was: the same story goes on from here."""
        p = self.progress
        stands = replace(
            p,
            seq=0,
            tip="",
            replies=0,
            begun=0,
            completed=0,
            turns=0,
            turn=p.turn and replace(p.turn, number=0, since=0, run=0),
            calls=tuple(replace(call, since=0) for call in p.calls),
            retries=replace(p.retries, not_before=int(p.retries.not_before > 0), cooling=()),
            context=replace(p.context, counted=0, since=0, guess=0, asked=0, messages=0, before_turn=(0, 0, 0, 0)),
        )
        doing = sorted((record.seq, record.id, record.id in self.told, record.event) for record in self.doing.values())
        rest = (self.looks, self.deadlines, self.left, self.crashes, self.fails, self.pauses, self.replied)
        text = repr(
            (stands, [each[1:] for each in doing], rest, self.changes, self.wrong, self.policy is self.scene.policy)
        )
        names: dict[str, str] = {}
        return _ID.sub(lambda found: names.setdefault(found[0], f"<{len(names)}>"), text)

    def what_is_left(self) -> list[str]:
        """What is wrong with an end, where nothing more can come."""
        p = self.progress
        if self.wrong:
            return [*self.wrong]
        found: list[str] = []
        if fold_all(self.log) != p:
            found.append("the log does not say where the session stands")
        if p.turn is not None and not p.paused:
            found.append(f"the turn is open, and nobody is being asked: {p.turn}, {p.calls}")
        if p.queue and p.turn is None:
            found.append(f"input waits, and no turn begins: {p.queue}")
        return found


class Count(msgspec.Struct):
    """How much was gone through."""

    places: int = 0
    steps: int = 0
    ends: int = 0


def every_end(scene: Scene, count: Count | None = None) -> Iterator[tuple[list[tuple[Choice, ...]], Road]]:
    """Every order in which things can come, to its end; where two orders meet, the way on is gone once. Broken promises end a way too."""
    count = count or Count()
    ways: list[tuple[list[tuple[Choice, ...]], Road]] = [([], Road(scene))]
    met: set[str] = set()
    while ways:
        path, road = ways.pop()
        place = road.place()
        if place in met:
            continue
        met.add(place)
        count.places += 1
        choices = road.choices()
        assert len(path) < 80, f"it does not end: {path}"
        if not choices or road.wrong:
            count.ends += 1
            yield path, road
            continue
        count.steps += len(choices)
        ways += [([*path, choice], road.gone(*choice)) for choice in choices]


def said(name: str, *, steer: bool = False) -> InputReceived:
    """Somebody says something."""
    return InputReceived(input=name, parts=(Text(text=name),), delivery="steer" if steer else "queue")


__all__ = ["HUSHED", "Choice", "Count", "Extra", "Road", "Scene", "every_end", "said"]
