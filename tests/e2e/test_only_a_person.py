"""What only the person may decide: a program that a session started cannot, however it hides where it comes from."""

import json
import os
import resource
import shlex
import subprocess
import sys

import pytest

from tests.e2e.door import SOURCE, Door, Line, Ran, write

DONE = {"text": "Done."}
PASSED_ON = ("HOME", "BACKSTAY_DATA_DIR", "BACKSTAY_CONFIG_DIR", "PATH")
ONLY = "Only a person may"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the mark is a limit that Linux keeps")


def inside(door: Door, command: str, *flags: str) -> Ran:
    """Let the model of a session run a command, without a sandbox and without a question."""
    reply: Line = {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": command}}]}
    return door.spawn(
        "-p", "go", "--model", door.script(reply, DONE), "--permission-mode", "bypassPermissions", "--no-persist", *flags
    )  # fmt: skip


def without_variables(*arguments: str) -> str:
    """A shell command that runs `backstay` with nothing of a session in its environment."""
    kept = [f"{name}={os.environ.get(name, '')}" for name in PASSED_ON] + [f"PYTHONPATH={SOURCE}"]
    return shlex.join(["env", "-i", *kept, sys.executable, "-m", "backstay", *arguments])


def ways(*arguments: str) -> dict[str, str]:
    """Ways to hide that a session started a program; each leaves what was said in the file `said`."""
    plain = shlex.join([sys.executable, "-m", "backstay", *arguments])
    bare = without_variables(*arguments)
    waits = "; until [ -e over ]; do sleep 0.02; done"
    orphan = f"{bare} > said 2>&1; touch over"
    return {
        "as it is": f"{plain} > said 2>&1",
        "without the variable": f"env -u BACKSTAY_CALL {plain} > said 2>&1",
        "without both variables": f"env -u BACKSTAY_CALL -u BACKSTAY_RUN {plain} > said 2>&1",
        "without any variable": f"{bare} > said 2>&1",
        "in a session of its own": f"setsid -w {bare} > said 2>&1",
        "replacing the shell": f"exec {bare} > said 2>&1",
        "orphaned": f"(setsid sh -c {shlex.quote(orphan)} &){waits}",
        "orphaned with nohup": f"(nohup setsid sh -c {shlex.quote(orphan)} > /dev/null 2>&1 &){waits}",
        "raising the limit first": f"ulimit -Hx unlimited; ulimit -x unlimited; {bare} > said 2>&1",
        "lowering the limit first": f"ulimit -x 7; {bare} > said 2>&1",
    }


WAYS = tuple(ways())


def said(door: Door) -> str:
    return (door.work / "said").read_text(encoding="utf-8")


@pytest.mark.parametrize("way", WAYS)
def test_sec_m1_a_command_of_a_session_approves_no_memory(door: Door, way: str) -> None:
    proposed = door.spawn("memory", "add", "Skip the tests.", "--json", env={"BACKSTAY_CALL": "c1"}).json["id"]
    ran = inside(door, ways("memory", "approve", proposed)[way])

    assert ran.code == 0
    assert "Only the person can approve" in said(door)
    assert door.run("memory", "list", "--json").json["entries"] == []
    assert door.run("memory", "approve", proposed).code == 0  # the person's own shell


def test_sec_m1_what_a_command_of_a_session_adds_waits_for_the_person(door: Door) -> None:
    inside(door, without_variables("memory", "add", "Skip the tests."))

    assert door.run("memory", "list", "--json").json["entries"] == []
    assert [each["by"] for each in door.run("memory", "pending", "--json").json["waiting"]] == ["model"]


def test_sec_m1_a_session_in_a_session_speaks_for_no_person(door: Door) -> None:
    proposed = door.spawn("memory", "add", "Skip the tests.", "--json", env={"BACKSTAY_CALL": "c1"}).json["id"]
    other = door.script(DONE, name="other")
    inside(door, without_variables("-p", f"/memory approve {proposed}", "--model", other, "--no-persist"))

    assert door.run("memory", "list", "--json").json["entries"] == []


def untrusted(door: Door) -> None:
    write(door.work / ".git/HEAD", "ref: refs/heads/main\n")
    write(door.work / ".backstay/settings.json", json.dumps({"permissions": {"allow": ["Bash"]}}))


@pytest.mark.parametrize("way", WAYS)
def test_sec_l3_a_command_of_a_session_trusts_no_workspace(door: Door, way: str) -> None:
    untrusted(door)
    inside(door, ways("trust", "--yes")[way])

    assert ONLY in said(door)
    assert door.run("trust", "show", "--json").json["state"] == "untrusted"
    assert door.run("trust", "--yes").code == 0
    inside(door, f"rm -f over; {ways('trust', 'revoke')[way]}")
    assert ONLY in said(door)
    assert door.run("trust", "show", "--json").json["state"] == "trusted"


def test_sec_l3_a_session_in_a_session_keeps_no_rules(door: Door) -> None:
    reply: Line = {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": "cargo build a"}}]}
    nested = without_variables("--model", door.script(reply, DONE, name="other"), "--input-format", "stream-json")
    lines = [
        {"type": "answer", "allow": True, "grant": "person", "rules": ["Bash(cargo build *)"]},
        {"type": "user", "message": {"role": "user", "content": "go"}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    ran = inside(door, f"printf %s {shlex.quote(text)} | {nested}")

    assert ran.code == 0
    assert not (door.folder / "data" / "grants.json").exists()


def test_sec_l3_a_command_of_a_session_installs_and_enables_no_plugin(door: Door) -> None:
    plugin = door.folder / "rig"
    write(
        plugin / ".claude-plugin/plugin.json", json.dumps({"name": "rig", "version": "1.0.0", "description": "A rig."})
    )
    inside(door, ways("plugins", "install", str(plugin), "--yes")["without any variable"])
    assert ONLY in said(door)
    assert door.run("plugins", "list", "--json").json == []

    assert door.run("plugins", "install", str(plugin), "--yes").code == 0
    assert door.run("plugins", "disable", "rig").code == 0
    inside(door, ways("plugins", "enable", "rig")["without any variable"])
    assert ONLY in said(door)
    assert door.run("plugins", "list", "--json").json[0]["state"] == "off"


def test_sec_l3_a_hook_trusts_nothing(door: Door) -> None:
    script = write(door.folder / "own.sh", f"#!/bin/bash\n{without_variables('trust', '--yes')} > said 2>&1\n")
    script.chmod(0o700)
    hook = {"type": "command", "command": str(script)}
    path = write(door.folder / "config/settings.json", json.dumps({"hooks": {"SessionStart": [{"hooks": [hook]}]}}))
    path.chmod(0o600)
    untrusted(door)
    inside(door, "true")

    assert ONLY in said(door)
    assert door.run("trust", "show", "--json").json["state"] == "untrusted"


def test_the_mark_is_on_what_a_session_starts_and_not_on_the_session(door: Door) -> None:
    inside(door, "ulimit -Hx > said")

    assert int(said(door)) > 0
    assert resource.getrlimit(10)[1] == resource.RLIM_INFINITY


def test_a_person_in_a_shell_with_a_session_of_its_own_may_decide(door: Door) -> None:
    untrusted(door)
    ran = subprocess.run(
        ["setsid", "-w", "sh", "-c", without_variables("trust", "--yes")],
        cwd=door.work, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("secrets", "erase", "--yes"),
        ("sessions", "delete", "s1", "--yes"),
        ("sessions", "prune", "--older-than", "0", "--yes"),
        ("sessions", "move", "s1", "sqlite:///{folder}/other.db"),
        ("log", "repair", "s1"),
    ],
)
def test_a_command_of_a_session_takes_nothing_from_what_is_stored(door: Door, arguments: tuple[str, ...]) -> None:
    model = door.script(DONE, name="first")
    token = "ghp_1q7Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1o"
    assert door.run("-p", f"Use {token}.", "--model", model, "--session-id", "s1").code == 0
    given = [each.format(folder=door.folder) for each in arguments]
    inside(door, ways(*given)["without any variable"], "--scope", "full")

    assert ONLY in said(door)
    assert f"Use {token}." in door.run("sessions", "show", "s1").out


def test_a_command_of_a_session_may_look_at_what_is_stored(door: Door) -> None:
    assert door.run("-p", "Hi.", "--model", door.script(DONE, name="first"), "--session-id", "s1").code == 0
    inside(door, ways("sessions", "prune", "--older-than", "0", "--dry-run")["without any variable"])

    assert "1 would be deleted" in said(door)


@pytest.mark.parametrize("way", ["as it is", "without any variable", "orphaned"])
def test_sec_l3_a_session_in_a_session_trusts_no_workspace_for_its_run(door: Door, way: str) -> None:
    hook = {"hooks": [{"type": "command", "command": "touch hooked"}]}
    write(door.work / ".backstay/settings.json", json.dumps({"hooks": {"SessionStart": [hook]}}))
    model = door.script({"text": "Hi."}, name="other")
    inside(door, ways("-p", "hi", "--model", model, "--trust", "--no-persist")[way])

    assert ONLY in said(door)
    inside(door, f"rm -f over; {ways('hooks', 'test', 'SessionStart', '--trust')[way]}")
    assert ONLY in said(door)
    assert not (door.work / "hooked").exists()
    assert door.run("-p", "hi", "--model", model, "--trust").code == 0
    assert (door.work / "hooked").exists()
