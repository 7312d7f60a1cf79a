"""A program of the person's runs nothing of a workspace that is not trusted, whatever other program it is started by."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backstay.config.trust.own_runs import OwnRun, own_runs
from tests.config.world import World

KEEPING = (
    "ionice",
    "flock",
    "taskset",
    "chrt",
    "op",
    "doppler",
    "aws-vault",
    "dotenvx",
    "xvfb-run",
    "unbuffer",
    "direnv",
    "uvx",
)
DROPPING = ("sudo", "doas", "su", "mine")
STARTER = '#!/bin/sh\nwhile [ "$1" != python3 ]; do shift; done\nexec "$@"\n'
"""A stand-in for a program that starts the Python behind its own words."""
MARK = 'open("ran", "w").close()\n'


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A workspace that nobody trusts, with modules that Python may take before its own."""
    world = World(tmp_path)
    world.write(".claude/settings.json", {"permissions": {"allow": ["Bash(ls *)"]}})
    for module in ("json.py", "argparse.py", "my_guard.py", "tools/my_guard.py"):
        world.write(module, MARK)
    world.write("guard.sh", "#!/bin/sh\ntouch ran\n", mode=0o755)
    folder = tmp_path / "home" / "bin"
    for name in KEEPING:
        world.write(folder / name, STARTER, mode=0o755)
    for name in DROPPING:
        world.write(folder / name, STARTER.replace("exec", "unset PYTHONSAFEPATH; exec"), mode=0o755)
    world.write(folder / "guard.py", "import sys\n")
    monkeypatch.setenv("HOME", str(world.home))
    monkeypatch.setenv("PATH", f"{folder}:{Path(sys.executable).resolve().parent}:/usr/bin:/bin")
    return world


def judge(world: World, command: str) -> OwnRun:
    """Judge a hook of the person's own."""
    world.write(world.config, {"hooks": world.hook(command)})
    own = own_runs(world.read().trust, str(world.project))
    assert own is not None
    return own.judge(command, None)


def ran(world: World, command: str) -> bool:
    """Whether something of the workspace runs when a session would start the command."""
    run = judge(world, command)
    if not run.why_not:
        subprocess.run(
            ["bash", "-c", command], cwd=world.project, env={**os.environ, **run.environment}, check=False, timeout=30
        )
    return (world.project / "ran").exists()


BEHIND = (
    "ionice -c3 {}",
    "/usr/bin/env ionice -c3 {}",
    "flock -n /tmp/lock {}",
    "taskset 1 {}",
    "chrt -b 0 {}",
    "op run --env-file=none -- {}",
    "doppler run -- {}",
    "aws-vault exec work -- {}",
    "dotenvx run -- {}",
    "direnv exec /nowhere {}",
    "xvfb-run -a {}",
    "unbuffer {}",
    "sudo -n {}",
    "sudo -u root -- {}",
    "doas {}",
    "mine {}",
    "~/bin/mine {}",
    "mine --now op run -- {}",
    "uvx --quiet {}",
    "env -i {}",
    "env - {}",
    "env -u PYTHONSAFEPATH {}",
    "env --ignore-environment {}",
    "nice env -i {}",
    "exec -c {}",
    "unset PYTHONSAFEPATH; {}",
    "export -n PYTHONSAFEPATH; {}",
    'unset "${{!PYTHON@}}"; {}',
    "timeout -s KILL 20 {}",
    "echo x | xargs {}",
    "find . -maxdepth 0 -exec {} {{}} +",
    "env -C tools {}",
)


@pytest.mark.parametrize("code", ["python3 -c 'import json'", "python3 -m json.tool --help", "python3 -m my_guard"])
@pytest.mark.parametrize("behind", BEHIND)
def test_python_behind_another_program_runs_nothing_of_an_untrusted_workspace(
    world: World, behind: str, code: str
) -> None:
    assert not ran(world, behind.format(code))


@pytest.mark.parametrize(
    "command",
    [
        "su -c 'python3 -c \"import json\"'",
        "su --command='python3 -m my_guard'",
        "env -S'python3 -E -m my_guard'",
        "env -S 'python3 -E -m my_guard'",
        "sudo PYTHONPATH=tools python3 ~/bin/guard.py",
        "sudo python3 -m elsewhere",
        "mine -- ./guard.sh",
        "~/bin/mine ./guard.sh",
        "op run -- ./guard.sh",
        "op run -- sh -c './guard.sh now'",
        "flock /tmp/lock -c './guard.sh now'",
        'ionice "$TOOL" x',
        "npx -y tsx ./guard.ts",
        "uv run ./guard.py",
        "uv --project /nowhere run python3 -E -c 'import json'",
        "ipython -c 'import json'",
        "pypy3 -c 'import json'",
    ],
)
def test_what_may_run_something_of_an_untrusted_workspace_is_held(world: World, command: str) -> None:
    world.write("guard.ts", "")
    world.write("guard.py", MARK)

    assert judge(world, command).why_not


@pytest.mark.parametrize(
    "command",
    [
        "notify-send x",
        "~/bin/guard.sh",
        "~/bin/guard.sh --strict",
        "python3 ~/bin/guard.py",
        "ionice -c3 python3 ~/bin/guard.py",
        "sudo -n python3 ~/bin/guard.py",
        "flock /tmp/lock ~/bin/guard.sh",
        "jq -r .tool_input.file_path",
        "my-notify --title 'Claude Code' \"it's waiting\"",
        'my-notify "$MESSAGE"',
        "op run -- my-server --port 1",
        "env -i jq .",
        "uv --directory /nowhere run python -m my_guard",
        "npx -y @modelcontextprotocol/server-filesystem .",
        "docker run -i --rm image node guard.js",
    ],
)
def test_ordinary_programs_of_the_persons_stay_free(world: World, command: str) -> None:
    assert judge(world, command).why_not == ""


def test_a_program_of_the_persons_is_told_not_to_look_for_modules_beside_one_that_drops_its_variables(
    world: World,
) -> None:
    assert judge(world, "sudo -n true; python3 -c 'import json'") == judge(world, "python3 -c 'import json'")
    assert judge(world, "python3 -c 'import json'").environment


def test_many_programs_behind_one_another_are_judged_at_once(world: World) -> None:
    assert judge(world, "mine env " * 1500 + "python3 -m my_guard").why_not
