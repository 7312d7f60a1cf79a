"""What is left of the product's former name: found, named, moved, and never counted in silence."""

import sys
from pathlib import Path

import pytest

from backstay.config.former_name import FormerItem, MoveReport, find_former, move_former, warn_former
from tests.config.world import World

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
