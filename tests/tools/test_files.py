"""Files as the file tools see them: which file a call means, the way to it, and how it is replaced."""

import errno
import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from backstay.ports import Tool
from backstay.tools.files import locked_file
from backstay.tools.files.apply_patch import apply_patch
from backstay.tools.files.edit import edit_file, multi_edit
from backstay.tools.files.locked_file import ChangedMeanwhile, hold
from backstay.tools.files.read import read_file
from backstay.tools.files.target import FileTarget, OpenedPath, Refused, explain_os_error, find_target, reach
from backstay.tools.files.write import write_file
from backstay.tools.notebook import notebook_edit
from tests.tools.context import RecordingContext

WRITERS: list[tuple[Tool, dict[str, object]]] = [
    (write_file, {"content": "new\n"}),
    (edit_file, {"old_string": "kept", "new_string": "new"}),
    (multi_edit, {"edits": [{"old_string": "kept", "new_string": "new"}]}),
]
"""The tools that change one file, and arguments that change a file with `kept` in it."""


def _target(path: Path, *, judged: bool = False) -> FileTarget:
    return FileTarget(str(path), str(path), judged)


# --- which file a call means


@pytest.mark.contract("RV-B18")
async def test_a_file_is_opened_where_it_led_when_the_call_was_judged(tmp_path: Path) -> None:
    (tmp_path / "judged").write_text("kept")
    (tmp_path / "other").write_text("kept")
    (tmp_path / "link").symlink_to("other")
    context = RecordingContext(tmp_path, links={f"{tmp_path}/link": f"{tmp_path}/judged"})

    await edit_file.run({"file_path": "link", "old_string": "kept", "new_string": "new"}, context)

    assert ((tmp_path / "judged").read_text(), (tmp_path / "other").read_text()) == ("new", "kept")


@pytest.mark.contract("RV-B18")
@pytest.mark.parametrize("make_link", ["parent", "file"])
@pytest.mark.parametrize("tool", [read_file, *(tool for tool, _ in WRITERS)], ids=lambda tool: str(tool.spec.name))
async def test_what_has_become_a_link_since_the_call_was_judged_is_not_followed(
    tmp_path: Path, tool: Tool, make_link: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("kept")
    if make_link == "parent":
        (tmp_path / "folder").symlink_to("outside")
    else:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder/file").symlink_to("../outside/file")
    path = f"{tmp_path}/folder/file"
    args = {"file_path": "folder/file"} | next((args for known, args in WRITERS if known is tool), {})

    output = await tool.run(args, RecordingContext(tmp_path, links={path: path}))

    assert (output.failed, output.code) == (True, "moved")
    assert "changed since it was judged" in output.text
    assert (tmp_path / "outside/file").read_text() == "kept"
    assert os.listdir(tmp_path / "outside") == ["file"]


async def test_folders_are_not_made_behind_a_link_that_came_after_the_judgement(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "new").symlink_to("outside")
    path = f"{tmp_path}/new/deep/file"

    context = RecordingContext(tmp_path, links={path: path})
    output = await write_file.run({"file_path": "new/deep/file", "content": "x"}, context)

    assert (output.code, os.listdir(tmp_path / "outside")) == ("moved", [])


@pytest.mark.parametrize(("links", "code"), [({"/elsewhere": "/elsewhere"}, "not_judged"), ({"HERE": ""}, "bad_path")])
async def test_a_path_that_nobody_looked_at_or_that_leads_nowhere_is_refused(
    tmp_path: Path, links: dict[str, str], code: str
) -> None:
    (tmp_path / "a").write_text("kept")
    context = RecordingContext(tmp_path, links={key.replace("HERE", f"{tmp_path}/a"): at for key, at in links.items()})

    assert (await read_file.run({"file_path": "a"}, context)).code == code


@pytest.mark.parametrize("written", ["./x/../a", "a", "x//../a"])
def test_the_path_as_written_is_the_one_that_was_judged(tmp_path: Path, written: str) -> None:
    context = RecordingContext(tmp_path, links={f"{tmp_path}/{written}": "/judged"})

    assert find_target(context, written) == FileTarget(str(tmp_path / written), "/judged", judged=True)


@pytest.mark.parametrize("tool", [read_file, *(tool for tool, _ in WRITERS)], ids=lambda tool: str(tool.spec.name))
async def test_rb_w38_a_relative_path_starts_at_the_sessions_folder_not_at_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    (tmp_path / "session").mkdir()
    (tmp_path / "process").mkdir()
    for folder in ("session", "process"):
        (tmp_path / folder / "a").write_text("kept")
    monkeypatch.chdir(tmp_path / "process")
    context = RecordingContext(tmp_path / "session")
    args = {"file_path": "a"} | next((args for known, args in WRITERS if known is tool), {})

    assert not (await tool.run(args, context)).failed

    assert (tmp_path / "process/a").read_text() == "kept"
    assert [event.path for event in context.seen_files] == [f"{tmp_path}/session/a"]


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (read_file, {"file_path": "none"}),
        (write_file, {"file_path": ".", "content": ""}),
        (edit_file, {"file_path": "a", "old_string": "none", "new_string": "x"}),
        (multi_edit, {"file_path": "a", "edits": [{"old_string": "none", "new_string": "x"}]}),
        (apply_patch, {"patch": "no patch"}),
        (notebook_edit, {"notebook_path": "a", "new_source": ""}),
    ],
    ids=lambda value: value.spec.name if hasattr(value, "spec") else "",
)
async def test_rb_w39_a_call_that_fails_is_a_failed_call(tmp_path: Path, tool: Tool, args: dict[str, object]) -> None:
    (tmp_path / "a").write_text("kept")

    output = await tool.run(args, RecordingContext(tmp_path))

    assert output.failed
    assert output.code
    assert (tmp_path / "a").read_text() == "kept"


