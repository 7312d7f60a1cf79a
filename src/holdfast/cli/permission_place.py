"""The policy at a real place: its verdict on one call, and a look over the rules of settings files."""

import os
import re
from pathlib import Path
from typing import Final, Literal, cast

import msgspec

from holdfast.cli.permission_cases import printed
from holdfast.cli.permission_grants import granted_here
from holdfast.cli.telling import complain, harmless, say
from holdfast.config.json_text import JsonText
from holdfast.config.settings import config_dir
from holdfast.logic.acts import Ground
from holdfast.logic.permissions import Call, paths_of, spec_of, weigh
from holdfast.logic.permissions.calls import meant_tool
from holdfast.logic.permissions.lint import Complaint, command_kinds, lint_rules
from holdfast.this_machine import SYSTEM
from holdfast.vocab.errors import UserError
from holdfast.vocab.rules import Rule
from holdfast.vocab.specs import FsScope, Mode
from holdfast.workspaces import looking
from holdfast.workspaces.program_folders import program_folders
from holdfast.workspaces.project import data_dir

_FILES: Final = (
    *(".holdfast/settings.json", ".holdfast/settings.local.json"),
    *(".claude/settings.json", ".claude/settings.local.json"),
)
_DECISIONS: Final[tuple[Literal["deny", "ask", "allow"], ...]] = ("deny", "ask", "allow")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks about."""

    tool: str
    args: str
    mode: str
    scope: str
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    trusted: bool = True


def check_here(wanted: Wanted, cwd: str | None) -> int:
    """Print the verdict on a call in a folder of this machine."""
    try:
        args = msgspec.json.decode(wanted.args, type=dict[str, object])
    except (ValueError, RecursionError) as exc:
        raise UserError(f"The arguments of {wanted.tool!r} are not a JSON object: {exc}.") from exc
    rules = tuple(Rule.parse(decision, text) for decision in _DECISIONS for text in getattr(wanted, decision))
    for each in lint_rules(deny=wanted.deny, ask=wanted.ask, allow=wanted.allow):
        if each.kind != "wide":
            complain(harmless(f"--{each.decision} {each.rule!r}: {each.words}"))
    if meant := meant_tool(wanted.tool):
        complain(
            harmless(
                f"No tool {wanted.tool!r} comes with holdfast, so nobody knows what it does. Did you mean {meant!r}?"
            )
        )
    folder = os.path.realpath(cwd or ".")
    call = Call(spec_of(wanted.tool), args)
    running = program_folders((folder,), os.environ.get("PATH", ""), folder)
    bare = Ground(cwd=folder, home=str(Path.home()), os=SYSTEM, trusted=wanted.trusted, running=running)
    ground = _look(call, rules, bare)
    verdict = weigh(call, ground, rules, mode=cast(Mode, wanted.mode), scope=cast(FsScope, wanted.scope))
    say(msgspec.json.format(msgspec.json.encode(printed(verdict)), indent=2).decode())
    return 0


def _look(call: Call, rules: tuple[Rule, ...], ground: Ground) -> Ground:
    """`ground` with what the file system says about the call."""
    paths, globs = paths_of(call, ground, rules)
    return msgspec.structs.replace(ground, links=looking.look(paths), globs=looking.match(globs))


def lint_files(files: tuple[str, ...], cwd: str | None, *, as_json: bool) -> int:
    """Print what is wrong with the rules of each file; 1 when something is."""
    here = Path(cwd or ".")
    wanted = [Path(name) for name in files] or [
        path for path in (config_dir() / "settings.json", *(here / name for name in _FILES)) if path.is_file()
    ]
    found = [(path, each) for path in wanted for each in _lint(path)]
    granted = () if files else granted_here(here)
    texts = [each.rule for each in granted]
    found += [(data_dir() / "grants.json", each) for each in _looked_over(_Rules(allow=tuple(texts)))]
    wrong = [(path, each) for path, each in found if each.kind != "commands"]
    if as_json:
        say(msgspec.json.encode([{"file": str(path), **msgspec.to_builtins(each)} for path, each in found]).decode())
        return 1 if wrong else 0
    for path, each in found:
        say(f"{path}: {each.decision} {each.rule!r}: {each.words}" if each.decision else f"{path}: {each.words}")
    if granted:
        say(f"Allowed for longer than a session: {harmless(', '.join(texts))}.")
        say("To take one back: holdfast permissions grants --remove RULE")
    if not wanted:
        say("There are no settings files here.")
    elif not wrong:
        say(f"Nothing is wrong with the rules of {', '.join(map(str, wanted))}.")
    return 1 if wrong else 0


def _lint(path: Path) -> list[Complaint]:
    try:
        settings = msgspec.json.decode(JsonText.read(path).content, type=_Settings)
    except (UserError, ValueError, RecursionError) as exc:
        why = re.sub(rf"^{re.escape(str(path))}:(\d+)", r"line \1", str(exc))
        words = f"the file cannot be read, and its denials with it: {why}"
        return [Complaint(decision="", rule="", kind="unreadable", words=words)]
    return _looked_over(settings.permissions)


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
