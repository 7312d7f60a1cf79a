"""`backstay skills`: which skills and commands of one's own there are, what one says, and whether it keeps the standard."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from backstay.cli import output
from backstay.cli.location import StoreLocation, placed

if TYPE_CHECKING:
    from backstay.skills.problems import SkillProblem
    from backstay.skills.scan import Found
    from backstay.skills.skill import Skill

SHOWN: Final = 60
"""Characters of a description in a table."""
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
trust = click.option("--trust", is_flag=True, help="As if this workspace were trusted.")


@click.group("skills")
def command() -> None:
    """List skills and commands of your own, show one, or check one against the open standard.

    \b
    backstay skills list
    backstay skills show code-review
    backstay skills validate .claude/skills/code-review
    """


@command.command("list")
@trust
@as_json
@placed
def list_skills(place: StoreLocation, trust: bool, as_json: bool) -> int:
    """List the skills and commands that count here, those that others hide, and what is wrong with files.

    \b
    backstay skills list --json
    """
    from backstay.skills.skill import Skill

    found = look(place, trust=trust)
    hidden = [each for each in found.shadowed if isinstance(each, Skill)]
    if as_json:
        output.say_json(
            {
                "skills": [_object(each) for each in found.skills],
                "commands": [_object(each) for each in found.commands],
                "shadowed": [_object(each) for each in hidden],
                "problems": found.problems,
            }
        )
        return 0
    rows = [_row(each) for each in (*found.skills, *found.commands)]
    if rows:
        output.say_table(("name", "kind", "from", "used by", "description"), rows)
    else:
        output.say("There are no skills. One is a folder with a SKILL.md, in .backstay/skills or .claude/skills.")
    for each in hidden:
        output.warn(f"{output.escape_terminal(each.file)!r} is hidden: something else is called {each.name!r}.")
    tell_problems(found.problems)
    return 0


@command.command()
@click.argument("name")
@trust
@as_json
@placed
def show(place: StoreLocation, name: str, trust: bool, as_json: bool) -> int:
    """Show what is known of the skill or command NAME, and its text.

    \b
    backstay skills show code-review
    """
    from backstay.skills.render import read_body

    skill = look(place, trust=trust).skill(name.removeprefix("/"))
    body = read_body(skill)
    if as_json:
        output.say_json({**_object(skill), "body": body})
        return 0
    for key, value in _object(skill).items():
        if value not in ("", None, [], ()):
            output.say(f"{key}: {output.escape_terminal(_words(value))}")
    output.say("")
    output.say(output.escape_terminal(body.rstrip("\n"), keep="\n\t"))
    return 0


@command.command()
@click.argument("path", type=click.Path(path_type=Path))
@as_json
def validate(path: Path, as_json: bool) -> int:
    """Check the skill in the folder PATH against the open standard (agentskills.io). The exit code is 1 when it is not valid.

    \b
    backstay skills validate .claude/skills/code-review
    """
    from backstay.skills.skill import validate_skill

    folder = path.parent if path.name.lower() == "skill.md" and path.is_file() else path
    problems = validate_skill(folder)
    if as_json:
        output.say_json({"path": str(folder), "valid": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            output.say(output.escape_terminal(str(problem)))
    else:
        output.say(f"{output.escape_terminal(str(folder))!r} is a valid skill.")
    return output.COULD_NOT if problems else 0


def look(place: StoreLocation, *, trust: bool) -> "Found":
    """Everything that people keep here for an agent. Settings that are broken only mean that nothing of the workspace is trusted."""
    from backstay.config.layers import read_layers
    from backstay.config.locations import ProjectPaths
    from backstay.session.project.discover import look_here
    from backstay.skills.locations import sources_of
    from backstay.skills.scan import scan_now
    from backstay.vocab.errors import UserError

    cwd = Path(place.cwd or ".").absolute()
    try:
        around = look_here(read_layers(cwd, trust=True if trust else None))
    except UserError as exc:
        output.warn(str(exc))
        return scan_now(sources_of(ProjectPaths.of(cwd), trusted=trust))
    held = (f"The plugin {name!r} of this workspace waits for trust." for name in around.plugins.held_back)
    for words in (*around.plugins.problems, *held):
        output.warn(output.escape_terminal(words))
    return around.found


def tell_problems(problems: "tuple[SkillProblem, ...]") -> None:
    """Say on standard error what is wrong with files: each error, and how many warnings there are."""
    for problem in problems:
        if problem.severity == "error":
            output.warn(output.escape_terminal(str(problem)))
    warnings = sum(problem.severity == "warning" for problem in problems)
    if warnings:
        output.warn(f"{warnings} smaller things are odd about these files. To see them: --json")


def _object(skill: "Skill") -> dict[str, object]:
    import msgspec

    return {**msgspec.structs.asdict(skill), "listing": skill.listing}


def _row(skill: "Skill") -> tuple[str, ...]:
    who = [word for word, may in (("person", skill.user_invocable), ("model", skill.model_invocable)) if may]
    where = skill.source if skill.trusted else f"{skill.source} (not trusted)"
    text = " ".join(skill.description.split())
    return skill.name, skill.kind, where, ", ".join(who) or "nobody", text[:SHOWN]


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