# --- the way there


@contextmanager
def _swapping(folder: Path, outside: Path) -> Iterator[None]:
    """Swap `folder` for a link to `outside` and back, all the time."""
    stop = threading.Event()
    aside = folder.with_name("aside")

    def swap() -> None:
        while not stop.is_set():
            folder.rename(aside)
            with suppress(FileExistsError):  # a tool may make the missing folder in between
                folder.symlink_to(outside)
            while aside.exists():
                with suppress(OSError):
                    folder.unlink() if folder.is_symlink() else shutil.rmtree(folder, ignore_errors=True)
                    aside.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.contract("RV-B18")
async def test_a_folder_that_is_swapped_for_a_link_all_the_time_never_leads_a_tool_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "w/folder", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        (folder / "file").write_text("0")
    paths = {name: f"{inside}/{name}" for name in ("file", "made", "patched")}
    before = [(entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(outside)]
    context = RecordingContext(inside, links={path: path for path in paths.values()})
    codes: set[str] = set()

    with _swapping(inside, outside):
        for number in range(60):
            edit: dict[str, object] = {"file_path": "file", "old_string": f"{number}", "new_string": f"{number + 1}"}
            patch = f"*** Begin Patch\n*** Add File: patched\n+{number}\n*** End Patch"
            codes.add((await edit_file.run(edit, context)).code)
            codes.add((await write_file.run({"file_path": "made", "content": "x"}, context)).code)
            codes.add((await apply_patch.run({"patch": patch}, context)).code)

    assert [(entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(outside)] == before
    assert (outside / "file").read_text() == "0"
    assert codes <= {"", "moved", "not_found", "no_match", "exists", "changed", "not_applied", "os_error"}
    assert not [name for name in os.listdir(inside) if name.startswith(".backstay")]


async def test_a_file_that_is_swapped_for_a_link_all_the_time_never_shows_what_is_outside(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    path = f"{tmp_path}/file"
    context = RecordingContext(tmp_path, links={path: path})
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (tmp_path / "text").write_text("mine")
            (tmp_path / "text").replace(path)
            (tmp_path / "link").symlink_to("outside")
            (tmp_path / "link").replace(path)

    thread = threading.Thread(target=swap)
    thread.start()
    outputs = [await read_file.run({"file_path": "file"}, context) for _ in range(100)]
    edits = [
        await edit_file.run({"file_path": "file", "old_string": "secret", "new_string": "x"}, context)
        for _ in range(30)
    ]
    stop.set()
    thread.join()

    assert {output.code for output in outputs} <= {"", "moved", "not_found"}
    assert not any("secret" in output.text for output in outputs)
    assert {output.failed for output in edits} == {True}
    assert (tmp_path / "outside").read_text() == "secret"


class _Swapped(OpenedPath, frozen=True):
    """A file that becomes a link right after it was looked at."""

    def facts(self) -> os.stat_result | None:
        found = super().facts()
        os.unlink(self.name, dir_fd=self.folder)
        os.symlink("outside", self.name, dir_fd=self.folder)
        return found


def test_a_file_that_becomes_a_link_between_looking_and_opening_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "file").write_text("mine")

    with reach(_target(tmp_path / "file", judged=True)) as place:
        swapped = _Swapped(place.target, place.folder, place.name)
        with pytest.raises(Refused, match="changed since it was judged"):
            swapped.open()


def test_folders_that_were_made_go_again_when_the_work_in_them_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), reach(_target(tmp_path / "a/b/c/file"), make=True):
        raise ZeroDivisionError

    assert os.listdir(tmp_path) == []


def test_a_folder_that_somebody_uses_meanwhile_stays(tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), reach(_target(tmp_path / "a/b/file"), make=True):
        (tmp_path / "a/b/theirs").touch()
        raise ZeroDivisionError

    assert (tmp_path / "a/b/theirs").exists()


@pytest.mark.parametrize("place", ["/", "/a/../b", "/./a"])
def test_a_place_is_a_file_without_detours(place: str) -> None:
    with pytest.raises((Refused, IsADirectoryError)), reach(FileTarget(place, place)):
        pass


# --- replacing


def test_a_file_that_somebody_else_changed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("seen")

    with hold(_target(path)) as held:
        assert held.read() == b"seen"
        path.write_text("changed meanwhile")
        with pytest.raises(ChangedMeanwhile):
            held.replace(b"mine")

    assert path.read_text() == "changed meanwhile"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_that_somebody_else_makes_first_is_left_alone(tmp_path: Path) -> None:
    with hold(_target(tmp_path / "a")) as held:
        (tmp_path / "a").write_text("theirs")
        with pytest.raises(ChangedMeanwhile):
            held.replace(b"mine")

    assert (tmp_path / "a").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_that_somebody_else_removed_is_not_brought_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("seen")

    with hold(_target(tmp_path / "a")) as held:
        (tmp_path / "a").unlink()
        with pytest.raises(ChangedMeanwhile):
            held.replace(b"mine")

    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_mode_owner_and_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o2750)
    with suppress(PermissionError):
        os.chown(path, 12345, 54321)
        path.chmod(0o2750)
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError as exc:
        if exc.errno == errno.ENOTSUP:
            pytest.skip("this file system has no extended attributes")
        raise
    before = path.stat()

    with hold(_target(path)) as held:
        held.replace(b"new")

    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert (os.getxattr(path, "user.note"), path.read_bytes()) == (b"kept", b"new")


