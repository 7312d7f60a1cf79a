"""Calls, hooks, looks, people and crashes in every order: what was refused never runs, and what runs was looked at as it is."""

import itertools
from collections.abc import Callable, Iterator
from typing import Self

import pytest
from msgspec.structs import replace

from backstay.hooks.spec import PythonHook, make_spec
from backstay.logic.decide.policy import Policy
from backstay.logic.state.calls import OpenCall
from backstay.testing.crash.invariants import what_is_refused_never_starts
from backstay.vocab.event import Decision, Draft
from backstay.vocab.events import (
    CallInspected,
    InputReceived,
    ModelReplied,
    PermissionAnswered,
    ToolFinished,
    ToolStarted,
)
from backstay.vocab.events.tools import CallFacts, HookFinished
from backstay.vocab.messages import Text, ToolCall
from backstay.vocab.rules import Rule
from tests.logic.story import POLICY, Story, spec

Choice = tuple[str, str]
"""What comes next: its kind, and what it is about."""
DRAFTS = ("hear", "bring", "finish", "allow", "refuse", "edit")
"""What reaches the session as an event."""
OTHER = '{"prompt": "other"}'


class Crossroads:
    """A reply with calls whose results, looks and hearings may come in any order."""

    def __init__(self, policy: Policy, verdict: HookFinished, *, crashes: int = 0) -> None:
        self.story = Story(policy)
        self.verdict = verdict
        self.crashes = crashes
        self.changes = 0
        """How often something was changed: what a look finds."""
        self.looks: dict[str, Draft] = {}
        """By intent: looks that have not been brought yet."""
        self.wrong: list[str] = []

    @classmethod
    def of(cls, policy: Policy, verdict: HookFinished, *names: str, crashes: int = 0) -> Self:
        """Begin, with these calls."""
        road = cls(policy, verdict, crashes=crashes)
        story = road.story
        story.say(InputReceived(input="in", parts=(Text(text="go"),)))
        asked = story.progress.asking
        calls = [ToolCall(id=f"{asked}-{n}", name=name, args='{"prompt": "x"}') for n, name in enumerate(names)]
        looked = [CallInspected(call=call.id, facts=road.facts(call.args)) for call in calls]
        road.take(*(Draft(event=event, cause=asked) for event in (ModelReplied(parts=tuple(calls)), *looked)))
        return road

    def facts(self, args: str) -> CallFacts:
        """What a look at these arguments finds now."""
        return CallFacts(links={"/changes": str(self.changes), "/args": args})

    def take(self, *drafts: Draft) -> None:
        """Let something come, and look at everything that starts because of it."""
        seen = len(self.story.log)
        self.story.take(*drafts)
        for record in self.story.log[seen:]:
            if isinstance(record.event, ToolStarted):
                call = self.call(record.event.call)
                now = self.facts(call.args)
                if call.facts != now:
                    self.wrong.append(f"{call.name} runs, looked at as {call.facts}, and it is {now}")

    def call(self, name: str) -> OpenCall:
        """An open call."""
        return next(call for call in self.story.progress.calls if call.id == name)

    def choices(self) -> list[tuple[Choice, ...]]:
        """Everything that may come next: each alone, and each two together, which the runtime takes in one step."""
        found: list[Choice] = [("hear", hook.intent) for hook in self.story.progress.hooks.open]
        found += [("bring", intent) for intent in self.looks]
        for call in self.story.progress.calls:
            match call.phase:
                case "inspecting" if call.intent not in self.looks:
                    found.append(("look", call.id))
                case "running":
                    found.append(("finish", call.id))
                case "asking":
                    found += [("allow", call.id), ("refuse", call.id), *([] if call.changes else [("edit", call.id)])]
                case _:
                    pass
        if found and self.crashes:
            found.append(("crash", ""))
        return [*((each,) for each in found), *itertools.permutations([each for each in found if each[0] in DRAFTS], 2)]

    def choose(self, *choices: Choice) -> None:
        """Let it come."""
        match choices[0]:
            case ("look", about):
                call = self.call(about)
                looked = CallInspected(call=about, facts=self.facts(call.args))
                self.looks[call.intent] = Draft(event=looked, cause=call.intent)
            case ("crash", _):
                self.crashes -= 1
                self.looks.clear()
                self.story.crash()
            case _:
                self.take(*(self._draft(*choice) for choice in choices))

    def _draft(self, kind: str, about: str) -> Draft:
        match kind:
            case "hear":
                hook = next(each for each in self.story.progress.hooks.open if each.intent == about)
                args = "" if "~" in hook.subject else self.verdict.args
                said = replace(self.verdict, event=hook.event, subject=hook.subject, args=args)
                return Draft(event=said, cause=about)
            case "bring":
                return self.looks.pop(about)
            case "finish":
                call = self.call(about)
                self.changes += call.effect != "pure"
                return Draft(event=ToolFinished(call=about, outcome="ok"), cause=call.intent)
            case _:
                answer = PermissionAnswered(call=about, allowed=kind != "refuse", args=OTHER if kind == "edit" else "")
                return Draft(event=answer, cause=self.call(about).intent)

    def place(self) -> str:
        """Where the road stands, whatever the way to it was."""
        calls = [replace(call, intent="", since=0) for call in self.story.progress.calls]
        looks = [
            (draft.event, draft.cause in {call.intent for call in self.story.progress.calls})
            for draft in self.looks.values()
        ]
        heard = [(hook.event, hook.subject) for hook in self.story.progress.hooks.open]
        done = [(hook.event, hook.subject) for hook in self.story.progress.hooks.done]
        return repr((calls, looks, heard, done, self.changes, self.crashes, self.wrong, self.ended()))

    def ended(self) -> list[tuple[str, str]]:
        """What became of each call, by its tool."""
        names = {
            call.id: call.name for r in self.story.log if isinstance(r.event, ModelReplied) for call in _calls(r.event)
        }
        return sorted(
            (names[r.event.call], r.event.outcome) for r in self.story.log if isinstance(r.event, ToolFinished)
        )


