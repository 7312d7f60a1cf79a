"""Classify tools for the policy: what each does, which arguments are paths, commands or addresses, and how large a call may be."""

import re
from functools import lru_cache
from typing import Final, Literal

import msgspec

from backstay.permissions.call_site import Access, AccessKind, CallSite
from backstay.permissions.paths import absolute
from backstay.tools.patch import patch_of, patch_paths
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Effect, Taint, ToolSpec, Touches

Kind = Literal[
    "shell", "read", "search", "edit", "patch", "fetch", "lookup", "agent", "skill", "person", "notes", "mcp", "other"
]
"""What a tool does, as far as the policy can look into its calls."""


class Call(msgspec.Struct, frozen=True):
    """One use of a tool."""

    tool: ToolSpec
    args: dict[str, object]


class Form(msgspec.Struct, frozen=True):
    """How to read the calls of a tool."""

    kind: Kind
    names: tuple[str, ...]
    """The names that rules may use for it; the first is the usual one."""
    main: str = ""
    """The argument that a rule's pattern is about."""
    more: tuple[str, ...] = ()
    """Further arguments that may name what the tool touches."""
    known: bool = False
    """Whether the tool comes with this program, so that it is certain what its arguments mean."""

    @property
    def is_read(self) -> bool:
        """Whether rules with a pattern are read by what knows paths, commands, addresses or names."""
        return self.known and self.kind not in ("notes", "person", "other", "mcp")


ALIASES: Final = {
    "Bash": ("Bash", "Shell", "BackgroundProcess"),
    "Agent": ("Agent", "Task"),
    "LS": ("LS", "List"),
    "apply_patch": ("apply_patch", "ApplyPatch"),
}
"""Names of one and the same tool: a rule by any of them holds for all."""

READERS: Final = ("Read", "Grep", "Glob", "LS", "NotebookRead")
EDITORS: Final = ("Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch")

_KNOWN: Final[dict[str, tuple[Kind, str, Touches, Effect]]] = {
    "Bash": ("shell", "command", "runs", "once"),
    "Read": ("read", "file_path", "reads", "pure"),
    "NotebookRead": ("read", "notebook_path", "reads", "pure"),
    "Grep": ("search", "path", "reads", "pure"),
    "Glob": ("search", "path", "reads", "pure"),
    "LS": ("search", "path", "reads", "pure"),
    "Write": ("edit", "file_path", "edits", "once"),
    "Edit": ("edit", "file_path", "edits", "once"),
    "MultiEdit": ("edit", "file_path", "edits", "once"),
    "NotebookEdit": ("edit", "notebook_path", "edits", "once"),
    "apply_patch": ("patch", "patch", "edits", "once"),
    "WebFetch": ("fetch", "url", "web", "pure"),
    "WebSearch": ("lookup", "query", "web", "pure"),
    "BashOutput": ("notes", "", "notes", "idempotent"),
    "KillShell": ("notes", "", "notes", "idempotent"),
    "ReadOutput": ("notes", "", "notes", "pure"),
    "AskUserQuestion": ("person", "", "person", "idempotent"),
    "TodoWrite": ("notes", "", "notes", "idempotent"),
    "Agent": ("agent", "subagent_type", "notes", "idempotent"),
    "Skill": ("skill", "skill", "notes", "pure"),
}
_BY_ALIAS: Final = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
_BY_TOUCH: Final[dict[Touches, tuple[Kind, tuple[str, ...]]]] = {
    "runs": ("shell", ("command",)),
    "reads": ("read", ("file_path", "path", "notebook_path")),
    "edits": ("edit", ("file_path", "path", "notebook_path")),
    "web": ("fetch", ("url",)),
    "person": ("person", ()),
    "notes": ("notes", ()),
}
_USUAL: Final = ("command", "file_path", "path", "url", "query", "pattern", "name")
"""Arguments that a pattern is likely to be about, for tools that are not in the table."""


def usual_name(name: str) -> str:
    """Return the usual name of a tool that has several."""
    return _BY_ALIAS.get(name, name)


def is_known(name: str) -> bool:
    """Return whether a name is one that rules and hooks know."""
    return usual_name(name) in _KNOWN or name in ("Cd", "*") or name.startswith("mcp__")


