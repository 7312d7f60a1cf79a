"""Hooks that are addresses, models and functions."""

import json
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.abc import SocketStream

from backstay.hooks.decorator import Hook, hook, register_hooks
from backstay.hooks.events import EVENTS
from backstay.hooks.http import make_client
from backstay.hooks.merge import HookVerdict
from backstay.hooks.run import HookRun
from backstay.hooks.spec import AgentHook, HookSource, HookSpec, HttpHook, PromptHook, PythonHook, make_spec
from backstay.vocab.errors import EgressRefused, UserError
from tests.hooks.kit import CALL, hook_of, means, program, run, run_hooks

pytestmark = pytest.mark.anyio

Input = dict[str, object]


async def post(
    respond: Callable[[httpx.Request], httpx.Response],
    handler: HttpHook | None = None,
    *,
    environment: dict[str, str] | None = None,
) -> HookRun:
    """Run one hook that posts, with an answer of our own."""
    spec = hook_of(handler or HttpHook(url="https://h.example/hook"))

    def client(spec: HookSpec) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(respond), follow_redirects=True)

    return await run(spec, means("/", environment or {}, http_client=client))


async def test_what_happened_is_posted_as_json() -> None:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200)

    ran = await post(respond)

    (request,) = seen
    assert (request.method, str(request.url), request.headers["content-type"]) == (
        "POST",
        "https://h.example/hook",
        "application/json",
    )
    assert json.loads(request.content) == CALL
    assert (ran.answer.decision, ran.answer.failed) == (None, "")


@pytest.mark.parametrize(
    ("answer", "decision", "reason"),
    [
        (httpx.Response(200), None, ""),
        (httpx.Response(204), None, ""),
        (httpx.Response(200, text=" \n"), None, ""),
        (httpx.Response(200, json={}), None, ""),
        (httpx.Response(201, json={"decision": "block", "reason": "no"}), "deny", "no"),
        (httpx.Response(200, json={"hookSpecificOutput": {"permissionDecision": "ask"}}), "ask", ""),
        (httpx.Response(200, json={"hookSpecificOutput": {"permissionDecision": "allow"}}), "allow", ""),
        (httpx.Response(200, json={"ok": True}), None, ""),
        (httpx.Response(200, json={"ok": False, "reason": "bad"}), "deny", "bad"),
    ],
)
async def test_a_good_answer_is_read_like_a_programs(answer: httpx.Response, decision: str | None, reason: str) -> None:
    ran = await post(lambda request: answer)

    assert (ran.answer.decision, ran.answer.reason, ran.answer.failed) == (decision, reason, "")


ALLOWING = {"hookSpecificOutput": {"permissionDecision": "allow"}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(500, json=ALLOWING), "status 500"),
        (httpx.Response(404), "status 404"),
        (httpx.Response(302, headers={"location": "https://h.example/other"}), "status 302"),
        (httpx.Response(200, text="fine"), "not a JSON object"),
        (httpx.Response(200, json=["allow"]), "not a JSON object"),
        (httpx.Response(200, text='{"decision": '), "begins like JSON"),
        (httpx.Response(200, text="{" + " " * 1_000_001), "longer than 1,000,000 bytes"),
        (httpx.Response(200, json={"ok": "yes"}), "is not like"),
    ],
)
async def test_rb_w12_every_other_answer_refuses(answer: httpx.Response, words: str) -> None:
    ran = await post(lambda request: answer)

    assert ran.answer.decision == "deny"
    assert words in ran.answer.failed


@pytest.mark.parametrize(
    "trouble", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), EgressRefused("host", host="h", why="no.")]
)
async def test_rb_w12_an_address_that_cannot_be_reached_refuses(trouble: Exception) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        raise trouble

    ran = await post(respond)

    assert ran.answer.decision == "deny"
    assert "could not be reached" in ran.answer.failed


async def test_without_a_client_nothing_is_posted_and_the_call_is_refused() -> None:
    ran = await run(hook_of(HttpHook(url="https://h.example/")), means())

    assert (ran.answer.decision, ran.answer.failed) == ("deny", "there is no client to post with")


async def test_headers_hold_only_the_variables_that_are_listed_and_never_a_providers_key() -> None:
    seen: list[httpx.Headers] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200)

    environment = {"TOKEN": "t1", "OTHER": "t2", "OPENAI_API_KEY": "sk"}
    headers = (
        ("X-A", "Bearer $TOKEN"),
        ("X-B", "${TOKEN}-$OTHER-$MISSING."),
        ("X-C", "$OPENAI_API_KEY"),
        ("X-D", "$5 $"),
    )
    handler = HttpHook(url="https://h.example/", headers=headers, env_names=("TOKEN", "MISSING", "OPENAI_API_KEY"))

    await post(respond, handler, environment=environment)

    assert [seen[0][f"x-{name}"] for name in "abcd"] == ["Bearer t1", "t1--.", "", "$"]


