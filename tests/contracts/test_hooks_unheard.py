"""Hooks that could not be run, or did not answer: whatever the way, what becomes of the step is what the table of events says."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from backstay import Session, UserError
from backstay.config.trust.inventory import WorkspaceInventory
from backstay.hooks.decorator import Hook, hook
from backstay.hooks.dispatch import HookDispatcher, RunHook
from backstay.hooks.events import EVENTS
from backstay.hooks.gates import SESSION, HookState, fold_hook_state
from backstay.hooks.spec import CommandHook, make_spec
from backstay.ports import Model
from backstay.runtime.barrier import Fault
from backstay.runtime.services import Outcome, Services
from backstay.testing.event_loop import run_virtually
from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import Opened
from backstay.vocab.events.tools import HookFinished, HookStarted
from tests.contracts.kit import scripted, talk

FAULT = Fault(where="here", kind="OSError", message="no space left", trace="")


def quiet(event: str) -> Hook:
    """A hook that has no objection."""

    @hook(event)
    def answering(told: dict[str, object]) -> None:
        return None

    return answering


def recorded(event: Event, seq: int = 1, cause: str = "") -> Recorded:
    return Recorded(seq=seq, id=f"e{seq}", at=seq, by="hook", cause=cause, event=event)


def found(name: str) -> Model:
    return scripted("Other.")


def verdict_of(outcome: Outcome) -> HookFinished:
    (draft,) = outcome.drafts
    assert isinstance(draft.event, HookFinished)
    return draft.event


async def failed(started: HookStarted, services: Services) -> HookFinished:
    return verdict_of(RunHook(recorded(started), services).report_fault(FAULT))


async def stopped(started: HookStarted, services: Services) -> HookFinished:
    return verdict_of(RunHook(recorded(started), services).report_stop())


async def nobody_to_run_them(started: HookStarted, services: Services) -> HookFinished:
    hear, services.in_force.dispatch_hooks = services.in_force.dispatch_hooks, None
    try:
        return verdict_of(await RunHook(recorded(started), services).run())
    finally:
        services.in_force.dispatch_hooks = hear


async def changed_since_it_was_trusted(started: HookStarted, services: Services) -> HookFinished:
    spec = make_spec(started.event, CommandHook(command="true"), source="project")
    listening = HookDispatcher(
        specs=(spec,), functions={}, project="", survey=WorkspaceInventory(root="/", seen={"file:nowhere": "x"})
    )
    named = HookStarted(event=started.event, subject=started.subject, handlers=(spec.id,))
    return await listening.dispatch(named, services)


WAYS: dict[str, Callable[[HookStarted, Services], Awaitable[HookFinished]]] = {
    "failed": failed,
    "stopped": stopped,
    "nobody": nobody_to_run_them,
    "changed": changed_since_it_was_trusted,
}


@pytest.mark.parametrize("way", WAYS)
async def test_house_4_1_hooks_that_were_not_heard_mean_what_the_table_says(way: str) -> None:
    async with talk() as session:
        for name, facts in EVENTS.items():
            finished = await WAYS[way](HookStarted(event=name, subject="s", handlers=()), session._services)

            refuses = facts.on_failure == "block"
            assert finished.blocked is refuses, name
            assert finished.decision == ("deny" if refuses and facts.decides == "call" else None), name
            assert bool(finished.reason) is refuses, name
            assert finished.notes, name
            assert (finished.args, finished.output, finished.stops) == ("", None, False), name


@pytest.mark.parametrize("name", [name for name, facts in EVENTS.items() if facts.fires])
def test_house_4_1_hooks_that_were_cut_by_a_crash_are_heard_again_or_mean_what_the_table_says(name: str) -> None:
    hook_state = fold_hook_state(
        HookState(), recorded(HookStarted(event=name, subject=SESSION, handlers=("h",))), (), ()
    )
    after = fold_hook_state(hook_state, recorded(Opened(), 2), (), ())

    finished = after.find_verdict(name, SESSION)
    if EVENTS[name].reruns:
        assert finished is None
    else:
        assert EVENTS[name].on_failure == "continue"
        assert finished is not None
        assert (finished.decision, finished.blocked, finished.stops) == (None, False, False)


async def test_house_4_1_a_fault_in_the_hook_runner_does_not_let_another_model_in() -> None:
    async def broken(started: HookStarted, services: Services) -> HookFinished:
        raise OSError("no space left on device")

    async with talk("Here.", hooks=[quiet("PreModelSwitch")], find=found) as session:
        before = session.model
        session._services.in_force.dispatch_hooks = broken
        with pytest.raises(
            UserError, match=r"A hook refused the model .* hooks could not be run: OSError: no space left"
        ):
            await session.set_model("other")
        assert session.model == before


def test_house_4_1_hooks_that_never_answer_do_not_let_another_model_in() -> None:
    async def silent(started: HookStarted, services: Services) -> HookFinished:
        await anyio.sleep(3600)
        return HookFinished(event=started.event, subject=started.subject)

    async def switching() -> Session:
        async with talk("Here.", hooks=[quiet("PreModelSwitch")], find=found) as session:
            session._services.in_force.dispatch_hooks = silent
            with pytest.raises(UserError, match="hooks did not answer in time"):
                await session.set_model("other")
            return session

    run_virtually(switching)


async def test_a_hook_whose_settings_refuse_when_it_fails_refuses_when_it_cannot_be_run() -> None:
    @hook("PreCompact", on_failure="block")
    def guards(told: dict[str, object]) -> None:
        return None

    async with talk(hooks=[guards]) as session:
        (spec,) = session._services.policy.hooks
        started = HookStarted(event="PreCompact", subject="s", handlers=(spec.id,))

        assert verdict_of(RunHook(recorded(started), session._services).report_fault(FAULT)).blocked
        assert verdict_of(RunHook(recorded(started), session._services).report_stop()).blocked
