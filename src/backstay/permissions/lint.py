"""Find permission rules that do not mean what they seem to mean."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal

import msgspec

from backstay.permissions.call_site import CallSite
from backstay.permissions.command_rules import command_pattern
from backstay.permissions.rule_index import is_about
from backstay.permissions.tool_kinds import EDITORS, READERS, guess_tool, is_known, usual_name
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule

_ROOTS: Final = frozenset(
    ("etc", "usr", "home", "var", "tmp", "opt", "root", "Users", "bin", "sbin", "lib", "dev", "proc", "mnt", "private")
)
_ANYTHING: Final = frozenset(
    (
        *("bash", "sh", "zsh", "dash", "fish", "ksh", "pwsh", "powershell", "cmd", "env", "sudo", "doas", "su", "eval"),
        *("exec", "xargs", "python", "python3", "node", "deno", "bun", "ruby", "perl", "php", "lua", "awk", "npx"),
        *("bunx", "pnpx", "uvx", "pipx", "watch", "ssh", "nohup", "timeout", "time", "nice", "setsid", "flock"),
        *("parallel", "docker exec", "docker run", "docker compose", "podman exec", "podman run", "devbox run"),
        *("mise exec", "direnv exec", "npm exec", "pnpm exec", "pnpm dlx", "yarn dlx", "uv run", "poetry run", "make"),
    )
)
"""Commands that run the command behind them."""
_WIDE: Final = {
    **dict.fromkeys(_ANYTHING, "can run anything"),
    **dict.fromkeys(("curl", "wget"), "can send to any address and fetch from it"),
    **dict.fromkeys(
        ("kubectl", "helm", "gh", "glab", "aws", "gcloud", "az", "terraform"), "can do whatever your account there may"
    ),
    "git": "can change all that the repository keeps, and send it to any server",
    "rm": "removes every file of the workspace that it is given",
}
"""What is so wide about a rule that ends with a wildcard behind these words."""
_RUNNERS: Final = _ANYTHING | {
    *(
        "bazel",
        "ctest",
        "go",
        "gradle",
        "jest",
        "just",
        "mocha",
        "mvn",
        "nox",
        "phpunit",
        "pytest",
        "rake",
        "rspec",
        "task",
        "tox",
    ),
    *("cargo bench", "cargo build", "cargo run", "cargo test", "npm", "pnpm", "vitest", "yarn"),
}
"""Programs that run code which stands somewhere else: no rule on commands looks into it."""
_CODE: Final = re.compile(
    r"(?:\S*/)?(?:(?:bash|sh|zsh|dash|ksh|fish|su|pwsh|powershell|python[\d.]*|pypy3?) (?:.* )?-(?:\w*c|[Cc]ommand)"
    r"|(?:node|bun|ruby|perl|lua|julia|R|Rscript) (?:.* )?-(?:\w*[eEp]|-eval|-print)|deno eval|php (?:.* )?-r)"
    r"""(?: +(?:"[^"]*|'[^']*|[^\s"']*))?"""
)
"""What stands before a wildcard that is code for an interpreter."""
_PATHS: Final = frozenset((*READERS, *EDITORS, "Cd"))
_PARAMETER: Final = re.compile(r"[a-z_]+:")
_LISTS: Final = {"MultiEdit": ("edits",), "TodoWrite": ("todos",), "AskUserQuestion": ("questions",)}
"""Arguments that are lists of objects."""
_ARGUMENTS: Final = frozenset(
    (
        "command",
        "run_in_background",
        "timeout",
        "file_path",
        "notebook_path",
        "path",
        "content",
        "url",
        "query",
        "skill",
    )
)
_REGULAR: Final = re.compile(r"^\^|(?<!\$)\$$|\\[dswbDSW]|(?:^|[\s)\]])\.[*+]|\([^()]*\|[^()]*\)|\[[^\[\]]+\][*+]")
"""What looks like a part of a regular expression."""
_WORD: Final = re.compile(r"(?<![^\s|&;])\*(?![^\s|&;])")
"""A wildcard that stands for whole words."""
_STAND_INS: Final = ("x", "1", "", "-x", "x.py", "./x")
"""What a wildcard is tried with."""