async def test_a_variable_cannot_smuggle_a_header() -> None:
    handler = HttpHook(url="https://h.example/", headers=(("X-A", "$T"),), env_names=("T",))

    ran = await post(lambda request: httpx.Response(200), handler, environment={"T": "a\r\nX-B: c"})

    assert ran.answer.failed == "the header 'X-A' has characters that no header can have"


async def _serve(stream: SocketStream) -> None:
    async with stream:
        await stream.receive()
        await stream.send(
            b"HTTP/1.1 200 OK\r\ncontent-length: 21\r\nconnection: close\r\n\r\n" + b'{"decision": "block"} '[:21]
        )


@pytest.mark.parametrize(
    ("source", "reached"), [("person", True), ("flag", True), ("project", False), ("plugin", False)]
)
async def test_only_a_person_may_name_an_address_of_this_machine(source: HookSource, reached: bool) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, _serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        handler = HttpHook(url=f"http://127.0.0.1:{port}/hook")
        ran = await run(make_spec("PreToolUse", handler, source=source), means(http_client=make_client))
        tasks.cancel_scope.cancel()

    assert ran.answer.decision == "deny"
    assert bool(ran.answer.failed) is not reached


async def test_a_model_is_asked_with_the_event_in_the_prompt() -> None:
    asked: list[tuple[str, str]] = []

    async def ask(prompt: str, handler: PromptHook) -> str:
        asked.append((prompt, handler.model))
        return '{"ok": false, "reason": "not today"}'

    ran = await run(hook_of(PromptHook(prompt="Is <$ARGUMENTS> fine?", model="small")), means(run_prompt=ask))

    told = json.dumps(CALL, separators=(",", ":"))
    assert len(asked) == 1
    assert asked[0][0].startswith(f"Is <{told}> fine?\n\nAnswer with nothing but JSON")
    assert asked[0][1] == "small"
    assert (ran.answer.decision, ran.answer.reason) == ("deny", "not today")


async def test_a_child_session_is_asked_likewise() -> None:
    asked: list[str] = []

    async def ask(prompt: str, handler: AgentHook) -> str:
        asked.append(prompt)
        return '```json\n{"ok": true}\n```'

    ran = await run(hook_of(AgentHook(prompt="Look around.")), means(run_agent=ask))

    assert asked[0].startswith('Look around.\n\n{"session_id"')
    assert (ran.answer.decision, ran.answer.failed) == (None, "")


async def test_rb_w50_prompts_and_agents_without_anybody_to_ask_are_failures_not_silence() -> None:
    for handler in (PromptHook(prompt="?"), AgentHook(prompt="?")):
        ran = await run(hook_of(handler), means())
        assert ran.answer.decision == "deny"
        assert "there is no" in ran.answer.failed


async def test_a_model_that_fails_or_never_answers_refuses() -> None:
    async def fail(prompt: str, handler: PromptHook) -> str:
        raise RuntimeError("overloaded")

    async def hang(prompt: str, handler: PromptHook) -> str:
        await anyio.sleep_forever()
        return ""

    failed = await run(hook_of(PromptHook(prompt="?")), means(run_prompt=fail))
    late = await run(hook_of(PromptHook(prompt="?"), timeout=0.05), means(run_prompt=hang))

    assert (failed.answer.decision, failed.answer.failed) == ("deny", "RuntimeError: overloaded")
    assert (late.answer.decision, late.outcome.timed_out) == ("deny", True)


async def verdict_of(*hooks: Hook, more: tuple[HookSpec, ...] = (), told: Input | None = None) -> HookVerdict:
    """What hooks say that a program brought, beside others."""
    specs, functions = register_hooks(hooks)
    return await run_hooks((*more, *specs), told or CALL, python=functions)


@hook("PreToolUse", matcher="Bash")
def refuse(told: Input) -> Input | None:
    """Refuse everything."""
    return {"decision": "block", "reason": f"no {told['tool_name']}"}


@hook("PreToolUse")
async def rewrite(told: Input) -> Input | None:
    """Change everything."""
    await anyio.lowlevel.checkpoint()
    return {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "ls"}}}


@hook("PreToolUse")
def watch(told: Input) -> None:
    """Say nothing."""


async def test_functions_plain_and_async_answer_like_programs() -> None:
    assert (await verdict_of(refuse)).reason == "no Bash"
    assert (await verdict_of(rewrite, watch)).args == '{"command":"ls"}'
    assert refuse({"tool_name": "x"}) == {"decision": "block", "reason": "no x"}


