"""`backstay agents`: to whom work can be handed, and what each is told."""

from typing import TYPE_CHECKING

import click

from backstay.cli import output
from backstay.cli.location import StoreLocation, placed
from backstay.cli.skills import SHOWN, as_json, look, tell_problems, trust

if TYPE_CHECKING:
    from backstay.skills.agents import AgentDefinition


@click.group("agents")
def command() -> None:
    """List the agents that work can be handed to, or show one.

    \b
    backstay agents list
    backstay agents show Explore
    """


@command.command("list")
@trust
@as_json
@placed
def list_agents(place: StoreLocation, trust: bool, as_json: bool) -> int:
    """List the agents that count here, built in or of your own, those that others hide, and what is wrong with files.

    \b
    backstay agents list --json
    """
    from backstay.skills.agents import AgentDefinition

    found = look(place, trust=trust)
    hidden = [each for each in found.shadowed if isinstance(each, AgentDefinition)]
    if as_json:
        output.say_json(
            {
                "agents": [_object(each) for each in found.agents],
                "shadowed": [_object(each) for each in hidden],
                "problems": found.problems,
            }
        )
        return 0
    output.say_table(("name", "from", "model", "tools", "description"), [_row(each) for each in found.agents])
    tell_problems(found.problems)
    return 0


@command.command()
@click.argument("name")
@trust
@as_json
@placed
def show(place: StoreLocation, name: str, trust: bool, as_json: bool) -> int:
    """Show the agent NAME: who may use what, and its instructions.

    \b
    backstay agents show Explore --json
    """
    from backstay.skills.scan import named

    agent = named(name, look(place, trust=trust).agents, "agent", "backstay agents list")
    content = _object(agent)
    if as_json:
        output.say_json(content)
        return 0
    text = content.pop("system_prompt")
    for key, value in content.items():
        if value not in ("", None, [], ()):
            words = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            output.say(f"{key}: {output.escape_terminal(words)}")
    output.say("")
    output.say(output.escape_terminal(str(text), keep="\n\t"))
    return 0


def _object(agent: "AgentDefinition") -> dict[str, object]:
    import msgspec

    return msgspec.structs.asdict(agent)


def _row(agent: "AgentDefinition") -> tuple[str, ...]:
    where = agent.source if agent.trusted else f"{agent.source} (not trusted)"
    tools = "all" if agent.tools is None else ", ".join(agent.tools) or "none"
    if agent.disallowed_tools:
        tools += f" but {', '.join(agent.disallowed_tools)}"
    text = " ".join(agent.description.split())
    return agent.name, where, agent.model or "as the session", tools[:SHOWN], text[:SHOWN]
