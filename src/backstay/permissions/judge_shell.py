"""Judge shell scripts: every command must be allowed, by a rule or because it only reads, and every file that it touches."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from backstay.permissions.bulk_changes import Moves
from backstay.permissions.call_site import Access, Command, Script
from backstay.permissions.command_rules import Allowance, command_pattern, find_allowance, forbidden
from backstay.permissions.judge_files import FileAccess, judge_access
from backstay.permissions.judgement import ONLY_READS, Finding, Hold, JudgeContext
from backstay.permissions.paths import absolute, plain
from backstay.permissions.suggested_rules import command_offers
from backstay.permissions.unasked import loading_programs
from backstay.vocab.rules import Rule

_MAKERS: Final = frozenset(("cp", "mv", "ln", "link", "install", "tee", "dd", "rsync"))
_SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "source", "."))


def judge_created_programs(context: JudgeContext, script: Script, text: str) -> list[Finding]:
    """Ask about a program or a script that the command itself put there, when the name of a denied program is in the text."""
    rules = (*context.rules.deny.shell, *context.rules.ask.shell)
    if len(script.commands) < 2 or not any(_is_named(rule.pattern, text) for rule in rules):
        return []
    made = set[str]()
    for command in script.commands:
        if path := made.intersection(_run_by(command, context)):
            detail = f"it runs {path.pop()!r}, which it has made itself: what is denied may be in it"
            return [Finding(command.layers[-1].text, "ask", "rule", detail, "hard")]
        made.update(_paths_made_by(command, context))
    return []


def _is_named(pattern: str | None, text: str) -> bool:
    if pattern is None:
        return False
    program = command_pattern(pattern, wide=True).program
    return not program or re.search(rf"(?<![\w-]){re.escape(program)}(?![\w-])", text) is not None


def _paths_made_by(command: Command, context: JudgeContext) -> list[str]:
    maker = bool(_MAKERS.intersection(_base(layer.words[0]) for layer in command.layers if layer.words))
    written = (access for access in command.accesses if access.kind == "write" and access.known)
    return [plain(access.path, context.call_site.os) for access in written if access.redirect or maker]


def _run_by(command: Command, context: JudgeContext) -> list[str]:
    """Return the files that a command runs: a program by its path, the script that a shell is given."""
    programs = [layer.words[0] for layer in command.layers if layer.words and layer.words[0]]
    paths = [absolute(program, context.call_site) for program in programs if "/" in program]
    if _SHELLS.intersection(map(_base, programs)):
        paths += [access.path for access in command.accesses if access.kind == "read" and access.known]
    return [plain(path, context.call_site.os) for path in paths]


def _base(program: str | None) -> str:
    return (program or "").rpartition("/")[2]


_SHOWN: Final = 200
_RUNNERS: Final = frozenset(("source", ".", "eval", "bash", "sh", "zsh", "dash", "ksh", "make"))
"""Programs of which everybody knows that they run what they are given."""
_STRENGTH: Final[tuple[Allowance, ...]] = ("no", "rule", "bare", "whole")


def judge_script(context: JudgeContext, text: str, script: Script) -> list[Finding]:
    """Return what the policy says about each command and each access of a script."""
    findings = [
        *_judge_by_rules(context, text, script),
        *_unread(context, text, script),
        *judge_created_programs(context, script, text),
    ]
    if script.outside and not script.commands and not any(rule.pattern is None for rule in context.rules.allow.shell):
        findings.append(_ask_unproved(None, _short(text), script.outside))
    findings += _judge_handed_text(context, script)
    moves = Moves(script, text, context.call_site) if len(script.commands) > 1 else None
    weighed = set[tuple[int, Access]]()
    alike = dict[tuple[Command, Allowance], int]()
    for number, command in enumerate(script.commands):
        rule, allowance = _find_allowance(context, command, script, text)
        findings.append(_judge_command(context, command, script, rule, allowance))
        first = alike.setdefault((command, allowance), number)
        for access in command.accesses:
            file = FileAccess(access, command, allowance)
            if (first, access) not in weighed:
                weighed.add((first, access))
                findings.append(judge_access(context, file))
            if moves is not None and (place := moves.find_filled_path(access, number)):
                findings += _stale(context, file, place, linked=moves.links)
    return findings


def _judge_handed_text(context: JudgeContext, script: Script) -> Iterator[Finding]:
    """Yield what a text does that a program may hand to a shell: critical removals are denied, what a rule is about is asked for."""
    for command in script.handed:
        for access in command.accesses:
            found = judge_access(context, FileAccess(access, command))
            if found.decision != "allow" and found.reason == "critical":
                yield found
            elif found.decision != "allow" and found.reason == "rule":
                yield replace(found, decision="ask", hold="hard")


def _stale(context: JudgeContext, file: FileAccess, place: str, *, linked: bool) -> list[Finding]:
    """Return a file below a place that the script itself fills: it may be a link to anywhere, or what is denied by another name."""
    if linked and file.access.kind == "remove":
        detail = f"what it removes is not known before it runs: the command itself makes a link at {place!r}"
        return [Finding(file.what, "ask", "critical", detail, "hard")]
    free = not file.changes and (file.allowance in ("whole", "bare") or context.scope == "full")
    if free and not context.rules.guards:
        return []
    held: Hold = "hard" if context.rules.deny.reads or context.rules.deny.edits else "soft"
    detail = f"the command itself changes what is at {place!r}: where that leads is not known before it runs"
    return [Finding(file.what, "ask", "path", detail, held)]


def _judge_by_rules(context: JudgeContext, text: str, script: Script) -> list[Finding]:
    """Apply the rules that deny or ask, at every layer."""
    findings = []
    folds = context.call_site.os != "linux"
    for rule in context.rules.deny.shell:
        match forbidden(rule, script, text, folds=folds):
            case "yes":
                findings.append(Finding(_short(text), "deny", "rule", f"denied by the rule {str(rule)!r}"))
            case "maybe":
                detail = f"a part that is not known before it runs may be what the rule {str(rule)!r} denies"
                findings.append(Finding(_short(text), "ask", "rule", detail, "hard"))
    for rule in context.rules.ask.shell:
        if forbidden(rule, script, text, folds=folds) != "no":
            findings.append(Finding(_short(text), "ask", "rule", f"the rule {str(rule)!r} asks", "hard"))
    return findings


def _unread(context: JudgeContext, text: str, script: Script) -> list[Finding]:
    """Return a script that cannot be read with certainty may hold anything that is denied."""
    if not script.problem or (_is_spelled_out(context, text) and not context.rules.guards):
        return []
    held: Hold = "hard" if context.rules.guards or script.is_cut else "soft"
    return [Finding(_short(text), "ask", "shell", f"the command cannot be read with certainty: {script.problem}", held)]


def _is_spelled_out(context: JudgeContext, text: str) -> bool:
    return any(rule.pattern is not None and rule.pattern.strip() == text.strip() for rule in context.rules.allow.shell)


def _find_allowance(
    context: JudgeContext, command: Command, script: Script, text: str
) -> tuple[Rule | None, Allowance]:
    best: tuple[Rule | None, Allowance] = (None, "no")
    for rule in context.rules.allow.shell:
        allowance = find_allowance(rule, command, script, text)
        if allowance == "rule" and script.outside:
            continue  # a pattern allows only what the small grammar reads
        if _STRENGTH.index(allowance) > _STRENGTH.index(best[1]):
            best = (rule, allowance)
    return best


def _judge_command(
    context: JudgeContext, command: Command, script: Script, rule: Rule | None, allowance: Allowance
) -> Finding:
    what = _short(command.layers[0].text) if command.layers else "an assignment or a redirect alone"
    if command.opaque and (context.rules.guards or not _is_meant(command, allowance)):
        held: Hold = "hard" if context.rules.guards else "soft"
        detail = f"it may run commands that cannot be seen before it runs{_why(command)}"
        return Finding(what, "ask", "shell", detail, held, () if context.rules.guards else command_offers(command))
    free = command.does == "reads" and command.proved
    if context.mode == "plan" and (command.layers or command.steers) and not free:
        return _judge_in_plan_mode(command, what)
    if rule is not None:
        return Finding(what, "allow", "rule", f"allowed by the rule {str(rule)!r}")
    if command.steers:
        names = ", ".join(dict.fromkeys(command.steers))
        return Finding(what, "ask", "shell", f"{names} may change what the program does", "soft")
    return _by_deed(context, command, what, script.outside)


def _is_meant(command: Command, allowance: Allowance) -> bool:
    """Return whether a rule that covers an opaque command was written for that: it names a program that is there to run others."""
    program = command.layers[0].words[0] if command.layers and command.layers[0].words else None
    return allowance == "whole" or (allowance != "no" and program in _RUNNERS)


def _by_deed(context: JudgeContext, command: Command, what: str, outside: str) -> Finding:
    if not command.proved:
        return _ask_unproved(command, what, outside)
    match command.does:
        case "reads" if not context.call_site.trusted and _is_git(command):
            detail = "the configuration of a repository that is not trusted can make git run programs"
            return Finding(what, "ask", "trust", detail, "firm")
        case "reads" if _lets_edit(context) and (own := _own_program(context, command)):
            whose = "this mode lets" if context.mode == "acceptEdits" else "a rule lets"
            detail = f"{own!r} may load files of the project, which {whose} be written without a question"
            return Finding(what, "ask", "mode", detail, "soft", command_offers(command))
        case "reads":
            return Finding(what, "allow", "mode", ONLY_READS)
        case "edits" if context.mode == "acceptEdits":
            return Finding(what, "allow", "mode", "the mode accepts edits")
        case _:
            return Finding(what, "ask", "mode", "it changes files", "soft", command_offers(command))


def _lets_edit(context: JudgeContext) -> bool:
    """Return whether files of the workspace may be written without a question, by the mode or by a rule."""
    return context.mode == "acceptEdits" or (context.mode != "plan" and bool(context.rules.allow.edits))


def _own_program(context: JudgeContext, command: Command) -> str:
    """Return the name of a program that may load files of the workspace, if the command runs one; else an empty text."""
    names = ((layer.words[0] or "").rpartition("/")[2] for layer in command.layers if layer.words)
    return next((name for name in names if name in loading_programs() | context.call_site.own_programs), "")


def _ask_unproved(command: Command | None, what: str, outside: str) -> Finding:
    """Ask about a command that is not proved to only read or only edit."""
    if outside or command is None:
        return Finding(what, "ask", "shell", f"it is not plain enough to be allowed unasked: {outside}", "soft")
    return Finding(what, "ask", "mode", f"it runs a program{_why(command)}", "soft", command_offers(command))


def _judge_in_plan_mode(command: Command, what: str) -> Finding:
    if command.does == "edits":
        return Finding(what, "deny", "mode", "it changes files, and the mode is plan")
    return Finding(what, "ask", "mode", f"it may change things, and the mode is plan{_why(command)}", "hard")


def _is_git(command: Command) -> bool:
    return any((layer.words[0] or "").rpartition("/")[2] == "git" for layer in command.layers if layer.words)


def _why(command: Command) -> str:
    return f": {command.why}" if command.why else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]} ..."
