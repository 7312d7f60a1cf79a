"""`backstay log`: the log of one session, as it is and as it grows."""

import functools
from pathlib import Path
from typing import Any

import click

from backstay.cli.location import StoreLocation, placed

lines_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line, as the stream has it."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
seq = click.IntRange(min=0)


@click.group("log")
def command() -> None:
    """Show, follow, replay, check, export, import and mend the log of a session."""


@command.command()
@click.argument("session")
@click.option("--after", type=seq, default=0, metavar="SEQ", help="Only what came after this event.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many events.")
@lines_as_json
@placed
def show(place: StoreLocation, **given: Any) -> int:  # Any: each flag has a type of its own
    """Print the events of a session."""
    return _run("show", place, **given)


@command.command()
@click.argument("session")
@click.option("--after", type=seq, metavar="SEQ", help="Begin after this event; the last ten when left out.")
@lines_as_json
@placed
def tail(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Follow a session while another process runs it, fragments included; end when nobody holds it."""
    return _run("tail", place, **given)


@command.command()
@click.argument("session")
@click.option("--at", type=seq, metavar="SEQ", help="Only up to this event.")
@click.option("--json", "as_json", is_flag=True, help="Accepted: the state is always JSON.")
@placed
def replay(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Fold the log and print the state that it means. Runs nothing."""
    return _run("replay", place, **given)


@command.command()
@click.argument("session", metavar="SESSION|FILE.jsonl")
@as_json
@placed
def validate(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Check the log of a session (bytes, numbers, pairs of intents and results, blobs, payloads of model calls), or a file that
    `log export` wrote. Exit 1 when something is wrong; what the trace lost in a crash is not.
    """
    return _run("validate", place, **given)


@command.command()
@click.argument("session")
@as_json
@placed
def repair(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Make a damaged log writable again; the damaged bytes are kept aside."""
    return _run("repair", place, **given)


@command.command()
@click.argument("session")
@click.option(
    "--format",
    "kind",
    type=click.Choice(("jsonl", "events")),
    default="jsonl",
    help="jsonl: the diagnostic log. events: the session itself, for `log import`.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="The file to write; large fields of the diagnostic log go to a folder beside it. Standard output when left out.",
)
@placed
def export(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Write the log of a session as lines of JSON. A session that is running can be exported too.

    jsonl is the diagnostic log: what was sent to the model and what came back, tools, and every change of the history,
    made from the log and the trace, without secrets. events is the session itself, events and blobs, for `log import`:
    nothing in it is masked. Sessions that it started are not in it; the command names them.
    """
    return _run("export", place, **given)


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, allow_dash=True))
@click.option("--name", default="", metavar="NAME", help="What the new session is called.")
@as_json
@placed
def import_log(place: StoreLocation, **given: Any) -> int:  # Any: as above
    """Make a session from a file that `log export --format events` wrote (- for standard input), under a new id.

    The same log again: events, ids, times, blobs. A line that is torn, altered or foreign is named by its number, and
    nothing is written. What was allowed in it, a looser mode and a wider scope do not count here, and what was open is
    closed: an imported session runs nothing by itself.

    FILE may be the folder of a session in a store of JSON lines, as 0.2.0 kept them: STORE/sessions/ID.
    """
    return _run("import_log", place, **given)


def _run(name: str, place: StoreLocation, /, **given: Any) -> int:  # Any: as above
    import anyio

    from backstay.cli import log_actions

    code: int = anyio.run(functools.partial(getattr(log_actions, name), place, **given))
    return code
