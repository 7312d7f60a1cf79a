"""Checks of `backstay doctor` about a repository: its settings, trust, instructions, extensions, servers and memory."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import anyio
from msgspec import Struct

from backstay.cli.output import redact_untrusted
from backstay.cli.permissions import find_grants, grant_objects
from backstay.cli.shared_options import StoreLocation
from backstay.config.layer_file import LayerFile
from backstay.config.layers import Layered, collect_keys, read_layers
from backstay.config.model_finder import choose
from backstay.config.trust.own_runs import own_runs
from backstay.hooks.decorator import read_configured_hooks
from backstay.mcp.config.files import PluginServers, ServerInputs, ServersFound, read_servers
from backstay.mcp.config.start import may_start, session_servers
from backstay.mcp.servers import ServerStatus
from backstay.session.project.discover_extensions import Discovery, discover_here
from backstay.skills.agents import AgentDefinition
from backstay.skills.skill import Skill
from backstay.system.folders import data_dir
from backstay.vocab.errors import UserError

Level = Literal["ok", "note", "attention"]


class Finding(Struct, frozen=True):
    """One finding of a check, and what to do about it."""

    text: str
    level: Level = "ok"
    todo: str = ""
    detail: object = None
    """More about it, for programs."""


class CheckedFolder(Struct, frozen=True, dict=True):
    """The folder and the store that the checks look at. Settings and discovery are read once, when a check first asks for them."""

    location: StoreLocation
    cwd: Path
    servers: bool = False
    """Whether to start the servers, to see whether they answer."""

    @functools.cached_property
    def layered(self) -> Layered:
        """The settings in force here. Raise `UserError` when a file cannot be read."""
        return read_layers(self.cwd)

    @functools.cached_property
    def model(self) -> str:
        """The default model; empty when nothing names one."""
        try:
            chosen = choose(self.layered.settings)
        except UserError:
            return ""
        return chosen.model if chosen is not None else ""

    @functools.cached_property
    def discovery(self) -> Discovery:
        """What a session here would find. Raise `UserError` when that cannot be read."""
        return discover_here(self.layered, model=self.model)


Check = Callable[[CheckedFolder], Iterable[Finding]]

MAX_NAMES: Final = 12
"""Names in one line."""
START_S: Final = 10.0
"""Seconds that a server may take to answer."""


def check_settings(here: CheckedFolder) -> Iterator[Finding]:
    """Report the settings files in force here, their rules and hooks, and what is odd about them."""
    found = here.layered
    for file in found.files:
        yield Finding(f"{file.place.source}: {str(file.place.path)!r}{_counts(file, here)}")
    if not found.files:
        yield Finding("no settings file; the defaults hold")
    hooks = read_configured_hooks(found)
    rules = Counter(rule.decision for rule in found.rules)
    events = Counter(spec.event for spec in hooks.specs)
    decisions = ", ".join(f"{rules[each]} {each}" for each in ("deny", "ask", "allow"))
    by_event = f" ({', '.join(f'{name} {count}' for name, count in sorted(events.items()))})" if events else ""
    yield Finding(
        f"rules: {decisions}; hooks: {len(hooks.specs)}{by_event}; mode: {found.mode or 'default'}",
        detail={"rules": dict(rules), "hooks": dict(events), "mode": found.mode or "default"},
    )
    if grants := find_grants(here.cwd):
        words = f"{len(grants)} allowed for longer than a session: {', '.join(redact_untrusted(each.rule) for each in grants[:MAX_NAMES])}"
        yield Finding(
            words, todo="To look at them or take them back: backstay permissions grants", detail=grant_objects(grants)
        )
    for warning in (*found.warnings, *hooks.warnings):
        yield Finding(redact_untrusted(warning), "attention")


def check_workspace(here: CheckedFolder) -> Iterator[Finding]:
    """Report whether the workspace is trusted, and what waits for that."""
    trust = here.layered.trust
    kinds = Counter(claim.kind for claim in trust.survey.claims)
    claims = len(trust.survey.claims)
    words = (
        f"{trust.root!r}: {trust.state}; {claims} thing{'' if claims == 1 else 's'} that would run or loosen something"
    )
    by_kind = f" ({', '.join(f'{kind} {count}' for kind, count in sorted(kinds.items()))})" if kinds else ""
    detail = {"state": trust.state, "claims": dict(kinds)}
    if trust.trusted:
        yield Finding(words + by_kind, detail=detail)
    else:
        todo = "Look at them: backstay trust show. Until then they do nothing; what it denies holds."
        yield Finding(words + by_kind, "note", todo, detail)


def check_instructions(here: CheckedFolder) -> Iterator[Finding]:
    """Report the instructions of a new session, and their files."""
    found = here.discovery.instructions
    parts = [
        {"name": each.name, "size": each.size, "cut": each.cut, "sources": list(each.sources)} for each in found.parts
    ]
    sizes = ", ".join(f"{each.name} {each.size:,}{' (cut)' if each.cut else ''}" for each in found.parts)
    yield Finding(f"{len(found.text.encode()):,} bytes: {sizes}", detail={"sha256": found.sha256, "parts": parts})
    sources = [_relative(here, source) for each in found.parts for source in each.sources]
    if sources:
        yield Finding(f"from {_names(dict.fromkeys(sources))}")
    for words in found.problems:
        yield Finding(redact_untrusted(words), "note")


def check_extensions(here: CheckedFolder) -> Iterator[Finding]:
    """Report skills, commands and agents, and what is wrong with their files."""
    found = here.discovery.found
    own = [each for each in found.agents if each.source != "built-in"]
    yield _definitions("skill", found.skills)
    yield _definitions("command", found.commands)
    yield _definitions("agent", own)
    for hidden in found.shadowed:
        yield Finding(f"{hidden.name!r} of {_relative(here, hidden.file)} is hidden by another of that name", "note")
    warnings = [str(each) for each in found.problems if each.severity != "error"]
    for problem in found.problems:
        if problem.severity == "error":
            yield Finding(redact_untrusted(str(problem)), "attention")
    if warnings:
        many = f" and {len(warnings) - 1} more" if len(warnings) > 1 else ""
        yield Finding(
            f"odd, and used all the same: {redact_untrusted(warnings[0])}{many}",
            "note",
            detail=list(map(redact_untrusted, warnings)),
        )


def check_servers(here: CheckedFolder) -> Iterator[Finding]:
    """Report the MCP servers, and, if `here.servers` is set, whether they answer."""
    found = _servers(here)
    states = _start_servers(here, found) if here.servers and found.specs else {}
    for entry in found.listing():
        name = str(entry["name"])
        state = states.get(name)
        if entry["status"] == "held back":
            yield Finding(f"{name!r} of {entry['source']} is not used: {entry['why']}", "note", detail=entry)
        elif state is None:
            yield Finding(f"{name!r} ({entry['type']}, {entry['source']}): {_how(entry)}", detail=entry)
        elif state.state == "connected":
            held = f", {len(state.held)} not approved" if state.held else ""
            yield Finding(f"{name!r} answers: {state.tools} tools{held}", detail={**entry, "state": state.state})
        else:
            detail = {**entry, "state": state.state, "why": redact_untrusted(state.why)}
            yield Finding(f"{name!r} does not answer: {redact_untrusted(state.why)}", "attention", detail=detail)
    if not found.specs and not found.held_back:
        yield Finding("none")
    elif found.specs and not here.servers:
        yield Finding("none was started to see whether it answers", todo="To try them: backstay doctor --servers")
    for words in (*found.problems, *found.warnings):
        yield Finding(redact_untrusted(words), "attention")


def check_plugins(here: CheckedFolder) -> Iterator[Finding]:
    """Report the plugins that are on."""
    loaded = here.discovery.plugins
    names = [f"{each.name} {each.version}".strip() for each in loaded.plugins]
    yield Finding(_names(names) if names else "none is on", detail=names)
    for name in loaded.held_back:
        yield Finding(f"{name!r} of this workspace waits for trust", "note", "Look at it: backstay trust show")
    for words in loaded.problems:
        yield Finding(redact_untrusted(words), "attention")


def check_kept(here: CheckedFolder) -> Iterator[Finding]:
    """Report the memory of the project, and whether files are checkpointed."""
    if here.discovery.open_memory is None:
        yield Finding("memory is switched off by the settings", "note")
    else:
        memory = here.discovery.open_memory()
        entries, waiting = len(memory.entries()), len(memory.pending().waiting)
        todo = "Look at what waits for you: backstay memory pending" if waiting else ""
        detail = {"entries": entries, "pending": waiting}
        yield Finding(f"memory: {entries} entries, {waiting} waiting for approval", detail=detail, todo=todo)
    yield Finding(
        "checkpoints: on; what a turn changes in files can be taken back (--no-checkpoints switches them off)"
    )


CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("settings", check_settings),
    ("workspace", check_workspace),
    ("instructions", check_instructions),
    ("extensions", check_extensions),
    ("servers", check_servers),
    ("plugins", check_plugins),
    ("kept", check_kept),
)
"""The checks of a repository, in order."""


def _counts(file: LayerFile, here: CheckedFolder) -> str:
    if file.broken:
        return " (broken: what it denied when it was last read holds)"
    return (
        " (only what it denies, until the workspace is trusted)"
        if file.place.of_project and not here.layered.trust.trusted
        else ""
    )


def _definitions(kind: str, found: Sequence[Skill] | Sequence[AgentDefinition]) -> Finding:
    names = [each.name for each in found]
    waits = [each.name for each in found if not each.trusted]
    words = f"{len(names)} {kind}{'' if len(names) == 1 else 's'}" + (f": {_names(names)}" if names else "")
    if waits:
        use = "only for the person's own use" if kind != "agent" else "not usable"
        words += f"; {use} until the workspace is trusted: {_names(waits)}"
    return Finding(words, detail=[{"name": each.name, "file": each.file, "trusted": each.trusted} for each in found])


def _names(names: Iterable[str]) -> str:
    every = list(map(redact_untrusted, names))
    more = f" and {len(every) - MAX_NAMES} more" if len(every) > MAX_NAMES else ""
    return ", ".join(every[:MAX_NAMES]) + more


def _relative(here: CheckedFolder, path: str) -> str:
    """Return a path below the working folder relative to it."""
    whole = Path(path)
    return str(whole.relative_to(here.cwd)) if whole.is_relative_to(here.cwd) else path


def _how(entry: dict[str, object]) -> str:
    args = entry.get("args")
    words = [str(entry.get("command") or entry.get("url") or "")]
    words += [str(each) for each in args] if isinstance(args, list | tuple) else []
    return redact_untrusted(" ".join(words))


def _servers(here: CheckedFolder) -> ServersFound:
    plugins = [
        PluginServers(plugin=each.name, folder=each.folder, servers=each.mcp_servers_raw)
        for each in here.discovery.plugins.plugins
        if each.mcp_servers_raw
    ]
    keys = collect_keys(here.layered.settings, here.layered)
    return read_servers(ServerInputs(layered=here.layered, plugins=plugins, keys=keys))


def _start_servers(here: CheckedFolder, found: ServersFound) -> dict[str, ServerStatus]:
    """Start the servers for a short time, and return the status of each."""
    trust = here.layered.trust
    free, _ = may_start(found.specs, trust.held_hooks, own_runs(trust, str(here.cwd)))
    specs = [replace(each, start_s=min(each.start_s, START_S)) for each in free]

    async def start() -> dict[str, ServerStatus]:
        async with session_servers(specs, cwd=str(here.cwd), data=data_dir()) as servers:
            return dict(servers.status)

    return anyio.run(start)
