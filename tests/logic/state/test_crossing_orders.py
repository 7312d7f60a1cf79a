"""Stops, steering, modes, settings, grants, taint, hooks, children, money, waits and compactions in every order: no promise breaks."""

import pytest
from msgspec.structs import replace

from backstay.hooks.spec import PythonHook, make_spec
from backstay.logic.decide.policy import Policy
from backstay.logic.state.retries import Retries
from backstay.vocab.event import Draft, Event
from backstay.vocab.events import GrantsCleared, InputDropped, Interrupted, ModeChanged, ModelChanged, Rewound
from backstay.vocab.events.limits import BudgetSet, CompactionStarted
from backstay.vocab.events.tools import HookFinished, ScopeChanged, TaintMet
from backstay.vocab.rules import Rule
from backstay.vocab.specs import ModelFacts
from tests.logic.crossroads import Extra, Road, Scene, every_end, said
from tests.logic.story import POLICY, spec

TOOLS = {
    **POLICY.tools,
    "put": spec("put", effect="idempotent", asks=True),
    "fetch": spec("fetch", effect="idempotent", asks=True),
    "send": spec("send", effect="idempotent", taints=("outside",)),
}
BLOCKS = HookFinished(event="", subject="", blocked=True, reason="no")
STOPS = HookFinished(event="", subject="", stops=True, reason="halt")
TELLS = HookFinished(event="", subject="", context="by the way")
ALLOWS = HookFinished(event="", subject="", decision="allow")


def policy(*hooks: str, rules: tuple[str, ...] = (), about: str = "", **fields: object) -> Policy:
    heard = tuple(make_spec(event, PythonHook(name="hook"), matcher=about) for event in hooks)
    parsed = tuple(Rule.parse(*each.split(" ")) for each in rules)  # type: ignore[arg-type]  # a decision and a rule
    return replace(POLICY, tools=TOOLS, hooks=heard, rules=parsed, **fields)


def comes(*events: Event) -> Extra:
    return lambda _: tuple(Draft(event=event) for event in events)


def between_turns(*events: Event) -> Extra:
    return lambda road: tuple(Draft(event=event) for event in events) if road.progress.turn is None else None


def compacts(road: Road) -> tuple[Draft, ...] | None:
    started = CompactionStarted(trigger="manual", model="m", used=1, window=100, reserved=7)
    return (Draft(event=started),) if road.progress.turn is None and not road.progress.compacting else None


