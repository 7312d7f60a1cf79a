"""Programs and scripts that a command makes and then runs: what is denied may be in them, under another name or as a script's text."""

import re
from typing import Final

from backstay.logic.acts import Command, Script
from backstay.logic.permissions.case import Case
from backstay.logic.permissions.command_rules import command_pattern
from backstay.logic.permissions.paths import absolute, plain
from backstay.logic.permissions.verdict import Finding

_MAKERS: Final = frozenset(("cp", "mv", "ln", "link", "install", "tee", "dd", "rsync"))
_SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "source", "."))


def weigh_homemade(case: Case, script: Script, text: str) -> list[Finding]:
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


def _made_by(command: Command, case: Case) -> list[str]:
    maker = bool(_MAKERS.intersection(_base(layer.words[0]) for layer in command.layers if layer.words))
    written = (access for access in command.accesses if access.kind == "write" and access.known)
    return [plain(access.path, case.ground.os) for access in written if access.redirect or maker]


def _run_by(command: Command, case: Case) -> list[str]:
    """The files that a command runs: a program by its path, the script that a shell is given."""
    programs = [layer.words[0] for layer in command.layers if layer.words and layer.words[0]]
    paths = [absolute(program, case.ground) for program in programs if "/" in program]
    if _SHELLS.intersection(map(_base, programs)):
        paths += [access.path for access in command.accesses if access.kind == "read" and access.known]
    return [plain(path, case.ground.os) for path in paths]


def _base(program: str | None) -> str:
    return (program or "").rpartition("/")[2]
