"""Walls of namespaces, with a program inside that wants out."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import anyio
import pytest

from backstay.sandbox.plan import Scratch, plan_sandbox
from backstay.sandbox.probe import probe
from backstay.tools.shell.bash import run_command
from backstay.tools.shell.processes import read_process
from backstay.vocab.specs import FsScope
from tests.sandbox.sandbox_kit import SECRET, Yard, as_nobody, missing, run, start_sandbox, try_escapes
from tests.tools.context import RecordingContext, cut_short, until

WHY = missing("bubblewrap")
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(WHY), reason=WHY)]

NETWORK = {
    *("TCP", "TCP over IPv6", "TCP with curl", "a unix socket by path", "a unix socket by path, datagrams"),
    *("heard: tcp", "heard: tcp6", "heard: udp", "heard: stream", "heard: datagram"),
}
REMOTES = {"change git's configuration", "replace git's configuration"}


@pytest.mark.contract("RV-20")
def test_nothing_gets_out_of_the_scope_sandboxed(tmp_path: Path) -> None:
    outcome = try_escapes("bubblewrap", "sandboxed", tmp_path)

    assert (sorted(outcome.reached), outcome.failed) == ([], ())


@pytest.mark.contract("RV-20")
def test_only_the_network_and_remotes_are_open_in_the_scope_project(tmp_path: Path) -> None:
    outcome = try_escapes("bubblewrap", "project", tmp_path)

    assert (sorted(outcome.reached - NETWORK - REMOTES), outcome.failed) == ([], ())
    assert "TCP" in outcome.reached


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only the superuser can become somebody else; the other tests try an ordinary user then"
)
def test_nothing_gets_out_when_an_ordinary_user_runs_it() -> None:
    outcome = as_nobody("bubblewrap", "sandboxed")

    assert (sorted(outcome.reached), outcome.failed) == ([], ())


def test_settings_cannot_be_made_from_inside_and_no_empty_folder_stays(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))

    ran = run(sandbox, ["sh", "-c", "mkdir -p .claude && echo '{}' > .claude/settings.json"], yard.root)
    held = sorted(os.listdir(yard.root / ".claude"))
    sandbox.close()

    assert (ran.returncode != 0, held) == (True, [])
    assert not (yard.root / ".claude").exists()
    assert not (yard.root / ".backstay").exists()


def test_what_steers_git_and_builds_cannot_be_changed_from_inside_and_what_held_a_place_goes(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    flow = yard.root / ".github/workflows/ci.yml"
    flow.parent.mkdir(parents=True)
    flow.write_text(SECRET, encoding="utf-8")
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))

    attack = "echo x > .git/config.worktree; mv .git/info .git/i; mkdir -p .git/info; echo x > .git/info/attributes;"
    ran = run(
        sandbox, ["sh", "-c", f"{attack} echo x > .github/workflows/ci.yml; echo x > .git/info/exclude"], yard.root
    )
    sandbox.close()

    assert ran.returncode == 0
    assert flow.read_text(encoding="utf-8") == SECRET
    assert os.listdir(yard.root / ".git/info") == ["exclude"]
    assert not (yard.root / ".git/config.worktree").exists()


def test_what_raises_the_sandbox_loads_no_library_that_a_command_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcap.so.2").write_bytes(b"")
    found = probe("sandboxed", fresh=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    assert probe("sandboxed", fresh=True) == found


@pytest.mark.parametrize("scope", ["sandboxed", "project"])
def test_no_hook_can_be_made_where_a_repository_has_no_folder_for_them(tmp_path: Path, scope: FsScope) -> None:
    yard = Yard(tmp_path)
    shutil.rmtree(yard.root / ".git/hooks")
    sandbox = start_sandbox("bubblewrap", yard.plan(scope))

    ran = run(sandbox, ["sh", "-c", "mkdir -p .git/hooks; echo true > .git/hooks/pre-commit"], yard.root)
    sandbox.close()

    assert (ran.returncode != 0, (yard.root / ".git/hooks").exists()) == (True, False)


def test_a_persons_own_file_that_steers_git_stays(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (yard.root / ".git/config.worktree").write_text(SECRET, encoding="utf-8")
    start_sandbox("bubblewrap", yard.plan("sandboxed")).close()

    assert (yard.root / ".git/config.worktree").read_text(encoding="utf-8") == SECRET


def test_settings_below_the_working_folder_are_sealed_and_their_neighbours_are_not(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sealed = [yard.root / name for name in ("sub/.envrc", "sub/.mcp.json", "sub/.claude/settings.json", "a/b/c/.envrc")]
    far = [yard.root / name for name in ("a/b/c/d/.envrc", "node_modules/x/.envrc", "sub/code.py")]
    for path in (*sealed, *far):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET, encoding="utf-8")
    sandbox = start_sandbox("bubblewrap", yard.plan("project"))

    script = 'for each; do echo x > "$each"; done; mv sub other; rm -rf sub/.claude; true'
    run(sandbox, ["sh", "-c", script, "sh", *map(str, (*sealed, *far))], yard.root)
    sandbox.close()

    assert [path.read_text(encoding="utf-8") for path in sealed] == [SECRET] * len(sealed)
    assert [path.read_text(encoding="utf-8") for path in far] == ["x\n"] * len(far)


def test_settings_cannot_be_made_from_inside_while_another_session_comes_and_goes(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (yard.root / ".claude").mkdir(mode=0o700)  # as a session leaves it that was killed
    sandbox, other = (start_sandbox("bubblewrap", yard.plan("sandboxed")) for _ in range(2))
    other.close()

    ran = run(
        sandbox,
        ["sh", "-c", "echo '{}' > .claude/settings.json; echo '{}' > .backstay/settings.json; ls -A .claude .backstay"],
        yard.root,
    )
    sandbox.close()

    assert ran.stdout == ".backstay:\n\n.claude:\n"
    assert sorted(os.listdir(yard.root)) == [".git", ".vscode"]


def test_a_folder_that_a_person_filled_meanwhile_stays(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))
    (yard.root / ".backstay/settings.json").write_text("{}", encoding="utf-8")

    assert run(sandbox, ["cat", ".backstay/settings.json"], yard.root).stdout == "{}"
    sandbox.close()
    assert (yard.root / ".backstay/settings.json").exists()


def test_a_working_folder_that_is_the_home_keeps_keys_and_start_files(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (yard.home / ".bashrc").write_text(SECRET, encoding="utf-8")
    (yard.home / ".config/gcloud").mkdir(parents=True)
    (yard.home / ".config/gcloud/token").write_text(SECRET, encoding="utf-8")
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed", yard.home))

    first = run(
        sandbox, ["sh", "-c", "echo x >> .bashrc; mv .config c2; mv .ssh s2; cat .ssh/key; touch made; ls"], yard.home
    )
    second = run(sandbox, ["sh", "-c", "cat c2/gcloud/token .config/gcloud/token s2/key .ssh/key"], yard.home)
    sandbox.close()

    assert "made" in first.stdout.split()
    assert SECRET not in first.stdout + second.stdout
    assert (yard.home / ".bashrc").read_text(encoding="utf-8") == SECRET


def test_a_link_that_a_command_puts_in_place_of_an_added_folder_opens_nothing(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (yard.root / "added").mkdir()
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed", yard.root, yard.root / "added"))

    run(sandbox, ["sh", "-c", f"rmdir added && ln -s {yard.outside} added"], yard.root)
    run(sandbox, ["sh", "-c", "echo x >> added/file"], yard.root)
    sandbox.close()

    assert yard.spoiled() == set()


def test_a_folder_outside_in_which_a_command_starts_does_not_become_writable(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))

    ran = run(sandbox, ["sh", "-c", "echo x >> file"], yard.outside)
    sandbox.close()

    assert ran.returncode != 0
    assert yard.spoiled() == set()


def test_git_works_inside_and_temporary_files_last_as_long_as_the_session(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (yard.root / ".git/config").unlink()
    subprocess.run(["git", "init", "-q", str(yard.root)], check=True)
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))
    identity = "-c user.email=a@example.org -c user.name=A"

    first = run(
        sandbox,
        ["sh", "-c", f"echo x > a && git add a && git {identity} commit -qm one && echo kept > $TMPDIR/k"],
        yard.root,
    )
    second = run(sandbox, ["sh", "-c", "git log --format=%s; git status --porcelain; cat $TMPDIR/k"], yard.root)
    sandbox.close()

    assert (first.returncode, first.stderr) == (0, "")
    assert second.stdout == "one\nkept\n"


@pytest.mark.skipif(
    not os.access("/var", os.W_OK), reason="a working folder outside the temporary folders needs the superuser"
)
def test_the_temporary_folders_of_the_machine_are_the_sessions_own(tmp_path: Path) -> None:
    root = Path(tempfile.mkdtemp(dir="/var"))
    shared, more = tmp_path / "shared", tmp_path / "more"
    (shared / "somebodys").mkdir(parents=True)
    more.mkdir()
    try:
        plan = plan_sandbox("sandboxed", [str(root)], home=str(root), temporary=(str(shared), str(more)))
        sandbox = start_sandbox("bubblewrap", plan)
        first = run(sandbox, ["sh", "-c", f"echo kept > {shared}/k; echo $TMPDIR; ls {shared} {more}"], root)
        second = run(sandbox, ["sh", "-c", f"cat {more}/k"], root)
        sandbox.close()
    finally:
        shutil.rmtree(root)

    assert (first.stdout, second.stdout) == (f"{more}\n{more}:\nk\n\n{shared}:\nk\n", "kept\n")
    assert not (shared / "k").exists()


def test_programs_that_live_in_a_temporary_folder_can_be_run_and_not_changed(tmp_path: Path) -> None:
    tools, beside, root = tmp_path / "tools", tmp_path / "beside", tmp_path / "root"
    for folder in (tools, beside, root):
        folder.mkdir()
        (folder / "hello").write_text("echo hello\n", encoding="utf-8")
    plan = plan_sandbox(
        "sandboxed", [str(root)], home=str(tmp_path / "home"), shown=(str(tools),), temporary=(str(tmp_path),)
    )
    sandbox = start_sandbox("bubblewrap", plan)

    ran = run(sandbox, ["sh", "-c", f"sh {tools}/hello; ls {tmp_path}; echo x >> {tools}/hello"], root)
    sandbox.close()

    assert ran.stdout.split() == ["hello", "root", "tools"]
    assert ran.returncode != 0
    assert (tools / "hello").read_text(encoding="utf-8") == "echo hello\n"


def test_no_link_in_the_temporary_folder_leads_a_later_mount_astray(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    plan = plan_sandbox("sandboxed", [str(yard.root)], home=str(yard.home), scratch=Scratch(str(yard.folder)))
    sandbox = start_sandbox("bubblewrap", plan)
    first = yard.root.parts[2]

    run(sandbox, ["sh", "-c", f"ln -s {yard.outside} $TMPDIR/{first}; ln -s {yard.outside} /tmp/x"], yard.root)
    ran = run(sandbox, ["sh", "-c", "ls /tmp; pwd"], yard.root)
    sandbox.close()

    assert ran.stdout.splitlines()[-1] == str(yard.root)
    assert yard.spoiled() == set()


def test_local_servers_work_inside_where_nobody_else_hears_them(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))
    talk = """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        caller = socket.create_connection(server.getsockname())
        server.accept()[0].sendall(b"heard")
        print(caller.recv(5).decode())
    """

    ran = run(sandbox, [sys.executable, "-I", "-S", "-c", textwrap.dedent(talk)], yard.root)
    sandbox.close()

    assert ran.stdout == "heard\n"


def test_the_end_of_a_command_is_told_as_a_shell_tells_it(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))

    ran = [run(sandbox, ["bash", "-c", text], yard.root) for text in ("exit 7", "kill -9 $$", "kill -TERM $$")]
    sandbox.close()

    assert [(each.returncode, each.stdout, each.stderr) for each in ran] == [(7, "", ""), (137, "", ""), (143, "", "")]


async def test_a_command_may_use_its_grace_to_say_goodbye_in_the_sandbox(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))
    context = RecordingContext(yard.root, sandbox=sandbox)

    command = "trap 'echo goodbye; exit' TERM; echo begun; sleep 60 & wait"

    limit, output = await cut_short(
        lambda limit: run_command.run({"command": command, "timeout": limit}, context),
        lambda output: output.text.startswith("begun"),
    )
    sandbox.close()

    said, _, ending = output.text.partition(f"timed out after {limit} ms; the command was stopped")
    assert "goodbye" in said
    assert ending.strip() == f"[{sandbox.words}]"


@pytest.mark.parametrize(
    ("command", "limit"),
    [
        ("sleep 61.{mark} & echo begun", 20000),
        ("trap '' TERM; (trap '' TERM; exec -a x sleep 61.{mark}) & setsid sleep 61.{mark} & wait; wait", 1000),
    ],
)
async def test_no_process_outlives_its_command(tmp_path: Path, command: str, limit: int) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))
    mark = f"{os.getpid()}{limit}"

    output = await run_command.run(
        {"command": command.replace("{mark}", mark), "timeout": limit}, RecordingContext(yard.root, sandbox=sandbox)
    )
    sandbox.close()

    await until(lambda: not _sleeping(mark))
    assert "still running" not in output.text


async def test_everything_ends_when_the_program_that_started_it_is_killed(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    mark = str(os.getpid())
    starter = f"""
        import subprocess, sys
        from pathlib import Path
        from tests.sandbox.sandbox_kit import Yard, start_sandbox
        yard = Yard.__new__(Yard)
        yard.folder, yard.home, yard.root, yard.private = (Path(each) for each in sys.argv[1:5])
        sandbox = start_sandbox("bubblewrap", yard.plan("sandboxed"))
        argv, prepare = sandbox.command(["sh", "-c", "sleep 62.{mark} & sleep 62.{mark}"], cwd=str(yard.root))
        subprocess.Popen(argv, preexec_fn=prepare, start_new_session=True)
        import time
        time.sleep(60)
    """
    places = [str(each) for each in (yard.folder, yard.home, yard.root, yard.private)]
    async with await anyio.open_process([sys.executable, "-c", textwrap.dedent(starter), *places]) as process:
        await until(lambda: len(_sleeping(f"62.{mark}")) == 2)
        process.send_signal(signal.SIGKILL)

    await until(lambda: not _sleeping(f"62.{mark}"))


def _sleeping(mark: str) -> list[int]:
    """The processes whose arguments have a mark, and that live."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        seen = read_process(int(name))
        if any(each.endswith(mark.encode()) for each in arguments[1:2]) and seen is not None and not seen.dead:
            found.append(int(name))
    return found
