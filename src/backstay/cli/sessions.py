"""`backstay sessions`: what there is, and what can be done with it."""

import functools
from typing import Any, Final

import click

from backstay.cli.location import StoreLocation, placed

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
LONGEST: Final = 1_000_000
"""Days that a session may be old."""
quiet_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def _days(ctx: click.Context, option: click.Parameter, given: float | None) -> float | None:
    if given is not None and not 0 <= given <= LONGEST:  # what is not a number is neither
        raise click.BadParameter(f"{given:g} is not between 0 and {LONGEST:,}.", ctx, option)
    return given


@click.group("sessions")
def command() -> None:
    """List, search, rename, fork, compact, delete and move sessions."""


@command.command("list")
@click.option("--project", type=click.Path(), metavar="DIR", help="Only the sessions of the project that DIR is in.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many; 50 where a person reads.")
@click.option("--all", "everything", is_flag=True, help="All of them, child sessions too.")
@as_json
@placed
def list_sessions(place: StoreLocation, **given: Any) -> int:  # Any: each flag has a type of its own
    """List sessions, newest first.

    \b
    (running)         somebody has it open; `backstay log tail ID` follows it
    (left in a turn)  nobody has, and a turn is open: `backstay -r ID --finish` finishes it
    (damaged)         its log cannot be read to its end; `backstay sessions verify ID` says why
    With --json it is the field "status": idle, running, unfinished, damaged or newer (of a newer Backstay).
    """
    return _run("list_sessions", place, **given)


@command.command()
@click.argument("session")
@as_json
@placed
def show(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Show one session: what it is, its turns and its messages."""
    return _run("show", place, **given)


@command.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="At most so many hits.")
@as_json
@placed
def search(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Find where something was said or shown, newest first."""
    return _run("search", place, **given)


@command.command()
@click.argument("session")
@click.argument("name")
@as_json
@placed
def rename(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Give a session a name."""
    return _run("rename", place, **given)


@command.command()
@click.argument("session")
@click.option("--at", default="", metavar="TURN", help="Copy up to the end of this turn: its number or id.")
@click.option("--name", default="", metavar="NAME", help="Name the copy.")
@click.option("--session-id", metavar="ID", help="The id of the copy.")
@as_json
@placed
def fork(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Copy a session's conversation into a new session and print its id."""
    return _run("fork", place, **given)


@command.command()
@click.argument("session")
@click.option("--instructions", default="", metavar="TEXT", help="What the summary is to look at especially.")
@click.option("--model", metavar="NAME", help="Who writes the summary; the session's own model stays.")
@click.option("--settings", type=click.Path(dir_okay=False), metavar="FILE", help="Settings over the person's own.")
@click.option("--undo", is_flag=True, help="Bring back what the newest compaction took out.")
@as_json
@placed
def compact(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Make a session's conversation shorter. Nothing is deleted: --undo brings it back."""
    return _run("compact", place, **given)


@command.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@quiet_yes
@as_json
@placed
def delete(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Forget sessions. No other session is touched.

    On a terminal you are asked first. Without one, as in a script, nobody is asked and they are deleted.
    """
    return _run("delete", place, **given)


@command.command()
@click.option("--older-than", type=float, callback=_days, metavar="DAYS", help="Those not used for so long.")
@click.option("--empty", is_flag=True, help="Those in which nothing was ever said.")
@click.option("--dry-run", is_flag=True, help="Only say which.")
@quiet_yes
@as_json
@placed
def prune(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Forget old or empty sessions; one that somebody has open stays.

    On a terminal you are asked first. Without one, as in a script, nobody is asked and they are deleted: look with --dry-run.
    """
    return _run("prune", place, **given)


@command.command()
@click.argument("session")
@click.argument("target", metavar="STORE_URL")
@as_json
@placed
def move(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Bring a session into another store, with everything it needs."""
    return _run("move", place, **given)


@command.command()
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@as_json
@placed
def verify(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Read sessions back and say what is wrong; all of them when none is named."""
    return _run("verify", place, **given)


def _run(name: str, place: StoreLocation, /, **given: Any) -> int:  # Any: as above
    import anyio

    from backstay.cli import session_actions

    code: int = anyio.run(functools.partial(getattr(session_actions, name), place, **given))
    return code
