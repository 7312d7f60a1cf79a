"""`backstay agents`: to whom work can be handed."""

from pathlib import Path

import pytest

from tests.e2e.door import Door


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the folders of the test count."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("BACKSTAY_MANAGED_SETTINGS", raising=False)


def agent(folder: Path, name: str, more: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: Does {name}\n{more}---\nYou do it.\n", encoding="utf-8")
    return path


@pytest.mark.contract("RB-103", "RB-104")
def test_built_in_agents_and_ones_own_are_listed(door: Door) -> None:
    agent(door.folder / "home" / ".claude" / "agents", "mine", "tools: Read\nmodel: haiku\n")
    agent(door.work / ".claude" / "agents", "theirs")
    agent(door.work / ".claude" / "agents", "broken", "tools: [\n")

    ran = door.run("agents", "list")
    content = door.run("agents", "list", "--json").json

    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in ran.out.splitlines()}
    assert rows["mine"] == "person haiku Read Does mine"
    assert rows["theirs"].startswith("project (not trusted) as the session all")
    assert rows["Explore"].startswith("built-in as the session Read, Grep, Glob")
    assert "broken.md:4" in ran.err
    assert [each["name"] for each in content["agents"]] == ["Explore", "Plan", "general-purpose", "mine", "theirs"]
    assert [each["severity"] for each in content["problems"]] == ["error"]


def test_what_goes_before_something_built_in_is_said(door: Door) -> None:
    agent(door.work / ".claude" / "agents", "Explore")

    before = door.run("agents", "list", "--json").json
    after = door.run("agents", "list", "--trust", "--json").json

    assert [each["source"] for each in before["shadowed"]] == ["project"]
    assert [each["source"] for each in after["shadowed"]] == ["built-in"]


def test_one_agent_is_shown_with_its_instructions(door: Door) -> None:
    agent(door.work / ".claude" / "agents", "theirs", "disallowedTools: Bash, Write\n")

    shown = door.run("agents", "show", "theirs")
    content = door.run("agents", "show", "Plan", "--json").json

    assert "disallowed_tools: Bash, Write" in shown.out
    assert shown.out.endswith("\n\nYou do it.\n")
    assert (content["name"], content["source"]) == ("Plan", "built-in")
    missing = door.run("agents", "show", "nobody")
    assert (missing.code, "no agent 'nobody'" in missing.err) == (1, True)


def test_help_says_what_each_command_does_with_an_example(door: Door) -> None:
    for command in ("list", "show"):
        assert f"backstay agents {command}" in door.run("agents", command, "--help").out
