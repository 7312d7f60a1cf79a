"""A plugin in a folder: everything that it brings is read, and nothing that leaves the folder."""

import os
from pathlib import Path

import pytest

from backstay.hooks.settings import read_hooks
from backstay.plugins.install.install import list_contents
from backstay.plugins.plugin import MOST_INSTRUCTIONS, Manifest, read_plugin
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from tests.plugins.shop import HOOKS, SERVERS, bare, plugin, write


@pytest.mark.contract("RB-111")
def test_a_plugin_of_the_public_shape_brings_all_of_its_parts(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "p")

    found = read_plugin(folder, marketplace="acme")

    assert (found.id, found.version, found.problems, found.unfit, found.notes) == ("reviewer@acme", "1.9.0", (), (), ())
    assert found.manifest == Manifest(
        name="reviewer",
        version="1.9.0",
        description="Reviews changes",
        author="Acme",
        keywords=("review", "quality"),
    )
    assert found.skills_dirs == (folder / "skills",)
    assert found.commands_dirs == (folder / "commands",)
    assert found.agents_dirs == (folder / "agents",)
    assert found.hooks_raw == (HOOKS,)
    assert found.mcp_servers_raw == SERVERS["mcpServers"]
    assert found.deny_rules == (
        Rule.parse("deny", "Bash(rm -rf *)", source="person"),
        Rule.parse("ask", "WebFetch", source="person"),
    )
    assert found.instructions == "Look at the tests first."


def test_its_hooks_know_where_the_plugin_is(tmp_path: Path) -> None:
    found = read_plugin(plugin(tmp_path / "p"))

    specs = read_hooks(found.hooks_raw[0], source="plugin", root=str(found.folder)).specs
    assert [(each.event, each.root) for each in specs] == [("PreToolUse", str(tmp_path / "p"))]


def test_only_the_name_is_required(tmp_path: Path) -> None:
    found = read_plugin(write(tmp_path, {".claude-plugin/plugin.json": {"name": "tiny"}}))

    assert (found.name, found.version, found.skills_dirs, found.hooks_raw) == ("tiny", "", (), ())


def test_the_manifest_may_name_parts_elsewhere_and_say_them_itself(tmp_path: Path) -> None:
    folder = write(
        bare(
            tmp_path,
            skills="./extra/skills",
            commands=["./more/one.md", "./more"],
            agents=["./crew/a.md"],
            hooks=["./config/h.json", {"Stop": []}],
            mcpServers={"inline": {"url": "https://x.example/mcp"}},
            instructions="./TELL.md",
        ),
        {
            "extra/skills/a/SKILL.md": "x",
            "more/one.md": "x",
            "crew/a.md": "x",
            "config/h.json": {"PostToolUse": []},
            ".mcp.json": {"plain": {"command": "x"}},
            "TELL.md": "Be kind.\n",
        },
    )

    found = read_plugin(folder)

    assert found.problems == found.unfit == ()
    assert found.skills_dirs == (folder / "extra/skills",)
    assert found.commands_dirs == (folder / "more/one.md", folder / "more")
    assert found.agents_dirs == (folder / "crew/a.md",)
    assert found.hooks_raw == ({"PostToolUse": []}, {"Stop": []})
    assert list(found.mcp_servers_raw) == ["plain", "inline"]
    assert found.instructions == "Be kind."


@pytest.mark.parametrize("written", ["../out", "/etc", "a/../../out", "~/x", "..", "a\\..\\b", "link", "link/inner"])
@pytest.mark.parametrize("key", ["skills", "commands", "agents", "hooks", "mcpServers", "instructions"])
def test_rb_w15_every_path_that_leaves_the_plugin_is_refused_by_name(tmp_path: Path, key: str, written: str) -> None:
    write(tmp_path / "out", {"inner/x.json": {}, "SKILL.md": "x"})
    folder = bare(tmp_path / "p", **{key: written})
    (folder / "link").symlink_to(tmp_path / "out")

    found = read_plugin(folder)

    assert found.unfit
    assert repr(written) in found.unfit[0]
    assert f"{folder}/.claude-plugin/plugin.json:" in found.unfit[0]
    assert (found.skills_dirs, found.commands_dirs, found.agents_dirs, found.hooks_raw) == ((), (), (), ())
    assert (dict(found.mcp_servers_raw), found.instructions) == ({}, "")


