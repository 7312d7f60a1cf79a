"""The scenarios of the crash matrix about hooks, and about answers that change a call or grant more than one."""

from contextlib import suppress
from typing import Final

import anyio.lowlevel
from msgspec.structs import replace

from backstay.hooks.decorator import Hook, hook
from backstay.ports import Answer, Question
from backstay.session.options import Options
from backstay.testing.crash.rehearsed_model import rehearsed
from backstay.testing.crash.stage import Scenario, Stage
from backstay.vocab.errors import TurnError
from tests.crash.scenarios.cast import call, played, tools_of
from tests.crash.scenarios.limits import SMALL, WORDS

Told = dict[str, object]


def _specific(event: str, **fields: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def _number(told: Told) -> object:
    given = told["tool_input"]
    return given.get("n") if isinstance(given, dict) else None


def _hooks(stage: Stage) -> list[Hook]:
    """Hooks at every moment: they add, change, refuse, hold the turn once, and break."""
    held: list[bool] = []

    @hook("SessionStart")
    async def begin(told: Told) -> Told:
        await anyio.lowlevel.checkpoint()
        return _specific("SessionStart", additionalContext=f"It is a {told['source']}.")

    @hook("UserPromptSubmit")
    async def prompted(told: Told) -> Told:
        await anyio.lowlevel.checkpoint()
        if "secret" in str(told["prompt"]):
            return {"decision": "block", "reason": "no secrets"}
        return _specific("UserPromptSubmit", additionalContext="Be kind.")

    @hook("PreToolUse", matcher="pay|put")
    async def before(told: Told) -> Told | None:
        await anyio.lowlevel.checkpoint()
        match _number(told):
            case 2:
                return _specific("PreToolUse", permissionDecision="allow", updatedInput={"n": 20})
            case 3:
                return _specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="three is too many")
            case 4:
                raise RuntimeError("the guard fell asleep")
            case _:
                return None

    @hook("PostToolUse")
    async def after(told: Told) -> Told | None:
        await anyio.lowlevel.checkpoint()
        return _specific("PostToolUse", additionalContext="So it was.") if _number(told) == 1 else None

    @hook("PostToolUseFailure")
    async def failed(told: Told) -> None:
        await anyio.lowlevel.checkpoint()

    @hook("Stop")
    async def stop(told: Told) -> Told | None:
        await anyio.lowlevel.checkpoint()
        if held or told["stop_hook_active"]:
            return None
        held.append(True)
        return {"decision": "block", "reason": "One thing more."}

    @hook("SessionEnd")
    async def end(told: Told) -> None:
        await anyio.lowlevel.checkpoint()

    return [begin, prompted, before, after, failed, stop, end]


async def _hooked(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run("Go.")
        with suppress(TurnError):
            await session.run("This is secret.")


HOOKED: Final = Scenario(
    name="hooked",
    options=lambda stage: Options(
        model=rehearsed(
            [
                {"text": "Looking.", "calls": [call("look", n=1), call("pay", n=2), call("pay", n=3)]},
                {"text": "Is that all?"},
                {"calls": [call("put", n=4), call("stumble", n=1)]},
                {"text": "Now it is."},
            ],
            stage,
        ),
        tools=tools_of(stage),
        hooks=_hooks(stage),
    ),
    act=_hooked,
)


async def _changes(question: Question) -> Answer:
    """A person who changes calls, and who grants what is offered."""
    await anyio.lowlevel.checkpoint()
    match question.args.get("n"):
        case 1:
            return Answer(allowed=True, args={"n": 10})
        case 2:
            return Answer(allowed=True, grant="session", rules=question.offers)
        case 3:
            return Answer(allowed=True, args={"wrong": True})
        case _:
            return Answer(allowed=True, grant="session")


async def _changed(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run("Order.")
        await session.run("Order more.")


CHANGED: Final = Scenario(
    name="changed by the person",
    options=played(
        [
            {"calls": [call("order", n=1), call("order", n=2), call("look", n=1)]},
            {"calls": [call("order", n=3), call("order", n=5)]},
            {"text": "Done."},
            {"calls": [call("order", n=2), call("order", n=5), call("order", n=6)]},
            {"text": "Done again."},
        ],
        _changes,
    ),
    act=_changed,
)


async def _shortened(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run(f"One. {WORDS}")
        await session.run(f"Two. {WORDS}")
        await session.run("Three.")


HOOKED_COMPACTION: Final = Scenario(
    name="hooked compaction",
    options=lambda stage: Options(
        model=rehearsed(
            [
                {"text": WORDS, "usage": {"input": 900, "output": 300}},
                {"text": WORDS, "calls": [call("pay", n=1)], "usage": {"input": 2_700, "output": 300}},
                {"text": "Done.", "usage": {"input": 800, "output": 20}},
                {"text": "Bye.", "usage": {"input": 800, "output": 20}},
            ],
            stage,
            facts=replace(SMALL, summarises=True),
        ),
        tools=tools_of(stage),
        hooks=[_watching("PreCompact"), _watching("PostCompact"), _watching("SessionStart")],
    ),
    act=_shortened,
)


def _watching(event: str) -> Hook:
    @hook(event)
    async def watch(told: Told) -> None:
        await anyio.lowlevel.checkpoint()

    return watch


HOOKS: Final = (HOOKED, CHANGED, HOOKED_COMPACTION)
