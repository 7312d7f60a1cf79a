"""A skill that a person runs in a child session: one intent in the log, one end, and a report that the conversation has."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from backstay import Session, UserError
from backstay.commands.registry import CommandResult
from backstay.logic.stored_content import LONG
from backstay.ports import SessionQuery
from backstay.tools.define import tool
from backstay.vocab.errors import TurnError
from backstay.vocab.events import (
    ChildFinished,
    ChildStarted,
    InputReceived,
    InputTaken,
    ModelAsked,
    Started,
    TurnStarted,
)
from backstay.vocab.events.tools import HookStarted
from tests.contracts.kit import call
from tests.session.project.repository import Listener, Repository, named

FORK = {"context": "fork"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository."""
    return Repository(tmp_path, monkeypatch)


async def kinds(session: Session, *wanted: type[Any]) -> list[str]:
    return [type(r.event).__name__ for r in await session.events() if isinstance(r.event, wanted)]


async def child_log(session: Session, child: str) -> tuple[Any, ...]:
    return (await session.store.read(child)).records


async def test_what_a_person_runs_is_an_intent_in_the_log_before_the_child_begins(repository: Repository) -> None:
    repository.skill("inspect", "Look into $0.", **FORK, allowed_tools="Read, Bash(git *)", disallowed_tools="Read")
    model = Listener("Fine.", **{"Look into hold.": ({"text": "Dry.", "usage": {"input": 9, "output": 1}},)})
    async with repository.open(model=model, budget_microcents=5_000_000_000) as session:
        await session.command("inspect", "hold")
        log = await session.events()
        (started,), (finished,) = named(log, ChildStarted), named(log, ChildFinished)
        begun, over = (next(r for r in log if r.event is each) for each in (started, finished))
        first = (await child_log(session, started.child))[0]
        left = session.budget

    run = started.skill
    assert (run.name, run.display, started.prompt) == ("inspect", "/inspect hold", "Look into hold.")
    assert (run.allowed, run.denied) == (("Read", "Bash(git *)"), ("Read",))
    assert started.budget == {"limit": left, "on_exceed": "fail"}
    assert over.cause == begun.id
    assert finished.cost > 0
    assert isinstance(first.event, Started)
    assert first.at >= begun.at


async def test_what_the_child_met_its_parent_has_met_too(repository: Repository) -> None:
    @tool(name="hear", effect="pure", taints=("untrusted",))
    async def hear() -> str:
        """Listen to the sea."""
        return "words of strangers"

    repository.skill("listen", "Listen now.", **FORK)
    model = Listener("Fine.", **{"Listen now.": (call("hear"), "Heard.")})
    async with repository.open(model=model, tools=[hear]) as session:
        await session.command("listen")
        assert session.taint == ("untrusted",)


async def test_a_prompt_that_comes_meanwhile_is_answered_after_the_report(repository: Repository) -> None:
    repository.skill("inspect", "Look into it.", **FORK)
    model = Listener(
        {"text": "Fine.", "expect": {"contains": "The hold is dry."}},
        **{"Look into it.": ({"text": "The hold is dry."},)},
    )
    async with repository.open(model=model) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.command, "inspect")
            async for item in session.follow(0):
                if isinstance(getattr(item, "event", None), ChildStarted):
                    break
            assert await session.run("And?") == "Fine."
        order = await kinds(session, ChildStarted, InputReceived, ChildFinished, TurnStarted, InputTaken, ModelAsked)

    assert order[0] == "ChildStarted"
    assert order.index("ChildFinished") < order.index("TurnStarted")


async def test_a_skill_does_not_begin_in_a_turn(repository: Repository) -> None:
    repository.skill("inspect", "Look into it.", **FORK)
    async with repository.open({"text": "I talk", "hang": True}) as session:
        async with anyio.create_task_group() as tasks:

            async def talk() -> None:
                with pytest.raises(TurnError):
                    await session.run("Talk.")

            tasks.start_soon(talk)
            async for item in session.follow(0):
                if isinstance(getattr(item, "event", None), ModelAsked):
                    break
            refused = await session.command("inspect")
            await session.abort()
        assert refused is not None
        assert (refused.success, "A turn of session" in refused.message) == (False, True)
        assert await kinds(session, ChildStarted) == []
        assert [each.id for each in await session.store.list(SessionQuery(include_children=True))] == [session.id]


