"""What settings, ceilings and variables do to a session, and what never gets into one."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from backstay import UserError, open_session, open_store
from backstay.config.secret import Secret
from backstay.config.settings import Settings, load_settings
from backstay.ports import ModelRequest
from backstay.providers.scripted import ScriptedModel
from backstay.system.machine import SystemClock
from backstay.vocab.errors import TurnFailed
from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import InputReceived, ModelAsked, ModelFailed, Started, TurnCompleted
from backstay.vocab.events.limits import BudgetSet, Compacted
from backstay.vocab.messages import text_of
from tests.contracts.kit import call, look, scripted, talk

LOOKS_LIKE_A_KEY = "sk-ant-" + "api03-" + "aB3dE5gH7jK9" * 4


def settings(folder: Path, content: object) -> Settings:
    """Settings from a file, with nothing of this machine's person in them."""
    path = folder / "given.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return load_settings(path, {"BACKSTAY_CONFIG_DIR": str(folder / "nowhere")})


def script(folder: Path, *texts: str, name: str = "script") -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps([{"text": text} for text in texts]), encoding="utf-8")
    return f"scripted:{path}"


def events(records: tuple[Recorded, ...], kind: type[Event]) -> list[Any]:  # Any: events of that kind
    return [record.event for record in records if isinstance(record.event, kind)]


@pytest.mark.contract("RV-21")
async def test_chat_settings_fill_what_is_not_said(tmp_path: Path) -> None:
    model = script(tmp_path, "one", "two")
    chat = {
        "default_model": model,
        "fs_scope": "project",
        "allowed_commands": ["make test"],
        "max_messages": 4,
        "max_cost_microcents": 100_000_000,
        "on_exceed": "pause_for_approval",
        "max_session_turns": 1,
    }
    found = settings(tmp_path, {"chat": chat, "retries": 2, "auto_compact": False})
    async with open_session(settings=found, store=None) as session:
        assert session.model == model
        assert await session.run("a") == "one"
        with pytest.raises(TurnFailed, match="limit of 1 turn"):
            await session.run("b")
        log = await session.events()
        policy = session._runner.policy
    assert events(log, Started)[0].context.fs_scope == "project"
    assert events(log, BudgetSet) == [BudgetSet(limit=100_000_000, on_exceed="pause_for_approval")]
    assert (policy.retries.attempts, policy.auto_compact, policy.max_messages) == (3, None, 4)
    assert [str(rule) for rule in policy.rules] == ["Bash(make test)"]


@pytest.mark.contract("RV-21")
async def test_what_is_said_goes_before_the_settings_and_an_old_session_keeps_its_own(tmp_path: Path) -> None:
    first, other = script(tmp_path, "one", "two", "three"), script(tmp_path, "no", name="other")
    chat = {"default_model": other, "max_cost_microcents": 1, "max_session_turns": 1, "fs_scope": "full"}
    found = settings(tmp_path, {"chat": chat, "fallback": [other]})
    url = f"sqlite:///{tmp_path}/s.db"
    async with open_session(
        model=first,
        settings=found,
        store=url,
        budget_microcents=200_000_000,
        max_session_turns=9,
        fallback_models=[first],
        fs_scope="sandboxed",
    ) as session:
        assert await session.run("a") == "one"
        assert session.budget == 200_000_000
        assert events(await session.events(), Started)[0].context.fs_scope == "sandboxed"
        assert session._runner.policy.fallbacks == (first,)
    async with open_session(resume=session.id, settings=found, store=url, max_session_turns=9) as again:
        assert (again.model, again.budget) == (first, 200_000_000)
        assert await again.run("b") == "two"
        assert again._runner.policy.fallbacks == (other,)


async def test_a_profile_is_a_model_and_figures_of_ones_own_are_known(tmp_path: Path) -> None:
    content = {
        "providers": {
            "work": {"type": "openai-chat", "base_url": "http://127.0.0.1:9/v1", "model": "house-1"},
            "bare": {"type": "anthropic", "api_key": "$ENV:NO_SUCH_VARIABLE", "model": "claude-sonnet-4-6"},
        },
        "models": {"work:house-1": {"window": 5_000, "prices": {"input": 1, "output": 2}}},
    }
    found = settings(tmp_path, content)
    async with open_session(model="work", settings=found, store=None) as session:
        assert session.model == "work:house-1"
        facts = session.model_facts["work:house-1"]
        assert (facts.window, facts.known, session.context_state.max) == (5_000, True, 5_000)
        await session.set_model("work:house-2")
        assert not session.model_facts["work:house-2"].known
    with pytest.raises(UserError, match="'NO_SUCH_VARIABLE', which is not set"):
        async with open_session(model="bare", settings=found, store=None):
            pytest.fail("must not open")


