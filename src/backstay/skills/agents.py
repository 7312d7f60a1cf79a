"""Agent definitions: a Markdown file whose text is an agent's instructions. Running one is not done here."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final, Literal

import msgspec

from backstay.logic.text import read_visible
from backstay.skills.frontmatter import Fields, Patience, good_name, read_frontmatter
from backstay.skills.problems import SkillProblem, Unusable
from backstay.skills.skill import EFFORTS, LONGEST_TEXT, FileOrigin, Source, digest
from backstay.vocab.specs import MODES, Mode

LONGEST_LISTED: Final = 1_536
"""Characters of a description that a model is shown."""
KEYS: Final = frozenset(
    (
        *("name", "description", "tools", "disallowed-tools", "model", "permission-mode", "max-turns", "skills"),
        *("mcp-servers", "hooks", "memory", "background", "effort", "isolation", "color", "initial-prompt"),
    )
)
_FOR_PLUGINS_NOT: Final = ("hooks", "mcp-servers", "permission-mode")


class AgentDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent to which a session can delegate work."""

    name: str
    description: str
    system_prompt: str
    source: Source
    file: str = ""
    """Empty for one that is built in."""
    plugin: str = ""
    trusted: bool = True
    """Whether it may be used. One of a project that is not trusted is only listed."""
    sha256: str = ""
    model: str = ""
    """As it is written: a name, or a shortcut. Empty: that of the parent. See `resolve_model`."""
    max_turns: int | None = None
    tools: tuple[str, ...] | None = None
    """The only tools it has; None for all that its parent has."""
    disallowed_tools: tuple[str, ...] = ()
    """The tools that it never has, even when `tools` names them."""
    permission_mode: Mode | None = None
    skills: tuple[str, ...] = ()
    mcp_servers: tuple[object, ...] = ()
    """Names of servers, and servers that it brings itself, as they are written."""
    hooks: dict[str, object] | None = None
    effort: str = ""
    isolation: Literal["", "worktree"] = ""
    color: str = ""
    background: bool = False
    memory: str = ""
    initial_prompt: str = ""

    @property
    def listing(self) -> str:
        """What a model is told about it: its description, within bounds."""
        text = " ".join(self.description.split())
        return text if len(text) <= LONGEST_LISTED else f"{text[: LONGEST_LISTED - 1]}…"


def read_agent(
    content: bytes, file: PurePath, origin: FileOrigin, patience: Patience | None = None
) -> tuple[AgentDefinition, tuple[SkillProblem, ...]]:
    """Return the agent that a Markdown file describes, and warnings about it. Raise `Unusable` when it cannot be one.

    A list of tools that cannot be understood means no tools. A list of forbidden ones that cannot be understood makes the file unusable.
    """
    head = read_frontmatter(content, str(file), patience=patience)
    fields = Fields(head, str(file))
    name = fields.text("name") or file.stem
    if not good_name(name):
        raise fields.unusable(
            "name", f"{name[:80]!r} cannot be an agent's name. Use up to 64 letters, digits, - and _."
        )
    for key in fields.unknown(KEYS):
        fields.warn(key, f"{key!r} means nothing here and is ignored.")
    dropped = _FOR_PLUGINS_NOT if origin.source == "plugin" else ()
    for key in dropped:
        if key in fields:
            fields.warn(key, f"{key!r} does nothing in an agent that a plugin brings.")
    agent = AgentDefinition(
        name=origin.qualify(name),
        description=_description(fields, name),
        system_prompt=read_visible(head.body).text.strip(),
        source=origin.source,
        file=str(file),
        plugin=origin.plugin,
        trusted=origin.trusted,
        sha256=digest(content),
        model=_model(fields),
        max_turns=fields.number("max-turns"),
        tools=_tools(fields),
        disallowed_tools=fields.names("disallowed-tools") or (),
        permission_mode=None if dropped else _mode(fields),
        skills=fields.names("skills") or (),
        mcp_servers=() if dropped else _servers(fields),
        hooks=None if dropped else _hooks(fields),
        effort=fields.choice("effort", EFFORTS),
        isolation="worktree" if fields.choice("isolation", ("worktree",)) else "",
        color=fields.text("color")[:20],
        background=fields.flag("background", default=False, unclear=False),
        memory=fields.choice("memory", ("user", "project", "local")),
        initial_prompt=fields.text("initial-prompt"),
    )
    return agent, tuple(fields.problems)