def guess_tool(name: str) -> str:
    """Return the known tool that a name which is none was most likely meant to be; empty when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for what is wrong

    if is_known(name) or len(name) > _LONGEST_NAME:
        return ""
    by_lower = {each.casefold(): each for each in (*_KNOWN, *_BY_ALIAS, "Cd") if abs(len(each) - len(name)) <= _ODD}
    near = get_close_matches(name.casefold(), by_lower, n=1, cutoff=0.75)
    return by_lower[near[0]] if near else ""


_LONGEST_NAME: Final = 40
_ODD: Final = 2
"""Letters that a mistyped name may have too many or too few."""


@lru_cache(maxsize=256)
def spec_of(name: str) -> ToolSpec:
    """Return the usual declaration of a well-known tool; for any other, that of one that always asks."""
    if usual_name(name) not in _KNOWN:
        return ToolSpec(name=name, description="", schema={}, asks=True)
    kind, _, touches, effect = _KNOWN[usual_name(name)]
    taints: tuple[Taint, ...] = ("untrusted", "outside") if kind in ("fetch", "lookup") else ()
    return ToolSpec(name=name, description="", schema={}, effect=effect, touches=touches, taints=taints)


def form_of(call: Call) -> Form:
    """Return how to read a call: by the tool's name when it is well known, else by what the tool says it touches."""
    tool = call.tool
    usual = usual_name(tool.name)
    names = ALIASES.get(usual, (tool.name,))
    if tool.name.startswith("mcp__"):
        return Form("mcp", names)
    if usual in _KNOWN and tool.touches != "host":
        return _make_form(usual, names)
    if tool.child:
        return Form("agent", (*ALIASES["Agent"], tool.name), "prompt")
    kind, keys = _BY_TOUCH.get(tool.touches, ("other", ()))
    declared = _arguments_of_schema(tool)
    present = [key for key in keys if key in call.args and (not declared or key in declared)]
    if present:
        return Form(kind, names, present[0], tuple(present[1:]))
    return Form("other" if keys else kind, names, _likely(call.args, declared))


@lru_cache(maxsize=64)
def _make_form(usual: str, names: tuple[str, ...]) -> Form:
    kind, main, _, _ = _KNOWN[usual]
    return Form(kind, names, main, known=True)


def _arguments_of_schema(tool: ToolSpec) -> dict[str, object]:
    """Return the arguments that a tool declares, by name; none when it does not say."""
    found = tool.schema.get("properties")
    return found if isinstance(found, dict) else {}


def text_of(call: Call, form: Form) -> str | None:
    """Return the main argument, when it is a text."""
    if form.kind == "patch":
        return _patch(call)
    found = call.args.get(form.main)
    if form.kind == "skill" and found is None:
        found = call.args.get("name", call.args.get("command"))
    return found if isinstance(found, str) else None


def _patch(call: Call) -> str | None:
    """Return the patch that the tool would apply; None when it would refuse the arguments."""
    try:
        return patch_of(call.args)
    except UserError:
        return None


def file_accesses(call: Call, form: Form, call_site: CallSite) -> tuple[Access, ...] | None:
    """Return the files that a call of a file tool names; None when its arguments do not say."""
    text = text_of(call, form)
    match form.kind:
        case "read" | "edit":
            kind: AccessKind = "read" if form.kind == "read" else "write"
            paths = [text, *(call.args[key] for key in form.more)]
            named = [path for path in paths if isinstance(path, str) and path]
            return tuple(_access(kind, path, call_site) for path in named) if len(named) == len(paths) else None
        case "patch":
            return _accesses_of_patch(text, call_site) if text else None
        case "search":
            return _accesses_of_search(call, text, call_site)
        case _:
            return ()


def _access(kind: AccessKind, path: str, call_site: CallSite) -> Access:
    return Access(kind=kind, path=absolute(path, call_site), written=path)


def _accesses_of_search(call: Call, text: str | None, call_site: CallSite) -> tuple[Access, ...] | None:
    if call.args.get("path") is not None and text is None:
        return None
    root = text or call_site.cwd
    name = usual_name(call.tool.name)
    if name == "LS":
        return (_access("list", root, call_site),)
    found = [_access("list" if name == "Glob" else "read", root, call_site)]
    for key in ("pattern",) if name == "Glob" else ("glob",):
        wanted = call.args.get(key)
        if isinstance(wanted, str) and wanted:
            found += _accesses_of_pattern(wanted, root, call_site)
    return tuple(found)


