"""Hooks that are programs: fed, shorten, ended, whatever they do."""

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from backstay.hooks.command import KEPT
from backstay.hooks.merge import HookAnswer
from backstay.hooks.run import run_each
from backstay.hooks.run_context import marks
from backstay.hooks.spec import BrokenHook, HookSpec
from tests.hooks.kit import CALL, alive, hook_of, means, program, run, run_hooks
from tests.tools.context import cut_short, until

pytestmark = pytest.mark.anyio

STUBBORN = (
    "trap '' TERM; (trap '' TERM; echo $BASHPID >> pids; while :; do sleep 0.05; done) & echo $$ >> pids; wait; wait"
)
"""Writes down its own pid and that of a child; neither listens to SIGTERM."""
HIDING = "setsid bash -c 'echo $$ >> pids; sleep 60; :' & echo $$ >> pids; sleep 60; :"
"""Writes down its own pid and that of a child that left the group."""


async def _pids(folder: Path, count: int = 2) -> list[int]:
    path = folder / "pids"
    await until(lambda: path.exists() and len(path.read_text().split()) >= count)
    return [int(each) for each in path.read_text().split()]


async def test_a_program_reads_what_happened_and_knows_where_it_is(tmp_path: Path) -> None:
    keys = {"ANTHROPIC_API_KEY": "k1", "OPENAI_API_KEY": "k2", "BACKSTAY_API_KEY_HOUSE": "k3", "MINE": "m"}
    use = means(tmp_path, {**os.environ, **keys}, project="/project")
    show = 'cat; pwd; echo "$CLAUDE_PROJECT_DIR $BACKSTAY_PROJECT_DIR $CLAUDE_SESSION_ID $MINE"; env | grep -c API_KEY'

    ran = await run(program(show, event="PostToolUse"), use)

    told, folder, names, keys_left = ran.outcome.stdout.splitlines()
    assert json.loads(told) == CALL
    assert (folder, names, keys_left) == (str(tmp_path), "/project /project session-sample m", "0")


async def test_with_arguments_no_shell_reads_the_command(tmp_path: Path) -> None:
    spec = program("printf", "%s|", "a b", "$HOME", "${CLAUDE_PROJECT_DIR}/x; exit 2")

    ran = await run(spec, means(tmp_path))

    assert (ran.outcome.exit_code, ran.outcome.stdout) == (0, f"a b|$HOME|{tmp_path}/x; exit 2|")


async def test_rb_w50_exit_2_refuses_and_json_decides(tmp_path: Path) -> None:
    answer = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "ls"}}})
    rewriting = program("printf", "%s", answer)

    allowed = await run_hooks([rewriting], CALL, folder=tmp_path)
    refused = await run_hooks([rewriting, program("echo no >&2; exit 2")], CALL, folder=tmp_path)

    assert (allowed.decision, allowed.args) == ("allow", '{"command":"ls"}')
    assert (refused.decision, refused.blocked, refused.reason, refused.args) == ("deny", True, "no", "")


@pytest.mark.parametrize(
    "text",
    ["exit 0", "exec 0<&-; sleep 0.05", "exec 0</dev/null; true", "head -c 10 >/dev/null", "sleep 0.05; kill -CONT $$"],
)
async def test_a_program_need_not_read_what_it_is_told(tmp_path: Path, text: str) -> None:
    told = {**CALL, "tool_input": {"content": "x" * 3_000_000}}

    ran = await run(program(text), means(tmp_path), told)

    assert (ran.outcome.exit_code, ran.answer.failed) == (0, "")


async def test_a_long_input_arrives_whole(tmp_path: Path) -> None:
    told = {**CALL, "tool_input": {"content": "x" * 3_000_000}}

    ran = await run(program("wc -c"), means(tmp_path), told)

    assert int(ran.outcome.stdout) == len(json.dumps(told, separators=(",", ":"))) + 1


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (program("exit 1"), "exit 1"),
        (program("no-such-program-here"), "exit 127 (it was not found)"),
        (program("/etc/passwd"), "exit 126 (it cannot be executed)"),
        (program("kill -SEGV $$"), "killed by signal 11"),
        (program("no-such-program-here", "x"), "could not be started"),
        (program("/etc/passwd", "x"), "could not be started"),
        (program("sleep 60", timeout=0.2), "longer than 0.2 seconds"),
        (program("yes"), "wrote more than"),
        (program("yes >&2"), "wrote more than"),
        (program("head -c 2000000 /dev/zero | tr '\\0' '{'"), "it wrote too much"),
        (program("printf '{\"decision\": '"), "begins like JSON"),
        (hook_of(BrokenHook(problem="it is broken")), "it is broken"),
    ],
    ids=lambda value: value.label[:20] if isinstance(value, HookSpec) else "",
)
async def test_rb_w12_whatever_goes_wrong_refuses_the_call(tmp_path: Path, spec: HookSpec, words: str) -> None:
    ran = await run(spec, means(tmp_path))

    assert (ran.answer.decision, ran.answer.blocked) == ("deny", True)
    assert words in ran.answer.failed
    assert len(ran.outcome.stdout) <= KEPT
    assert len(ran.outcome.stderr) <= KEPT


async def test_a_folder_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    ran = await run(program("true"), means(tmp_path / "gone"))

    assert "could not be started in" in ran.answer.failed
    assert ran.answer.decision == "deny"


async def test_garbage_is_only_text(tmp_path: Path) -> None:
    ran = await run(program("head -c 100000 /dev/urandom | tr -d '{'; printf '\\xff\\0\\xfe'"), means(tmp_path))

    assert (ran.answer.decision, ran.answer.failed) == (None, "")


