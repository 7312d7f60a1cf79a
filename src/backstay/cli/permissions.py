"""`backstay permissions`: what would be decided about a call, and why; and what is wrong with the rules."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from backstay.cli import output
from backstay.cli.trust import here, legible
from backstay.config.trust.trust_store import EVERYWHERE, GrantStore
from backstay.sandbox.folders import data_dir, project_root
from backstay.vocab.errors import UserError
from backstay.vocab.specs import MODES

_SCOPES = ("sandboxed", "project", "full")


@click.group("permissions")
def command() -> None:
    """Ask what the policy says about a call, and look over the rules."""


@command.command()
@click.argument("tool")
@click.argument("json_args", required=False)
@click.option("--mode", type=click.Choice(MODES), help="The mode; without it that of the settings, else default.")
@click.option("--allow", multiple=True, metavar="RULE", help="A rule that allows. Repeatable.")
@click.option("--ask", multiple=True, metavar="RULE", help="A rule that asks. Repeatable.")
@click.option("--deny", multiple=True, metavar="RULE", help="A rule that denies. Repeatable.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="The working folder.")
@click.option("--scope", type=click.Choice(_SCOPES), default="project", show_default=True)
@click.option("--bare", is_flag=True, help="Without settings, but those of the machine.")
@click.option("--untrusted", is_flag=True, help="As in a workspace that nobody trusts.")
@click.option("--expect", is_flag=True, help="With -: compare with what each line says is right, and print the score.")
@click.pass_context
def check(
    ctx: click.Context,
    tool: str,
    json_args: str | None,
    mode: str | None,
    allow: tuple[str, ...],
    ask: tuple[str, ...],
    deny: tuple[str, ...],
    cwd: str | None,
    scope: str,
    bare: bool,
    untrusted: bool,
    expect: bool,
) -> int:
    """Print the verdict on a call of TOOL with JSON_ARGS, and end with 0 whatever it is. Nothing is run.

    The settings of the folder and what was granted there count as in a session, beside --allow, --ask and --deny, unless --bare. With -
    no settings are read: only the rules of each line count.

    \b
    backstay permissions check Bash '{"command": "git status && npm test"}' --allow 'Bash(npm test *)'
    backstay permissions check -      reads cases from standard input, a JSON object a line, and answers a line each:
      {"id","tool","args","rule_set":{"mode","allow","ask","deny","trusted"?,"source"?,"hook"?},
       "ctx"?:{"cwd","home","os","shell","fixture"}}
    """
    if tool == "-":
        if json_args is not None:
            raise click.UsageError("With - the calls come from standard input, not as an argument.", ctx)
        from backstay.cli import output, permission_cases
        from backstay.cli import permission_cases as permission_scores

        if mode or allow or ask or deny:
            output.warn("With - each line says its own mode and rules: those of the command line are not used.")
        return permission_scores.score_lines() if expect else permission_cases.check_lines()
    if json_args is None:
        raise click.UsageError("Give the call's arguments as JSON, or - to read cases from standard input.", ctx)
    from backstay.cli import permission_check
    from backstay.vocab.errors import UserError

    wanted = permission_check.Wanted(
        tool=tool, args=json_args, mode=mode, allow=allow, ask=ask, deny=deny, scope=scope, trusted=not untrusted
    )
    settings = permission_check.settings_of(cwd or ctx.obj.cwd, bare=bare)
    try:
        return permission_check.check_here(wanted, settings)
    except UserError as exc:
        raise click.UsageError(str(exc), ctx) from exc


@command.command()
@click.option("--remove", multiple=True, metavar="RULE", help="Take a rule back. Repeatable.")
@click.option("--clear", is_flag=True, help="Take back all that hold here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@here
def grants(cwd: Path, remove: tuple[str, ...], clear: bool, as_json: bool) -> int:
    """Show the rules that were allowed for longer than a session, for this project or everywhere, and take them back.

    \b
    backstay permissions grants
    backstay permissions grants --remove 'Bash(npm test *)'
    backstay permissions grants --clear
    """

    if remove and clear:
        raise click.UsageError("--clear takes all of them back: say that or --remove.")
    if remove or clear:
        return take_back(cwd, None if clear else remove, as_json=as_json)
    return show(cwd, as_json=as_json)


@command.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@here
def lint(cwd: Path, files: tuple[str, ...], as_json: bool) -> int:
    """Look over the permission rules of settings FILES, or of those that hold here. Exit 1 when something is wrong."""
    from backstay.cli import permission_check

    return permission_check.lint_files(files, str(cwd), as_json=as_json)


class Granted(Struct, frozen=True):
    """A rule that holds here because a person allowed it for longer than a session."""

    rule: str
    place: str

    @property
    def where(self) -> str:
        """In words, where it holds."""
        return "everywhere" if self.place == EVERYWHERE else self.place


def granted_here(cwd: Path) -> tuple[Granted, ...]:
    """What was granted for the project that a folder lies in, and everywhere. Raise `UserError` when the book cannot be believed."""
    return tuple(
        Granted(rule, place) for place, rules in GrantStore(data_dir()).here(_project(cwd)).items() for rule in rules
    )


def told(grants: Sequence[Granted]) -> list[str]:
    """A line for each grant."""
    return [f"allow {legible(each.rule)}  ({legible(each.where)})" for each in grants]


def show(cwd: Path, *, as_json: bool) -> int:
    """Print what was granted."""
    grants = granted_here(cwd)
    if as_json:
        output.say_json(objects(grants))
        return 0
    for line in told(grants):
        output.say(line)
    output.say(
        "To take one back: backstay permissions grants --remove RULE; all that hold here: --clear."
        if grants
        else "Nothing was allowed here for longer than a session."
    )
    return 0


def objects(grants: Sequence[Granted]) -> list[dict[str, str]]:
    """The grants for programs."""
    return [{"rule": legible(each.rule), "where": legible(each.where)} for each in grants]


def take_back(cwd: Path, rules: Sequence[str] | None, *, as_json: bool) -> int:
    """Forget grants that hold here, by what they say or how they are printed; None means all.

    Raise `UserError` when one was not granted, and then forget none.
    """
    book, grants = GrantStore(data_dir()), granted_here(cwd)
    for rule in rules or ():
        if not any(rule in _names(each) for each in grants):
            raise UserError(f"{rule!r} was not granted here. To see what was: backstay permissions grants")
    gone = [each for each in grants if rules is None or not _names(each).isdisjoint(rules)]
    for rule in dict.fromkeys(each.rule for each in gone):
        book.remove(rule, (_project(cwd), EVERYWHERE))
    if as_json:
        output.say_json(objects(gone))
        return 0
    for line in told(gone):
        output.say(f"taken back: {line}")
    output.say("Sessions that are opened from now on ask again." if gone else "Nothing was changed.")
    return 0


def _names(grant: Granted) -> set[str]:
    return {grant.rule, legible(grant.rule)}


def _project(cwd: Path) -> str:
    return str(project_root(cwd.absolute()))