@pytest.mark.parametrize(("tool", "args"), WRITERS, ids=lambda value: value.spec.name if hasattr(value, "spec") else "")
async def test_a_read_only_file_is_refused_to_everybody_also_to_root(
    tmp_path: Path, tool: Tool, args: dict[str, object]
) -> None:
    (tmp_path / "a").write_text("kept")
    (tmp_path / "a").chmod(0o444)

    output = await tool.run({"file_path": "a"} | args, RecordingContext(tmp_path))

    assert (output.code, (tmp_path / "a").read_text(), os.listdir(tmp_path)) == ("no_permission", "kept", ["a"])


@pytest.mark.parametrize(("tool", "args"), WRITERS, ids=lambda value: value.spec.name if hasattr(value, "spec") else "")
async def test_a_file_with_two_names_is_refused(tmp_path: Path, tool: Tool, args: dict[str, object]) -> None:
    (tmp_path / "a").write_text("kept")
    (tmp_path / "b").hardlink_to(tmp_path / "a")

    output = await tool.run({"file_path": "a"} | args, RecordingContext(tmp_path))

    assert (output.code, (tmp_path / "a").read_text()) == ("hard_links", "kept")
    assert (tmp_path / "a").samefile(tmp_path / "b")


@pytest.mark.parametrize(("tool", "args"), WRITERS, ids=lambda value: value.spec.name if hasattr(value, "spec") else "")
@pytest.mark.parametrize("kind", ["pipe", "socket", "/dev/null", "/proc/self/status", "/sys/kernel/mm"])
async def test_what_is_no_file_of_a_disk_is_refused(
    tmp_path: Path, tool: Tool, args: dict[str, object], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind("socket")
        output = await tool.run({"file_path": kind} | args, RecordingContext(tmp_path))

    assert output.failed
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every folder")
@pytest.mark.parametrize(("tool", "args"), WRITERS, ids=lambda value: value.spec.name if hasattr(value, "spec") else "")
async def test_a_folder_that_may_not_be_written_leaves_its_files_alone(
    tmp_path: Path, tool: Tool, args: dict[str, object]
) -> None:
    (tmp_path / "a").write_text("kept")
    tmp_path.chmod(0o555)

    output = await tool.run({"file_path": "a"} | args, RecordingContext(tmp_path))
    tmp_path.chmod(0o755)

    assert (output.code, (tmp_path / "a").read_text()) == ("no_permission", "kept")


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    refused = explain_os_error(tmp_path, OSError(errno.ENOSPC, "No space left on device"))

    assert (refused.code, str(refused)) == (
        "no_space",
        f"There is no space left for {str(tmp_path)!r}. It is as it was.",
    )


# --- locks

LOCKER = """
import fcntl, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let another process hold the lock of a file."""
    command = [sys.executable, "-c", LOCKER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == b"locked\n"
        yield
        locker.communicate()


async def test_a_file_that_another_program_keeps_locked_is_refused_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_file, "PATIENCE", 0.05)
    (tmp_path / "a").write_text("kept")
    args: dict[str, object] = {"file_path": "a", "content": "new"}

    with _locked(tmp_path / "a"):
        refused = await write_file.run(args, RecordingContext(tmp_path))
        assert (refused.code, (tmp_path / "a").read_text()) == ("locked", "kept")

    assert not (await write_file.run(args, RecordingContext(tmp_path))).failed


def test_a_new_content_is_locked_from_its_first_moment_until_it_is_let_go(tmp_path: Path) -> None:
    def lock() -> None:
        with (tmp_path / "a").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    with hold(_target(tmp_path / "a")) as held:
        held.replace(b"x")
        with pytest.raises(BlockingIOError):
            lock()
    lock()


def test_locks_of_files_that_nobody_holds_are_forgotten(tmp_path: Path) -> None:
    with hold(_target(tmp_path / "a")) as held:
        held.replace(b"x")

    assert str(tmp_path / "a") not in locked_file._turns
