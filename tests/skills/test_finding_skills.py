"""Which skills there are: places in their order, first name wins, and what is wrong with one file hides no other."""

import os
from pathlib import Path

import anyio
import pytest

from backstay.config.locations import ProjectPaths
from backstay.config.trust.inventory import survey
from backstay.skills.render import SkillContext, read_body, render
from backstay.skills.scan import MOST_ENTRIES, PluginFolders, scan, sources_of
from backstay.vocab.errors import UserError
from tests.skills.ground import Ground, page, skill, write


@pytest.mark.contract("RB-114")
def test_skills_are_looked_for_in_this_order_and_the_first_name_wins(ground: Ground) -> None:
    project, home = ground.project, ground.home
    files = [
        skill(project / ".backstay" / "skills", "x"),
        skill(project / ".claude" / "skills", "x"),
        write(project / ".backstay" / "commands" / "x.md", "Do it."),
        write(project / ".claude" / "commands" / "x.md", "Do it."),
        skill(ground.config / "skills", "x"),
        skill(project / ".agents" / "skills", "x"),
        skill(home / ".claude" / "skills", "x"),
        skill(home / ".agents" / "skills", "x"),
        write(ground.config / "commands" / "x.md", "Do it."),
        write(home / ".claude" / "commands" / "x.md", "Do it."),
    ]

    while files:
        found = ground.scan()
        assert found.skill("x").file == str(files[0])
        assert {each.file for each in found.shadowed} == set(map(str, files[1:]))
        files.pop(0).unlink()

    assert ground.scan().skills == ()


def test_the_folder_nearest_to_the_working_folder_goes_first(ground: Ground) -> None:
    deep = ground.project / "packages" / "one"
    skill(ground.project / ".claude" / "skills", "x")
    skill(ground.project / "packages" / ".claude" / "skills", "x")
    near = skill(deep / ".claude" / "skills", "x")
    skill(ground.top / ".claude" / "skills", "outside")

    found = ground.scan(cwd=deep)

    assert found.skill("x").file == str(near)
    assert [each.name for each in found.skills] == ["x"]
    assert len(found.shadowed) == 2


@pytest.mark.contract("RB-113")
def test_a_skill_is_known_by_name_and_description_and_its_text_is_read_when_it_is_invoked(ground: Ground) -> None:
    file = skill(ground.project / ".claude" / "skills", "review", body="Secret steps.\n", when_to_use="Before a merge.")

    (found,) = ground.scan().skills

    assert (found.name, found.description, found.listing) == ("review", "From skills", "From skills Before a merge.")
    assert "Secret steps" not in repr(found)
    assert read_body(found) == "Secret steps.\n"
    assert found.folder == str(file.parent)


@pytest.mark.contract("RB-113")
def test_who_may_invoke_a_skill_is_in_its_frontmatter(ground: Ground) -> None:
    folder = ground.project / ".claude" / "skills"
    skill(folder, "both")
    skill(folder, "people", disable_model_invocation="true")
    skill(folder, "model", user_invocable="false")

    found = ground.scan()

    assert [each.name for each in found.for_model] == ["both", "model"]
    assert [each.name for each in (*found.skills, *found.commands) if each.user_invocable] == ["both", "people"]


@pytest.mark.contract("RB-113")
def test_a_fork_its_agent_and_its_tools_are_read(ground: Ground) -> None:
    keys = {"context": "fork", "agent": "Explore", "allowed_tools": "Read, Bash(git log:*) Grep", "model": "haiku"}
    skill(ground.project / ".claude" / "skills", "look", **keys, effort="high", disallowed_tools="[Write, Edit]")

    (found,) = ground.scan().skills

    assert (found.fork, found.agent, found.model, found.effort) == (True, "Explore", "haiku", "high")
    assert found.allowed_tools == ("Read", "Bash(git log:*)", "Grep")
    assert found.disallowed_tools == ("Write", "Edit")
    assert found.grants == found.allowed_tools


@pytest.mark.parametrize(
    "written",
    [
        "Read, Grep",
        "Read Grep",
        "[Read, Grep]",
        "['Read', \"Grep\"]",
        "\n  - Read\n  - Grep",
        '"Read, Grep"',
        "\n- Read\n- 'Grep'",
    ],
)
def test_rb_w22_tools_are_read_in_every_form_that_people_write(ground: Ground, written: str) -> None:
    skill(ground.project / ".claude" / "skills", "x", allowed_tools=written)

    assert ground.scan().skill("x").allowed_tools == ("Read", "Grep")


@pytest.mark.parametrize("written", ["Bash(git", "\n  a: b", "\n  - [Read]", "Read)", ""])
def test_rb_w22_tools_that_cannot_be_understood_allow_nothing(ground: Ground, written: str) -> None:
    skill(ground.project / ".claude" / "skills", "x", allowed_tools=written, context="fork")

    assert ground.scan().skill("x").allowed_tools == ()


