"""Commands about what the session found around it: skills, agents, hooks, servers, plugins, memory."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from backstay.commands.registry import CommandResult, command, usage
from backstay.config.person import require_person
from backstay.logic.text import pluralise
from backstay.session.session import SessionCall
from backstay.vocab.errors import UserError
from backstay.vocab.event import Draft

if TYPE_CHECKING:
    from backstay.mcp.servers import ServerStatus


@command("skills", safety="reads")
async def skills(call: SessionCall) -> CommandResult:
    """List the skills. Each is a command of its own."""
    found = [(each.name, each.description) for each in call.project.found.skills if each.user_invocable]
    return _listing("skills", found, "There are no skills. A skill is a folder with SKILL.md in .backstay/skills.")


@command("agents", safety="reads")
async def agents(call: SessionCall) -> CommandResult:
    """List the agents that are defined."""
    return _listing(
        "agents", [(each.name, each.description) for each in call.project.found.agents], "There are no agents."
    )


@command("hooks", safety="reads")
async def hooks(call: SessionCall) -> CommandResult:
    """List the hooks of this session."""
    found = [(hook.event, f"{hook.label} {hook.matcher}".strip()) for hook in call.session.hooks]
    return _listing("hooks", found, "There are no hooks.")


@command("mcp", hint="[approve SERVER]", subcommands=("approve",), safety="reads")
async def mcp(call: SessionCall) -> CommandResult:
    """List the MCP servers, whether they answer, and their tools; `approve` takes tools that changed as they are now."""
    words = call.words
    if words and (words[0] != "approve" or len(words) != 2 or call.by != "user"):
        return usage(call, "[approve SERVER]")
    if words:
        return await _approve(call, words[1])
    found = [(name, _standing(status)) for name, status in call.project.server_status().items()]
    return _listing("servers", found, "There are no MCP servers.")


async def _approve(call: SessionCall, server: str) -> CommandResult:
    if call.project.servers is None:
        return CommandResult(message="There are no MCP servers.", success=False)
    try:
        require_person("approve what a server offers")
        held = await call.project.servers.approve(server)
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    names = ", ".join(held) or "nothing was held back"
    return CommandResult(
        message=f"Approved: {names}. Sessions have them from the next opening on.", data={"approved": list(held)}
    )


def _standing(status: "ServerStatus") -> str:
    why = f": {status.why}" if status.why else ""
    held = f"; held back until `/mcp approve`: {', '.join(status.held)}" if status.held else ""
    return f"{status.state}, {pluralise(status.tools, 'tool')}{why}{held}"


@command("plugins", safety="reads")
async def plugins(call: SessionCall) -> CommandResult:
    """List the plugins that are on."""
    found = [(f"{each.name} {each.version}".strip(), each.manifest.description) for each in call.project.plugins]
    return _listing("plugins", found, "No plugin is on. `backstay plugins search` finds some.")


@command(
    "memory",
    hint="list | show TOPIC | add [TYPE/TOPIC] TEXT | pending | approve ID | reject ID | used",
    subcommands=("list", "show", "add", "pending", "approve", "reject", "used"),
    model=True,
    safety="proposes",
)
async def memory(call: SessionCall) -> CommandResult:
    """Show or change what is remembered about this project. What a model adds waits for a person."""
    if not call.project.remembers:
        return CommandResult(
            message="This session has no memory: it has no project, or memory is switched off.", success=False
        )
    from backstay.memory.command import memory_command  # noqa: PLC0415 - few sessions ask
    from backstay.memory.memory import find_used  # noqa: PLC0415 - likewise

    session = call.session
    used = find_used(await session.events())
    answer = await call.project.remember(memory_command, call.args, call.by, mode=session.permission_mode, used=used)
    await session.note(*(Draft(event=event, by=call.by) for event in answer.noted))
    data: dict[str, object] = msgspec.to_builtins(answer.data)
    return CommandResult(message=answer.message, success=answer.success, data=data)


@command("doctor", safety="reads")
async def doctor(call: SessionCall) -> CommandResult:
    """Say what was found here, what is off, and why."""
    notes = call.session.notes
    return CommandResult(
        message="\n".join(notes) or "Everything that was found is in use.",
        data={"doctorRequested": True, "notes": list(notes)},
    )


@command("export", hint="FILE")
async def export(call: SessionCall) -> CommandResult:
    """Write the session to a file: .md or .html to read, .yaml for a workflow, .json for its record."""
    target = call.args.strip()
    if not target:
        return usage(call, "FILE")
    return CommandResult(message=f"The session is written to {target}.", data={"exportRequested": target})


@command("background", hint="[list]", subcommands=("list",), safety="reads")
async def background(call: SessionCall) -> CommandResult:
    """List what runs in the background."""
    return _listing("tasks", call.project.background(), "Nothing runs in the background.")


def _listing(kind: str, rows: Iterable[tuple[str, str]], none: str) -> CommandResult:
    known = list(rows)
    lines = [f"{name:<24}{text}".rstrip() for name, text in known]
    return CommandResult(message="\n".join(lines) or none, data={kind: [name for name, _ in known]})


COMMANDS = (skills, agents, hooks, mcp, plugins, memory, doctor, export, background)
