"""`backstay hooks`: which there are, and what they would say."""

import functools
from typing import Any

import click

from backstay.cli.location import StoreLocation, placed

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
settings = click.option("--settings", type=click.Path(dir_okay=False), metavar="FILE", help="Settings over all others.")
trust = click.option("--trust", is_flag=True, help="Also what this workspace brings along.")


@click.group("hooks")
def command() -> None:
    """List hooks, and try them without a session."""


@command.command("list")
@settings
@trust
@as_json
@placed
def list_hooks(place: StoreLocation, **given: Any) -> int:  # Any: each flag has a type of its own
    """List the hooks of the settings that count here, and what is wrong with them."""
    return _run("list_hooks", place, **given)


@command.command()
@click.argument("event")
@click.argument("told", required=False, metavar="[JSON]")
@settings
@trust
@as_json
@placed
def test(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Run the hooks of EVENT as a session would, and show what each says and what it comes to.

    \b
    backstay hooks test PreToolUse
    backstay hooks test PreToolUse '{"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}}'
    backstay hooks test Stop - < input.json

    What JSON does not say is filled in. The hooks really run, and do what they do. Those that ask a model are only named.
    """
    return _run("try_hooks", place, **given)


def _run(name: str, place: StoreLocation, /, **given: Any) -> int:  # Any: as above
    import anyio

    from backstay.cli import hook_actions
    from backstay.config.person import require_person

    if given["trust"]:
        require_person("trust a workspace")
    code: int = anyio.run(functools.partial(getattr(hook_actions, name), place, **given))
    return code
