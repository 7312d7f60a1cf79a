"""Agents: files that define them, those that are built in, and which counts."""

from pathlib import Path

import pytest

from backstay.providers.catalog import list_known_models
from backstay.skills.agents import BUILT_IN, AgentDefinition, read_agent, resolve_model
from backstay.skills.problems import Unusable
from backstay.skills.scan import PluginFolders
from backstay.skills.skill import FileOrigin
from backstay.vocab.errors import UserError
from tests.skills.ground import Ground, page, write

PERSON = FileOrigin(source="person")


def read(text: str, name: str = "reviewer.md", origin: FileOrigin = PERSON) -> AgentDefinition:
    return read_agent(text.encode(), Path("/agents") / name, origin)[0]


def agent(folder: Path, name: str, **keys: str) -> Path:
    return write(folder / f"{name}.md", page("You review.\n", **{"name": name, "description": "Reviews", **keys}))


@pytest.mark.contract("RB-102")
def test_a_definition_has_all_its_fields() -> None:
    made = read(
        "---\nname: reviewer\ndescription: Reviews code\nmodel: sonnet\nmaxTurns: 7\ntools: Read, Grep\n"
        "disallowedTools: [Bash, Write]\npermissionMode: plan\nskills: [a, b]\nmcpServers:\n  - github\neffort: high\n"
        "isolation: worktree\ncolor: red\nhooks:\n  Stop:\n    - hooks: []\n---\n\nYou review.\nCarefully.\n"
    )

    assert made == AgentDefinition(
        name="reviewer",
        description="Reviews code",
        system_prompt="You review.\nCarefully.",
        source="person",
        file="/agents/reviewer.md",
        sha256=made.sha256,
        model="sonnet",
        max_turns=7,
        tools=("Read", "Grep"),
        disallowed_tools=("Bash", "Write"),
        permission_mode="plan",
        skills=("a", "b"),
        mcp_servers=("github",),
        effort="high",
        isolation="worktree",
        color="red",
        hooks={"Stop": [{"hooks": []}]},
    )


@pytest.mark.contract("RB-102")
def test_only_a_description_is_needed_and_the_name_may_be_that_of_the_file() -> None:
    made = read("---\ndescription: Reviews\n---\nYou review.")

    assert (made.name, made.model, made.max_turns, made.tools, made.disallowed_tools) == (
        "reviewer",
        "",
        None,
        None,
        (),
    )
    with pytest.raises(Unusable, match=r"reviewer\.md:1: .* no description"):
        read("You review.")


def test_both_spellings_of_keys_are_read_and_never_two_at_once() -> None:
    one = read("---\ndescription: d\nmax-turns: 3\ndisallowed-tools: Bash\npermission_mode: plan\n---\n")
    other = read("---\ndescription: d\nmaxTurns: 3\ndisallowedTools: Bash\npermissionMode: plan\n---\n")

    assert (one.max_turns, one.disallowed_tools, one.permission_mode) == (3, ("Bash",), "plan")
    assert (other.max_turns, other.disallowed_tools, other.permission_mode) == (3, ("Bash",), "plan")
    with pytest.raises(Unusable, match=r":4: The keys 'disallowedTools' and 'disallowed-tools' mean the same"):
        read("---\ndescription: d\ndisallowedTools: Bash\ndisallowed-tools: Read\n---\n")


@pytest.mark.parametrize(
    "written",
    [
        "Read, Grep",
        "Read Grep",
        "[Read, Grep]",
        "[\"Read\", 'Grep']",
        "\n  - Read\n  - Grep",
        "\n- 'Read'\n- Grep # both",
        "\n  - Read, Grep",
    ],
)
def test_rb_w22_a_list_of_tools_is_read_in_every_form(written: str) -> None:
    assert read(f"---\ndescription: d\ntools: {written}\n---\n").tools == ("Read", "Grep")


@pytest.mark.parametrize("written", ["", "~", "[]", "\n  Read: true", "\n  - [Read]", "Bash(git", "{}", "''"])
def test_rb_w22_tools_that_cannot_be_understood_mean_no_tools(written: str) -> None:
    made, problems = read_agent(f"---\ndescription: d\ntools: {written}\n---\n".encode(), Path("/a/x.md"), PERSON)

    assert made.tools == ()
    assert [problem.line for problem in problems] == [3]


def test_rb_w22_every_tool_is_only_meant_when_it_is_said() -> None:
    assert read("---\ndescription: d\ntools: '*'\n---\n").tools is None
    assert read('---\ndescription: d\ntools: "Read"\n---\n').tools == ("Read",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\ndescription: d\ntools: Read\n", "x.md:1: .* no end"),
        ("---\ndescription: d\ntools: [Read\n---\n", "x.md:3: .* not YAML"),
        ("---\ndescription: d\ndisallowedTools: Bash(\n---\n", "x.md:3: "),
        ("---\ndescription: d\ndisallowedTools:\n  a: b\n---\n", "x.md:3: "),
        ("---\ndescription: d\nmaxTurns: many\n---\n", "x.md:3: .* whole number"),
        ("---\ndescription: d\nmaxTurns: 0\n---\n", "x.md:3: .* whole number"),
        ("---\ndescription: d\npermissionMode: plann\n---\n", "x.md:3: .* not a permission mode"),
        ("---\ndescription: d\nname: ../../etc\n---\n", "x.md:3: .* cannot be an agent's name"),
        ("---\ndescription: d\nname: a:b\n---\n", "x.md:3: .* cannot be an agent's name"),
        ("---\ndescription: d\nhooks: run me\n---\n", "x.md:3: .* mapping"),
        ("---\ndescription: d\nmodel: a b\n---\n", "x.md:3: .* model"),
        (f"---\ndescription: {'d' * 9_000}\n---\n", "x.md:2: .* 9,000 characters"),
    ],
)
def test_what_cannot_be_a_definition_is_refused_with_file_and_line(text: str, words: str) -> None:
    with pytest.raises(Unusable, match=words):
        read(text, "x.md")


