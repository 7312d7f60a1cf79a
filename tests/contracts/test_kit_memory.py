"""The memory of a project through an open session: the model proposes, a person approves, and what was used is known again."""

from pathlib import Path
from typing import Any

import pytest

from backstay import Answer, Question, Session
from backstay.vocab.events import CallJudged, ToolFinished
from backstay.vocab.events.instructions import MemoryNoted
from backstay.vocab.messages import text_of
from tests.contracts.kit import Reply, call, calls
from tests.session.project.repository import Listener, Repository, named

TOOL = "backstay_command_memory"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository."""
    return Repository(tmp_path, monkeypatch)


async def yes(question: Question) -> Answer:
    return Answer(allowed=True)


def ask(*lines: str) -> Reply:
    return calls(*[(TOOL, {"args": line}) for line in lines])


async def results(session: Session) -> list[tuple[str, str]]:
    return [(each.outcome, text_of(each.content)) for each in named(await session.events(), ToolFinished)]


@pytest.mark.contract("RB-83")
async def test_the_memory_command_is_a_tool_of_the_model_and_the_rewind_command_is_not(repository: Repository) -> None:
    model = Listener(ask("add project/boats The boat is red."), call("backstay_command_rewind", args="list"), "Done.")
    async with repository.open(model=model, asker=yes) as session:
        await session.run("Remember the boat.")
        remembered, rewound = await results(session)
        waiting = await session.command("memory", "pending")
        by_model = await session.command("rewind", "list", by="model")
        noted = named(await session.events(), MemoryNoted)

    offered = {tool.name for tool in model.heard[0].tools if tool.name.startswith("backstay_command_")}
    assert offered == {TOOL}
    assert remembered[0] == "ok"
    assert rewound[0] != "ok"
    assert by_model is None
    assert waiting is not None
    assert "The boat is red." in waiting.message
    assert [(each.act, each.topic) for each in noted] == [("queued", "boats")]


@pytest.mark.contract("RB-83", "RB-87")
async def test_rb_w14_the_model_cannot_approve_what_it_proposed_by_any_way_it_has(repository: Repository) -> None:
    propose = ask("add The boat is red.")
    async with repository.open(propose, "Proposed.", store=repository.store, asker=yes) as session:
        await session.run("Go.")
        waiting = await session.command("memory", "pending")
        assert waiting is not None
        waits: Any = waiting.data["waiting"]
        name = waits[0]["id"]
    again = Listener("", "", ask(f"approve {name}", f"reject {name}", "pending", "list"), "Done.")
    async with repository.open(resume=session.id, model=again, asker=yes) as session:
        await session.run("Approve it.")
        outcomes = [each[0] for each in (await results(session))[1:]]
        assert not (await session.command("memory", f"approve {name}", by="model")).success  # type: ignore[union-attr]
        still = await session.command("memory", "list")
        assert still is not None
        assert "boat is red" not in still.message
        assert "boat is red" not in session._services.instructions
        approved = await session.command("memory", f"approve {name}")
        assert approved is not None
        assert approved.success
        shown = await session.command("memory", "show general")
    assert outcomes == ["failed", "failed", "failed", "ok"]
    assert shown is not None
    assert "The boat is red." in shown.message


@pytest.mark.contract("RB-83")
async def test_rb_w14_the_model_writes_no_memory_in_plan_mode_whoever_says_yes(repository: Repository) -> None:
    async with repository.open(ask("add The boat is red."), "Done.", permission_mode="plan", asker=yes) as session:
        await session.run("Remember it.")
        ((outcome, _),) = await results(session)
        waiting = await session.command("memory", "pending")
        direct = await session.command("memory", "add The boat is red.", by="model")
        assert named(await session.events(), MemoryNoted) == []
    assert outcome != "ok"
    assert waiting is not None
    assert waiting.data["waiting"] == ()
    assert direct is not None
    assert not direct.success
    assert not list(repository.root.glob(".backstay/memory/**/*.md"))


@pytest.mark.contract("RB-87")
async def test_rb_w14_a_proposal_of_the_model_asks_nobody_waits_and_reaches_no_instructions(
    repository: Repository,
) -> None:
    async with repository.open(ask("add The boat is red."), "Done.", "Hi.") as session:
        await session.run("Remember it.")
        (judged,) = named(await session.events(), CallJudged)
        await session.run("Hello.")
        assert session.project is not None
        told = session.project.instructions.text
        waiting = await session.command("memory", "pending")
    assert (judged.decision, judged.reason) == ("allow", "tool")
    assert "The boat is red." not in told
    assert waiting is not None
    assert "The boat is red." in waiting.message
    assert not list(repository.root.glob(".backstay/memory/**/*.md"))


@pytest.mark.contract("RB-73", "RB-87")
async def test_what_was_used_of_the_memory_is_known_again_after_a_resume(repository: Repository) -> None:
    script = (ask("show boats"), "It is red.", "Hello again.")
    async with repository.open(*script, asker=yes) as session:
        await session.command("memory", "add project/boats The boat is red.")
        await session.run("Which colour?")
        used = await session.command("memory", "used")
    async with repository.open(*script, resume=session.id) as again:
        await again.run("Hi.")
        restored = await again.command("memory", "used")
        noted = named(await again.events(), MemoryNoted)

    assert used is not None
    assert restored is not None
    assert used.data == restored.data == {"used": ("topic:boats",)}
    assert [each.act for each in noted] == ["saved", "used"]


@pytest.mark.contract("RB-87")
async def test_what_a_person_adds_is_told_to_the_model_from_the_next_turn_on_and_to_the_next_session(
    repository: Repository,
) -> None:
    model = Listener("One.", "Two.")
    async with repository.open(model=model) as session:
        await session.run("Hi.")
        await session.command("memory", "add The boat is red.")
        await session.run("Again.")
    other = Listener("Hello.")
    async with repository.open(model=other) as next_one:
        await next_one.run("Hi.")

    assert [("The boat is red." in each.instructions) for each in (*model.heard, *other.heard)] == [False, True, True]


async def test_a_session_without_memory_offers_no_tool_for_it(repository: Repository) -> None:
    repository.write(repository.config / "settings.json", {"memory": {"enabled": False}})
    model = Listener("Hello.")
    async with repository.open(model=model) as session:
        await session.run("Hi.")
        said = await session.command("memory", "list")

    assert TOOL not in {tool.name for tool in model.heard[0].tools}
    assert said is not None
    assert not said.success
