"""What is left of the product's former name: found, named, moved, and never counted in silence."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from backstay.config.former_name import (
    Blocked,
    FormerItem,
    MoveReport,
    find_former,
    move_folder,
    move_former,
    warn_former,
)
from tests.config.world import World
from tests.source_tree import SOURCE

COMMAND = "backstay doctor --move-from holdfast"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where a person keeps things whose folders are the usual ones."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work/.git").mkdir(parents=True)
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home/.config")}


def put(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def everything(tmp_path: Path) -> None:
    for name in ("home/.local/share/holdfast/grants.json", "home/.config/holdfast/settings.json"):
        put(tmp_path / name)
    for name in ("work/.holdfast/settings.json", "work/deep/.holdfast/skills/x/SKILL.md", "home/.holdfast/memory/a.md"):
        put(tmp_path / name)


def brief(items: tuple[FormerItem, ...], tmp_path: Path) -> list[tuple[str, str]]:
    return [(item.kind, item.what.replace(f"{tmp_path}/", "")) for item in items]


def test_everything_of_the_former_name_is_found_with_what_to_type(tmp_path: Path, environment: dict[str, str]) -> None:
    everything(tmp_path)

    found = find_former(tmp_path / "work/deep", {**environment, "HOLDFAST_DRAIN_S": "3"})

    assert brief(found, tmp_path) == [
        ("data", "home/.local/share/holdfast"),
        ("configuration", "home/.config/holdfast"),
        ("project", "work/deep/.holdfast"),
        ("project", "work/.holdfast"),
        ("project", "home/.holdfast"),
        ("variable", "HOLDFAST_DRAIN_S"),
    ]
    assert all(COMMAND in item.todo for item in found[:-1])
    assert found[-1].todo == "It does nothing. Where it is set, write BACKSTAY_DRAIN_S instead."


def test_a_move_takes_everything_and_the_second_finds_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    everything(tmp_path)

    report = move_former(tmp_path / "work/deep", environment)

    assert [item.into.replace(f"{tmp_path}/", "") for item in report.moved] == [
        "home/.local/share/backstay",
        "home/.config/backstay",
        "work/deep/.backstay",
        "work/.backstay",
        "home/.backstay",
    ]
    assert (report.left, report.blocked) == ((), ())
    assert (tmp_path / "work/deep/.backstay/skills/x/SKILL.md").is_file()
    assert move_former(tmp_path / "work/deep", environment) == MoveReport(moved=(), left=(), blocked=())


def test_what_stands_in_the_way_is_said_and_stays(tmp_path: Path, environment: dict[str, str]) -> None:
    everything(tmp_path)
    mine = put(tmp_path / "work/.backstay/settings.json", '{"language": "German"}')

    report = move_former(tmp_path / "work", environment)

    (words,) = report.blocked
    assert words.startswith(f"'{mine}' is there already, so '{tmp_path}/work/.holdfast/settings.json' stays.")
    assert mine.read_text("utf-8") == '{"language": "German"}'
    assert brief(report.left, tmp_path) == [("project", "work/.holdfast")]


def test_a_folder_that_a_variable_names_stays_where_it_is(tmp_path: Path, environment: dict[str, str]) -> None:
    put(tmp_path / "disk/sessions.db")
    named = {**environment, "HOLDFAST_DATA_DIR": str(tmp_path / "disk")}

    assert brief(find_former(tmp_path / "work", named), tmp_path) == [("variable", "HOLDFAST_DATA_DIR")]
    assert find_former(tmp_path / "work", {**named, "BACKSTAY_DATA_DIR": str(tmp_path / "disk")}) == ()
    report = move_former(tmp_path / "work", {**named, "BACKSTAY_DATA_DIR": str(tmp_path / "new")})
    assert brief(report.moved, tmp_path) == [("data", "disk")]
    assert (tmp_path / "new/sessions.db").is_file()


def test_a_setting_that_says_the_former_name_is_named_with_its_line(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    path = put(tmp_path / "work/.claude/settings.json", '{\n "a": "$KEYRING:holdfast/ada",\n "b": "secret Holdfast"\n}')

    first, second = find_former(tmp_path / "work", environment)

    assert (first.kind, first.what) == ("setting", f"{path}:2")
    assert first.todo == "It says $KEYRING:holdfast/ada: look whether it is still meant so."
    assert second.todo == "It says Holdfast: look whether it is still meant so."


def test_settings_of_the_former_name_do_not_go_unnoticed(world: World) -> None:
    quiet = world.read().warnings
    path = world.write(".holdfast/settings.json", {"permissions": {"deny": ["Read(secret)"]}})

    found = world.read()

    assert quiet == ()
    assert found.rules == ()
    assert found.warnings == (f"{path}: of the former name, so they do not count. Type: backstay doctor",)
    world.write(".backstay/settings.json", {})
    assert world.read().warnings == ()


def test_bare_says_nothing_of_files_that_it_would_not_read(tmp_path: Path, environment: dict[str, str]) -> None:
    everything(tmp_path)

    assert list(warn_former(tmp_path / "work", environment, bare=True)) == []


def test_a_key_in_a_variable_of_the_former_name_is_still_a_secret(world: World) -> None:
    assert "HOLDFAST_STORE_KEY" not in world.read().keys_beside

    environment = {
        **world.environment,
        "HOLDFAST_STORE_KEY": "k",
        "HOLDFAST_API_KEY_X_ORG": "k",
        "HOLDFAST_DRAIN_S": "1",
    }
    from backstay.config.layers import read_layers

    found = read_layers(world.project, environment=environment, managed=world.managed)
    assert found.keys_beside == {"HOLDFAST_STORE_KEY", "HOLDFAST_API_KEY_X_ORG"}


KEYRING = '''
"""A keyring in one file, as `keyring` has it."""
import json, pathlib
from . import errors
_book = pathlib.Path(__file__).with_name("book.json")
def _read():
    return json.loads(_book.read_text()) if _book.exists() else {}
def get_password(service, user):
    return _read().get(f"{service} {user}")
def set_password(service, user, text):
    _book.write_text(json.dumps({**_read(), f"{service} {user}": text}))
def delete_password(service, user):
    _book.write_text(json.dumps({name: text for name, text in _read().items() if name != f"{service} {user}"}))
'''


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A keyring that is installed; the path of its book."""
    package = tmp_path / "site/keyring"
    put(package / "__init__.py", KEYRING)
    put(package / "errors.py", "class KeyringError(Exception): ...\nclass NoKeyringError(KeyringError): ...\n")
    for name in ("keyring", "keyring.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return package / "book.json"


def test_the_key_of_an_encrypted_store_moves_with_it(
    tmp_path: Path, environment: dict[str, str], keyring: Path
) -> None:
    old, new = tmp_path / "home/.local/share/holdfast", tmp_path / "home/.local/share/backstay"
    put(old / "sessions.db", "encrypted")
    put(keyring, f'{{"holdfast {old}/sessions.db": "k", "holdfast /other": "o"}}')

    assert ("keyring", f"holdfast {old}/sessions.db") in {
        (each.kind, each.what) for each in find_former(tmp_path / "work", environment)
    }
    report = move_former(tmp_path / "work", environment)

    assert [(each.what, each.into) for each in report.moved] == [
        (str(old), str(new)),
        (f"holdfast {old}/sessions.db", f"backstay {new}/sessions.db"),
    ]
    assert keyring.read_text("utf-8") == f'{{"holdfast /other": "o", "backstay {new}/sessions.db": "k"}}'
    assert move_former(tmp_path / "work", environment) == MoveReport(moved=(), left=(), blocked=())


def test_a_key_that_is_there_already_is_not_written_over(
    tmp_path: Path, environment: dict[str, str], keyring: Path
) -> None:
    store = put(tmp_path / "elsewhere.db", "encrypted")
    book = f'{{"holdfast {store}": "k", "backstay {store}": "another"}}'
    put(keyring, book)

    report = move_former(tmp_path / "work", environment, store=store)

    assert report.blocked == (
        f"The keyring has another key under 'backstay {store}', so that under 'holdfast {store}' stays. Remove one.",
    )
    assert keyring.read_text("utf-8") == book


FILES = {
    "sessions.db": "s" * 70_000,
    "sessions.db.trace/one": "t",
    "trust.json": "{}",
    "models/deep/m.gguf": "m" * 9_000,
}
ANOTHER_DISK = Path("/dev/shm")
DIES = """
import os, sys
from pathlib import Path
from backstay.config.former_name import move_folder
steps = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.copyfile")
left = int(sys.argv[3])
def die(event, arguments):
    global left
    if event in steps:
        left -= 1
        if left < 0:
            os._exit(9)
blocked = []
sys.addaudithook(die)
move_folder(Path(sys.argv[1]), Path(sys.argv[2]), blocked)
"""


def fill(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def content(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}


def move(old: Path, new: Path) -> list[str]:
    blocked: list[str] = []
    assert move_folder(old, new, blocked) is not bool(blocked)
    return blocked


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than `tmp_path`."""
    if not ANOTHER_DISK.is_dir() or ANOTHER_DISK.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    import tempfile

    with tempfile.TemporaryDirectory(dir=ANOTHER_DISK) as folder:
        yield Path(folder)


def test_a_folder_is_moved_whole_when_nothing_is_at_its_new_place(tmp_path: Path) -> None:
    old = fill(tmp_path / "old")
    inode = old.stat().st_ino

    assert move(old, tmp_path / "deep/new") == []

    assert content(tmp_path / "deep/new") == FILES
    assert (tmp_path / "deep/new").stat().st_ino == inode
    assert not old.exists()


def test_what_is_there_already_stays_and_only_the_rest_is_moved(tmp_path: Path) -> None:
    old, new = fill(tmp_path / "old"), fill(tmp_path / "new", {"trust.json": '{"other": 1}', "models/deep/x": "x"})

    (blocked,) = move(old, new)

    assert blocked == f"'{new}/trust.json' is there already, so '{old}/trust.json' stays. Compare them, and remove one."
    assert content(old) == {"trust.json": "{}"}
    assert content(new) == {**FILES, "trust.json": '{"other": 1}', "models/deep/x": "x"}


def test_the_same_bytes_at_both_places_become_one_file(tmp_path: Path) -> None:
    old, new = fill(tmp_path / "old"), fill(tmp_path / "new")

    assert move(old, new) == []

    assert (content(new), old.exists()) == (FILES, False)


def test_what_the_next_session_makes_anew_stands_in_nobodys_way(tmp_path: Path) -> None:
    old, new = (
        fill(tmp_path / "old", {"confinement.json": "1"}),
        fill(tmp_path / "new", {"x": "", "confinement.json": "2"}),
    )

    assert move(old, new) == []

    assert (content(new), old.exists()) == ({"x": "", "confinement.json": "2"}, False)


def test_a_store_beside_another_stays_with_its_files(tmp_path: Path) -> None:
    old, new = fill(tmp_path / "old"), fill(tmp_path / "new", {"sessions.db": "other"})

    (blocked,) = move(old, new)

    assert f"backstay --store sqlite:///{str(old)[1:]}/sessions.db sessions move ID sqlite:///{str(new)[1:]}" in blocked
    assert content(old) == {name: text for name, text in FILES.items() if name.startswith("sessions.db")}


def test_a_store_without_sessions_gives_way(tmp_path: Path) -> None:
    old, new = fill(tmp_path / "old"), fill(tmp_path / "new", {"confinement.json": "{}", "sessions.db.lock": ""})
    with closing(sqlite3.connect(new / "sessions.db")) as database:
        database.execute("CREATE TABLE sessions (id)")
        database.commit()
    inode = old.stat().st_ino

    assert move(old, new) == []

    assert content(new) == FILES
    assert new.stat().st_ino == inode  # in one step


def test_a_store_with_sessions_does_not_give_way(tmp_path: Path) -> None:
    old, new = fill(tmp_path / "old"), fill(tmp_path / "new", {"x": "x"})
    with closing(sqlite3.connect(new / "sessions.db")) as database:
        database.execute("CREATE TABLE sessions (id)")
        database.execute("INSERT INTO sessions VALUES (1)")
        database.commit()

    (blocked,) = move(old, new)

    assert f"'{new}/sessions.db' has sessions already" in blocked
    assert (old / "sessions.db").exists()


def test_a_store_that_a_crash_left_goes_only_with_the_whole_folder(tmp_path: Path) -> None:
    old, new = fill(tmp_path / "old", {**FILES, "sessions.db-wal": "pages"}), fill(tmp_path / "new", {"x": "x"})

    (blocked,) = move(old, new)

    assert "sessions.db-wal' holds sessions that are not in" in blocked
    assert {"sessions.db", "sessions.db-wal", "sessions.db.trace/one"} == content(old).keys()
    assert move(old, tmp_path / "fresh") == []
    assert (tmp_path / "fresh/sessions.db-wal").read_text("utf-8") == "pages"


def test_nothing_moves_while_a_process_has_the_store_open(tmp_path: Path) -> None:
    old = fill(tmp_path / "old", {"trust.json": "{}"})
    path = old / "sessions.db"
    held = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('PRAGMA journal_mode=WAL'); "
    held += "d.execute('CREATE TABLE t (x)'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", held, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"

        with pytest.raises(Blocked, match=r"sessions\.db' is open in another process\. End it"):
            move_folder(old, tmp_path / "new", [])

        assert not (tmp_path / "new").exists()
        other.communicate()

    assert move(old, tmp_path / "new") == []
    with closing(sqlite3.connect(tmp_path / "new/sessions.db")) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


def test_a_link_is_moved_and_not_what_it_leads_to(tmp_path: Path) -> None:
    real = fill(tmp_path / "real")
    (tmp_path / "old").symlink_to(real)

    assert move(tmp_path / "old", tmp_path / "new") == []

    assert (tmp_path / "new").readlink() == real
    assert content(real) == FILES


def test_another_file_system_gets_a_copy_before_the_original_goes(tmp_path: Path, elsewhere: Path) -> None:
    old = fill(elsewhere / "old")
    (old / "link").symlink_to("trust.json")

    assert move(old, tmp_path / "new") == []

    assert content(tmp_path / "new") == {**FILES, "link": "{}"}
    assert (tmp_path / "new/link").is_symlink()
    assert os.listdir(elsewhere) == []


@pytest.mark.parametrize("merges", [False, True])
def test_a_crash_at_any_step_loses_nothing_and_the_next_move_ends_it(
    tmp_path: Path, elsewhere: Path, merges: bool
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    for steps in range(60):
        old, new = fill(elsewhere / f"{steps}"), tmp_path / f"{steps}"
        if merges:
            fill(new, {"mine": "1"})
        died = subprocess.run(
            [sys.executable, "-c", DIES, str(old), str(new), str(steps)], env=environment, check=False, timeout=60
        ).returncode

        assert died in (0, 9)
        assert (content(old) | whole(new)).items() >= FILES.items()
        assert move(old, new) == []
        assert content(new) == {**FILES, **({"mine": "1"} if merges else {})}
        assert os.listdir(elsewhere) == []
        if died == 0:
            assert steps > 5
            return
    pytest.fail("the move never came to its end")


def whole(new: Path) -> dict[str, str]:
    """What is whole at the new place: what still grows does not count."""
    return {name: text for name, text in content(new).items() if ".moving" not in name}