@pytest.mark.parametrize("part", ["skills", "hooks", ".mcp.json", ".claude-plugin"])
def test_rb_w15_a_usual_part_that_is_a_link_out_is_refused(tmp_path: Path, part: str) -> None:
    outside = plugin(tmp_path / "outside")
    folder = plugin(tmp_path / "p")
    os.rename(folder / part, tmp_path / "aside")
    (folder / part).symlink_to(outside / part)

    if part == ".claude-plugin":
        with pytest.raises(UserError, match="leads out of it"):
            read_plugin(folder)
    else:
        assert any("leads out of" in each for each in read_plugin(folder).unfit)


def test_a_plugin_allows_nothing_and_loads_no_code(tmp_path: Path) -> None:
    folder = bare(
        tmp_path,
        permissions={"allow": ["Bash"], "deny": ["Read(.env)"], "defaultMode": ["bypassPermissions"]},
        tools=["acme.tools:run"],
    )

    found = read_plugin(folder)

    assert [(rule.decision, str(rule)) for rule in found.deny_rules] == [("deny", "Read(.env)")]
    problems = " ".join(found.problems)
    assert "permissions.allow: A plugin can deny and ask; 'allow' is refused" in problems
    assert "'defaultMode' is refused" in problems
    assert "Bring the tools as an MCP server" in problems


@pytest.mark.parametrize("broken", ["{", "[]", '"x"', "\x00", "{" * 2_000])
def test_hooks_that_cannot_be_read_make_the_plugin_unfit_and_a_server_file_does_not(
    tmp_path: Path, broken: str
) -> None:
    hooked = read_plugin(write(bare(tmp_path / "a"), {"hooks/hooks.json": broken}))
    served = read_plugin(write(plugin(tmp_path / "b"), {".mcp.json": broken}))

    assert f"{tmp_path}/a/hooks/hooks.json:1:" in hooked.unfit[0]
    assert served.unfit == ()
    assert f"{tmp_path}/b/.mcp.json:1:" in served.problems[0]
    assert served.skills_dirs  # what is wrong with one file hides no other


def test_a_denial_that_cannot_be_read_makes_the_plugin_unfit(tmp_path: Path) -> None:
    for number, said in enumerate(({"deny": ["(("]}, {"deny": "Bash"}, ["x"])):
        assert read_plugin(bare(tmp_path / str(number), permissions=said)).unfit


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{\n}", "plugin.json:1: name: It is required"),
        ('{\n "name": "../x"}', "plugin.json:2: '../x' cannot name a plugin"),
        ('{"name": "a/b"}', "'a/b' cannot name a plugin"),
        ('{\n "name": 3}', "plugin.json:2: name: It must be a text in quotes"),
        ('{"name": "a",\n "version": "../../1"}', "'../../1' cannot be the version"),
        ("{\n\n nonsense", "plugin.json:3: This is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"name": "a", "x": ' + "[" * 100 + "]" * 100 + "}", "nested too deeply"),
    ],
)
def test_a_broken_manifest_is_refused_with_its_file_and_line(tmp_path: Path, content: str, words: str) -> None:
    write(tmp_path, {".claude-plugin/plugin.json": content})

    with pytest.raises(UserError) as refused:
        read_plugin(tmp_path)
    assert words in str(refused.value)


def test_what_is_unknown_is_noted_and_what_is_long_is_cut(tmp_path: Path) -> None:
    folder = bare(tmp_path, outputStyles="./s", comands="./x", systemPrompt="é" * MOST_INSTRUCTIONS, skills="./gone")

    found = read_plugin(folder)

    assert any("'outputStyles' does nothing here" in each for each in found.notes)
    assert any("'comands' is not known" in each for each in found.notes)
    assert len(found.instructions.encode()) <= MOST_INSTRUCTIONS
    assert any("are cut after" in each for each in found.problems)
    assert any("'./gone' is not in the plugin's folder" in each for each in found.problems)
    assert found.unfit == ()


def test_a_plugin_that_is_one_skill_has_its_own_folder_as_the_skill(tmp_path: Path) -> None:
    assert read_plugin(write(bare(tmp_path), {"SKILL.md": "x"})).skills_dirs == (tmp_path,)


def test_a_manifest_that_names_some_of_the_usual_parts_means_only_those(tmp_path: Path) -> None:
    files = {f"skills/{name}/SKILL.md": "x" for name in ("a", "b", "c")} | {"agents/x.md": "x", "more/y.md": "x"}
    folder = write(bare(tmp_path, skills=["./skills/a", "./skills/b"], agents="./more/y.md"), files)

    found = read_plugin(folder)

    assert found.skills_dirs == (folder / "skills/a", folder / "skills/b")
    assert found.agents_dirs == (folder / "agents", folder / "more/y.md")
    assert list_contents(found).skills == ("bare:a", "bare:b")