def test_what_is_wrong_with_one_file_hides_no_other(ground: Ground) -> None:
    folder = ground.project / ".claude" / "skills"
    skill(folder, "good")
    skill(folder, "no-words", description="")
    skill(folder, "no-name", name="")
    skill(folder, "long", description="x" * 9_000)
    skill(folder, "bad name", name="'a<b>\"'")
    skill(folder, "bad-deny", disallowed_tools="Bash(")
    skill(folder, "bad-hooks", hooks="yes")
    skill(folder, "bad-context", context="forked")
    write(folder / "open" / "SKILL.md", "---\nname: open\n")
    write(folder / "broken" / "SKILL.md", "---\nname: broken\ntools: [\n---\n")
    write(folder / "bare" / "SKILL.md", "# Only text\n")
    write(folder / "huge" / "SKILL.md", page(body="x" * 600_000, name="huge", description="d"))
    write(folder / "binary" / "SKILL.md", "").write_bytes(b"---\nname: \xff\n---\n")
    (folder / "folder" / "SKILL.md").mkdir(parents=True)
    os.mkfifo(write(folder / "pipe" / "x", "").parent / "SKILL.md")
    (folder / "empty").mkdir()
    write(folder / "note.txt", "x")
    loop = folder / "loop"
    loop.symlink_to(loop)
    skill(ground.home / ".claude" / "skills", "mine")

    found = ground.scan()

    assert [each.name for each in found.skills] == ["good", "mine"]
    bad = {Path(problem.file).parent.name: problem for problem in found.problems}
    assert set(bad) >= {
        *("no-words", "no-name", "long", "bad name", "bad-deny", "bad-hooks", "bad-context", "open", "broken"),
        *("bare", "huge", "binary", "folder", "pipe", "loop"),
    }
    assert bad["no-words"].line == 3
    assert bad["broken"].line == 3
    assert "has no description" in bad["no-words"].message


def test_what_others_are_lenient_about_is_a_warning(ground: Ground) -> None:
    folder = ground.project / ".claude" / "skills"
    skill(folder, "folder", name="Other_name", colour="red")
    skill(folder, "titled", name="A Title Of Words")
    skill(folder, "long", description="x" * 1_500)

    found = ground.scan()

    assert [each.name for each in found.skills] == ["Other_name", "long", "titled"]
    assert {problem.severity for problem in found.problems} == {"warning"}
    assert len(found.problems) == 4


@pytest.mark.parametrize("written", ["perhaps", "[true]", "''"])
def test_a_flag_that_nobody_understands_counts_against_the_skill(ground: Ground, written: str) -> None:
    skill(ground.project / ".claude" / "skills", "x", disable_model_invocation=written, user_invocable=written)

    found = ground.scan().skill("x")

    assert (found.model_invocable, found.user_invocable) == (False, False)


def test_links_that_leave_the_project_are_not_read_and_those_inside_are_read_once(ground: Ground) -> None:
    outside = skill(ground.top / "elsewhere", "stolen").parent
    folder = ground.project / ".claude" / "skills"
    skill(ground.project / ".agents" / "skills", "shared")
    folder.parent.mkdir()
    folder.symlink_to(ground.project / ".agents" / "skills")
    (ground.project / ".backstay" / "skills").mkdir(parents=True)
    (ground.project / ".backstay" / "skills" / "stolen").symlink_to(outside)
    own = skill(ground.top / "dotfiles", "mine").parent
    (ground.home / ".claude" / "skills").mkdir(parents=True)
    (ground.home / ".claude" / "skills" / "mine").symlink_to(own)

    found = ground.scan()

    assert [each.name for each in found.skills] == ["mine", "shared"]
    assert found.shadowed == ()
    assert [problem.message.partition(" out of")[0] for problem in found.problems] == ["A link leads"]


def test_a_folder_that_is_too_full_hides_nobody_elses(ground: Ground) -> None:
    folder = ground.project / ".claude" / "skills"
    folder.mkdir(parents=True)
    for number in range(MOST_ENTRIES + 1):
        (folder / f".{number}").touch()
    skill(ground.home / ".claude" / "skills", "mine")

    found = ground.scan()

    assert [each.name for each in found.skills] == ["mine"]
    assert any("more than 3,000" in problem.message for problem in found.problems)


def test_frontmatter_costs_its_owner_only_so_much(ground: Ground) -> None:
    for number in range(80):
        skill(ground.project / ".claude" / "skills", f"x{number:03}", license=f'"\\x41{"a" * 15_000}"')
    skill(ground.home / ".claude" / "skills", "mine", metadata="{a: b}")

    found = ground.scan()

    assert "mine" in {each.name for each in found.skills}
    assert any("too much frontmatter" in problem.message for problem in found.problems)


