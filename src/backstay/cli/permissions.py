"""`backstay permissions`: judge a call, lint the rules, and show or remove grants."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from backstay.cli.output import escape_line, escape_untrusted, print_json, print_line, warn
from backstay.cli.shared_options import as_json, with_folder
from backstay.config.json_document import JsonText
from backstay.config.kept_denials import DenialCopies
from backstay.config.layer_file import read_layer
from backstay.config.locations import Family, SettingsFile, config_dir
from backstay.config.permissions_section import UnknownMode, unknown_permissions
from backstay.config.trust.trust_store import EVERYWHERE, GrantStore
from backstay.permissions import Call, Verdict, judge_call, paths_to_resolve, spec_of
from backstay.permissions.call_site import CallSite
from backstay.permissions.lint import Complaint, command_kinds, lint_rules
from backstay.permissions.tool_kinds import guess_tool
from backstay.sandbox import resolve_paths
from backstay.sandbox.environment import program_folders
from backstay.session.apply_settings import read_settings_files
from backstay.session.options import Options, ResolvedOptions
from backstay.system.folders import data_dir, project_root
from backstay.system.machine import SYSTEM
from backstay.testing.permission_cases import answer_of, check_lines, score_lines
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule, RuleSource
from backstay.vocab.specs import MODES, FsScope, Mode

_SCOPES: Final = ("sandboxed", "project", "full")
_FILES: Final = (
    *(".backstay/settings.json", ".backstay/settings.local.json"),
    *(".claude/settings.json", ".claude/settings.local.json"),
)
FAMILIES: Final[Mapping[str, Family]] = {".claude": "claude"}
"""By folder, whose settings files they are when not ours."""
_DECISIONS: Final[tuple[Literal["deny", "ask", "allow"], ...]] = ("deny", "ask", "allow")


@click.group("permissions")
def command() -> None:
    """Judge a call without running it, check the rules, and show and remove grants."""


@command.command()
@click.argument("tool")
@click.argument("json_args", required=False)
@click.option("--mode", type=click.Choice(MODES), help="The mode; without it that of the settings, else default.")
@click.option("--allow", multiple=True, metavar="RULE", help="A rule that allows. Repeatable.")
@click.option("--ask", multiple=True, metavar="RULE", help="A rule that asks. Repeatable.")
@click.option("--deny", multiple=True, metavar="RULE", help="A rule that denies. Repeatable.")
@click.option("--scope", type=click.Choice(_SCOPES), default="project", show_default=True)
@click.option("--bare", is_flag=True, help="Without settings, but those of the machine.")
@click.option("--untrusted", is_flag=True, help="As in a workspace that is not trusted.")
@click.option("--expect", is_flag=True, help="With -: compare with what each line says is right, and print the score.")
@with_folder
def check(
    cwd: Path,
    *,
    tool: str,
    json_args: str | None,
    mode: Mode | None,
    scope: FsScope,
    bare: bool,
    untrusted: bool,
    expect: bool,
    **rules: tuple[str, ...],
) -> int:
    """Print the verdict on a call of TOOL with JSON_ARGS, and end with 0 in any case. Nothing is run.

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
            raise click.UsageError("With - the calls come from standard input, not as an argument.")
        if mode or any(rules.values()):
            warn("With - each line says its own mode and rules: those of the command line are not used.")
        return score_lines() if expect else check_lines()
    if json_args is None:
        raise click.UsageError("Give the call's arguments as JSON, or - to read cases from standard input.")
    settings = _read_settings(cwd, bare=bare)
    try:
        verdict = _judge(tool, json_args, rules, settings, mode=mode, scope=scope, trusted=not untrusted)
    except UserError as exc:
        raise click.UsageError(str(exc)) from exc
    print_line(msgspec.json.format(msgspec.json.encode(answer_of(verdict)), indent=2).decode())
    return 0


@command.command()
@click.option("--remove", multiple=True, metavar="RULE", help="Take a rule back. Repeatable.")
@click.option("--clear", is_flag=True, help="Take back all that hold here.")
@as_json
@with_folder
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
        return _revoke(cwd, None if clear else remove, as_json=as_json)
    found = find_grants(cwd)
    if as_json:
        print_json(grant_objects(found))
        return 0
    for line in grant_lines(found):
        print_line(line)
    print_line(
        "To take one back: backstay permissions grants --remove RULE; all that hold here: --clear."
        if found
        else "Nothing was allowed here for longer than a session."
    )
    return 0