_NOTES: Final = frozenset(("commands", "spelling", "from-root"))


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a rule that its writer should know."""

    decision: Literal["allow", "ask", "deny", ""]
    rule: str
    kind: str
    """A short name: `syntax`, `unknown-tool`, `absolute`, `never-consulted`, `server`, `unreachable`, `wide`, `pattern`; of what is not
    wrong `commands`, `spelling`, `from-root`."""
    words: str

    @property
    def is_wrong(self) -> bool:
        """Whether the rule does not do what it says; else it is a note."""
        return self.kind not in _NOTES


def lint_rules(*, deny: Sequence[str] = (), ask: Sequence[str] = (), allow: Sequence[str] = ()) -> list[Complaint]:
    """Say what is wrong with rules, in their order."""
    found: list[Complaint] = []
    given: tuple[tuple[Literal["deny", "ask", "allow"], Sequence[str]], ...] = (
        ("deny", deny),
        ("ask", ask),
        ("allow", allow),
    )
    shut = _shut(deny)
    for decision, texts in given:
        for text in texts:
            try:
                rule = Rule.parse(decision, text)
            except UserError as exc:
                found.append(Complaint(decision=decision, rule=text, kind="syntax", words=str(exc)))
                continue
            found += [
                Complaint(decision=decision, rule=text, kind=kind, words=words)
                for kind, words in _look(rule, text, shut)
            ]
    return found


def command_kinds(allow: Sequence[str]) -> list[Complaint]:
    """Say for each rule that allows commands which commands it can allow."""
    found = list[Complaint]()
    for text in allow:
        try:
            rule = Rule.parse("allow", text)
        except UserError:
            continue
        if rule.tool == "*" or usual_name(rule.tool) == "Bash":
            found.append(Complaint(decision="allow", rule=text, kind="commands", words=kind_of(rule)))
    return found


def kind_of(rule: Rule) -> str:
    """Return which commands a rule that allows commands can allow, in words."""
    if rule.pattern is None:
        return "allows commands as such: whatever can be read to its end, in the grammar of what runs unasked or not"
    words = rule.pattern.removesuffix(":*").split()
    program = words[0].rpartition("/")[2] if words else ""
    runs = not _RUNNERS.isdisjoint((program, " ".join((program, *words[1:2]))))
    more = "; what they run is not looked at" if runs else ""
    if program == "find" and not more:
        more = "; `-exec`, `-delete` and their like need the exact text"
    if "*" not in rule.pattern:
        return (
            f"allows this very command, in the grammar of what runs unasked or not{more.replace('they run', 'it runs')}"
        )
    return f"allows commands only inside the grammar of what runs unasked{more}"


def _look(rule: Rule, text: str, shut: Sequence[Rule]) -> Iterator[tuple[str, str]]:
    yield from _names(rule)
    if rule.pattern is not None:
        yield from _patterns(rule, rule.pattern)
    if rule.decision == "allow":
        if denied := next((each for each in shut if _covers(each, rule)), None):
            yield "unreachable", f"{str(denied)!r} is denied, and a denial always wins: this rule allows nothing"
        never = [*_never_met(rule.pattern)] if rule.pattern is not None and usual_name(rule.tool) == "Bash" else []
        yield from never or _wide(rule)
    if text.strip().endswith("()"):
        yield "pattern", "nothing stands between the parentheses, so it holds for every call"


def _shut(deny: Sequence[str]) -> tuple[Rule, ...]:
    found = list[Rule]()
    for text in deny:
        with suppress(UserError):
            found.append(Rule.parse("deny", text))
    return tuple(found)


def _covers(denied: Rule, rule: Rule) -> bool:
    """Return whether all that a rule allows is denied. A wildcard of it is covered by one of the denial alone."""
    if not is_about(denied, rule.tool):
        return False
    if denied.pattern is None or denied.pattern == rule.pattern:
        return True
    if rule.pattern is None or usual_name(rule.tool) != "Bash":
        return False
    allowed = rule.pattern.removesuffix(":*") + " *" if rule.pattern.endswith(":*") else rule.pattern
    return command_pattern(denied.pattern, wide=True).covers_text(allowed)


def _names(rule: Rule) -> Iterator[tuple[str, str]]:
    tool = rule.tool
    if tool.startswith("mcp__"):
        server = tool.removeprefix("mcp__").partition("__")[0]
        if rule.decision == "allow" and "*" in server:
            yield "server", "a server's name is never a pattern in a rule that allows: write mcp__SERVER__*"
        if not server:
            yield "server", "it names no server: write mcp__SERVER or mcp__SERVER__TOOL"
        if rule.pattern is not None and rule.decision == "allow":
            yield "never-consulted", "a rule that allows a server's tool has no pattern: this one allows nothing"
    elif "*" in tool and tool != "*":
        if rule.decision == "allow":
            yield "unknown-tool", "a rule that allows names one tool: this one allows nothing"
    elif not is_known(tool):
        near = guess_tool(tool)
        if rule.decision != "allow" and near.casefold() == tool.casefold():
            yield "spelling", f"it holds for {near!r} all the same: what denies or asks is read in either case"
            return
        yield (
            "unknown-tool",
            f"there is no tool {tool!r}" + (f"; did you mean {near!r}?" if near else " that comes with backstay"),
        )


def _patterns(rule: Rule, pattern: str) -> Iterator[tuple[str, str]]:
    tool = usual_name(rule.tool)
    if tool in _PATHS and not (rule.decision != "allow" and _PARAMETER.match(pattern)):
        yield from _path(rule, tool, pattern)
    if tool == "Bash":
        if pattern.count('"') % 2 or pattern.count("'") % 2:
            yield "pattern", "a quote is not closed: only the text as written is compared"
        if ":*" in pattern.removesuffix(":*"):
            yield "pattern", "`:*` means something at the end of a pattern only"
        if "?" in pattern:
            yield "pattern", "`?` stands for itself in a rule about commands: `*` is the only wildcard"
    if tool not in _PATHS and _REGULAR.search(pattern):
        yield "pattern", "it looks like a regular expression, and none is read: `*` is the only wildcard"
    name = pattern.partition(":")[0].strip()
    if rule.decision == "allow" and ":" in pattern and name in _ARGUMENTS:
        yield "never-consulted", f"a rule that allows names no argument, so it allows nothing: leave out {name + ':'!r}"
    if name in _LISTS.get(tool, ()):
        yield "pattern", f"{name!r} is a list: every text in it is compared, and what is no text asks"
    if tool == "WebFetch" and not pattern.startswith("domain:"):
        yield "never-consulted" if rule.decision == "allow" else "pattern", "write WebFetch(domain:HOST)"
    if pattern.count("(") != pattern.count(")"):
        yield "syntax", "the parentheses do not match"


def _path(rule: Rule, tool: str, pattern: str) -> Iterator[tuple[str, str]]:
    head = pattern.lstrip("/").partition("/")[0]
    if pattern.startswith("/") and not pattern.startswith("//") and head in _ROOTS:
        written = f"{rule.tool}(/{pattern})"
        if rule.decision != "allow":
            yield "from-root", f"one slash means {_ONE_SLASH}; a rule that denies or asks is read as {written} too"
        else:
            yield "absolute", f"one slash means {_ONE_SLASH}; for the file system's root write {written}"
    covering = {
        "Write": "Edit",
        "MultiEdit": "Edit",
        "NotebookEdit": "Edit",
        "apply_patch": "Edit",
        "Glob": "Read",
        "Grep": "Read",
        "LS": "Read",
    }
    if tool in covering and rule.decision == "allow":
        yield "never-consulted", f"{tool} with a path allows nothing: write {covering[tool]}({pattern})"
    if pattern.startswith("!"):
        yield "pattern", "a pattern cannot take anything back"
    if "\\" in pattern:
        yield "pattern", "a backslash makes the next character literal; write paths with slashes"


_ONE_SLASH: Final = "the project's root in a project's file, and the file's own folder in any other"


def _wide(rule: Rule) -> Iterator[tuple[str, str]]:
    if rule.pattern is None and rule.tool == "*":
        beside = "every call of every tool but those of servers, which are allowed by their name"
        yield "wide", f"it allows {beside}; it {kind_of(rule)}"
        return
    if usual_name(rule.tool) != "Bash":
        return
    if rule.pattern is None:
        yield "wide", f"it {kind_of(rule)}"
        return
    prefix = rule.pattern.removesuffix(" *").removesuffix(":*")
    reach = _reach(prefix) if prefix != rule.pattern else ""
    if reach:
        yield "wide", f"{reach}: write a rule for each command that you mean; it {kind_of(rule)}"
    elif "*" in rule.pattern and _CODE.fullmatch(rule.pattern.removesuffix(":*").partition("*")[0].lstrip()):
        yield "wide", f"the wildcard stands for code, which can run or reach anything; it {kind_of(rule)}"
    elif rule.pattern.lstrip().startswith("*"):
        yield "wide", f"it begins with a wildcard, so it allows any program; it {kind_of(rule)}"


def _reach(prefix: str) -> str:
    """Return what a command with any arguments may do, in words; empty when that is nothing to speak of."""
    if prefix in _WIDE:
        return f"{prefix!r} {_WIDE[prefix]}"
    within = sorted(each for each in _WIDE if each.startswith(f"{prefix} "))
    return f"it contains {' and '.join(map(repr, within))}, which {_WIDE[within[0]]}" if within else ""


def _never_met(pattern: str) -> Iterator[tuple[str, str]]:
    """Say that a pattern with a wildcard allows nothing, when nothing that it could be about lies in the grammar."""
    prefix = pattern.removesuffix(":*") + " *" if pattern.endswith(":*") else pattern
    if not _WORD.search(prefix):
        return  # it may be a command with names of files in it, which the rule allows as it is written
    reasons = [_outside(prefix.replace("*", each)) for each in _STAND_INS]
    if all(reasons) and (reason := next(iter(reasons))):
        yield (
            "never-consulted",
            f"no command that it is about is in the grammar, so it allows its own text alone: {reason}",
        )


def _outside(text: str) -> str:
    """Return why a command is not in the grammar; empty when it is, and when a list of commands shows that no single one is meant."""
    from backstay.permissions.shell import read_command  # noqa: PLC0415 - likewise
    from backstay.permissions.unasked import Outside, Place, prove  # noqa: PLC0415 - the tables load when they are needed

    try:
        steps = prove(text.strip(), Place(cwd="/w", home="/h")).steps
    except Outside as exc:
        return str(exc)
    if read_command(text.strip(), CallSite(cwd="/w", home="/h")).commands[0].exact:
        return "it may run other programs or write where its arguments say, which only the exact text may allow"
    return "a wildcard is compared with one command at a time, and this is a list" if len(steps) > 1 else ""
