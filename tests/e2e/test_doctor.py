"""`backstay doctor`."""

import json
from pathlib import Path

import pytest

from tests.e2e.door import Door


def _findings(door: Door, *arguments: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    ran = door.run("doctor", "--json", *arguments)
    return ran.code, {section["name"]: section["findings"] for section in ran.json["sections"]}


def _texts(findings: list[dict[str, str]], level: str = "") -> str:
    return "\n".join(each["text"] for each in findings if not level or each["level"] == level)


def test_a_healthy_machine_is_told_so_section_by_section(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-shown")

    ran = door.run("doctor")

    for name in (
        "program",
        "folders",
        "store",
        "sandbox",
        "programs",
        "models",
        "settings",
        "workspace",
        "terminal",
    ):
        assert f"\n{name}\n" in "\n" + ran.out
    assert "OPENAI_API_KEY" in ran.out
    assert "sk-not-to-be-shown" not in ran.out + ran.err
    assert ran.out.splitlines()[-1].startswith("All is well." if ran.code == 0 else "Something needs attention")


def test_the_sandbox_of_each_scope_is_reported(door: Door) -> None:
    _, found = _findings(door)

    said = _texts(found["sandbox"])
    for scope in ("sandboxed: ", "project: ", "full: "):
        assert scope in said


def test_the_store_is_opened_and_looked_through(door: Door) -> None:
    door.run("-p", "hello", "--model", door.script({"text": "hi"}))

    _, found = _findings(door)

    assert "opens; 1 session" in _texts(found["store"], "ok")
    assert "its pages fit together" in _texts(found["store"], "ok")


def test_a_damaged_store_needs_attention(door: Door) -> None:
    path = Path(door.folder / "data/sessions.db")
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"no database at all" * 1000)

    code, found = _findings(door)

    assert code == 1
    assert _texts(found["store"], "attention")


def test_a_data_folder_that_others_can_read_needs_attention(door: Door) -> None:
    (door.folder / "data").mkdir(mode=0o755)
    (door.folder / "data").chmod(0o755)

    code, found = _findings(door)

    assert code == 1
    assert "mode 0755" in _texts(found["folders"], "attention")
    assert any("chmod 700" in each["todo"] for each in found["folders"])


def test_broken_settings_need_attention_and_hide_nothing_else(door: Door) -> None:
    (door.folder / "config").mkdir()
    (door.folder / "config/settings.json").write_text('{"chat": ', encoding="utf-8")

    code, found = _findings(door)

    assert code == 1
    assert "settings.json" in _texts(found["settings"], "attention")
    assert _texts(found["program"], "ok")
    assert _texts(found["programs"])


def test_an_unknown_setting_needs_attention(door: Door) -> None:
    (door.folder / "config").mkdir()
    (door.folder / "config/settings.json").write_text(json.dumps({"chta": {}}), encoding="utf-8")

    code, found = _findings(door)

    assert code == 1
    assert "chta" in _texts(found["settings"], "attention")


def test_a_workspace_that_is_not_trusted_is_noted(door: Door) -> None:
    (door.work / ".backstay").mkdir()
    hooks = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch x"}]}]}}
    (door.work / ".backstay/settings.json").write_text(json.dumps(hooks), encoding="utf-8")

    _, found = _findings(door)

    assert "untrusted" in _texts(found["workspace"], "note")
    assert not (door.work / "x").exists()
