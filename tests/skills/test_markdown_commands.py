"""Commands of one's own: Markdown files in folders."""

from pathlib import Path

import pytest

from backstay.skills.scan import DEEPEST_COMMANDS, PluginFolders
from tests.skills.ground import Ground, page, skill, write


def test_files_in_folders_become_commands_named_after_both(ground: Ground) -> None:
    folder = ground.project / ".claude" / "commands"
    write(folder / "fix.md", page(description="Fix it", argument_hint="[issue] [branch]", allowed_tools="Bash(git *)"))
    write(folder / "git" / "deep" / "log.md", "# Show the log\n\nText.")
    write(folder / "README.md", "Not a command.")
    write(folder / "notes.txt", "Neither.")
    write(folder / ".hidden" / "x.md", "Nor this.")

    found = ground.scan()

    assert [(each.name, each.kind, each.description) for each in found.commands] == [
        ("fix", "command", "Fix it"),
        ("git:deep:log", "command", "Show the log"),
    ]
    assert found.skill("fix").argument_hint == "[issue] [branch]"
    assert found.skill("fix").grants == ("Bash(git *)",)
    assert found.skills == ()


def test_a_skill_goes_before_a_command_of_the_same_name(ground: Ground) -> None:
    for owner in (ground.project, ground.home):
        command = write(owner / ".claude" / "commands" / "x.md", "Do it.")
        file = skill(owner / ".claude" / "skills", "x")

        found = ground.scan()

        assert (found.skill("x").file, found.commands) == (str(file), ())
        assert [each.file for each in found.shadowed] == [str(command)]
        file.unlink()
        command.unlink()


def test_a_name_in_a_commands_frontmatter_does_nothing(ground: Ground) -> None:
    write(ground.project / ".backstay" / "commands" / "x.md", page(name="clear", description="d"))

    found = ground.scan()

    assert [each.name for each in found.commands] == ["x"]
    assert [problem.severity for problem in found.problems] == ["warning"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.md", "\n"),
        ("a b.md", "x"),
        ("-x.md", "x"),
        ("open.md", "---\ndescription: d\n"),
        ("head.md", "---\na: b\n---\n"),
    ],
)
def test_a_file_that_cannot_be_a_command_is_named_and_left_out(ground: Ground, name: str, content: str) -> None:
    file = write(ground.project / ".claude" / "commands" / name, content)
    write(ground.project / ".claude" / "commands" / "good.md", "Do it.")

    found = ground.scan()

    assert [each.name for each in found.commands] == ["good"]
    assert [problem.file for problem in found.problems] == [str(file)]


def test_folders_too_deep_and_links_to_folders_are_left_alone(ground: Ground) -> None:
    folder = ground.project / ".claude" / "commands"
    deep = folder.joinpath(*["d"] * DEEPEST_COMMANDS)
    write(deep / "x.md", "Do it.")
    write(folder / "y.md", "Do it.")
    (folder / "round").symlink_to(folder)

    found = ground.scan()

    assert [each.name for each in found.commands] == ["y"]
    assert any("deep" in problem.message for problem in found.problems)


def test_a_link_to_a_file_outside_is_not_read(ground: Ground, tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.md", "Do it.")
    folder = ground.project / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "x.md").symlink_to(secret)

    found = ground.scan()

    assert found.commands == ()
    assert "link leads out" in found.problems[0].message


def test_a_plugins_commands_have_its_name_before_theirs(ground: Ground) -> None:
    root = ground.home / "plugins" / "kit"
    write(root / "commands" / "fix.md", "Do it.")
    write(root / "extra" / "one.md", "Do it.")
    plugin = PluginFolders(name="kit", root=root, commands=(root / "commands", root / "extra" / "one.md"))

    assert [each.name for each in ground.scan(plugins=(plugin,)).commands] == ["kit:fix", "kit:one"]


def test_commands_of_an_untrusted_workspace_are_listed_and_not_for_the_model(ground: Ground) -> None:
    write(ground.project / ".claude" / "commands" / "x.md", page(allowed_tools="Bash(*)"))

    found = ground.scan(trusted=False)

    assert (found.skill("x").user_invocable, found.for_model, found.skill("x").grants) == (True, (), ())
