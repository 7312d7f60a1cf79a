"""Write the rules that a person is offered with a question, as narrow as the call."""

import re
from functools import cache
from typing import Final

import msgspec

from backstay.permissions.call_site import CallSite, Command, Script
from backstay.permissions.paths import ResolvedPath, plain, within

MOST: Final = 5
"""How many rules one answer may grant."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+,./:=-]+")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_:.-]*")


def command_offers(command: Command) -> tuple[str, ...]:
    """Return rules that would have allowed a command; none when its text means something else each time."""
    if not command.layers or command.steers or command.opaque:
        return ()
    words, text = command.layers[0].words, command.layers[0].text
    known = [word for word in words if word is not None]
    if len(known) < len(words):
        return ()
    prefix = _prefix(known)
    if prefix and not command.exact and len(command.layers) == 1:
        return (f"Bash({prefix} *)",)
    return (f"Bash({text})",) if is_exact_text(text) else ()


def is_exact_text(text: str) -> bool:
    """Return whether a rule with this text means it and nothing else."""
    return 0 < len(text) <= 300 and not set(text) & set("*\n\r") and text == text.strip()


def is_whole_command(text: str, script: Script) -> bool:
    """Return whether a rule with the text of a command means it and nothing else.

    A wildcard stands for itself in what no pattern is compared with: several commands, and one that needs the exact text.
    """
    alone = len(script.commands) == 1 and not script.commands[0].exact
    return is_exact_text(text.replace("*", "x")) and ("*" not in text or not (alone or text.endswith("*")))


def path_offers(tool: str, resolved: ResolvedPath, call_site: CallSite) -> tuple[str, ...]:
    """Return rules that would have allowed a file: its folder when that lies in the workspace, else the file alone."""
    if resolved.lexical != resolved.real or call_site.os != "linux" or not _PLAIN.fullmatch(resolved.lexical):
        return ()
    cwd, home = plain(call_site.cwd), plain(call_site.home)
    if within(resolved.lexical, (cwd,)):
        below = resolved.lexical[len(cwd.rstrip("/")) :]
        folder = below.rpartition("/")[0]
        return (f"{tool}({folder}/**)",) if folder else (f"{tool}({below})",) if below else ()
    if home != "/" and within(resolved.lexical, (home,)) and resolved.lexical != home:
        return (f"{tool}(~{resolved.lexical[len(home) :]})",)
    return (f"{tool}(/{resolved.lexical})",)


def naming_offer(tool: str, resolved: ResolvedPath, call_site: CallSite) -> str:
    """Return a rule that names a file itself; empty when none can be written."""
    if not path_offers(tool, resolved, call_site):
        return ""
    cwd, home = plain(call_site.cwd).rstrip("/"), plain(call_site.home).rstrip("/")
    if within(resolved.lexical, (cwd or "/",)):
        return f"{tool}({resolved.lexical[len(cwd) + 1 :]})"
    return (
        f"{tool}(~{resolved.lexical[len(home) :]})"
        if home and within(resolved.lexical, (home,))
        else f"{tool}(/{resolved.lexical})"
    )


def _prefix(words: list[str]) -> str:
    lists = _lists()
    program = words[0]
    if program in lists["whole"]:
        return program
    if program not in lists["subcommands"] or len(words) < 2 or not _WORD.fullmatch(words[1]):
        return ""
    pair = f"{program} {words[1]}"
    if pair in lists["three"]:
        return f"{pair} {words[2]}" if len(words) > 2 and _WORD.fullmatch(words[2]) else ""
    return "" if pair in lists["runners"] else pair


@cache
def _lists() -> dict[str, frozenset[str]]:
    from importlib.resources import files  # noqa: PLC0415 - it loads when a call is first judged, not with the package

    content = files("backstay.permissions").joinpath("offers.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, frozenset[str]])