@command.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@as_json
@with_folder
def lint(cwd: Path, files: tuple[str, ...], as_json: bool) -> int:
    """Check the permission rules of settings FILES, or of those in force here. Exit 1 when something is wrong."""
    wanted = [Path(name) for name in files] or [
        path for path in (config_dir() / "settings.json", *(cwd / name for name in _FILES)) if path.is_file()
    ]
    granted = tuple(each.rule for each in (() if files else find_grants(cwd)))
    store = str(data_dir() / "grants.json")
    found = [each for path in wanted for each in _lint(path)]
    found += [_LintLine(file=store, line=0, about=each) for each in _complaints(_Rules(allow=granted))]
    found.sort(key=lambda each: not each.about.is_wrong)
    wrong = sum(each.about.is_wrong for each in found)
    if as_json:
        rows = [
            {"file": each.file, "line": each.line or None, "level": each.level, **msgspec.to_builtins(each.about)}
            for each in found
        ]
        print_line(msgspec.json.encode(rows).decode())
        return 1 if wrong else 0
    for each in found:
        print_line(escape_line(each.words))
    if granted:
        print_line(f"Allowed for longer than a session: {escape_line(', '.join(granted))}.")
        print_line("To take one back: backstay permissions grants --remove RULE")
    if not wanted:
        print_line("There are no settings files here.")
    elif wrong:
        print_line(f"{wrong} wrong, {len(found) - wrong} noted.")
    else:
        print_line(f"Nothing is wrong with the rules of {', '.join(map(str, wanted))}; {len(found)} noted.")
    return 1 if wrong else 0


# --- check -----------------------------------------------------------------------------------------------------------------------


def _read_settings(cwd: Path, *, bare: bool) -> ResolvedOptions:
    """Return the options that the settings give sessions in a folder. Raise `UserError` when a file cannot be read."""
    found = read_settings_files(Options(cwd=os.path.realpath(cwd), bare=bare), None)
    layered = found.resolved.layered
    for words in (*layered.warnings, *filter(None, (layered.notice,))):
        warn(escape_line(words))
    return found


def _judge(
    tool: str,
    json_args: str,
    given: Mapping[str, tuple[str, ...]],
    settings: ResolvedOptions,
    *,
    mode: Mode | None,
    scope: FsScope,
    trusted: bool,
) -> Verdict:
    """Judge a call in a folder of this machine."""
    try:
        args = msgspec.json.decode(json_args, type=dict[str, object])
    except (ValueError, RecursionError) as exc:
        raise UserError(f"The arguments of {tool!r} are not a JSON object: {exc}.") from exc
    rules = (*(Rule.parse(decision, text) for decision in _DECISIONS for text in given[decision]), *settings.rules)
    for each in lint_rules(deny=given["deny"], ask=given["ask"], allow=given["allow"]):
        if each.is_wrong and each.kind != "wide":
            warn(escape_line(f"--{each.decision} {each.rule!r}: {each.words}"))
    if meant := guess_tool(tool):
        warn(
            escape_line(f"No tool {tool!r} comes with backstay, so nobody knows what it does. Did you mean {meant!r}?")
        )
    folder = str(settings.cwd)
    call = Call(spec_of(tool), args)
    site = CallSite(
        cwd=folder,
        home=str(Path.home()),
        roots=tuple(os.path.realpath(each) for each in (folder, *settings.folders)),
        os=SYSTEM,
        trusted=trusted and bool(settings.trust),
        trust_given=settings.resolved.is_trust_given,
        running=program_folders((folder,), os.environ.get("PATH", ""), folder),
    )
    paths, globs = paths_to_resolve(call, site, rules)
    site = msgspec.structs.replace(site, links=resolve_paths.follow_links(paths), globs=resolve_paths.match(globs))
    return judge_call(call, site, rules, mode=mode or settings.permission_mode or "default", scope=scope)


# --- grants ----------------------------------------------------------------------------------------------------------------------


class Grant(msgspec.Struct, frozen=True):
    """A rule that a person allowed for longer than a session, and the project where it holds."""

    rule: str
    project: str

    @property
    def where(self) -> str:
        """Where it holds, in words."""
        return "everywhere" if self.project == EVERYWHERE else self.project


def find_grants(cwd: Path) -> tuple[Grant, ...]:
    """Return the grants for the project of a folder, and for all projects. Raise `UserError` when the store cannot be read."""
    found = GrantStore(data_dir()).here(_project(cwd))
    return tuple(Grant(rule, project) for project, rules in found.items() for rule in rules)