_CLIMBS: Final = re.compile(r"(?:^|[/{,])(?:\.|\[\.\]){2}(?:[/},]|$)|[{,][/~]")
"""In a pattern behind its first wildcard: what may lead to any folder."""


def _accesses_of_pattern(pattern: str, root: str, call_site: CallSite) -> list[Access]:
    """Return what a search pattern names by itself: the folder that it starts at, and a file without wildcards."""
    literal = re.split(r"[*?\[{]", pattern.removeprefix("!"), maxsplit=1)[0]
    if _CLIMBS.search(pattern, len(literal)):
        return [Access(kind="list", path="", written=pattern)]
    whole = literal == pattern
    named = literal if whole else literal.rpartition("/")[0] + "/" * (literal.startswith("/") or "/" in literal)
    if not named:
        return []
    there = absolute(named, call_site)
    if not named.startswith(("/", "~")):
        there = f"{absolute(root, call_site).rstrip('/')}/{named}"
    return [Access(kind="list", path=there, written=pattern)]


def _accesses_of_patch(text: str, call_site: CallSite) -> tuple[Access, ...] | None:
    try:
        return tuple(_access(kind, path, call_site) for kind, path in patch_paths(text))
    except UserError:
        return None


def _likely(args: dict[str, object], declared: dict[str, object]) -> str:
    """Return the argument that a pattern which allows is about; none when another argument could be what counts.

    The tool's own declaration says it, never which arguments the model chose to give.
    """
    if not declared:
        return next(iter(args)) if len(args) == 1 else ""
    texts = [key for key, said in declared.items() if isinstance(said, dict) and said.get("type") == "string"]
    main = next((key for key in _USUAL if key in texts), texts[0] if len(texts) == 1 else "")
    return main if set(args) <= set(declared) else ""


# --- how large a call may be ---------------------------------------------------------------------------------------------------------
# A larger one is asked about, so that no verdict keeps a session waiting: the work of a judgement grows in step with what it is given.

LONGEST_COMMAND: Final = 50_000
LONGEST_PATCH: Final = 500_000
LONGEST_NAME: Final = 8_000
"""Characters of a path, a pattern or an address; no system opens a path this long."""
LONGEST_CALL: Final = 4_000_000
"""Characters of all arguments together."""
MOST_VALUES: Final = 50_000
DEEPEST: Final = 100
"""How many lists and objects may lie inside of each other."""

_NAMING: Final = ("read", "edit", "search", "fetch")
_BESIDE: Final = {"search": ("pattern", "glob")}
"""Arguments that name files besides the main one."""


def beyond(call: Call, form: Form) -> str:
    """Return what about a call is too large to be looked at, and what to do instead; empty when nothing is."""
    if found := _shape(call.args):
        return found
    match form.kind:
        case "shell":
            return _longer(call, form.main, LONGEST_COMMAND, "split it, or write it to a file as a script first")
        case "patch":
            names = ("patch", "input")
            return next(
                (each for name in names if (each := _longer(call, name, LONGEST_PATCH, "send it in parts"))), ""
            )
        case kind if kind in _NAMING:
            names = (form.main, *form.more, *_BESIDE.get(kind, ()))
            return next(
                (each for name in names if (each := _longer(call, name, LONGEST_NAME, "give a shorter one"))), ""
            )
    return ""


def _longer(call: Call, name: str, limit: int, advice: str) -> str:
    content = call.args.get(name)
    if not isinstance(content, str) or len(content) <= limit:
        return ""
    return f"{name!r} has {len(content):,} characters, more than the {limit:,} that are looked at: {advice}"


def _shape(args: dict[str, object]) -> str:
    """Return what is too large about the arguments as a whole."""
    size = values = 0
    layer: list[object] = [args]
    for _ in range(DEEPEST):
        inner = list[object]()
        for each in layer:
            if isinstance(each, str):
                size += len(each)
            elif isinstance(each, dict):
                size += sum(map(len, each))
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        values += len(inner)
        if size > LONGEST_CALL:
            return f"the arguments have more than the {LONGEST_CALL:,} characters that are looked at: make several calls of it"
        if values > MOST_VALUES:
            return (
                f"the arguments have more than the {MOST_VALUES:,} values that are looked at: make several calls of it"
            )
        if not inner:
            return ""
        layer = inner
    return f"the arguments are nested deeper than the {DEEPEST} levels that are looked at: make them flatter"