async def test_rb_w11_functions_stand_beside_other_hooks_and_replace_none() -> None:
    verdict = await verdict_of(rewrite, watch, more=(program("echo the program says no >&2; exit 2"),))

    assert (verdict.decision, verdict.reason) == ("deny", "the program says no")


async def test_rb_w11_functions_that_share_a_name_are_all_called() -> None:
    def make(word: str) -> Hook:
        @hook("PreToolUse")
        def same(told: Input) -> Input:
            return {"decision": "block", "reason": word}

        return same

    hooks = [make("one"), make("two"), make("three")]
    specs, functions = register_hooks(hooks)

    assert len({spec.id for spec in specs}) == len(functions) == 3
    assert (await verdict_of(*hooks)).reason == "one\ntwo\nthree"
    assert [spec.id for spec in register_hooks([make("one"), make("two")])[0]] == [spec.id for spec in specs[:2]]


class Strange:
    """Something that is no answer."""


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (True, "it returned bool"),
        ("block", "it returned str"),
        ([], "it returned list"),
        ({"decision": Strange()}, "TypeError"),
        ({"decision": "yes"}, "decision: 'yes'"),
        ({"hookSpecificOutput": {"permissionDecision": "maybe"}}, "'maybe'"),
    ],
)
async def test_a_function_that_returns_something_else_has_failed(returned: object, words: str) -> None:
    @hook("PreToolUse")
    def odd(told: Input) -> object:
        return returned

    verdict = await verdict_of(odd)

    assert verdict.decision == "deny"
    assert words in verdict.reason


@pytest.mark.parametrize("raised", [ValueError("boom"), SystemExit(0), StopIteration()])
async def test_rb_w12_a_function_that_raises_refuses_unless_it_is_said_otherwise(raised: BaseException) -> None:
    def guard(told: Input) -> None:
        raise raised

    async def later(told: Input) -> None:
        guard(told)

    for function in (guard, later):
        if isinstance(raised, StopIteration) and function is later:
            continue  # Python itself makes another error of it
        closed = await verdict_of(hook("PreToolUse")(function))
        opened = await verdict_of(hook("PreToolUse", on_failure="continue")(function))
        assert closed.decision == "deny"
        assert opened.decision is None
        assert "failed" in opened.notes[0]


async def test_a_function_that_never_returns_is_left_behind() -> None:
    release = threading.Event()

    @hook("PreToolUse", timeout=0.05)
    def hang(told: Input) -> None:
        release.wait(20)

    @hook("PreToolUse", timeout=0.05)
    async def sleep(told: Input) -> None:
        await anyio.sleep_forever()

    try:
        verdict = await verdict_of(hang, sleep)
    finally:
        release.set()

    assert verdict.decision == "deny"
    assert len(verdict.notes) == 2


async def test_what_a_function_does_to_its_input_is_seen_by_nobody_else() -> None:
    seen: list[Any] = []

    @hook("PreToolUse")
    def spoil(told: Input) -> None:
        told["tool_input"] = None

    @hook("PreToolUse")
    def look(told: Input) -> None:
        seen.append(told["tool_input"])

    told = {**CALL}
    await verdict_of(spoil, look, told=told)

    assert seen == [CALL["tool_input"]]
    assert told == CALL


async def test_a_function_that_the_program_did_not_bring_is_a_failure() -> None:
    ran = await run(hook_of(PythonHook(name="gone")), means())

    assert ran.answer.decision == "deny"
    assert "did not bring this function" in ran.answer.failed


@pytest.mark.parametrize(
    ("event", "options", "words"),
    [
        ("PreToolUsed", {}, "is not an event"),
        ("FileChanged", {}, "no moment for 'FileChanged' yet"),
        ("PreToolUse", {"matcher": "Bash("}, "cannot be read"),
        ("PreToolUse", {"if_rule": "(("}, "is not a permission rule"),
        ("PreToolUse", {"timeout": 0}, "more than 0"),
    ],
)
def test_a_hook_that_could_never_run_is_refused_when_it_is_made(
    event: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        hook(event, **options)


def test_only_hooks_can_be_registered() -> None:
    with pytest.raises(UserError, match=r"Put @hook\(EVENT\) above the function"):
        register_hooks([lambda told: None])  # type: ignore[list-item]  # the mistake


def test_a_hook_of_a_program_fails_closed_like_any_other() -> None:
    assert [hook(event)(refuse.function).spec.on_failure for event in ("PreToolUse", "Stop")] == [
        EVENTS["PreToolUse"].on_failure,
        EVENTS["Stop"].on_failure,
    ]