def test_a_description_with_colons_as_other_programs_write_it_is_read() -> None:
    long = 'Use this agent when: the user asks. Examples: <example>user: "go" assistant: "ok"</example>'

    assert read(f"---\nname: x\ndescription: {long}\ntools: Read\n---\nBody").description == long


@pytest.mark.contract("RB-103")
def test_general_purpose_has_all_tools_and_the_other_two_cannot_change_anything() -> None:
    built_in = {each.name: each for each in BUILT_IN}

    assert set(built_in) == {"general-purpose", "Explore", "Plan"}
    assert built_in["general-purpose"].tools is None
    for name in ("Explore", "Plan"):
        assert not set(built_in[name].tools or ("Write",)) & {
            "Write",
            "Edit",
            "MultiEdit",
            "NotebookEdit",
            "apply_patch",
        }


def test_rb_w19_agents_that_only_look_have_no_shell_and_no_tool_that_is_not_for_looking() -> None:
    for each in BUILT_IN:
        if each.name != "general-purpose":
            assert set(each.tools or ("Bash",)) <= {"Read", "Grep", "Glob", "ReadOutput"}


@pytest.mark.contract("RB-104")
def test_definitions_are_looked_for_in_this_order_and_go_before_built_in_ones(ground: Ground) -> None:
    files = [
        agent(ground.project / ".backstay" / "agents", "Explore"),
        agent(ground.project / ".agents" / "agents", "Explore"),
        agent(ground.project / ".claude" / "agents", "Explore"),
        agent(ground.config / "agents", "Explore"),
        agent(ground.home / ".claude" / "agents", "Explore"),
    ]

    while files:
        assert ground.scan().agent("Explore").file == str(files[0])
        files.pop(0).unlink()

    assert ground.scan().agent("Explore").source == "built-in"


def test_definitions_in_folders_are_found_and_broken_ones_hide_nobody(ground: Ground) -> None:
    agent(ground.project / ".claude" / "agents" / "team", "deep")
    broken = write(ground.project / ".claude" / "agents" / "broken.md", "---\ntools: Read\n")

    found = ground.scan()

    assert [each.name for each in found.agents] == ["Explore", "Plan", "deep", "general-purpose"]
    assert [problem.file for problem in found.problems] == [str(broken)]


def test_agents_of_an_untrusted_workspace_are_listed_and_not_used(ground: Ground) -> None:
    agent(ground.project / ".claude" / "agents", "helper")
    agent(ground.project / ".claude" / "agents", "Explore", tools="Bash")

    found = ground.scan(trusted=False)

    assert [(each.name, each.trusted) for each in found.agents if each.name == "helper"] == [("helper", False)]
    assert "helper" not in {each.name for each in found.usable_agents}
    assert found.agent("Explore").source == "built-in"
    with pytest.raises(UserError, match="not trusted"):
        found.agent("helper")
    with pytest.raises(UserError, match="no agent 'nobody'"):
        found.agent("nobody")
    assert ground.scan().agent("Explore").tools == ("Bash",)


def test_a_plugins_agents_bring_no_hooks_servers_or_mode(ground: Ground) -> None:
    root = ground.home / "plugins" / "kit"
    agent(
        root / "agents",
        "lint",
        permissionMode="bypassPermissions",
        hooks="\n  Stop: []",
        mcpServers="\n  x:\n    command: evil",
    )
    plugin = PluginFolders(name="kit", root=root, agents=(root / "agents",))

    found = ground.scan(plugins=(plugin,))
    made = found.agent("kit:lint")

    assert (made.permission_mode, made.hooks, made.mcp_servers) == (None, None, ())
    assert len(found.problems) == 3


@pytest.mark.parametrize("word", ["sonnet", "haiku", "opus", "Sonnet"])
def test_a_shortcut_is_the_newest_model_of_its_family(word: str) -> None:
    name = resolve_model(word, "openai:gpt-6-sol")

    assert name == next(each.name for each in list_known_models() if f"claude-{word.lower()}-" in each.name)


@pytest.mark.parametrize(
    ("wanted", "parent", "expected"),
    [
        ("", "google:g", "google:g"),
        ("inherit", "google:g", "google:g"),
        ("openai:gpt-6-sol", "google:g", "openai:gpt-6-sol"),
        ("claude-opus-4-1", "google:g", "anthropic:claude-opus-4-1"),
        ("my-model", "openai-chat:x", "openai-chat:my-model"),
    ],
)
def test_other_names_of_models_mean_what_they_say(wanted: str, parent: str, expected: str) -> None:
    assert resolve_model(wanted, parent) == expected