async def test_whoever_stops_waiting_stops_the_skill(repository: Repository) -> None:
    repository.skill("inspect", "Look into it.", **FORK)
    model = Listener("Fine.", **{"Look into it.": ({"text": "I look", "hang": True},)})
    async with repository.open(model=model) as session:
        with anyio.move_on_after(30) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.command, "inspect")
                async for item in session.follow(0):
                    if isinstance(getattr(item, "event", None), ChildStarted):
                        break
                assert (session.open_skill, session.is_executing) == ("inspect", True)
                tasks.cancel_scope.cancel()
        await session.until_idle()
        (finished,) = named(await session.events(), ChildFinished)
        assert (finished.outcome, session.open_skill) == ("interrupted", "")
        assert await session.run("And?") == "Fine."
        assert "It reports" not in str(session.history)
    assert not scope.cancelled_caught


async def test_a_session_that_is_closed_stops_its_skill(repository: Repository) -> None:
    repository.skill("inspect", "Look into it.", **FORK)
    model = Listener("Fine.", **{"Look into it.": ({"text": "I look", "hang": True},)})
    results: list[CommandResult | None] = []
    async with repository.open(model=model) as session:
        async with anyio.create_task_group() as tasks:

            async def inspect() -> None:
                results.append(await session.command("inspect"))

            tasks.start_soon(inspect)
            async for item in session.follow(0):
                if isinstance(getattr(item, "event", None), ChildStarted):
                    break
            await session.close()
        name = session.id
    (result,) = results
    assert result is not None
    assert (result.success, "did not finish" in result.message) == (False, True)
    async with repository.open("Fine.", resume=name) as session:
        assert (session.open_skill, await session.finish()) == ("", None)


async def test_a_long_text_is_kept_whole_and_the_child_gets_all_of_it(repository: Repository) -> None:
    repository.skill("inspect", f"Look into it. {'a plank, ' * LONG} And say: done.", **FORK)
    model = Listener("Fine.", **{"Look into it.": ({"text": "Done.", "expect": {"contains": "And say: done."}},)})
    async with repository.open(model=model) as session:
        result = await session.command("inspect")
        (started,) = named(await session.events(), ChildStarted)
    assert result == CommandResult(message="Done.", data={"skill": "inspect", "forked": True})
    assert started.whole is not None
    assert len(started.prompt) < LONG


async def test_two_skills_run_one_after_the_other(repository: Repository) -> None:
    repository.skill("inspect", "Look into $0.", **FORK)
    model = Listener("Fine.", **{"Look into": ("One.",), "Look into b.": ("Two.",)})
    async with repository.open(model=model) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.command, "inspect", "a")
            tasks.start_soon(session.command, "inspect", "b")
        order = await kinds(session, ChildStarted, ChildFinished)
    assert order == ["ChildStarted", "ChildFinished"] * 2


async def test_hooks_are_told_of_a_child_that_a_person_started(repository: Repository) -> None:
    hooks = {"SubagentStart": [{"hooks": [{"type": "command", "command": "true"}]}]}
    repository.write(".backstay/settings.json", {"hooks": hooks})
    repository.skill("inspect", "Look into it.", **FORK)
    async with repository.open(model=Listener("Fine.", **{"Look into it.": ("Done.",)})) as session:
        await session.command("inspect")
        assert [each.event for each in named(await session.events(), HookStarted)] == ["SubagentStart"]


async def test_the_report_comes_along_into_a_copy_and_goes_with_a_rewind(repository: Repository) -> None:
    repository.skill("inspect", "Look into it.", **FORK)
    model = Listener("Fine.", "Well.", **{"Look into it.": ("The hold is dry.",)})
    async with repository.open(model=model) as session:
        await session.run("Hello.")
        await session.command("inspect")
        copy = await session.fork()
        (turn,) = session.turns
        early = await session.fork(at=turn.turn)
        await session.rewind(to=turn.turn)
        assert "It reports" not in str(session.history)
        for name, reported in ((copy, True), (early, False)):
            async with repository.open("Fine.", resume=name) as other:
                assert ("The hold is dry." in str(other.history)) == reported
                statuses = [e.data["status"] for e in await other.full_history() if e.type == "skill-invocation"]  # type: ignore[index]  # of an event
                assert statuses == (["started", "completed"] if reported else [])


async def test_a_skill_without_its_agent_says_so_and_nothing_is_written(repository: Repository) -> None:
    repository.skill("inspect", "Look into it.", **FORK, agent="nobody")
    async with repository.open("Fine.") as session:
        result = await session.command("inspect")
        assert result is not None
        assert (result.success, "nobody" in result.message) == (False, True)
        assert await kinds(session, ChildStarted) == []
        with pytest.raises(UserError, match="nobody"):
            await session.fork_skill(session.project.found.skill("inspect"), "Look.", "")  # type: ignore[union-attr]  # it has one
