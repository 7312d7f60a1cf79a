"""The policy at a real place: its verdict on one call, and a look over the rules of settings files."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, cast

import msgspec

from backstay.cli.output import escape_terminal, say, warn
from backstay.cli.permission_cases import printed
from backstay.cli.permissions import granted_here
from backstay.config.json_document import JsonText
from backstay.config.locations import config_dir
from backstay.config.permissions_section import unknown_permissions
from backstay.permissions import Call, judge_call, paths_to_resolve, spec_of
from backstay.permissions.call_site import CallSite
from backstay.permissions.lint import Complaint, command_kinds, lint_rules
from backstay.permissions.tool_kinds import guess_tool
from backstay.sandbox import resolve_paths
from backstay.sandbox.folders import data_dir, program_folders
from backstay.session.apply_settings import read_and_apply
from backstay.session.options import Options
from backstay.system.machine import SYSTEM
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from backstay.vocab.specs import FsScope, Mode

_FILES: Final = (
    *(".backstay/settings.json", ".backstay/settings.local.json"),
    *(".claude/settings.json", ".claude/settings.local.json"),
)
_DECISIONS: Final[tuple[Literal["deny", "ask", "allow"], ...]] = ("deny", "ask", "allow")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks about."""

    tool: str
    args: str
    mode: str | None
    """None: that of the settings."""
    scope: str
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    trusted: bool = True


def settings_of(cwd: str | None, *, bare: bool) -> Options:
    """What the settings say of sessions in a folder. Raise `UserError` when a file of them cannot be read."""
    found = read_and_apply(Options(cwd=os.path.realpath(cwd or "."), bare=bare), None)
    layered = found.resolved.layered
    for words in (*layered.warnings, *filter(None, (layered.notice,))):
        warn(escape_terminal(words))
    return found


def check_here(wanted: Wanted, settings: Options) -> int:
    """Print the verdict on a call in a folder of this machine."""
    try:
        args = msgspec.json.decode(wanted.args, type=dict[str, object])
    except (ValueError, RecursionError) as exc:
        raise UserError(f"The arguments of {wanted.tool!r} are not a JSON object: {exc}.") from exc
    given = (Rule.parse(decision, text) for decision in _DECISIONS for text in getattr(wanted, decision))
    rules = (*given, *settings.rules)
    for each in lint_rules(deny=wanted.deny, ask=wanted.ask, allow=wanted.allow):
        if each.is_wrong and each.kind != "wide":
            warn(escape_terminal(f"--{each.decision} {each.rule!r}: {each.words}"))
    if meant := guess_tool(wanted.tool):
        warn(
            escape_terminal(
                f"No tool {wanted.tool!r} comes with backstay, so nobody knows what it does. Did you mean {meant!r}?"
            )
        )
    folder = str(settings.cwd)
    call = Call(spec_of(wanted.tool), args)
    running = program_folders((folder,), os.environ.get("PATH", ""), folder)
    trusted = wanted.trusted and bool(settings.trust)
    roots = tuple(os.path.realpath(each) for each in (folder, *settings.folders))
    call_site = CallSite(cwd=folder, home=str(Path.home()), roots=roots, os=SYSTEM, trusted=trusted, running=running)
    mode = cast(Mode, wanted.mode or settings.permission_mode or "default")
    verdict = judge_call(call, _look(call, rules, call_site), rules, mode=mode, scope=cast(FsScope, wanted.scope))
    say(msgspec.json.format(msgspec.json.encode(printed(verdict)), indent=2).decode())
    return 0


def _look(call: Call, rules: tuple[Rule, ...], call_site: CallSite) -> CallSite:
    """`call_site` with what the file system says about the call."""
    paths, globs = paths_to_resolve(call, call_site, rules)
    return msgspec.structs.replace(call_site, links=resolve_paths.follow_links(paths), globs=resolve_paths.match(globs))


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a rule, and where the rule stands."""

    file: str
    line: int
    """0 when it is not about a line."""
    about: Complaint

    @property
    def level(self) -> Literal["wrong", "note"]:
        """Whether the rule is wrong, or only described."""
        return "wrong" if self.about.is_wrong else "note"

    @property
    def words(self) -> str:
        """The line that people read."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        rule = f"{self.about.decision} {self.about.rule!r}: " if self.about.decision else ""
        return f"{self.level}: {place}: {rule}{self.about.words}"


def lint_files(files: tuple[str, ...], cwd: str | None, *, as_json: bool) -> int:
    """Print what is wrong with the rules of each file, and what is to be known of the others; 1 when something is wrong."""
    here = Path(cwd or ".")
    wanted = [Path(name) for name in files] or [
        path for path in (config_dir() / "settings.json", *(here / name for name in _FILES)) if path.is_file()
    ]
    granted = () if files else granted_here(here)
    texts = tuple(each.rule for each in granted)
    book = str(data_dir() / "grants.json")
    found = [each for path in wanted for each in _lint(path)]
    found += [_Found(file=book, line=0, about=each) for each in _looked_over(_Rules(allow=texts))]
    found.sort(key=lambda each: not each.about.is_wrong)
    wrong = sum(each.about.is_wrong for each in found)
    if as_json:
        rows = [
            {"file": each.file, "line": each.line or None, "level": each.level, **msgspec.to_builtins(each.about)}
            for each in found
        ]
        say(msgspec.json.encode(rows).decode())
        return 1 if wrong else 0
    for each in found:
        say(escape_terminal(each.words))
    if granted:
        say(f"Allowed for longer than a session: {escape_terminal(', '.join(texts))}.")
        say("To take one back: backstay permissions grants --remove RULE")
    if not wanted:
        say("There are no settings files here.")
    elif wrong:
        say(f"{wrong} wrong, {len(found) - wrong} noted.")
    else:
        say(f"Nothing is wrong with the rules of {', '.join(map(str, wanted))}; {len(found)} noted.")
    return 1 if wrong else 0


def _lint(path: Path) -> Iterator[_Found]:
    file = str(path)
    try:
        text = JsonText.read(path)
        settings = msgspec.json.decode(text.content, type=_Settings)
        content = text.parse()
    except (UserError, ValueError, RecursionError) as exc:
        why = re.sub(rf"^{re.escape(file)}:(\d+)", r"line \1", str(exc))
        words = f"the file cannot be read, and its denials with it: {why}"
        yield _Found(file=file, line=0, about=Complaint(decision="", rule="", kind="unreadable", words=words))
        return
    for where, words in unknown_permissions(content):
        about = Complaint(decision="", rule="", kind="unknown-key", words=words)
        yield _Found(file=file, line=text.line(where), about=about)
    said = settings.permissions
    for each in _looked_over(said):
        at = getattr(said, each.decision).index(each.rule)
        line = text.line(("permissions", each.decision, str(at)))
        yield _Found(file=file, line=line, about=each)


def _looked_over(said: "_Rules") -> list[Complaint]:
    wrong = lint_rules(deny=said.deny, ask=said.ask, allow=said.allow)
    told = {each.rule for each in wrong if each.kind in ("wide", "never-consulted", "unreachable")}
    return [*wrong, *(each for each in command_kinds(said.allow) if each.rule not in told)]


class _Rules(msgspec.Struct, frozen=True):
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class _Settings(msgspec.Struct, frozen=True):
    permissions: _Rules = _Rules()
