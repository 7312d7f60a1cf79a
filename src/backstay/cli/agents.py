"""`backstay agents`: list and show the agents that work can be handed to."""

import click
import msgspec

from backstay.cli import output
from backstay.cli.shared_options import StoreLocation, as_json, trust, with_location
from backstay.cli.skills import MAX_DESCRIPTION, find_extensions, print_definition, print_problems
from backstay.skills.agents import AgentDefinition
from backstay.skills.scan import find_named


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
@with_location
def list_agents(location: StoreLocation, trust: bool, as_json: bool) -> int:
    """List the agents in force here, built in or of your own, those that others hide, and what is wrong with their files.

    \b
    backstay agents list --json
    """
    found = find_extensions(location, trust=trust)
    hidden = [each for each in found.shadowed if isinstance(each, AgentDefinition)]
    if as_json:
        output.print_json(
            {
                "agents": [msgspec.structs.asdict(each) for each in found.agents],
                "shadowed": [msgspec.structs.asdict(each) for each in hidden],
                "problems": found.problems,
            }
        )
        return 0
    output.print_table(("name", "from", "model", "tools", "description"), [_row(each) for each in found.agents])
    print_problems(found.problems)
    return 0


@command.command()
@click.argument("name")
@trust
@as_json
@with_location
def show(location: StoreLocation, name: str, trust: bool, as_json: bool) -> int:
    """Show the agent NAME: its tools, its model and its instructions.

    \b
    backstay agents show Explore --json
    """
    agent = find_named(name, find_extensions(location, trust=trust).agents, "agent", "backstay agents list")
    content = msgspec.structs.asdict(agent)
    if as_json:
        output.print_json(content)
        return 0
    print_definition(content, str(content.pop("system_prompt")))
    return 0


def _row(agent: AgentDefinition) -> tuple[str, ...]:
    where = agent.source if agent.trusted else f"{agent.source} (not trusted)"
    tools = "all" if agent.tools is None else ", ".join(agent.tools) or "none"
    if agent.disallowed_tools:
        tools += f" but {', '.join(agent.disallowed_tools)}"
    text = " ".join(agent.description.split())
    return agent.name, where, agent.model or "as the session", tools[:MAX_DESCRIPTION], text[:MAX_DESCRIPTION]
