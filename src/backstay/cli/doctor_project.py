"""What `backstay doctor` says about a repository: what people keep in it for agents, and what of that counts here."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from backstay.cli.location import StoreLocation
from backstay.cli.trust import shown

if TYPE_CHECKING:
    from backstay.config.layer_file import LayerFile
    from backstay.config.layers import Layered
    from backstay.mcp.config.files import ServersFound
    from backstay.mcp.servers import ServerStatus
    from backstay.session.project.discover import Discovery
    from backstay.skills.agents import AgentDefinition
    from backstay.skills.skill import Skill

Level = Literal["ok", "note", "attention"]


class Finding(Struct, frozen=True):
    """One thing that was seen, and what to do about it when it is not as it should be."""

    text: str
    level: Level = "ok"
    todo: str = ""
    detail: object = None
    """More of it, for programs."""


class Here(Struct, frozen=True, dict=True):
    """Where to look."""

    place: StoreLocation
    cwd: Path
    servers: bool = False
    """Whether servers may be started to see whether they answer."""

    @functools.cached_property
    def layered(self) -> "Layered":
        """What the settings files here come to. Raise `UserError` when that cannot be known."""
        from backstay.config.layers import read_layers

        return read_layers(self.cwd)

    @functools.cached_property
    def model(self) -> str:
        """The model that answers when none is named; empty when nothing says one."""
        from backstay.config.model_finder import choose
        from backstay.vocab.errors import UserError

        try:
            chosen = choose(self.layered.settings)
        except UserError:
            return ""
        return chosen.model if chosen is not None else ""

    @functools.cached_property
    def around(self) -> "Discovery":
        """What a session here would find. Raise `UserError` when that cannot be known."""
        from backstay.session.project.discover import look_here

        return look_here(self.layered, model=self.model)


Check = Callable[[Here], Iterable[Finding]]

NAMED: Final = 12
"""Names in one line."""
START_S: Final = 10.0
"""How long a server may take to answer the doctor."""


def check_settings(here: Here) -> Iterator[Finding]:
    """The settings files that count here, what they come to, and what is odd about them."""
    from backstay.cli.permissions import granted_here, objects
    from backstay.hooks.decorator import read_configured_hooks

    found = here.layered
    for file in found.files:
        yield Finding(f"{file.place.source}: {str(file.place.path)!r}{_counts(file, here)}")
    if not found.files:
        yield Finding("no settings file; the defaults hold")
    hooks = read_configured_hooks(found)
    rules = Counter(rule.decision for rule in found.rules)
    events = Counter(spec.event for spec in hooks.specs)
    said = ", ".join(f"{rules[each]} {each}" for each in ("deny", "ask", "allow"))
    heard = f" ({', '.join(f'{name} {count}' for name, count in sorted(events.items()))})" if events else ""
    yield Finding(
        f"rules: {said}; hooks: {len(hooks.specs)}{heard}; mode: {found.mode or 'default'}",
        detail={"rules": dict(rules), "hooks": dict(events), "mode": found.mode or "default"},
    )
    if grants := granted_here(here.cwd):
        words = (
            f"{len(grants)} allowed for longer than a session: {', '.join(shown(each.rule) for each in grants[:NAMED])}"
        )
        yield Finding(
            words, todo="To look at them or take them back: backstay permissions grants", detail=objects(grants)
        )
    for warning in (*found.warnings, *hooks.warnings):
        yield Finding(shown(warning), "attention")


def check_workspace(here: Here) -> Iterator[Finding]:
    """Whether the person trusts what the workspace brings along, and what waits for that."""
    trust = here.layered.trust
    kinds = Counter(claim.kind for claim in trust.survey.claims)
    claims = len(trust.survey.claims)
    words = (
        f"{trust.root!r}: {trust.state}; {claims} thing{'' if claims == 1 else 's'} that would run or loosen something"
    )
    listed = f" ({', '.join(f'{kind} {count}' for kind, count in sorted(kinds.items()))})" if kinds else ""
    detail = {"state": trust.state, "claims": dict(kinds)}
    if trust.trusted:
        yield Finding(words + listed, detail=detail)
    else:
        todo = "Look at them: backstay trust show. Until then they do nothing; what it denies holds."
        yield Finding(words + listed, "note", todo, detail)


def check_instructions(here: Here) -> Iterator[Finding]:
    """What a session is told before anybody speaks, and from where."""
    found = here.around.instructions
    parts = [
        {"name": each.name, "size": each.size, "cut": each.cut, "sources": list(each.sources)} for each in found.parts
    ]
    sizes = ", ".join(f"{each.name} {each.size:,}{' (cut)' if each.cut else ''}" for each in found.parts)
    yield Finding(f"{len(found.text.encode()):,} bytes: {sizes}", detail={"sha256": found.sha256, "parts": parts})
    sources = [_near(here, source) for each in found.parts for source in each.sources]
    if sources:
        yield Finding(f"from {_names(dict.fromkeys(sources))}")
    for words in found.problems:
        yield Finding(shown(words), "note")


def check_extensions(here: Here) -> Iterator[Finding]:
    """Skills, commands and agents, and what is wrong with their files."""
    found = here.around.found
    own = [each for each in found.agents if each.source != "built-in"]
    yield _listed("skill", found.skills)
    yield _listed("command", found.commands)
    yield _listed("agent", own)
    for hidden in found.shadowed:
        yield Finding(f"{hidden.name!r} of {_near(here, hidden.file)} is hidden by another of that name", "note")
    warnings = [str(each) for each in found.problems if each.severity != "error"]
    for problem in found.problems:
        if problem.severity == "error":
            yield Finding(shown(str(problem)), "attention")
    if warnings:
        many = f" and {len(warnings) - 1} more" if len(warnings) > 1 else ""
        yield Finding(
            f"odd, and used all the same: {shown(warnings[0])}{many}", "note", detail=list(map(shown, warnings))
        )


def check_servers(here: Here) -> Iterator[Finding]:
    """The MCP servers, and, when that is wanted, whether they answer."""
    found = _servers(here)
    states = _started(here, found) if here.servers and found.specs else {}
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
            detail = {**entry, "state": state.state, "why": shown(state.why)}
            yield Finding(f"{name!r} does not answer: {shown(state.why)}", "attention", detail=detail)
    if not found.specs and not found.held_back:
        yield Finding("none")
    elif found.specs and not here.servers:
        yield Finding("none was started to see whether it answers", todo="To try them: backstay doctor --servers")
    for words in (*found.problems, *found.warnings):
        yield Finding(shown(words), "attention")


def check_plugins(here: Here) -> Iterator[Finding]:
    """The plugins that are on."""
    loaded = here.around.plugins
    names = [f"{each.name} {each.version}".strip() for each in loaded.plugins]
    yield Finding(_names(names) if names else "none is on", detail=names)
    for name in loaded.held_back:
        yield Finding(f"{name!r} of this workspace waits for trust", "note", "Look at it: backstay trust show")
    for words in loaded.problems:
        yield Finding(shown(words), "attention")


def check_kept(here: Here) -> Iterator[Finding]:
    """What is remembered about the project, and what is kept of files."""
    memory = here.around.memory
    if memory is None:
        yield Finding("memory is switched off by the settings", "note")
    else:
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
"""What is looked at in a repository, in order."""


def _counts(file: "LayerFile", here: Here) -> str:
    if file.broken:
        return " (broken: what it denied when it was last read holds)"
    return (
        " (only what it denies, until the workspace is trusted)"
        if file.place.of_project and not here.layered.trust.trusted
        else ""
    )


def _listed(kind: str, found: "Sequence[Skill] | Sequence[AgentDefinition]") -> Finding:
    names = [each.name for each in found]
    waits = [each.name for each in found if not each.trusted]
    words = f"{len(names)} {kind}{'' if len(names) == 1 else 's'}" + (f": {_names(names)}" if names else "")
    if waits:
        told = "only for the person's own use" if kind != "agent" else "not usable"
        words += f"; {told} until the workspace is trusted: {_names(waits)}"
    return Finding(words, detail=[{"name": each.name, "file": each.file, "trusted": each.trusted} for each in found])


def _names(names: Iterable[str]) -> str:
    every = list(map(shown, names))
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more


def _near(here: Here, path: str) -> str:
    """A path as it is seen from the working folder, where it lies below that."""
    whole = Path(path)
    return str(whole.relative_to(here.cwd)) if whole.is_relative_to(here.cwd) else path


def _how(entry: dict[str, object]) -> str:
    args = entry.get("args")
    words = [str(entry.get("command") or entry.get("url") or "")]
    words += [str(each) for each in args] if isinstance(args, list | tuple) else []
    return shown(" ".join(words))


def _servers(here: Here) -> "ServersFound":
    from backstay.config.secret import collect_keys
    from backstay.mcp.config.files import PluginServers, ServersPlace, read_servers

    plugins = [
        PluginServers(plugin=each.name, folder=each.folder, servers=each.mcp_servers_raw)
        for each in here.around.plugins.plugins
        if each.mcp_servers_raw
    ]
    keys = collect_keys(here.layered.settings, here.layered)
    return read_servers(ServersPlace(layered=here.layered, plugins=plugins, keys=keys))


def _started(here: Here, found: "ServersFound") -> "dict[str, ServerStatus]":
    """How each server answers, within a short time; they are ended again."""
    import anyio

    from backstay.config.trust.own_programs import own_runs
    from backstay.mcp.config.start import may_start, session_servers
    from backstay.sandbox.folders import data_dir

    trust = here.layered.trust
    free, _ = may_start(found.specs, trust.held_hooks, own_runs(trust, str(here.cwd)))
    specs = [replace(each, start_s=min(each.start_s, START_S)) for each in free]

    async def look() -> "dict[str, ServerStatus]":
        async with session_servers(specs, cwd=str(here.cwd), data=data_dir()) as servers:
            return dict(servers.status)

    return anyio.run(look)
