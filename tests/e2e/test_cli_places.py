"""Where a session may work: `--add-dir`, `--scope`, and what programs meet in the sandbox."""

import socket
from pathlib import Path

import pytest

from backstay.sandbox.probe import probe
from tests.e2e.door import Door, Line, Ran

DONE = {"text": "Done."}
SCRIPT = {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": "sh w.sh"}}]}
ALLOWED = ("--allow", "Bash(sh w.sh)")

needs_sandbox = pytest.mark.usefixtures("sandbox")


@pytest.fixture
def sandbox(door: Door) -> None:
    """Skip where no sandbox works."""
    report = probe("sandboxed")
    if not report.available:
        pytest.skip(f"no sandbox works in {door.work}: {report.why}")


@pytest.fixture
def other(door: Door) -> Path:
    """A folder beside the working folder, and a script that writes into both."""
    folder = door.folder / "other"
    folder.mkdir()
    (folder / "a.txt").write_text("from there\n", encoding="utf-8")
    (door.work / "w.sh").write_text(f"echo in > in.txt && echo out > {folder}/out.txt\n", encoding="utf-8")
    return folder


def calls(name: str, **args: object) -> Line:
    return {"calls": [{"name": name, "args": args}]}


def run(door: Door, reply: Line, *flags: str) -> tuple[Ran, str]:
    """Run one call, and return what the model was told of it."""
    model = door.script(reply, DONE)
    ran = door.run("-p", "go", "--model", model, "--no-persist", "--output-format", "stream-json", *flags)
    (told,) = (line["message"]["content"][0]["content"] for line in ran.lines if line["type"] == "user")
    return ran, told


# --- folders -----------------------------------------------------------------------------------------------------------------------


def test_a_folder_that_was_added_is_read_freely_and_no_other(door: Door, other: Path) -> None:
    reads = calls("Read", file_path=str(other / "a.txt"))

    without, refused = run(door, reads)
    added, told = run(door, reads, "--add-dir", str(other))

    assert (without.code, refused.startswith("Not run: nobody could be asked")) == (3, True)
    assert (added.code, "from there" in told) == (0, True)


def test_a_folder_that_was_added_is_written_as_the_working_folder_is(door: Door, other: Path) -> None:
    writes = calls("Write", file_path=str(other / "new.txt"), content="new\n")
    accepts = ("--permission-mode", "acceptEdits")

    asked, _ = run(door, writes, "--add-dir", str(other))
    outside, _ = run(door, writes, *accepts)
    assert ((asked.code, outside.code), (other / "new.txt").exists()) == ((3, 3), False)

    added, _ = run(door, writes, *accepts, "--add-dir", "../other")
    assert (added.code, (other / "new.txt").read_text(encoding="utf-8")) == (0, "new\n")


def test_a_link_in_a_folder_that_was_added_leads_nowhere_else(door: Door, other: Path) -> None:
    secret = door.folder / "secret.txt"
    secret.write_text("hush\n", encoding="utf-8")
    (other / "link.txt").symlink_to(secret)

    ran, told = run(door, calls("Read", file_path=str(other / "link.txt")), "--add-dir", str(other))

    assert (ran.code, "hush" in told) == (3, False)


# --- sandbox -------------------------------------------------------------------------------------------------------------------------


@needs_sandbox
@pytest.mark.parametrize("flags", [(), ("--scope", "sandboxed"), ("--scope", "project")])
def test_an_allowed_program_cannot_write_outside_and_is_told_why(
    door: Door, other: Path, flags: tuple[str, ...]
) -> None:
    ran, told = run(door, SCRIPT, *ALLOWED, *flags)

    assert ran.code == 0
    assert (door.work / "in.txt").exists()
    assert not (other / "out.txt").exists()
    assert "This command ran in a sandbox" in told
    assert str(door.work) in told


@needs_sandbox
def test_a_sandbox_that_was_asked_for_stands_when_everything_is_allowed(door: Door, other: Path) -> None:
    run(door, SCRIPT, "--permission-mode", "bypassPermissions", "--scope", "sandboxed")

    assert ((door.work / "in.txt").exists(), (other / "out.txt").exists()) == (True, False)


@pytest.mark.parametrize(
    "flags", [(*ALLOWED, "--scope", "full"), ("--permission-mode", "bypassPermissions")], ids=["full", "bypass"]
)
def test_without_a_sandbox_a_program_writes_where_the_person_may(
    door: Door, other: Path, flags: tuple[str, ...]
) -> None:
    ran, told = run(door, SCRIPT, *flags)

    assert (ran.code, told) == (0, "(no output)")
    assert ((door.work / "in.txt").exists(), (other / "out.txt").exists()) == (True, True)


@needs_sandbox
def test_programs_may_write_into_a_folder_that_was_added(door: Door, other: Path) -> None:
    ran, told = run(door, SCRIPT, *ALLOWED, "--add-dir", str(other))

    assert (ran.code, told) == (0, "(no output)")
    assert (other / "out.txt").read_text(encoding="utf-8") == "out\n"


@needs_sandbox
def test_nothing_of_the_sandbox_stays_in_the_folders(door: Door, other: Path) -> None:
    model = door.script(SCRIPT, DONE)
    ran = door.spawn("-p", "go", "--model", model, "--no-persist", *ALLOWED, "--add-dir", str(other))

    assert (ran.code, ran.err) == (0, "")
    assert sorted(path.name for path in door.work.iterdir()) == ["in.txt", "w.sh"]
    assert sorted(path.name for path in other.iterdir()) == ["a.txt", "out.txt"]


@needs_sandbox
@pytest.mark.parametrize(("scope", "reaches"), [("sandboxed", False), ("project", True), ("full", True)])
def test_a_program_reaches_the_network_where_its_scope_has_one(door: Door, scope: str, reaches: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        (door.work / "w.sh").write_text(f"exec bash -c 'echo hello > /dev/tcp/127.0.0.1/{port}'\n", encoding="utf-8")

        _, told = run(door, SCRIPT, *ALLOWED, "--scope", scope)

        assert called(server) == reaches
    assert ("it has no network" in told) == (not reaches)


def called(server: socket.socket) -> bool:
    """Whether somebody connected."""
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True
