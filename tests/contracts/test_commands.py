"""The commands that every session has: what they say, what they do, and what they give to the program that runs them."""

from pathlib import Path
from typing import Any

import pytest

from backstay import Rule, UserError
from backstay.commands.registry import Command, CommandModule, CommandResult, CommandSpec, Submission
from backstay.session.project.commands import BUILT_IN
from backstay.session.session import SessionCall
from backstay.vocab.events import HistoryCleared
from backstay.vocab.events.limits import Compacted, CompactionUndone
from backstay.vocab.messages import text_of
from scripts.docs.commands import DATA
from tests.contracts.kit import call, scripted
from tests.session.project.repository import Repository, named

WRITE = call("Write", file_path="a.txt", content="two\n")
NAMES = {command.spec.name for command in BUILT_IN.commands()}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository."""
    return Repository(tmp_path, monkeypatch)


async def ran(session: Any, line: str) -> CommandResult:  # Any: the session's class is what is tested
    """Run a command that exists; what it gives to programs has the keys that the reference names."""
    name, _, args = line.partition(" ")
    result = await session.command(name, args)
    assert isinstance(result, CommandResult)
    assert set(result.data) <= set(DATA[name])
    return result


def said(session: Any) -> str:
    """Everything that the model would see of the conversation."""
    return "\n".join(text_of(message.content) for message in session.history)


@pytest.mark.contract("RB-71")
async def test_commands_are_listed_with_their_descriptions_and_an_unknown_name_is_nothing(
    repository: Repository,
) -> None:
    async with repository.open() as session:
        listed = session.list_commands()

        assert [spec.name for spec in listed] == sorted(NAMES)
        assert all(spec.description.endswith(".") for spec in listed)
        assert await session.command("no-such-command", "x") is None
        assert await session.interpret("/no-such-command x") is None
        assert await session.interpret("no command at all") is None


@pytest.mark.contract("RB-79")
async def test_help_lists_every_command_and_explains_one(repository: Repository) -> None:
    async with repository.open() as session:
        whole, one = await ran(session, "help"), await ran(session, "help /rename")
        unknown = await ran(session, "help nothing")

    assert whole.data["commands"] == sorted(NAMES)
    assert one.message.split() == ["/rename", "NAME", "Give", "the", "session", "a", "name."]
    assert (unknown.success, unknown.message) == (False, "There is no command /nothing. /help lists them.")


@pytest.mark.contract("RB-79")
async def test_what_the_caller_has_to_do_is_signalled_as_data(repository: Repository) -> None:
    async with repository.open("Hello.", name="first") as session:
        await session.run("Hi.")
        before = session.seq
        results = {
            line: dict((await ran(session, line)).data) for line in ("resume", "resume x", "reset", "exit", "export")
        }
        exported = await ran(session, "export notes.yaml")

        assert session.seq == before, "the caller does it, not the session"
    assert results == {
        "resume": {"triggerResumePicker": True, "session": ""},
        "resume x": {"triggerResumePicker": False, "session": "x"},
        "reset": {"resetRequested": True},
        "exit": {"exitRequested": True},
        "export": {},
    }
    assert exported.data == {"exportRequested": "notes.yaml"}


@pytest.mark.contract("RB-79")
async def test_rename_mode_model_and_language_change_the_session_and_say_what_they_are(repository: Repository) -> None:
    other = scripted("x")
    async with repository.open("Hello.", find=lambda name: other) as session:
        assert (await ran(session, "rename  a boat ")).data == {"name": "a boat"}
        assert not (await ran(session, "rename")).success
        assert session.name == "a boat"

        assert (await ran(session, "mode")).data == {"mode": "default"}
        assert (await ran(session, "mode plan")).data == {"mode": "plan"}
        assert session.permission_mode == "plan"
        assert not (await ran(session, "mode sloppy")).success

        assert (await ran(session, "model")).data == {"modelId": "scripted:inline"}
        assert (await ran(session, "model scripted:other")).data == {"modelId": "scripted:other"}
        assert session.model == "scripted:other"

        assert (await ran(session, "language")).data == {"language": ""}
        assert (await ran(session, "language German")).data == {"language": "German"}
        assert "German" in session._services.instructions
    async with repository.open(resume=session.id, model=None, find=lambda name: other) as again:
        assert (again.name, again.permission_mode, again.model) == ("a boat", "plan", "scripted:other")


@pytest.mark.contract("RB-79")
async def test_a_mode_or_a_model_that_cannot_be_had_is_an_answer_and_no_error(repository: Repository) -> None:
    repository.write(repository.config / "settings.json", {"permissions": {"disableBypassPermissionsMode": "disable"}})
    async with repository.open("Hello.") as session:
        mode, model = await ran(session, "mode bypassPermissions"), await ran(session, "model nobody:none")

        assert (mode.success, session.permission_mode) == (False, "default")
        assert "settings.json" in mode.message
        assert (model.success, session.model) == (False, "scripted:inline")
        assert "nobody:none" in model.message


@pytest.mark.contract("RB-79")
async def test_cost_usage_and_context_give_figures(repository: Repository) -> None:
    repository.write("AGENTS.md", "Run make test.")
    usage = {"input": 1_000, "output": 50}
    async with repository.open({"text": "Hello.", "usage": usage}, budget_microcents=500_000_000) as session:
        fresh = await ran(session, "usage")
        await session.run("Hi.")
        cost, used, context = [await ran(session, line) for line in ("cost", "usage", "context")]

        assert cost.data == {
            "inputTokens": 1_000,
            "outputTokens": 50,
            "costMicrocents": session.cost,
            "budgetMicrocents": 500_000_000,
        }
        assert session.cost > 0
        assert cost.message == "1,000 tokens in, 50 out; $0.0038 spent of $5.00."
        assert (used.data, used.message.splitlines()[0]) == (cost.data, "Newest turn: 1,000 tokens in, 50 out (exact).")
        assert fresh.data["inputTokens"] == 0
        assert context.data == {
            "usedTokens": session.context_state.used,
            "maxTokens": session.context_state.max,
            "usedPercentage": session.context_state.percentage,
        }
    assert str(repository.root / "AGENTS.md") in context.message


@pytest.mark.contract("RB-79")
async def test_clear_compact_and_undo_are_about_the_conversation(repository: Repository) -> None:
    long = "word " * 2_000
    async with repository.open(*[long] * 6) as session:
        assert "nothing that could be shortened" in (await ran(session, "compact")).message
        for number in range(6):
            await session.run(f"{number}: {long}")
        full = session.context_state.used
        shorter = await ran(session, "compact keep the numbers")
        assert shorter.data == {"usedTokens": session.context_state.used, "trigger": "manual"}
        assert session.context_state.used < full
        assert (await ran(session, "undo compact")).success
        assert not (await ran(session, "undo compact")).success
        assert not (await ran(session, "undo everything")).success

        assert (await ran(session, "clear")).data == {"cleared": True}
        assert session.history == ()
        log = await session.events()
    assert [len(named(log, kind)) for kind in (Compacted, CompactionUndone, HistoryCleared)] == [1, 1, 1]


@pytest.mark.contract("RB-79")
async def test_permissions_shows_the_rules_and_what_was_allowed_and_clears_that(repository: Repository) -> None:
    async with repository.open("Hello.", rules=[Rule.parse("deny", "Bash(rm *)")]) as session:
        shown = await ran(session, "permissions")
        assert shown.data["mode"] == "default"
        assert shown.data["approvedTools"] == []
        rules: Any = shown.data["rules"]
        assert {"decision": "deny", "rule": "Bash(rm *)", "source": rules[0]["source"]} == rules[0]
        assert "deny  Bash(rm *)" in shown.message
        assert (await ran(session, "permissions clear")).success
        assert not (await ran(session, "permissions loosen")).success


@pytest.mark.contract("RB-72", "RB-79")
async def test_rewind_lists_the_turns_and_goes_back_with_the_conversation_the_files_or_both(
    repository: Repository,
) -> None:
    kept = repository.write("a.txt", "one\n")
    again = call("Write", file_path="a.txt", content="three\n")
    read = call("Read", file_path="a.txt")
    script = (read, WRITE, "Two.", again, "Three.")
    async with repository.open(*script, permission_mode="acceptEdits") as session:
        await session.run("Make it two.")
        await session.run("Make it three.")
        listed = await ran(session, "rewind list")
        points: Any = listed.data["checkpoints"]
        assert [(each["number"], each["prompt"]) for each in points] == [(1, "Make it two."), (2, "Make it three.")]

        files = await ran(session, "rewind 1 files")
        assert (files.success, kept.read_text()) == (True, "two\n")
        assert ("Three." in said(session), "put the files back" in said(session)) == (True, True)
        assert (await ran(session, "rewind back")).success
        assert kept.read_text() == "three\n"

        both = await ran(session, f"rewind {points[0]['turn']}")
        assert (both.data, kept.read_text()) == ({"turn": points[0]["turn"]}, "two\n")
        assert ("Two." in said(session), "Three." in said(session)) == (True, False)
        assert not (await ran(session, "rewind 77")).success
        assert not (await ran(session, "rewind 1 everything")).success

        undone = await ran(session, "undo")
        assert (undone.success, kept.read_text(), "Two." in said(session)) == (True, "one\n", False)
        assert (await ran(session, "undo")).message == "There is no turn to take back."


async def test_a_number_of_a_turn_that_was_used_again_means_the_newest_and_undo_needs_no_files(
    repository: Repository,
) -> None:
    async with repository.open("One.", "Two.", "Three.", checkpoints=False) as session:
        await session.run("first")
        await session.run("second")
        assert (await ran(session, "undo")).success
        assert "Two." not in said(session)
        assert not (await ran(session, "rewind 1")).success
    async with repository.open("One.", "Two.", "Three.", "Four.") as session:
        for prompt in ("first", "second"):
            await session.run(prompt)
        await ran(session, "rewind 1 conversation")
        await session.run("another second")
        await session.run("third")
        assert (await ran(session, "rewind 2 conversation")).success
    assert ("Three." in said(session), "Two." in said(session), "Four." in said(session)) == (True, False, False)


@pytest.mark.contract("RB-79")
async def test_what_was_found_is_listed_by_name(repository: Repository) -> None:
    repository.skill("tidy", "Tidy up.")
    repository.write(".backstay/agents/scout.md", "---\nname: scout\ndescription: Looks ahead.\n---\nLook.\n")
    hook = {"SessionStart": [{"hooks": [{"type": "command", "command": "true"}]}]}
    repository.write(".backstay/settings.json", {"hooks": hook})
    async with repository.open("Hello.") as session:
        found = {
            name: await ran(session, name) for name in ("skills", "agents", "hooks", "mcp", "plugins", "background")
        }
        doctor = await ran(session, "doctor")

    assert found["skills"].data == {"skills": ["tidy"]}
    assert found["skills"].message.split(maxsplit=1) == ["tidy", "About tidy."]
    assert "scout" in found["agents"].data["agents"]  # type: ignore[operator]  # a list of names
    assert found["hooks"].data == {"hooks": ["SessionStart"]}
    assert found["mcp"].data == {"servers": []}
    assert found["plugins"].data == {"plugins": []}
    assert found["background"].data == {"tasks": []}
    assert doctor.data == {"doctorRequested": True, "notes": []}


@pytest.mark.contract("RB-79", "RB-83")
async def test_memory_is_written_shown_and_used_by_name(repository: Repository) -> None:
    async with repository.open("Hello.") as session:
        assert (await ran(session, "memory")).message == "Nothing is remembered here."
        assert (await ran(session, "memory add project/boats The boat is red.")).success
        listed, shown = await ran(session, "memory list"), await ran(session, "memory show boats")
        waiting, used = await ran(session, "memory pending"), await ran(session, "memory used")
        assert not (await ran(session, "memory forget everything")).success
    assert listed.data["topics"] == ("boats",)
    assert "The boat is red." in shown.message
    assert waiting.data == {"waiting": (), "problems": ()}
    assert used.data == {"used": ()}


@pytest.mark.contract("RB-80")
async def test_a_command_says_who_may_use_it_its_arguments_and_whether_it_writes(repository: Repository) -> None:
    async with repository.open("Hello.") as session:
        specs = {spec.name: spec for spec in session.list_commands()}
        as_model = {name: await session.command(name, by="model") for name in specs if name not in ("clear", "exit")}

    assert specs["rewind"].argument_hint.startswith("[list | TURN")
    assert specs["memory"].subcommands[:3] == ("list", "show", "add")
    assert {name for name, spec in specs.items() if spec.model_invocable} == {"memory"}
    assert {name for name, result in as_model.items() if result is not None} == {"memory"}
    assert {spec.safety for spec in specs.values()} == {"reads", "proposes", "writes"}
    assert specs["cost"].safety == "reads"
    assert specs["compact"].safety == "writes"


def greeting(**more: Any) -> Command:
    async def execute(given: SessionCall) -> CommandResult:
        return CommandResult(message=f"Hello {given.args}.", data={"by": given.by, "words": given.words})

    return Command(spec=CommandSpec(name="greet", description="Greet somebody.", **more), execute=execute)


def asking() -> Command:
    async def expand(given: SessionCall) -> Submission:
        return Submission(prompt=f"Think about {given.args}.", display=f"/think {given.args}")

    return Command(spec=CommandSpec(name="think", description="Think."), expand=expand)


@pytest.mark.contract("RB-80", "RB-81")
async def test_a_module_of_the_program_brings_commands_that_answer_or_speak_to_the_model(
    repository: Repository,
) -> None:
    module = CommandModule(name="greetings", commands=(greeting(safety="reads"), asking()))
    reply = {"text": "Thought.", "expect": {"contains": "Think about boats."}}
    async with repository.open(reply, modules=[module]) as session:
        greeted = await session.command("greet", "you there")
        assert greeted == CommandResult(message="Hello you there.", data={"by": "user", "words": ["you", "there"]})
        meant = await session.interpret("/think boats")
        assert meant == Submission(prompt="Think about boats.", display="/think boats")
        thought = await session.command("think", "boats")
        assert thought == CommandResult(message="Thought.", data={"submitted": True})
        entries = await session.full_history()
    assert "/think boats" in str(entries[0])


@pytest.mark.contract("RB-81")
async def test_a_module_that_needs_what_the_session_has_not_is_refused_by_name(repository: Repository) -> None:
    module = CommandModule(name="screens", requirements=frozenset(("a-screen",)))
    with pytest.raises(UserError, match="'screens' requires a-screen"):
        async with repository.open("Hello.", modules=[module]):
            pytest.fail("must not open")


@pytest.mark.contract("RB-80")
async def test_a_command_that_is_hidden_from_people_is_not_theirs(repository: Repository) -> None:
    module = CommandModule(name="quiet", commands=(greeting(user_invocable=False, model_invocable=True),))
    async with repository.open("Hello.", modules=[module]) as session:
        assert "greet" not in {spec.name for spec in session.list_commands()}
        assert await session.command("greet") is None
        assert await session.interpret("/greet") is None
        assert (await session.command("greet", by="model")) is not None


async def test_a_session_that_looks_at_nothing_has_no_commands(repository: Repository) -> None:
    async with repository.open("Hello.", bare=True) as session:
        assert session.list_commands() == ()
        assert await session.command("help") is None
        assert await session.interpret("/help") is None
