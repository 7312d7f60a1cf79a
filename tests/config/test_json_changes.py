"""One value of a settings file is changed, and every other character stays."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.config.json_changes import change_setting, cut_value, insert_value, remove_setting
from backstay.config.json_document import LARGEST, JsonText
from backstay.vocab.errors import UserError

LIVED_IN = """\
{
    "permissions": {"deny": ["Bash(rm *)"],   "allow": [ ]},
    "retries":1.50e1,

    "enabledPlugins": {
        "a@m": true
    }
}
"""


def test_the_rest_of_the_file_keeps_every_character(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(LIVED_IN, encoding="utf-8")
    path.chmod(0o640)

    assert change_setting(path, ("enabledPlugins", "b@m"), False, data=tmp_path / "data")
    assert path.read_text() == LIVED_IN.replace('"a@m": true\n', '"a@m": true,\n        "b@m": false\n')
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert change_setting(path, ("enabledPlugins", "b@m"), True, data=tmp_path / "data")
    assert not change_setting(path, ("enabledPlugins", "b@m"), True, data=tmp_path / "data")
    assert remove_setting(path, ("enabledPlugins", "b@m"), data=tmp_path / "data")
    assert path.read_text() == LIVED_IN
    assert not remove_setting(path, ("enabledPlugins", "b@m"), data=tmp_path / "data")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "settings.json"]


def test_a_file_that_is_not_there_is_made_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "work" / ".backstay" / "settings.json"

    assert not remove_setting(path, ("a",), data=tmp_path / "data")
    assert not path.exists()
    assert change_setting(path, ("enabledPlugins", "a@m"), True, data=tmp_path / "data")
    assert json.loads(path.read_text()) == {"enabledPlugins": {"a@m": True}}
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        '{"permissions": {"deny": ["Bash"]},}',
        "[]",
        '{"a": 1, "a": 2}',
        " " * LARGEST + "{}",
        '{"a": "\\ud800"}',
    ],
)
def test_rb_w56_a_file_that_is_broken_is_refused_and_stays_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content, encoding="utf-8")

    for change in (change_setting, remove_setting):
        with pytest.raises(UserError, match=str(path)):
            change(
                path, ("enabledPlugins", "a@m"), *([True] if change is change_setting else []), data=tmp_path / "data"
            )

    assert path.read_text() == content


def test_what_stands_in_the_way_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{\n"enabledPlugins": ["a@m"]}', encoding="utf-8")

    with pytest.raises(UserError, match=r"settings\.json:2: enabledPlugins: An object is needed here"):
        change_setting(path, ("enabledPlugins", "a@m"), True, data=tmp_path / "data")


def test_a_link_of_a_project_leads_no_change_out_of_it(tmp_path: Path) -> None:
    work, own = tmp_path / "work", tmp_path / "own.json"
    work.mkdir()
    own.write_text("{}", encoding="utf-8")
    (work / "settings.json").symlink_to(own)

    with pytest.raises(UserError, match="is a link that leads to"):
        change_setting(work / "settings.json", ("a",), 1, data=tmp_path / "data", root=work)
    assert own.read_text() == "{}"
    assert change_setting(work / "settings.json", ("a",), 1, data=tmp_path / "data")
    assert (work / "settings.json").is_symlink()
    assert json.loads(own.read_text()) == {"a": 1}


def test_a_name_that_json_cannot_hold_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no valid Unicode"):
        change_setting(tmp_path / "s.json", ("\udcff",), 1, data=tmp_path / "data")
    assert not (tmp_path / "s.json").exists()


NAMES = st.text(min_size=1, max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(content=st.dictionaries(NAMES, VALUES, max_size=4), keys=st.lists(NAMES, min_size=1, max_size=3), value=VALUES)
@pytest.mark.parametrize("indent", [None, 1, 4])
def test_a_change_is_that_change_and_no_other(
    indent: int | None, content: dict[str, object], keys: list[str], value: object
) -> None:
    text = JsonText(Path("s.json"), json.dumps(content, indent=indent, ensure_ascii=False).encode())
    wanted = json.loads(json.dumps(content))
    within = wanted
    for key in keys[:-1]:
        if not isinstance(within.setdefault(key, {}), dict):
            with pytest.raises(UserError):
                insert_value(text, keys, value)
            return
        within = within[key]
    within[keys[-1]] = value

    after = JsonText(Path("s.json"), insert_value(text, keys, value))

    assert json.loads(after.content) == wanted
    del within[keys[-1]]
    assert json.loads(cut_value(after, keys)) == wanted
