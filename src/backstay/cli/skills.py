"""`backstay skills`: list and show skills and commands of your own, and check one against the standard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
import msgspec

from backstay.cli import output
from backstay.cli.shared_options import StoreLocation, as_json, trust, with_location
from backstay.config.layers import read_layers
from backstay.config.locations import ProjectPaths
from backstay.logic.text import show_invisible
from backstay.session.project.discover_extensions import discover_here
from backstay.skills.problems import SkillProblem
from backstay.skills.render import read_body
from backstay.skills.scan import Found, scan_now, sources_of
from backstay.skills.skill import Skill, validate_skill
from backstay.vocab.errors import UserError

MAX_DESCRIPTION: Final = 60
"""Characters of a description in a table."""


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
@with_location
def list_skills(location: StoreLocation, trust: bool, as_json: bool) -> int:
    """List the skills and commands in force here, those that others hide, and what is wrong with their files.

    \b
    backstay skills list --json
    """
    found = find_extensions(location, trust=trust)
    hidden = [each for each in found.shadowed if isinstance(each, Skill)]
    if as_json:
        output.print_json(
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
        output.print_table(("name", "kind", "from", "used by", "description"), rows)
    else:
        output.print_line(
            "There are no skills. One is a folder with a SKILL.md, in .backstay/skills or .claude/skills."
        )
    for each in hidden:
        output.warn(f"{output.escape_line(each.file)!r} is hidden: something else is called {each.name!r}.")
    print_problems(found.problems)
    return 0


@command.command()
@click.argument("name")
@trust
@as_json
@with_location
def show(location: StoreLocation, name: str, trust: bool, as_json: bool) -> int:
    """Show the skill or command NAME: its fields and its text.

    \b
    backstay skills show code-review
    """
    skill = find_extensions(location, trust=trust).skill(name.removeprefix("/"))
    body = read_body(skill)
    if as_json:
        output.print_json({**_object(skill), "body": body})
        return 0
    print_definition(_object(skill), body.rstrip("\n"))
    return 0


@command.command()
@click.argument("path", type=click.Path(path_type=Path))
@as_json
def validate(path: Path, as_json: bool) -> int:
    """Check the skill in the folder PATH against the open standard (agentskills.io). The exit code is 1 when it is not valid.

    \b
    backstay skills validate .claude/skills/code-review
    """
    folder = path.parent if path.name.lower() == "skill.md" and path.is_file() else path
    problems = validate_skill(folder)
    if as_json:
        output.print_json({"path": str(folder), "valid": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            output.print_line(output.escape_line(str(problem)))
    else:
        output.print_line(f"{output.escape_line(str(folder))!r} is a valid skill.")
    return output.COULD_NOT if problems else 0


def find_extensions(location: StoreLocation, *, trust: bool) -> Found:
    """Find the skills, commands and agents of a folder. With broken settings, nothing of the workspace is trusted."""
    cwd = location.folder.absolute()
    try:
        discovery = discover_here(read_layers(cwd, trust=True if trust else None))
    except UserError as exc:
        output.warn(str(exc))
        return scan_now(sources_of(ProjectPaths.of(cwd), trusted=trust))
    held = (f"The plugin {name!r} of this workspace waits for trust." for name in discovery.plugins.held_back)
    for words in (*discovery.plugins.problems, *held):
        output.warn(output.escape_line(words))
    return discovery.found


def print_definition(fields: Mapping[str, object], text: str) -> None:
    """Print the fields of a definition that are not empty, and its text."""
    for key, value in fields.items():
        if value not in ("", None, [], ()):
            words = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            output.print_line(f"{key}: {output.escape_line(words)}")
    output.print_line(f"\n{show_invisible(text)}")


def print_problems(problems: tuple[SkillProblem, ...]) -> None:
    """Print each error of the files, and the number of warnings, to standard error."""
    for problem in problems:
        if problem.severity == "error":
            output.warn(output.escape_line(str(problem)))
    warnings = sum(problem.severity == "warning" for problem in problems)
    if warnings:
        output.warn(f"{warnings} smaller things are odd about these files. To see them: --json")


def _object(skill: Skill) -> dict[str, object]:
    return {**msgspec.structs.asdict(skill), "listing": skill.listing}


def _row(skill: Skill) -> tuple[str, ...]:
    who = [word for word, may in (("person", skill.user_invocable), ("model", skill.model_invocable)) if may]
    where = skill.source if skill.trusted else f"{skill.source} (not trusted)"
    text = " ".join(skill.description.split())
    return skill.name, skill.kind, where, ", ".join(who) or "nobody", text[:MAX_DESCRIPTION]