@pytest.mark.parametrize("text", [STUBBORN, HIDING], ids=["stubborn", "hiding"])
async def test_a_program_that_takes_too_long_is_ended_with_all_of_its_descendants(tmp_path: Path, text: str) -> None:
    _, ran = await cut_short(
        lambda limit: run(program(text, timeout=limit / 1000), means(tmp_path)), lambda _: (tmp_path / "pids").exists()
    )

    assert (ran.outcome.timed_out, ran.answer.decision) == (True, "deny")
    assert not any(map(alive, await _pids(tmp_path, 1)))


async def test_cancelling_ends_every_process(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, program(HIDING), means(tmp_path))
        pids = await _pids(tmp_path)
        assert all(map(alive, pids))
        tasks.cancel_scope.cancel()

    assert not any(map(alive, pids))


async def test_what_a_hook_leaves_in_the_background_keeps_nobody_waiting(tmp_path: Path) -> None:
    ran = await run(program("sleep 60 & echo $!"), means(tmp_path))

    pid = int(ran.outcome.stdout)
    assert ran.answer.failed == ""
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


async def test_hooks_run_at_once_and_answer_in_their_order(tmp_path: Path) -> None:
    def meets(mine: str, other: str) -> HookSpec:
        return program(f"touch {mine}; until [ -e {other} ]; do sleep 0.01; done; echo {mine}")

    runs = await run_each([meets("a", "b"), meets("b", "a"), program("echo c")], CALL, means(tmp_path))

    assert [ran.outcome.stdout for ran in runs] == ["a\n", "b\n", "c\n"]


async def test_one_that_hangs_does_not_keep_another_from_refusing(tmp_path: Path) -> None:
    hanging = program("sleep 60", timeout=0.3, on_failure="continue")
    verdict = await run_hooks([hanging, program("echo no >&2; exit 2")], CALL, folder=tmp_path)

    assert (verdict.decision, verdict.reason) == ("deny", "no")
    assert "longer than 0.3 seconds" in verdict.notes[0]


async def test_output_is_shown_while_a_hook_runs(tmp_path: Path) -> None:
    shown: list[str] = []
    use = means(tmp_path, on_output=lambda spec, text: shown.append(text))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, program("echo one; until [ -e go ]; do sleep 0.01; done"), use)
        await until(lambda: shown == ["one\n"])
        (tmp_path / "go").touch()


async def test_the_programs_of_a_run_carry_its_mark(tmp_path: Path) -> None:
    runs = await run_each(
        [program('echo "$BACKSTAY_CALL"'), program('echo  "$BACKSTAY_CALL"')], CALL, means(tmp_path, mark="e7")
    )

    assert tuple(ran.outcome.stdout.strip() for ran in runs) == marks("e7", 2)


class Late:
    """Remembers what hooks in the background said."""

    def __init__(self) -> None:
        self.said: list[HookAnswer] = []

    def __call__(self, spec: HookSpec, answer: HookAnswer) -> None:
        self.said.append(answer)


BACKGROUND = [
    program("until [ -e go ]; do sleep 0.01; done; echo late >&2; exit 2", background=True, wakes=True),
    program("""echo '{"async": true, "asyncTimeout": 15000}'; until [ -e go ]; do sleep 0.01; done; exit 2"""),
    program("""printf '{"async": true}'; until [ -e go ]; do sleep 0.01; done; exit 2"""),
]


@pytest.mark.parametrize("spec", BACKGROUND, ids=["setting", "first line", "no newline"])
async def test_a_hook_in_the_background_is_not_waited_for_and_decides_nothing(tmp_path: Path, spec: HookSpec) -> None:
    late = Late()
    async with anyio.create_task_group() as background:
        ran = await run(spec, means(tmp_path, background=background, on_late=late))
        assert (ran.outcome.background, ran.answer.decision, late.said) == (True, None, [])
        (tmp_path / "go").touch()

    wakes = spec is BACKGROUND[0]
    assert late.said == [
        HookAnswer(hook=spec.id, event="PreToolUse", label=spec.label, context="late" if wakes else "")
    ]


@pytest.mark.parametrize("setting", [True, False], ids=["setting", "first line"])
async def test_a_hook_in_the_background_has_its_time_too(tmp_path: Path, setting: bool) -> None:
    late = Late()

    async def attempt(limit: int) -> None:
        announced = f"""echo '{{"async": true, "asyncTimeout": {limit}}}'; {HIDING}"""
        spec = program(HIDING, background=True, timeout=limit / 1000) if setting else program(announced)
        late.said.clear()
        async with anyio.create_task_group() as background:
            await run(spec, means(tmp_path, background=background, on_late=late))

    await cut_short(attempt, lambda _: (tmp_path / "pids").exists())

    assert not any(map(alive, await _pids(tmp_path, 1)))
    assert "longer than" in late.said[0].failed
    assert late.said[0].decision is None


async def test_the_end_of_a_session_ends_its_hooks_in_the_background(tmp_path: Path) -> None:
    async with anyio.create_task_group() as background:
        await run(program(HIDING, background=True), means(tmp_path, background=background))
        pids = await _pids(tmp_path)
        background.cancel_scope.cancel()

    assert not any(map(alive, pids))


async def test_without_a_background_a_hook_is_waited_for_and_still_decides_nothing(tmp_path: Path) -> None:
    ran = await run(program("echo x; exit 2", background=True), means(tmp_path))

    assert (ran.outcome.exit_code, ran.outcome.stdout, ran.answer.decision) == (2, "x\n", None)


async def test_nothing_due_is_nothing_said(tmp_path: Path) -> None:
    verdict = await run_hooks([], CALL, tmp_path)

    assert (verdict.decision, verdict.blocked, verdict.notes) == (None, False, ())