def _calls(event: ModelReplied) -> list[ToolCall]:
    return [part for part in event.parts if isinstance(part, ToolCall)]


def every_end(begin: Callable[[], Crossroads]) -> Iterator[tuple[list[tuple[Choice, ...]], Crossroads]]:
    """Every order in which things can come, to its end; where two orders meet, the way on is gone once."""
    paths: list[list[tuple[Choice, ...]]] = [[]]
    met: set[str] = set()
    while paths:
        path = paths.pop()
        road = begin()
        for choice in path:
            road.choose(*choice)
        if road.place() in met:
            continue
        met.add(road.place())
        choices = road.choices()
        assert len(path) < 60, f"it does not end: {path}"
        if not choices:
            yield path, road
        paths += [[*path, choice] for choice in choices]


def policy(event: str, *rules: str) -> Policy:
    """A policy with one hook about `put`, which asks in a way that a hook may answer for a person."""
    heard = make_spec(event, PythonHook(name="hook"), matcher="put")
    tools = {**POLICY.tools, "put": spec("put", effect="idempotent", touches="edits")}
    return replace(POLICY, tools=tools, hooks=(heard,), rules=tuple(Rule.parse("allow", rule) for rule in rules))


def verdict(decision: Decision | None, args: str = "") -> HookFinished:
    return HookFinished(
        event="", subject="", decision=decision, blocked=decision == "deny", args=args, reason="said so"
    )


@pytest.mark.parametrize("crashes", [0, 1])
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
@pytest.mark.parametrize(
    ("said", "outcomes"),
    [
        (verdict("deny"), {"denied"}),
        (verdict("ask"), {"denied", "ok"}),
        (verdict("allow"), {"ok"}),
        (verdict(None), {"denied", "ok"}),
        (verdict("allow", OTHER), {"denied", "ok"}),
    ],
    ids=["deny", "ask", "allow", "nothing", "other arguments"],
)
def test_in_no_order_does_a_refused_call_run_or_one_that_was_not_looked_at(
    said: HookFinished, outcomes: set[str], event: str, crashes: int
) -> None:
    rules = ("pay",) if event == "PermissionRequest" or said.decision == "ask" else ("pay", "put")
    names = ("pay", "put", "look") if not crashes else ("pay", "put")
    ends = 0
    for path, road in every_end(lambda: Crossroads.of(policy(event, *rules), said, *names, crashes=crashes)):
        ends += 1
        assert [*road.wrong, *what_is_refused_never_starts(road.story.log)] == [], path
        found = dict(road.ended())
        assert found.keys() == set(names), path
        assert found["put"] in {*outcomes, *(("unknown",) if crashes else ())}, path
    assert ends
