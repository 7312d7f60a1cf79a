"""What must hold where the parts meet: taint over a batch, modes that are settled for the machine, children, forks, guards."""

import json
from pathlib import Path
from typing import Any

import pytest

from backstay import Answer, Question, Rule, Session, TurnInterrupted, UserError, open_session, open_store, tool
from backstay.hooks.decorator import hook
from backstay.session.subagents import child_tool
from backstay.system.machine import SystemClock
from backstay.vocab.events import CallJudged, ChildStarted, Started, ToolFinished
from backstay.vocab.messages import text_of
from tests.contracts.kit import call, calls, scripted, talk

Told = dict[str, Any]


@tool(effect="pure", taints=("untrusted",))
async def stranger(n: int) -> str:
    """Bring words of a stranger."""
    return "hello"


@tool(effect="pure", taints=("private",))
async def diary(n: int) -> str:
    """Read something private."""
    return "dear diary"


@tool(taints=("outside",))
async def send(n: int) -> str:
    """Send something away."""
    return "sent"


@tool(asks=True)
async def careful() -> str:
    """Do what nobody but the person may say yes to."""
    return "done"


CHOICE = {"question": "Which?", "header": "Which", "options": [{"label": name} for name in ("a", "b")]}


async def decisions(session: Session) -> list[tuple[str, str]]:
    events = [record.event for record in await session.events()]
    return [(event.decision, event.reason) for event in events if isinstance(event, CallJudged)]


async def outputs(session: Session) -> list[str]:
    return [
        text_of(record.event.content) for record in await session.events() if isinstance(record.event, ToolFinished)
    ]


async def test_the_rule_of_two_counts_the_calls_of_one_reply_together() -> None:
    script = calls(("stranger", {"n": 1}), ("diary", {"n": 2}), ("send", {"n": 3}))
    async with talk(script, "Done.", tools=[stranger, diary, send]) as session:
        await session.run("Go.")
        assert (await decisions(session))[-1] == ("ask", "taint")
        assert "sent" not in await outputs(session)


def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **permissions: object) -> None:
    path = tmp_path / "managed.json"
    path.write_text(json.dumps({"permissions": permissions}), encoding="utf-8")
    monkeypatch.setenv("BACKSTAY_MANAGED_SETTINGS", str(path))


async def test_a_mode_that_is_settled_for_the_machine_holds_for_old_sessions_and_for_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    model = scripted("One.", call("Bash", command="touch pwned"), "Two.")
    async with open_session(store=store, model=model, cwd=tmp_path, permission_mode="bypassPermissions") as session:
        await session.run("Go.")
    managed(tmp_path, monkeypatch, defaultMode="plan", disableBypassPermissionsMode="disable")
    async with open_session(store=store, model=model, cwd=tmp_path, resume=session.id) as again:
        await again.run("Go on.")
        with pytest.raises(UserError, match="bypassPermissions"):
            await again.set_permission_mode("bypassPermissions")
        with pytest.raises(UserError, match="looser"):
            await again.set_permission_mode("acceptEdits")
    assert not (tmp_path / "pwned").exists()


async def test_what_is_managed_holds_although_the_program_brings_its_own_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed(tmp_path, monkeypatch, deny=["diary"])
    model = scripted(call("diary", n=1), "Done.")
    async with open_session(store=None, model=model, find=lambda name: model, tools=[diary]) as session:
        await session.run("Go.")
        assert await decisions(session) == [("deny", "rule")]


async def test_a_child_stays_in_the_sandbox_of_its_parent() -> None:
    model = scripted(call("delegate", prompt="Think."), "Thought.", "Done.")
    mode = {"permission_mode": "bypassPermissions"}
    async with talk(model=model, tools=[child_tool()], fs_scope="sandboxed", **mode) as session:
        await session.run("Go.")
        child = next(r.event.child for r in await session.events() if isinstance(r.event, ChildStarted))
        first = (await session.store.read(child, 0, 1)).records[0].event
    assert isinstance(first, Started)
    assert first.context.fs_scope == "sandboxed"


async def test_a_fork_keeps_the_taint_and_the_scope_also_after_a_rewind() -> None:
    store = await open_store("memory:", clock=SystemClock())
    model = scripted(call("diary", n=1), "Read.", "Two.", "Three.")
    async with open_session(store=store, model=model, tools=[diary], fs_scope="full") as session:
        await session.run("Go.")
        await session.rewind(before=session.turns[0].turn)
        await session.run("Again.")
    async with open_session(store=store, model=model, tools=[diary], resume=session.id, fs_scope="sandboxed") as again:
        await again.run("And again.")
        fork = await again.fork()
    async with open_session(store=store, model=model, tools=[diary], resume=fork) as copy:
        assert copy.taint == ("private",)
        assert copy.plain_state()["progress"]["scope"] == "sandboxed"  # type: ignore[index]  # plain data
    await store.close()


def changes_to(event: str, n: int) -> Any:
    decision = {"permissionDecision": "allow"} if event == "PreToolUse" else {}
    permitted = {"decision": {"behavior": "allow", "updatedInput": {"n": n}}} if event == "PermissionRequest" else {}

    @hook(event)
    def changing(told: Told) -> Told | None:
        if told["tool_input"]["n"] == n:
            return None
        fields = {**decision, **permitted} | ({"updatedInput": {"n": n}} if event == "PreToolUse" else {})
        return {"hookSpecificOutput": {"hookEventName": event, **fields}}

    return changing


