"""Shell commands: every one of a script must be allowed, by a rule or because it only reads; every file that it touches too."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from backstay.permissions.bulk_changes import Moves
from backstay.permissions.call_site import Access, Command, Script
from backstay.permissions.case import JudgeContext
from backstay.permissions.command_rules import Vouch, allowed, command_pattern, forbidden
from backstay.permissions.judge_files import FileAccess, weigh_touch
from backstay.permissions.paths import absolute, plain
from backstay.permissions.suggested_rules import command_offers
from backstay.permissions.verdict import ONLY_READS, Finding, Hold
from backstay.vocab.rules import Rule

_MAKERS: Final = frozenset(("cp", "mv", "ln", "link", "install", "tee", "dd", "rsync"))
_SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "source", "."))


def weigh_homemade(case: JudgeContext, script: Script, text: str) -> list[Finding]:
    """Ask about a program or a script that the command itself put there, when the name of a denied program is in the text."""
    rules = (*case.book.deny.shell, *case.book.ask.shell)
    if len(script.commands) < 2 or not any(_is_named(rule.pattern, text) for rule in rules):
        return []
    made = set[str]()
    for command in script.commands:
        if path := made.intersection(_run_by(command, case)):
            detail = f"it runs {path.pop()!r}, which it has made itself: what is denied may be in it"
            return [Finding(command.layers[-1].text, "ask", "rule", detail, "hard")]
        made.update(_made_by(command, case))
    return []


def _is_named(pattern: str | None, text: str) -> bool:
    if pattern is None:
        return False
    program = command_pattern(pattern, wide=True).program
    return not program or re.search(rf"(?<![\w-]){re.escape(program)}(?![\w-])", text) is not None


def _made_by(command: Command, case: JudgeContext) -> list[str]:
    maker = bool(_MAKERS.intersection(_base(layer.words[0]) for layer in command.layers if layer.words))
    written = (access for access in command.accesses if access.kind == "write" and access.known)
    return [plain(access.path, case.ground.os) for access in written if access.redirect or maker]


def _run_by(command: Command, case: JudgeContext) -> list[str]:
    """The files that a command runs: a program by its path, the script that a shell is given."""
    programs = [layer.words[0] for layer in command.layers if layer.words and layer.words[0]]
    paths = [absolute(program, case.ground) for program in programs if "/" in program]
    if _SHELLS.intersection(map(_base, programs)):
        paths += [access.path for access in command.accesses if access.kind == "read" and access.known]
    return [plain(path, case.ground.os) for path in paths]


def _base(program: str | None) -> str:
    return (program or "").rpartition("/")[2]


_SHOWN: Final = 200
_RUNNERS: Final = frozenset(("source", ".", "eval", "bash", "sh", "zsh", "dash", "ksh", "make"))
"""Programs of which everybody knows that they run what they are given."""
_ORDER: Final[tuple[Vouch, ...]] = ("no", "rule", "bare", "whole")


def weigh_script(case: JudgeContext, text: str, script: Script) -> list[Finding]:
    """What the policy says about each command and each access of a script."""
    findings = [*_ruled(case, text, script), *_unread(case, text, script), *weigh_homemade(case, script, text)]
    if script.outside and not script.commands and not any(rule.pattern is None for rule in case.book.allow.shell):
        findings.append(_unproved(None, _short(text), script.outside))
    findings += _handed(case, script)
    moves = Moves(script, text, case.ground) if len(script.commands) > 1 else None
    weighed = set[tuple[int, Access]]()
    alike = dict[tuple[Command, Vouch], int]()
    for number, command in enumerate(script.commands):
        rule, vouch = _vouched(case, command, script, text)
        findings.append(_weigh_command(case, command, script, rule, vouch))
        first = alike.setdefault((command, vouch), number)
        for access in command.accesses:
            touch = FileAccess(access, command, vouch)
            if (first, access) not in weighed:
                weighed.add((first, access))
                findings.append(weigh_touch(case, touch))
            if moves is not None and (place := moves.reached(access, number)):
                findings += _stale(case, touch, place, linked=moves.links)
    return findings


def _handed(case: JudgeContext, script: Script) -> Iterator[Finding]:
    """What a text does that a program may hand to a shell: critical removals are denied, what a rule is about is asked for."""
    for command in script.handed:
        for access in command.accesses:
            found = weigh_touch(case, FileAccess(access, command))
            if found.decision != "allow" and found.reason == "critical":
                yield found
            elif found.decision != "allow" and found.reason == "rule":
                yield replace(found, decision="ask", hold="hard")


def _stale(case: JudgeContext, touch: FileAccess, place: str, *, linked: bool) -> list[Finding]:
    """A file below a place that the script itself fills: it may be a link to anywhere, or what is denied by another name."""
    if linked and touch.access.kind == "remove":
        detail = f"what it removes is not known before it runs: the command itself makes a link at {place!r}"
        return [Finding(touch.what, "ask", "critical", detail, "hard")]
    free = not touch.changes and (touch.vouch in ("whole", "bare") or case.scope == "full")
    if free and not case.book.guards:
        return []
    held: Hold = "hard" if case.book.deny.reads or case.book.deny.edits else "soft"
    detail = f"the command itself changes what is at {place!r}: where that leads is not known before it runs"
    return [Finding(touch.what, "ask", "path", detail, held)]


def _ruled(case: JudgeContext, text: str, script: Script) -> list[Finding]:
    """Rules that deny or ask, looked for at every layer."""
    findings = []
    folds = case.ground.os != "linux"
    for rule in case.book.deny.shell:
        match forbidden(rule, script, text, folds=folds):
            case "yes":
                findings.append(Finding(_short(text), "deny", "rule", f"denied by the rule {str(rule)!r}"))
            case "maybe":
                detail = f"a part that is not known before it runs may be what the rule {str(rule)!r} denies"
                findings.append(Finding(_short(text), "ask", "rule", detail, "hard"))
    for rule in case.book.ask.shell:
        if forbidden(rule, script, text, folds=folds) != "no":
            findings.append(Finding(_short(text), "ask", "rule", f"the rule {str(rule)!r} asks", "hard"))
    return findings


def _unread(case: JudgeContext, text: str, script: Script) -> list[Finding]:
    """A script that cannot be read with certainty may hold anything that is denied."""
    if not script.problem or (_is_spelled_out(case, text) and not case.book.guards):
        return []
    held: Hold = "hard" if case.book.guards else "soft"
    return [Finding(_short(text), "ask", "shell", f"the command cannot be read with certainty: {script.problem}", held)]


def _is_spelled_out(case: JudgeContext, text: str) -> bool:
    return any(rule.pattern is not None and rule.pattern.strip() == text.strip() for rule in case.book.allow.shell)


def _vouched(case: JudgeContext, command: Command, script: Script, text: str) -> tuple[Rule | None, Vouch]:
    best: tuple[Rule | None, Vouch] = (None, "no")
    for rule in case.book.allow.shell:
        vouch = allowed(rule, command, script, text)
        if vouch == "rule" and script.outside:
            continue  # a pattern allows only what the small grammar reads
        if _ORDER.index(vouch) > _ORDER.index(best[1]):
            best = (rule, vouch)
    return best


def _weigh_command(case: JudgeContext, command: Command, script: Script, rule: Rule | None, vouch: Vouch) -> Finding:
    what = _short(command.layers[0].text) if command.layers else "an assignment or a redirect alone"
    if command.opaque and (case.book.guards or not _is_meant(command, vouch)):
        held: Hold = "hard" if case.book.guards else "soft"
        detail = f"it may run commands that cannot be seen before it runs{_why(command)}"
        return Finding(what, "ask", "shell", detail, held, () if case.book.guards else command_offers(command))
    free = command.does == "reads" and command.proved
    if case.mode == "plan" and (command.layers or command.steers) and not free:
        return _planned(command, what)
    if rule is not None:
        return Finding(what, "allow", "rule", f"allowed by the rule {str(rule)!r}")
    if command.steers:
        names = ", ".join(dict.fromkeys(command.steers))
        return Finding(what, "ask", "shell", f"{names} may change what the program does", "soft")
    return _by_deed(case, command, what, script.outside)


def _is_meant(command: Command, vouch: Vouch) -> bool:
    """Whether a rule that covers an opaque command was written for that: it names a program that is there to run others."""
    program = command.layers[0].words[0] if command.layers and command.layers[0].words else None
    return vouch == "whole" or (vouch != "no" and program in _RUNNERS)


def _by_deed(case: JudgeContext, command: Command, what: str, outside: str) -> Finding:
    if not command.proved:
        return _unproved(command, what, outside)
    match command.does:
        case "reads" if not case.ground.trusted and _is_git(command):
            detail = "the configuration of a repository that is not trusted can make git run programs"
            return Finding(what, "ask", "trust", detail, "firm")
        case "reads":
            return Finding(what, "allow", "mode", ONLY_READS)
        case "edits" if case.mode == "acceptEdits":
            return Finding(what, "allow", "mode", "the mode accepts edits")
        case _:
            return Finding(what, "ask", "mode", "it changes files", "soft", command_offers(command))


def _unproved(command: Command | None, what: str, outside: str) -> Finding:
    """Ask about a command of which nobody has shown that it only reads, or only edits."""
    if outside or command is None:
        return Finding(what, "ask", "shell", f"it is not plain enough to be allowed unasked: {outside}", "soft")
    return Finding(what, "ask", "mode", f"it runs a program{_why(command)}", "soft", command_offers(command))


def _planned(command: Command, what: str) -> Finding:
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
