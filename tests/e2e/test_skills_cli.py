"""`backstay skills`: what there is, what one says, and whether it keeps the standard."""

from pathlib import Path

import pytest

from tests.e2e.door import Door, write


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the folders of the test count."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("BACKSTAY_MANAGED_SETTINGS", raising=False)


def skill(folder: Path, name: str, more: str = "") -> Path:
    return write(folder / name / "SKILL.md", f"---\nname: {name}\ndescription: Does {name}\n{more}---\nSteps.\n")


def test_skills_and_commands_are_listed_with_who_may_use_them(door: Door) -> None:
    skill(door.folder / "home" / ".claude" / "skills", "mine")
    skill(door.folder / "config" / "skills", "quiet", "disable-model-invocation: true\n")
    skill(door.work / ".claude" / "skills", "theirs")
    write(door.work / ".claude" / "commands" / "git" / "log.md", "Show the log.")

    ran = door.run("skills", "list")

    assert ran.code == 0
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in ran.out.splitlines()}
    assert rows["mine"] == "skill person person, model Does mine"
    assert rows["quiet"] == "skill person person Does quiet"
    assert rows["theirs"] == "skill project (not trusted) person Does theirs"
    assert rows["git:log"] == "command project (not trusted) person Show the log."


def test_the_listing_as_json_has_everything(door: Door) -> None:
    file = skill(door.work / ".claude" / "skills", "x", "allowed-tools: Read\n")
    skill(door.work / ".agents" / "skills", "x")
    write(door.work / ".claude" / "skills" / "broken" / "SKILL.md", "---\nname: broken\n")

    content = door.run("skills", "list", "--trust", "--json").json

    (one,) = content["skills"]
    assert (one["name"], one["file"], one["trusted"], one["allowed_tools"]) == ("x", str(file), True, ["Read"])
    assert [each["source"] for each in content["shadowed"]] == ["project"]
    (problem,) = content["problems"]
    assert (problem["line"], problem["severity"]) == (1, "error")
    assert content["commands"] == []


def test_trust_that_was_recorded_counts_until_a_file_changes(door: Door) -> None:
    file = skill(door.work / ".claude" / "skills", "x")
    assert door.run("skills", "list", "--json").json["skills"][0]["trusted"] is False

    assert door.run("trust", "--yes").code == 0
    assert door.run("skills", "list", "--json").json["skills"][0]["trusted"] is True
    file.write_text(file.read_text() + "More.\n")
    assert door.run("skills", "list", "--json").json["skills"][0]["trusted"] is False


def test_problems_go_to_standard_error_and_cannot_drive_the_terminal(door: Door) -> None:
    write(door.work / ".claude" / "skills" / "x\x1b[31m" / "SKILL.md", "---\nname: x\n")

    ran = door.run("skills", "list")

    assert ran.code == 0
    assert "has no end" in ran.err
    assert "\x1b" not in ran.err + ran.out
    assert "There are no skills" in ran.out


def test_one_skill_is_shown_with_its_text(door: Door) -> None:
    skill(door.work / ".claude" / "skills", "x", "allowed-tools: Read, Grep\n")

    shown = door.run("skills", "show", "/x", "--trust")
    content = door.run("skills", "show", "x", "--json").json

    assert "allowed_tools: Read, Grep" in shown.out
    assert shown.out.endswith("\n\nSteps.\n")
    assert (content["body"], content["withheld"]) == ("Steps.\n", ["allowed-tools"])
    missing = door.run("skills", "show", "nothing")
    assert (missing.code, "no skill or command 'nothing'" in missing.err) == (1, True)


def test_a_skill_is_checked_against_the_standard(door: Door) -> None:
    good = skill(door.work / "skills", "good")
    bad = skill(door.work / "skills", "bad", "context: fork\n")

    assert door.run("skills", "validate", str(good.parent)).code == 0
    assert door.run("skills", "validate", str(good)).out.strip().endswith("is a valid skill.")
    ran = door.run("skills", "validate", str(bad.parent))
    assert (ran.code, ran.out.startswith(f"{bad}:4: 'context' is not a key of the standard")) == (1, True)
    content = door.run("skills", "validate", str(bad.parent), "--json").json
    assert (content["valid"], len(content["problems"])) == (False, 1)
    assert door.run("skills", "validate", str(door.work / "nowhere")).code == 1


def test_broken_settings_do_not_hide_the_skills(door: Door) -> None:
    write(door.work / ".backstay" / "settings.json", "{")
    skill(door.work / ".claude" / "skills", "x")

    ran = door.run("skills", "list", "--json")

    assert [each["trusted"] for each in ran.json["skills"]] == [False]
    assert "settings.json" in ran.err


def test_help_says_what_each_command_does_with_an_example(door: Door) -> None:
    for command in ("list", "show", "validate"):
        assert f"backstay skills {command}" in door.run("skills", command, "--help").out