def grant_lines(grants: Sequence[Grant]) -> list[str]:
    """Return a line for each grant."""
    return [f"allow {escape_untrusted(each.rule)}  ({escape_untrusted(each.where)})" for each in grants]


def grant_objects(grants: Sequence[Grant]) -> list[dict[str, str]]:
    """Return the grants for programs."""
    return [{"rule": escape_untrusted(each.rule), "where": escape_untrusted(each.where)} for each in grants]


def _revoke(cwd: Path, rules: Sequence[str] | None, *, as_json: bool) -> int:
    """Remove grants that hold here, by their rule or as it is printed; None means all.

    Raise `UserError` when one was not granted, and then remove none.
    """
    store, grants = GrantStore(data_dir()), find_grants(cwd)
    for rule in rules or ():
        if not any(rule in _names(each) for each in grants):
            raise UserError(f"{rule!r} was not granted here. To see what was: backstay permissions grants")
    gone = [each for each in grants if rules is None or not _names(each).isdisjoint(rules)]
    for rule in dict.fromkeys(each.rule for each in gone):
        store.remove(rule, (_project(cwd), EVERYWHERE))
    if as_json:
        print_json(grant_objects(gone))
        return 0
    for line in grant_lines(gone):
        print_line(f"taken back: {line}")
    print_line("Sessions that are opened from now on ask again." if gone else "Nothing was changed.")
    return 0


def _names(grant: Grant) -> set[str]:
    return {grant.rule, escape_untrusted(grant.rule)}


def _project(cwd: Path) -> str:
    return str(project_root(cwd.absolute()))


# --- lint ------------------------------------------------------------------------------------------------------------------------


class _LintLine(msgspec.Struct, frozen=True, kw_only=True):
    """A complaint about a rule, and where the rule stands."""

    file: str
    line: int
    """0 when it is not about a line."""
    about: Complaint

    @property
    def level(self) -> Literal["wrong", "note"]:
        """Whether the rule is wrong or only described."""
        return "wrong" if self.about.is_wrong else "note"

    @property
    def words(self) -> str:
        """The line for a person."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        rule = f"{self.about.decision} {self.about.rule!r}: " if self.about.decision else ""
        return f"{self.level}: {place}: {rule}{self.about.words}"


def _lint(path: Path) -> Iterator[_LintLine]:
    file, family = str(path), FAMILIES.get(path.parent.name, "backstay")
    whole = path.absolute()
    source: RuleSource = "person" if whole.parent == config_dir() else "project"
    place = SettingsFile(path=whole, source=source, root=str(whole.parent.parent), family=family)
    try:
        text = JsonText.read(path)
        settings = msgspec.json.decode(text.content, type=_Settings)
        content = text.parse()
    except (UserError, ValueError, RecursionError) as exc:
        why = _without_path(exc, file)
        if DenialCopies(data_dir()).recall(place, why) is not None:
            words = (
                f"the file cannot be read: {why} What it denied and asked for when it could last be read still holds."
            )
        else:
            words = f"the file cannot be read, and no session starts with it: {why}"
        yield _LintLine(file=file, line=0, about=Complaint(decision="", rule="", kind="unreadable", words=words))
        return
    for where, words in unknown_permissions(content):
        about = Complaint(decision="", rule="", kind="unknown-key", words=words)
        yield _LintLine(file=file, line=text.line(where), about=about)
    rules = settings.permissions
    complaints = _complaints(rules)
    for each in complaints:
        at = getattr(rules, each.decision).index(each.rule)
        line = text.line(("permissions", each.decision, str(at)))
        yield _LintLine(file=file, line=line, about=each)
    try:
        read_layer(place)
    except UserError as exc:
        if isinstance(exc, UnknownMode) or not any(each.is_wrong for each in complaints):
            words = f"no session starts with it: {_without_path(exc, file)}"
            yield _LintLine(file=file, line=0, about=Complaint(decision="", rule="", kind="unreadable", words=words))


def _without_path(exc: Exception, file: str) -> str:
    return re.sub(rf"^{re.escape(file)}:(\d+)", r"line \1", str(exc))


def _complaints(rules: "_Rules") -> list[Complaint]:
    wrong = lint_rules(deny=rules.deny, ask=rules.ask, allow=rules.allow)
    reported = {each.rule for each in wrong if each.kind in ("wide", "never-consulted", "unreachable")}
    return [*wrong, *(each for each in command_kinds(rules.allow) if each.rule not in reported)]


class _Rules(msgspec.Struct, frozen=True):
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class _Settings(msgspec.Struct, frozen=True):
    permissions: _Rules = _Rules()
