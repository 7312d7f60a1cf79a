"""Sort rules by what they are about."""

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from msgspec import Struct

from backstay.permissions.server_tools import patterns_of
from backstay.permissions.tool_kinds import ALIASES, EDITORS, READERS, usual_name
from backstay.vocab.rules import Rule

DEFAULT_RULES: Final = tuple(
    Rule(decision="allow", tool=tool, pattern=f"{folder}/**", source="default")
    for tool in ("Read", "Glob")
    for folder in (".agents", ".claude", ".backstay")
)
"""What may always be read and searched: the folders that instructions, skills and settings are kept in."""


class Side(Struct, frozen=True, eq=False):  # told apart by identity, at once
    """The rules of one decision."""

    every: tuple[Rule, ...]
    shell: tuple[Rule, ...]
    """About shell commands."""
    reads: tuple[Rule, ...]
    """About reading certain files."""
    edits: tuple[Rule, ...]
    """About writing certain files."""
    read_all: Rule | None
    """About reading any file."""
    edit_all: Rule | None
    """About writing any file."""
    write_all: Rule | None = None
    """About making any file: what the shell does for a redirect."""
    cd: tuple[Rule, ...] = ()
    """About changing the folder."""

    @property
    def guards(self) -> bool:
        """Whether it looks at what commands do, so that what cannot be read may hide something."""
        return bool(self.shell or self.reads or self.edits or self.cd)


class RuleIndex(Struct, frozen=True):
    """All rules that hold here."""

    deny: Side
    ask: Side
    allow: Side

    @property
    def guards(self) -> bool:
        """Whether something is denied or asked for that could hide in a command."""
        return self.deny.guards or self.ask.guards


@lru_cache(maxsize=512)
def index_rules(rules: tuple[Rule, ...], *, trusted: bool) -> RuleIndex:
    """Sort the rules. Those that a workspace brought allow nothing before it is trusted."""
    allow = [
        rule for rule in rules if rule.decision == "allow" and (trusted or rule.source not in ("project", "local"))
    ]
    deny = [rule for rule in rules if rule.decision == "deny"]
    ask = [rule for rule in rules if rule.decision == "ask"]
    return RuleIndex(_side(deny), _side(ask), _side([*allow, *DEFAULT_RULES]))


@lru_cache(maxsize=1024)
def naming(side: Side, name: str) -> tuple[Rule, ...]:
    """Return the rules that deny or ask about a tool by any name that holds for it."""
    wide = family(name).casefold()
    return tuple(rule for rule in side.every if is_about(rule, name) or rule.tool.casefold() == wide)


@lru_cache(maxsize=8192)
def is_about(rule: Rule, name: str) -> bool:
    """Return whether a rule is about a tool. What forbids or asks is read widely, what allows is read to the letter."""
    if rule.decision != "allow":
        return any(_may_name(rule.tool.casefold(), each.casefold()) for each in ALIASES.get(usual_name(name), (name,)))
    if rule.tool == "*":
        return rule.pattern is None and not name.startswith("mcp__")  # a server is allowed by its name alone
    if name.startswith("mcp__"):
        return _allows_server_tool(rule.tool, name)
    return usual_name(rule.tool) == usual_name(name)


def _may_name(rule: str, name: str) -> bool:
    """Return whether a rule that forbids names a tool: by a pattern, or by its server, as in `mcp__srv`, as people write its name."""
    if fnmatchcase(name, rule) or not (rule.startswith("mcp__") and name.startswith("mcp__")):
        return fnmatchcase(name, rule)
    return fnmatchcase(name, f"{rule}__*") or any(fnmatchcase(name, each) for each in patterns_of(rule))


def _allows_server_tool(rule: str, name: str) -> bool:
    """Match `mcp__srv`, `mcp__srv__*` and `mcp__srv__tool`: the server's name is never a pattern.

    A tool whose own name has a double underscore may belong to a server with a longer name; only a rule that spells it out allows it.
    """
    if rule == name:
        return True
    head, _, pattern = rule.removeprefix("mcp__").partition("__")
    server, _, tool = name.removeprefix("mcp__").partition("__")
    if not rule.startswith("mcp__") or not server or "*" in head or head != server or "__" in tool or not tool:
        return False
    return fnmatchcase(tool, pattern.replace("[", "[[]").replace("?", "[?]")) if pattern else rule == f"mcp__{server}"


def _side(rules: list[Rule]) -> Side:
    readers = [rule for rule in rules if is_about(rule, "Read")]
    editors = [rule for rule in rules if _about_editing(rule)]
    return Side(
        every=tuple(rules),
        shell=tuple(rule for rule in rules if is_about(rule, "Bash")),
        reads=tuple(rule for rule in readers if rule.pattern is not None),
        edits=tuple(rule for rule in editors if rule.pattern is not None),
        read_all=next((rule for rule in readers if rule.pattern is None), None),
        edit_all=next((rule for rule in rules if is_about(rule, "Edit") and rule.pattern is None), None),
        write_all=next((rule for rule in rules if is_about(rule, "Write") and rule.pattern is None), None),
        cd=tuple(rule for rule in rules if rule.tool == "Cd"),
    )


def _about_editing(rule: Rule) -> bool:
    """Tell which rules are about writing. `Edit(...)` is about every tool that writes; `Write(...)` and its like can only forbid."""
    if rule.decision == "allow":
        return rule.tool == "Edit"
    return any(is_about(rule, name) for name in EDITORS)


def family(name: str) -> str:
    """Return the tool whose rules hold for this one too: `Read` for all that read files, `Edit` for all that write them."""
    usual = usual_name(name)
    return "Read" if usual in READERS else "Edit" if usual in EDITORS else ""