STOP = {"stop": comes(Interrupted())}
STEER = {"steer": comes(said("steer", steer=True))}
QUEUE = {"queue": comes(said("queue"))}
DROP = {"drop": comes(InputDropped(inputs=("*",)))}
PLAN = {"plan": comes(ModeChanged(mode="plan"))}
LOOSE = {"loose": comes(ModeChanged(mode="bypassPermissions"))}
BUDGET = BudgetSet(limit=100, on_exceed="pause_for_approval")
SCENES = {
    "a stop between calls": Scene(policy=policy(), replies=(("pay", "look"),), extras=STOP | STEER),
    "a stricter mode": Scene(policy=policy(), replies=(("look", "put"),), extras=PLAN | LOOSE),
    "a mode while asked": Scene(policy=policy(), replies=(("pay", "put"),), extras=PLAN),
    "another scope": Scene(
        policy=policy(), replies=(("look", "put"),), extras={"s": comes(ScopeChanged(scope="full"))}
    ),
    "settings that deny": Scene(
        policy=policy(rules=("allow put",)), settings=policy(rules=("deny put",)), replies=(("look", "put"),)
    ),
    "settings beside a hook": Scene(
        policy=policy("PermissionRequest", about="put"),
        settings=policy("PermissionRequest", about="put", rules=("ask put",)),
        replies=(("look", "put"),),
        says={"PermissionRequest": ALLOWS},
    ),
    "grants taken back": Scene(
        policy=policy(), replies=(("put", "put"),), answers=("always", "refuse"), extras={"c": comes(GrantsCleared())}
    ),
    "taint of a child": Scene(policy=policy(), replies=(("child", "send"),)),
    "taint met": Scene(
        policy=policy(),
        replies=(("look", "send"),),
        extras={"taint": comes(TaintMet(taints=("private", "untrusted")))},
    ),
    "arguments of a person": Scene(
        policy=policy("PreToolUse", "PermissionRequest", about="put"),
        answers=("allow", "edit"),
        replies=(("pay", "put"),),
        extras=STOP,
    ),
    "prompts refused": Scene(
        policy=policy("UserPromptSubmit"), says={"UserPromptSubmit": BLOCKS}, replies=(("pay",),), extras=STOP | STEER
    ),
    "prompts heard": Scene(policy=policy("UserPromptSubmit"), extras=STOP | QUEUE | DROP),
    "prompts that end turns": Scene(policy=policy("UserPromptSubmit"), says={"UserPromptSubmit": STOPS}, extras=STEER),
    "ends held": Scene(policy=policy("Stop"), says={"Stop": BLOCKS}, extras=STOP),
    "ends steered": Scene(policy=policy("Stop"), says={"Stop": STOPS}, extras=STEER | QUEUE),
    "results that end turns": Scene(
        policy=policy("PostToolUse"), says={"PostToolUse": STOPS}, replies=(("look", "pay"),), extras=STOP | QUEUE
    ),
    "results with words": Scene(
        policy=policy("PostToolUse"), says={"PostToolUse": TELLS}, replies=(("pay",),), extras=STOP | QUEUE
    ),
    "batches refused": Scene(
        policy=policy("PostToolBatch"), says={"PostToolBatch": BLOCKS}, replies=(("pay",),), extras=STOP | QUEUE
    ),
    "starts": Scene(policy=policy("SessionStart"), says={"SessionStart": STOPS}, extras=STOP | QUEUE),
    "who only looks on": Scene(
        policy=policy("PermissionDenied", rules=("deny put",)),
        says={"PermissionDenied": STOPS},
        replies=(("put", "pay"),),
        extras=QUEUE,
    ),
    "failures": Scene(
        policy=policy("StopFailure", retries=Retries(attempts=1)), says={"StopFailure": STOPS}, fails=1, extras=QUEUE
    ),
    "waits": Scene(
        policy=policy(fallbacks=("m2",)), fails=1, extras=STOP | {"model": comes(ModelChanged(model="m3"))} | STEER
    ),
    "children without money": Scene(
        policy=policy(), before=(BUDGET,), pauses=1, replies=(("child", "pay"),), extras=STOP
    ),
    "a raised budget": Scene(
        policy=policy(),
        before=(BUDGET,),
        pauses=1,
        replies=(("child",),),
        extras={"more": comes(BudgetSet(limit=500, on_exceed="pause_for_approval"))},
    ),
    "compactions": Scene(
        policy=policy("SessionStart", auto_compact=0.5, facts={"m": ModelFacts(window=40)}),
        replies=(("pay",),),
        extras=STOP,
    ),
    "compactions by hand": Scene(
        policy=policy(),
        before=(BudgetSet(limit=1000),),
        extras={"compact": compacts, "rewind": between_turns(Rewound(to=""))} | STOP,
    ),
}


@pytest.mark.parametrize("crashes", [0, 1])
@pytest.mark.parametrize("name", SCENES)
def test_in_no_order_does_a_promise_break(name: str, crashes: int) -> None:
    scene = replace(SCENES[name], crashes=crashes, pairs=not crashes)
    ends = 0
    for path, road in every_end(scene):
        ends += 1
        assert road.what_is_left() == [], path
    assert ends


def test_what_was_granted_for_the_session_answers_for_a_call_beside_it() -> None:
    scene = Scene(policy=policy(), replies=(("fetch", "fetch"),), answers=("always",))
    for path, road in every_end(scene):
        questions = [record for record in road.log if type(record.event).__name__ == "PermissionAsked"]
        assert len(questions) == 1, path