def test_a_plugins_skills_have_its_name_before_theirs_and_stay_in_its_folder(ground: Ground) -> None:
    root = ground.home / "plugins" / "kit"
    skill(root / "skills", "lint")
    skill(ground.project / ".claude" / "skills", "lint")
    (root / "skills" / "out").symlink_to(skill(ground.top / "elsewhere", "out").parent)
    single = skill(root / "more", "single").parent
    plugin = PluginFolders(name="kit", root=root, skills=(root / "skills", single, root / "missing"), data="/data")

    found = ground.scan(plugins=(plugin,))

    assert [each.name for each in found.skills] == ["kit:lint", "kit:single", "lint"]
    assert (found.skill("kit:lint").plugin_root, found.skill("kit:lint").plugin_data) == (str(root), "/data")
    assert len(found.problems) == 1


def test_a_file_that_changes_comes_or_goes_makes_what_was_found_stale(ground: Ground) -> None:
    folder = ground.project / ".claude" / "skills"
    file = skill(folder, "x")
    found = ground.scan()
    assert not found.is_stale()

    os.utime(file, ns=(1, 1))
    assert found.is_stale()
    found = ground.scan()
    skill(folder, "y")
    assert found.is_stale()
    found = ground.scan()
    skill(ground.home / ".agents" / "skills", "z")
    assert found.is_stale()
    found = ground.scan()
    file.unlink()
    assert found.is_stale()


async def test_a_scan_does_not_hold_up_the_loop(ground: Ground) -> None:
    skill(ground.project / ".claude" / "skills", "x")

    with anyio.fail_after(30):
        found = await scan(ground.sources())

    assert found == ground.scan()


def test_who_works_in_the_home_folder_has_the_persons_skills_there(ground: Ground) -> None:
    skill(ground.home / ".claude" / "skills", "x")
    environment = {"HOME": str(ground.home), "BACKSTAY_CONFIG_DIR": str(ground.config)}

    from backstay.skills.scan import scan_now

    found = scan_now(sources_of(ProjectPaths.of(ground.home, environment), trusted=False)).skill("x")

    assert (found.source, found.trusted) == ("person", True)


# --- trust ---------------------------------------------------------------------------------------------------------------------------


def test_skills_of_an_untrusted_workspace_are_listed_and_can_do_nothing(ground: Ground) -> None:
    keys = {"allowed_tools": "Bash(*)", "model": "opus", "hooks": "\n  Stop:\n    - hooks: []"}
    skill(ground.project / ".claude" / "skills", "x", **keys)

    found = ground.scan(trusted=False)
    (one,) = found.skills

    assert found.for_model == ()
    assert (one.trusted, one.grants, one.hooks, one.model) == (False, (), None, "")
    assert one.withheld == ("allowed-tools", "hooks", "model")
    trusted = ground.scan().skill("x")
    assert (trusted.grants, trusted.model, trusted.hooks) == (("Bash(*)",), "opus", {"Stop": [{"hooks": []}]})


async def test_an_untrusted_skill_that_would_run_a_command_is_not_invoked(ground: Ground) -> None:
    skill(ground.project / ".claude" / "skills", "x", body="Now: !`curl evil.example`\n")
    skill(ground.project / ".claude" / "skills", "y", body="See @/etc/passwd.\n")
    found = ground.scan(trusted=False)

    with pytest.raises(UserError, match="not trusted"):
        await render(found.skill("x"), "", SkillContext(session_id="s", project_dir="/p"))
    rendered = await render(found.skill("y"), "", SkillContext(session_id="s", project_dir="/p"))

    assert rendered.inclusions == ()
    assert "".join(map(str, rendered.pieces)).strip() == "See @/etc/passwd."


def test_an_untrusted_workspace_hides_nothing_of_the_person(ground: Ground) -> None:
    skill(ground.project / ".claude" / "skills", "commit")
    mine = skill(ground.home / ".claude" / "skills", "commit")

    assert ground.scan(trusted=False).skill("commit").file == str(mine)
    assert ground.scan(trusted=True).skill("commit").file != str(mine)


def test_only_what_was_looked_at_when_the_workspace_was_trusted_is_obeyed(ground: Ground) -> None:
    folder = ground.project / ".claude" / "skills"
    skill(folder, "old")
    changed = skill(folder, "changed")
    seen = survey(ground.project, ground.project, (), home=ground.home).seen
    changed.write_text(page(body="Worse.", name="changed", description="d"))
    skill(folder, "new")
    skill(ground.project / "sub" / ".claude" / "skills", "below")

    found = ground.scan(cwd=ground.project / "sub", seen=seen)

    assert {each.name: each.trusted for each in found.skills} == {
        "old": True,
        "changed": False,
        "new": False,
        "below": False,
    }
    assert len(found.problems) == 3


def test_a_project_skill_that_changed_since_it_was_listed_is_not_invoked(ground: Ground) -> None:
    file = skill(ground.project / ".claude" / "skills", "x")
    mine = skill(ground.home / ".claude" / "skills", "mine")
    found = ground.scan()
    file.write_text(page(body="Other words.", name="x", description="d"))
    mine.write_text(page(body="Other words.", name="mine", description="d"))

    with pytest.raises(UserError, match="not as it was"):
        read_body(found.skill("x"))
    assert read_body(found.skill("mine")) == "Other words."
    mine.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        read_body(found.skill("mine"))