async def test_the_profiles_of_the_person_are_found_without_saying_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_CONFIG_DIR", str(tmp_path))
    profile = {"type": "openai-chat", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    content = {"providers": {"mine": profile}, "chat": {"max_session_turns": 1}}
    (tmp_path / "settings.json").write_text(json.dumps(content), encoding="utf-8")
    async with open_session(model="mine", store=None) as session:
        assert session.model == "mine:m"
        assert session._runner.policy.max_session_turns == 1
    with pytest.raises(UserError, match="no model 'yours"):
        async with open_session(model="yours:m", store=None):
            pytest.fail("must not open")


@pytest.mark.contract("RV-14", "RV-16")
@pytest.mark.parametrize(("given", "cap"), [(0, 50), (None, 50), (2, 2)])
async def test_a_session_has_so_many_turns_and_one_more_is_an_error_that_is_told(given: int | None, cap: int) -> None:
    options = {} if given is None else {"max_session_turns": given}
    async with talk(*["x"] * 60, **options) as session:
        for _ in range(cap):
            await session.run("go")
        with pytest.raises(TurnFailed) as failed:
            await session.run("one more")
        log = await session.events()
    assert failed.value.reason == "turn_limit"
    assert len(events(log, ModelAsked)) == cap
    last = events(log, TurnCompleted)[-1]
    assert (last.outcome, last.stop_reason, last.code) == ("failed", "error", "turn_limit")


@pytest.mark.contract("RV-17")
async def test_too_many_rounds_in_a_turn_have_the_same_code() -> None:
    async with talk(*[call("look", at="sky")] * 5, tools=[look], max_rounds=2) as session:
        with pytest.raises(TurnFailed) as failed:
            await session.run("go")
        log = await session.events()
    assert (failed.value.reason, len(events(log, ModelAsked))) == ("turn_limit", 2)
    assert events(log, TurnCompleted)[-1].code == "turn_limit"


@pytest.mark.contract("RV-15")
async def test_a_long_history_is_trimmed_without_a_word_and_counts_for_no_other_limit() -> None:
    class Watched(ScriptedModel):
        sent: ClassVar[list[int]] = []

        async def ask(self, request: ModelRequest) -> Any:  # Any: as the port has it
            self.sent.append(len(request.messages))
            async for item in super().ask(request):
                yield item

    model = Watched(scripted(*["x"] * 8)._replies, name="scripted:watched")
    async with open_session(model=model, store=None, max_messages=4, max_session_turns=8, max_rounds=1) as session:
        for number in range(8):
            await session.run(f"prompt {number}")
        log = await session.events()
    assert max(model.sent) <= 4
    assert {event.trigger for event in events(log, Compacted)} == {"trim"}
    assert all(event.summary is None and event.cost is None for event in events(log, Compacted))
    assert not events(log, ModelFailed)
    assert [event.outcome for event in events(log, TurnCompleted)] == ["completed"] * 8


@pytest.mark.contract("RV-30", "RV-B21")
async def test_variables_are_in_the_log_as_they_are_and_stand_in_prompts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    variables = {"who": "Ada", "what": "{{ctx.who}}", "release.name": "v2 \u2603"}
    model = scripted("one", {"expect": {"contains": "Bye, Ada."}, "text": "two"})
    async with open_session(model=model, store=url, variables=variables, append_system_prompt="For {{ctx.who}}.") as s:
        await s.run("{{ctx.who}}, {{ ctx.release.name }}: {{ctx.what}} {{ctx.nobody}} {{who}}")
        assert events(await s.events(), Started)[0].context.variables == variables
        assert text_of(s.history[0].content) == "Ada, v2 \u2603: {{ctx.who}} {{ctx.nobody}} {{who}}"
        assert s._services.instructions.endswith("For Ada.")
    async with open_session(resume=s.id, model=model, store=url) as again:
        assert await again.run("Bye, {{ctx.who}}.") == "two"


@pytest.mark.contract("RV-B21", "RV-29")
@pytest.mark.parametrize(
    "variables",
    [{"api_key": "anything"}, {"note": f"use {LOOKS_LIKE_A_KEY}"}, {"k": Secret("s3cr3t-value", name="k")}],
)
async def test_a_variable_that_looks_like_a_secret_is_refused_at_the_start(variables: Any) -> None:
    store = await open_store("memory:", clock=SystemClock())
    with pytest.raises(UserError) as refused:
        async with open_session(model=scripted("x"), store=store, variables=variables):
            pytest.fail("must not open")
    assert "looks like a secret" in str(refused.value) or "not valid" in str(refused.value)
    assert not any(word in str(refused.value) for word in ("anything", "sk-ant", "s3cr3t"))
    assert await store.list() == ()
    await store.close()


@pytest.mark.contract("RV-29")
async def test_nothing_but_a_variable_is_put_into_a_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "k-0123456789")
    profile = {"type": "openai-chat", "base_url": "http://127.0.0.1:9/v1", "api_key": "$ENV:HOUSE_KEY", "model": "m"}
    found = settings(tmp_path, {"providers": {"house": profile}})
    said = "$ENV:HOUSE_KEY {{ctx.api_key}} {{ctx.HOUSE_KEY}} {{env.HOUSE_KEY}}"
    async with open_session(model="house", settings=found, store=None, variables={"who": "Ada"}) as session:
        await session.steer(said)
        received = [r.event for r in await session.events() if isinstance(r.event, InputReceived)]
        assert text_of(received[0].parts) == said
        await session.abort()


async def test_no_model_is_answered_with_the_choices() -> None:
    with pytest.raises(UserError) as refused:
        async with open_session(store=None):
            pytest.fail("must not open")
    for words in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "backstay models pull", "scripted:FILE"):
        assert words in str(refused.value)