def resolve_model(wanted: str, parent: str) -> str:
    """Return the full name of the model that `wanted` means: a shortcut, a name, or nothing, which is the parent's."""
    from backstay.providers.catalog import list_known_models  # noqa: PLC0415 - it reads the catalog

    if not wanted or wanted == "inherit":
        return parent
    if ":" in wanted:
        return wanted
    family = f"anthropic:claude-{wanted.lower()}-"
    newest = next((each.name for each in list_known_models() if each.name.startswith(family)), None)
    if newest is not None:
        return newest
    known = next((each.name for each in list_known_models() if each.name.partition(":")[2] == wanted.lower()), None)
    return known or f"{parent.partition(':')[0]}:{wanted}"


def _description(fields: Fields, name: str) -> str:
    description = fields.text("description")
    if not description:
        raise fields.unusable("description", f"The agent {name!r} has no description. Say in one when to use it.")
    if len(description) > LONGEST_TEXT:
        message = f"The description has {len(description):,} characters; {LONGEST_TEXT:,} are the most."
        raise fields.unusable("description", message)
    return description


def _model(fields: Fields) -> str:
    model = fields.model()
    if any(character.isspace() for character in model) or len(model) > 200:
        raise fields.unusable("model", f"{model[:80]!r} cannot be a model's name.")
    return model


def _tools(fields: Fields) -> tuple[str, ...] | None:
    """Return the tools; none at all when it cannot be told which are meant."""
    try:
        found = fields.names("tools")
    except Unusable as exc:
        fields.warn("tools", f"{exc.problem.message} So the agent has no tools.")
        return ()
    if found == ():
        fields.warn("tools", "'tools' names no tool, so the agent has none. Leave the key out for all tools.")
    return None if found == ("*",) else found


def _mode(fields: Fields) -> Mode | None:
    word = fields.text("permission-mode")
    if word in ("", "auto"):  # the latter is another program's, and means that a model judges
        return None
    found = next((mode for mode in MODES if mode == word), None)
    if found is None:
        raise fields.unusable("permission-mode", f"{word[:80]!r} is not a permission mode. Use {', '.join(MODES)}.")
    return found


def _hooks(fields: Fields) -> dict[str, object] | None:
    hooks = fields.raw("hooks")
    if hooks is not None and not isinstance(hooks, Mapping):
        raise fields.unusable("hooks", "'hooks' must be a mapping of events, as in the settings.")
    return dict(hooks) if hooks else None


def _servers(fields: Fields) -> tuple[object, ...]:
    servers = fields.raw("mcp-servers")
    if servers is None:
        return ()
    if isinstance(servers, Mapping):
        return tuple({name: server} for name, server in servers.items())
    if isinstance(servers, str):
        return fields.names("mcp-servers") or ()
    if isinstance(servers, list) and all(isinstance(each, str | Mapping) for each in servers):
        return tuple(servers)
    raise fields.unusable("mcp-servers", "'mcpServers' must be a list of names and servers.")


READING: Final = ("Read", "Grep", "Glob", "ReadOutput")
"""Tools that neither change anything, nor run anything, nor go anywhere."""
USUAL: Final = "general-purpose"
"""The agent that does the work when none is named."""

BUILT_IN: Final = (
    AgentDefinition(
        name=USUAL,
        description="Does a task of several steps by itself: searching, reading, changing and running what the task needs.",
        system_prompt=(
            "You do one task for another agent, who sees nothing but your last message. Do the whole task and nothing beside it. "
            "Look before you change anything, prefer changing what is there to adding, and check what you did. End with a report: what "
            "you found or changed, with paths and lines, and what is left open. When you could not do something, say so plainly."
        ),
        source="built-in",
    ),
    AgentDefinition(
        name="Explore",
        description="Finds things in a code base and explains them, quickly and without changing anything.",
        system_prompt=(
            "You search a code base for another agent, who sees nothing but your last message. You can look and nothing else. Start "
            "broad with names and patterns, then read only what matters; search for several things at once where you can. Answer with "
            "what was asked: paths with lines, the few excerpts that prove the point, and what you looked for and did not find."
        ),
        source="built-in",
        tools=READING,
    ),
    AgentDefinition(
        name="Plan",
        description="Works out how a change should be made, from the code as it is, without making it.",
        system_prompt=(
            "You plan a change for another agent, who sees nothing but your last message. You can look and nothing else. Read the code "
            "that the change would touch, find what it must fit to, and weigh the ways to do it. Answer with a plan: the steps in order, "
            "each with its files; what could break and how to notice; what has to be decided first; the three files that matter most."
        ),
        source="built-in",
        tools=READING,
    ),
)