@hook("PreToolUse", matcher="send")
def guard(told: Told) -> Told | None:
    if told["tool_input"]["n"] <= 10:
        return None
    refusal = {"permissionDecision": "deny", "permissionDecisionReason": "too much"}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **refusal}}


@pytest.mark.parametrize("changed_by", ["PreToolUse", "PermissionRequest", "person"])
async def test_a_guard_hears_the_arguments_that_would_run_whoever_changed_them(changed_by: str) -> None:
    async def ask(question: Question) -> Answer:
        return Answer(allowed=True, args={"n": 1000} if changed_by == "person" else None)

    hooks = [guard] if changed_by == "person" else [guard, changes_to(changed_by, 1000)]
    rules = [Rule.parse("ask", "send")]
    async with talk(call("send", n=1), "Done.", tools=[send], hooks=hooks, rules=rules, asker=ask) as session:
        await session.run("Go.")
        (told,) = await outputs(session)
    assert "too much" in told


async def test_a_hook_answers_no_question_that_only_a_person_may() -> None:
    @hook("PermissionRequest")
    def yes(told: Told) -> Told:
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}

    script = calls(("stranger", {"n": 1}), ("diary", {"n": 2}), ("send", {"n": 3}))
    async with talk(script, "Done.", tools=[stranger, diary, send], hooks=[yes]) as session:
        await session.run("Go.")
        assert "sent" not in await outputs(session)


@pytest.mark.parametrize(
    ("asked", "rules", "also"),
    [
        (("Read", {"file_path": "/etc/hostname"}), ["Read(/etc/hostname)"], None),
        (("Bash", {"command": "pwd"}), ["Bash(pwd)"], None),
        (("Bash", {"command": "pwd"}), [], "ask"),
        (("WebFetch", {"url": "http://169.254.169.254/"}), [], None),
        (("AskUserQuestion", {"questions": [CHOICE]}), [], None),
        (("careful", {}), [], None),
    ],
)
async def test_the_yes_of_a_hook_at_a_question_is_as_small_as_that_of_one_before_the_call(
    asked: tuple[str, dict[str, object]], rules: list[str], also: str | None
) -> None:
    @hook("PermissionRequest")
    def yes(told: Told) -> Told:
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}

    @hook("PreToolUse")
    def before(told: Told) -> Told:
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": also}} if also else {}

    questions: list[Question] = []

    async def refuse(question: Question) -> Answer:
        questions.append(question)
        return Answer(allowed=False)

    parsed = [Rule.parse("ask", text) for text in rules]
    async with talk(calls(asked), "Done.", tools=[careful], hooks=[yes, before], rules=parsed, asker=refuse) as session:
        await session.run("Go.")
    assert len(questions) == 1


async def test_a_hook_may_answer_what_a_mode_asks(tmp_path: Path) -> None:
    @hook("PermissionRequest")
    def yes(told: Told) -> Told:
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}

    async with talk(call("Write", file_path="a", content="x"), "Done.", hooks=[yes], cwd=tmp_path) as session:
        await session.run("Go.")
        assert await decisions(session) == [("ask", "mode"), ("allow", "hook")]
    assert (tmp_path / "a").read_text() == "x"


async def test_what_a_hook_stopped_runs_no_further_call_of_the_reply() -> None:
    @hook("PostToolUse", matcher="send")
    def enough(told: Told) -> Told:
        return {"continue": False, "stopReason": "enough"}

    script = calls(("send", {"n": 1}), ("send", {"n": 2}))
    async with talk(script, "Never.", tools=[send], hooks=[enough]) as session:
        with pytest.raises(TurnInterrupted, match="enough"):
            await session.run("Go.")
        assert [each == "sent" for each in await outputs(session)] == [True, False]


async def test_a_yes_is_for_what_was_shown_and_not_for_where_it_leads_later(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    work = tmp_path / "work"
    (work / "d").mkdir(parents=True)

    @tool
    async def swap(n: int) -> str:
        """Put a link where a folder was."""
        (work / "d").rmdir()
        (work / "d").symlink_to(outside)
        return "swapped"

    reasons: list[str] = []

    async def ask(question: Question) -> Answer:
        reasons.append(question.reason)
        return Answer(allowed=len(reasons) == 1, grant="session")

    write = {"file_path": "d/f", "content": "x"}
    model = scripted(calls(("Write", write)), calls(("swap", {"n": 1}), ("Write", write)), "Done.")
    (work / "d").mkdir(exist_ok=True)

    @tool
    async def clear(n: int) -> str:
        """Remove the file again."""
        (work / "d" / "f").unlink()
        return "cleared"

    model = scripted(calls(("Write", write), ("clear", {"n": 1})), calls(("swap", {"n": 1}), ("Write", write)), "Done.")
    async with open_session(store=None, model=model, tools=[swap, clear], cwd=work, asker=ask) as session:
        await session.run("Go.")
    assert len(reasons) == 2
    assert list(outside.iterdir()) == []


async def test_arguments_that_are_too_deep_and_replies_with_too_many_calls_are_results() -> None:
    @tool
    async def take(thing: object) -> str:
        """Take anything."""
        return "taken"

    deep: object = 1
    for _ in range(200):
        deep = [deep]
    many = calls(*[("diary", {"n": n}) for n in range(200)])
    async with talk(call("take", thing=deep), many, "Done.", tools=[take, diary]) as session:
        assert await session.run("Go.") == "Done."
        told = await outputs(session)
    assert "nested" in told[0]
    assert sum("One reply may have" in each for each in told) == 72
