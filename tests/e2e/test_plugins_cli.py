"""`backstay plugins` as a person uses it: find, look, install, switch, update, remove; and what a workspace may not do."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.door import SOURCE, Door
from tests.plugins.shop import bare, marketplace, plugin, repository, write, zipped


@pytest.fixture
def market(door: Door) -> Path:
    """A marketplace in a git repository, known to the person."""
    folder = door.folder / "market"
    plugin(folder / "plugins/reviewer")
    repository(
        marketplace(
            folder,
            {"name": "reviewer", "source": "./plugins/reviewer", "category": "quality", "keywords": ["review"]},
            {"name": "odd", "source": "../../etc"},
        )
    )
    added = door.run("plugins", "marketplace", "add", f"file://{folder}", "--default")
    assert (added.code, added.out) == (0, "acme: 1 plugins, by Acme.\n")
    assert "plugins[1]: The path '../../etc' leaves the marketplace and is refused" in added.err
    return folder


def states(door: Door) -> dict[str, str]:
    return {row["id"]: row["state"] for row in door.run("plugins", "list", "--json").json}


@pytest.mark.contract("RB-111", "RB-112")
def test_a_plugin_is_found_looked_at_installed_and_shown(door: Door, market: Path) -> None:
    assert [row["id"] for row in door.run("plugins", "search", "rev", "--json").json] == ["reviewer@acme"]
    assert [row["id"] for row in door.run("plugins", "search", "--category", "quality", "--json").json] == [
        "reviewer@acme"
    ]
    assert door.run("plugins", "search", "--keyword", "nothing", "--json").json == []

    asked = door.run("plugins", "install", "reviewer")
    assert asked.code == 3
    for words in (
        "reviewer@acme 1.9.0",
        "PreToolUse: python3 ${CLAUDE_PLUGIN_ROOT}/hooks/guard.py",
        "notes: ${CLAUDE_PLUGIN_ROOT}/bin/notes --stdio",
        "/reviewer:review",
        "reviewer:style",
        "deny Bash(rm -rf *)",
        "Look at the tests first.",
    ):
        assert words in asked.out
    assert "add --yes" in asked.err
    assert states(door) == {}

    done = door.run("plugins", "install", "reviewer@acme", "--yes", "--json")
    assert (done.code, done.json["installed"], done.json["state"], done.json["version"]) == (0, True, "on", "1.9.0")
    assert states(door) == {"reviewer@acme": "on"}
    settings = json.loads((door.folder / "config/settings.json").read_text())
    assert settings == {"enabledPlugins": {"reviewer@acme": True}}
    shown = door.run("plugins", "show", "reviewer", "--json").json
    assert (shown["author"], shown["sha256"], shown["brings"]["agents"]) == ("Acme", done.json["sha256"], ["critic"])
    assert "SHA-256 over its files" in door.run("plugins", "show", "reviewer").out
    assert "reviewer@acme  1.9.0" in door.run("plugins", "list").out
    assert not list(door.folder.rglob("SHOULD_NOT_EXIST"))


def test_rb_w20_disable_and_enable_really_do(door: Door, market: Path) -> None:
    door.run("plugins", "install", "reviewer", "--yes")
    write(
        door.folder / "config",
        {"settings.json": '{\n\t"retries": 2,\n\t"enabledPlugins": {"reviewer@acme": true}\n}\n'},
    )

    off = door.run("plugins", "disable", "reviewer", "--json")
    assert (off.code, off.json["state"]) == (0, "off")
    assert (door.folder / "config/settings.json").read_text() == (
        '{\n\t"retries": 2,\n\t"enabledPlugins": {"reviewer@acme": false}\n}\n'
    )
    assert states(door) == {"reviewer@acme": "off"}
    assert door.run("plugins", "enable", "reviewer").out.startswith("reviewer@acme: on")
    assert states(door) == {"reviewer@acme": "on"}
    gone = door.run("plugins", "disable", "nobody")
    assert (gone.code, "'nobody' is not installed" in gone.err) == (1, True)


def test_rb_w20_a_project_install_is_written_into_the_project_and_read_there_once_it_is_trusted(
    door: Door, market: Path
) -> None:
    (door.work / ".git").mkdir()
    done = door.run("plugins", "install", "reviewer", "--scope", "project", "--yes")
    assert done.code == 0
    file = door.work / ".backstay/settings.json"
    assert json.loads(file.read_text()) == {"enabledPlugins": {"reviewer@acme": True}}
    assert not (door.folder / "config/settings.json").exists()

    door.run("trust", "--yes")
    assert states(door) == {"reviewer@acme": "on"}
    (door.folder / "elsewhere").mkdir()
    other = door.run("plugins", "list", "--json", cwd=door.folder / "elsewhere").json
    assert [(row["state"], row["problem"]) for row in other] == [("off", f"It is installed for {door.work} only.")]
    off = door.run("plugins", "disable", "reviewer", "--scope", "project")
    assert off.code == 0
    assert states(door) == {"reviewer@acme": "off"}
    assert (
        door.run("plugins", "enable", "reviewer", "--scope", "project", "--json").json["state"] == "on"
    )  # still trusted
    assert "is the newest" in door.run("plugins", "update", "--scope", "project").out
    assert door.run("plugins", "uninstall", "reviewer", "--scope", "project").code == 0
    assert json.loads(file.read_text()) == {"enabledPlugins": {}}
    assert states(door) == {}


def test_what_an_untrusted_workspace_switches_on_or_names_is_held_back(door: Door, market: Path) -> None:
    door.run("plugins", "install", "reviewer", "--yes")
    door.run("plugins", "disable", "reviewer")
    (door.work / ".git").mkdir()
    write(
        door.work,
        {
            ".claude/settings.json": {
                "enabledPlugins": {"reviewer@acme": True, "theirs@strangers": True},
                "extraKnownMarketplaces": {"strangers": {"source": {"source": "github", "repo": "strangers/m"}}},
                "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
            }
        },
    )

    assert states(door) == {"reviewer@acme": "held back", "theirs@strangers": "held back"}
    listed = {row["name"]: row["state"] for row in door.run("plugins", "marketplace", "list", "--json").json}
    assert listed["strangers"] == "held back"
    refused = door.run("plugins", "install", "theirs@strangers", "--yes")
    assert (refused.code, "comes with this workspace, which is not trusted" in refused.err) == (1, True)

    door.run("trust", "--yes")
    assert states(door) == {"reviewer@acme": "on", "theirs@strangers": "not installed"}
    listed = {row["name"]: row["state"] for row in door.run("plugins", "marketplace", "list", "--json").json}
    assert listed["strangers"] == "not fetched"


def test_rb_w56_an_update_goes_by_versions_and_asks_again(door: Door, market: Path) -> None:
    door.run("plugins", "install", "reviewer", "--yes")
    assert "is the newest" in door.run("plugins", "update").out

    plugin(market / "plugins/reviewer", version="1.10.0")
    repository(market)
    asked = door.run("plugins", "update", "reviewer")
    assert (asked.code, "1.10.0" in asked.out) == (3, True)
    door.run("plugins", "disable", "reviewer")
    updated = door.run("plugins", "update", "--yes", "--json").json
    assert (updated["version"], updated["state"]) == ("1.10.0", "off")  # what is off stays off
    assert door.run("plugins", "update", "--scope", "project").out == ""
    assert "'nobody' is not installed" in door.run("plugins", "update", "nobody").err
    plugin(market / "plugins/reviewer", version="1.9.5")
    repository(market)
    older = door.run("plugins", "update", "--yes", "--json").json
    assert (older["updated"], older["version"], older["offered"]) == (False, "1.10.0", "1.9.5")
    plugin(market / "plugins/reviewer", version="1.10.0", description="others")
    repository(market)
    same = door.run("plugins", "update")
    assert (same.code, "its files are others than before" in same.err) == (3, True)


def test_rb_w56_broken_settings_are_not_overwritten(door: Door, market: Path) -> None:
    (door.work / ".git").mkdir()
    file = (
        write(door.work, {".backstay/settings.json": '{"permissions": {"deny": ["Read(.env)"]},,}'})
        / ".backstay/settings.json"
    )
    before = file.read_bytes()

    ran = door.run("plugins", "install", "reviewer", "--scope", "project", "--yes")

    assert ran.code == 1
    assert f"{file}:1" in ran.err
    assert file.read_bytes() == before


def test_a_folder_and_an_archive_are_installed_and_removed(door: Door) -> None:
    bare(door.work / "mine")
    zipped(plugin(door.folder / "p"), door.work / "p.zip")

    assert door.run("plugins", "install", "./mine", "--yes").code == 0
    assert door.run("plugins", "install", "p.zip", "--yes").code == 0
    assert states(door) == {"bare@direct": "on", "reviewer@direct": "on"}
    assert door.run("plugins", "uninstall", "bare").code == 0
    assert states(door) == {"reviewer@direct": "on"}
    assert not (door.folder / "data/plugins/cache/direct/bare/1.0.0").exists()
    meant = door.run("plugins", "install", "mine", "--yes")
    assert (meant.code, states(door)) == (
        1,
        {"reviewer@direct": "on"},
    )  # a bare name never means what lies in the folder


def test_a_changed_plugin_is_named_and_a_new_install_mends_it(door: Door) -> None:
    bare(door.work / "mine")
    door.run("plugins", "install", "./mine", "--yes")
    write(door.folder / "data/plugins/cache/direct/bare/1.0.0", {"hooks/hooks.json": {}})

    listed = door.run("plugins", "list")
    assert "not loaded" in listed.out
    assert "are not what was installed" in listed.err
    door.run("plugins", "install", "./mine", "--yes")
    assert states(door) == {"bare@direct": "on"}


def test_a_forgotten_marketplace_takes_its_plugins_out(door: Door, market: Path) -> None:
    door.run("plugins", "install", "reviewer", "--yes")

    removed = door.run("plugins", "marketplace", "remove", "acme", "--json")

    assert removed.json == {"name": "acme", "removed": True, "not_loaded": ["reviewer@acme"]}
    assert states(door) == {"reviewer@acme": "not loaded"}
    assert door.run("plugins", "marketplace", "remove", "acme").code == 1
    left = door.run("plugins", "marketplace", "list", "--json").json
    assert [(row["state"], row["default"]) for row in left] == [("not fetched", False)]
    assert "No marketplace was fetched yet" in door.run("plugins", "search").err


def test_a_broken_marketplace_hides_no_other(door: Door, market: Path) -> None:
    folder = door.folder / "second"
    bare(folder / "b")
    marketplace(folder, {"name": "bare", "source": "./b"}, name="second")
    assert door.run("plugins", "marketplace", "add", str(folder)).code == 0
    write(folder, {".claude-plugin/marketplace.json": "{\n!"})

    found = door.run("plugins", "search", "--json")

    assert [row["id"] for row in found.json] == ["reviewer@acme"]
    assert "marketplace.json:2: This is not JSON" in found.err
    updated = door.run("plugins", "marketplace", "update", "--json")
    assert [row["name"] for row in updated.json] == ["acme"]
    assert updated.code == 1


@pytest.mark.parametrize(("answer", "code", "wanted"), [("y\n", 0, {"bare@direct": "on"}), ("n\n", 1, {})])
def test_a_person_is_asked_and_only_a_yes_counts(door: Door, answer: str, code: int, wanted: dict[str, str]) -> None:
    bare(door.work / "mine")
    person, terminal = pty.openpty()
    try:
        os.write(person, answer.encode())
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-m", "backstay", "plugins", "install", "./mine"],
            stdin=terminal,
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
            cwd=door.work,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
    finally:
        os.close(person)
        os.close(terminal)

    assert (ran.returncode, "Install it?" in ran.stderr) == (code, True)
    assert states(door) == wanted


def test_what_a_plugin_says_cannot_play_with_the_terminal(door: Door) -> None:
    bare(door.work / "mine", description="a\x1b[2K\u202eb", systemPrompt="x" + " " * 500 + "\x1b]0;y\x07")

    outputs = [door.run("plugins", "install", "./mine", "--yes")]
    outputs += [
        door.run("plugins", *words)
        for words in (("list",), ("list", "--json"), ("show", "bare"), ("show", "bare", "--json"))
    ]

    for ran in outputs:
        assert ran.code == 0
        assert not any(each in ran.out + ran.err for each in ("\x1b", "\u202e", "\x07", "\\u001b", " " * 100))


def test_help_has_examples_for_the_group(door: Door) -> None:
    ran = door.run("plugins", "--help")

    assert (ran.code, "backstay plugins marketplace add OWNER/REPO" in ran.out) == (0, True)
    assert "backstay plugins install ./acme-1.0.whl" in door.run("plugins", "install", "--help").out


def test_a_plugins_skill_allows_its_own_commands_nothing(door: Door, tmp_path: Path) -> None:
    head = "---\nname: tidy\ndescription: Tidies.\nallowed-tools: Bash\n---\n"
    write(bare(tmp_path / "bare"), {"skills/tidy/SKILL.md": f"{head}Now: !`touch made`\n"})
    assert door.run("plugins", "install", str(tmp_path / "bare"), "--yes").code == 0

    ran = door.run("-p", "/bare:tidy", "--model", door.script({"text": "Hi."}))

    assert (ran.code, "'!`touch made`' (line 1 of its text) is not to be had" in ran.err) == (4, True)
    assert not (door.work / "made").exists()
