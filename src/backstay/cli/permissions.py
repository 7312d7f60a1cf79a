"""`backstay permissions`: what would be decided about a call, and why; and what is wrong with the rules."""

from pathlib import Path

import click

from backstay.cli.trusting import here
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
        from backstay.cli import permission_cases, permission_scores, telling

        if mode or allow or ask or deny:
            telling.complain("With - each line says its own mode and rules: those of the command line are not used.")
        return permission_scores.score_lines() if expect else permission_cases.check_lines()
    if json_args is None:
        raise click.UsageError("Give the call's arguments as JSON, or - to read cases from standard input.", ctx)
    from backstay.cli import permission_place
    from backstay.vocab.errors import UserError

    wanted = permission_place.Wanted(
        tool=tool, args=json_args, mode=mode, allow=allow, ask=ask, deny=deny, scope=scope, trusted=not untrusted
    )
    settings = permission_place.settings_of(cwd or ctx.obj.cwd, bare=bare)
    try:
        return permission_place.check_here(wanted, settings)
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
    from backstay.cli import permission_grants

    if remove and clear:
        raise click.UsageError("--clear takes all of them back: say that or --remove.")
    if remove or clear:
        return permission_grants.take_back(cwd, None if clear else remove, as_json=as_json)
    return permission_grants.show(cwd, as_json=as_json)


@command.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@here
def lint(cwd: Path, files: tuple[str, ...], as_json: bool) -> int:
    """Look over the permission rules of settings FILES, or of those that hold here. Exit 1 when something is wrong."""
    from backstay.cli import permission_place

    return permission_place.lint_files(files, str(cwd), as_json=as_json)
