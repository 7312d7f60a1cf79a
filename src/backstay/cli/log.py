"""`backstay log`: show, follow, check, export, import and repair the log of one session."""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import anyio
import click

from backstay.catalog import sessions
from backstay.catalog.load import replay_pieces
from backstay.catalog.paged_log import PagedLog, pages, with_log
from backstay.cli.log_tail import Follower, format_item
from backstay.cli.log_validate import Validity, check_session
from backstay.cli.output import COULD_NOT, escape_line, print_json, print_line, print_outcome, print_pieces, warn
from backstay.cli.secrets import redactor_of
from backstay.cli.shared_options import StoreLocation, as_json, with_location
from backstay.config.person import require_person
from backstay.export.diagnostic.check import check, in_words
from backstay.export.diagnostic.export import json_lines, load_source, write_diagnostic
from backstay.export.diagnostic.external_payloads import Resolver
from backstay.export.diagnostic.read_back import read_diagnostic
from backstay.export.formats import write_pieces
from backstay.export.log_file import folder_lines, log_lines, read_log
from backstay.export.log_file import import_log as make_session
from backstay.headless.formats import clean_item, clean_line
from backstay.headless.lookup import find, find_one
from backstay.logic.secrets.redact import Redactor
from backstay.logic.text import pluralise
from backstay.ports import SessionQuery
from backstay.system.machine import SystemClock
from backstay.vocab import events
from backstay.vocab.errors import LogDamaged, NeedsUpgrade
from backstay.vocab.specs import Trouble
from backstay.wire.json_lines import LONGEST_HEADER, is_log
from backstay.wire.stream import Item
from backstay.wire.stream import line as stream_line

lines_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line, as the stream has it."
)
seq = click.IntRange(min=0)


@click.group("log")
def command() -> None:
    """Show, follow, replay, check, export, import and repair the log of a session."""


@command.command()
@click.argument("session")
@click.option("--after", type=seq, default=0, metavar="SEQ", help="Only what came after this event.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many events.")
@lines_as_json
@with_location
async def show(location: StoreLocation, *, session: str, after: int, limit: int | None, as_json: bool) -> int:
    """Print the events of a session."""
    redactor = await redactor_of(location)
    async with location.open(read_only=True) as store:
        meta = await find(store, session, warn)
        if limit is not None:
            part = await store.read(meta.id, after, limit)
            _print(meta.id, part.records, redactor, as_json=as_json)
            return _report(part.trouble)
        async for part in pages(store, meta.id, after):
            _print(meta.id, part.records, redactor, as_json=as_json)
    return _report(part.trouble)


@command.command()
@click.argument("session")
@click.option("--after", type=seq, metavar="SEQ", help="Begin after this event; the last ten when left out.")
@lines_as_json
@with_location
async def tail(location: StoreLocation, *, session: str, after: int | None, as_json: bool) -> int:
    """Follow a session while another process runs it, fragments included; end when no process holds it."""
    redactor = await redactor_of(location)
    async with location.open(read_only=True) as store:
        meta = await find(store, session, warn)
        start = max(0, meta.seq - 10) if after is None else after
        trouble = (await store.read(meta.id, start)).trouble
        if trouble is not None and after is None:
            start = max(0, min(meta.seq, trouble.seq) - 10)
        async for items in Follower(store, meta.id, start):
            _print(meta.id, items, redactor, as_json=as_json)
            await anyio.to_thread.run_sync(sys.stdout.flush)
    return _report(trouble)


@command.command()
@click.argument("session")
@click.option("--at", type=seq, metavar="SEQ", help="Only up to this event.")
@click.option("--json", "as_json", is_flag=True, help="Accepted: the state is always JSON.")
@with_location
async def replay(location: StoreLocation, *, session: str, at: int | None, as_json: bool) -> int:
    """Fold the log and print the state that it means. Runs nothing."""
    redactor = await redactor_of(location)
    async with location.open(read_only=True) as store:
        meta = await find(store, session, warn)
        if at is not None and at > meta.seq:
            raise click.UsageError(f"--at {at} is past the end: the last event of {meta.id} is {meta.seq}.")

        def write(log: PagedLog) -> Trouble | None:
            pieces = replay_pieces(log, indented=sys.stdout.isatty(), redactor=redactor)
            print_pieces(piece.decode() for piece in pieces)
            return log.trouble

        trouble = await with_log(store, meta.id, write, last=at)
    return _report(trouble)


@command.command()
@click.argument("session", metavar="SESSION|FILE.jsonl")
@as_json
@with_location
async def validate(location: StoreLocation, *, session: str, as_json: bool) -> int:
    """Check the log of a session (whether every event can be read, numbers, pairs of intents and results, blobs by their hashes,
    payloads of model calls), or a file that `log export` wrote in either format. Exit 1 when something is wrong; what the
    trace lost in a crash is not.

    Events in a store have no checksum: another letter in a text that is still an event is not noticed. Lines of a file of
    `log export --format events` have one each.
    """
    file = Path(session)
    if file.suffix == ".jsonl" and await anyio.Path(file).is_file():
        return await anyio.to_thread.run_sync(_validate_file, file, as_json)
    async with location.open(read_only=True) as store:
        meta = await find(store, session, warn)
        found = await check_session(store, meta.id)
    about = {"session": meta.id, "events": found.events} | ({"issues": found.issues} if found.issues else {})
    words = f"{meta.id}: {pluralise(found.events, 'event')}"
    return _print_verdict(about, words, found.wrong, found.notes, as_json=as_json)


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
@with_location
async def export(location: StoreLocation, *, session: str, kind: str, output: Path | None) -> int:
    """Write the log of a session as lines of JSON. A session that is running can be exported too.

    jsonl is the diagnostic log: what was sent to the model and what came back, tools, and every change of the history,
    made from the log and the trace, without secrets. events is the session itself, events and blobs, for `log import`:
    nothing in it is masked. The sessions that it started are not in it; the command names them.
    """
    output = None if output == Path("-") else output
    if kind == "events":
        return await _export_events(location, session, output)
    redactor = await redactor_of(location)
    async with location.open(read_only=True) as store:
        meta = await find(store, session, warn)

        def write(log: PagedLog) -> Trouble | None:
            source = load_source(log, store.url)
            if output is not None:
                print_line(f"{output}: {pluralise(write_diagnostic(source, output, redactor), 'line')} of {kind}")
            else:
                for written in json_lines(source, redactor=redactor):
                    print_line(written.decode())
            return log.trouble

        trouble = await with_log(store, meta.id, write)
    return _report(trouble)


async def _export_events(location: StoreLocation, session: str, output: Path | None) -> int:
    async with location.open(read_only=True) as store:
        meta = await find(store, session, warn)
        started = await store.list(SessionQuery(include_children=True))

        def write(log: PagedLog) -> None:
            pieces = (each.decode() for each in log_lines(log, meta.seq))
            if output is not None:
                write_pieces(output, pieces)
                print_line(f"{output}: {pluralise(meta.seq, 'event')}; nothing in it is masked")
            else:
                for piece in pieces:
                    print_line(piece[:-1])

        await with_log(store, meta.id, write, last=meta.seq)
    if children := sorted(each.id for each in started if each.parent == meta.id):
        warn(f"Sessions that {meta.id} started are not in it; export each: {', '.join(children)}.")
    return 0


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, allow_dash=True))
@click.option("--name", default="", metavar="NAME", help="What the new session is called.")
@as_json
@with_location
async def import_log(location: StoreLocation, *, file: Path, name: str, as_json: bool) -> int:
    """Make a session from a file that `log export --format events` wrote (- for standard input), under a new id.

    The same log again: events, ids, times, blobs. A line that is torn, altered or foreign is named by its number, and
    nothing is written. What was allowed in it, a looser mode and a wider scope do not count here, and what was open is
    closed: an imported session runs nothing by itself.

    FILE may be the folder of a session in a store of JSON lines, as 0.2.0 kept them: STORE/sessions/ID.
    """
    name = sessions.check_name(name) if name else ""
    with tempfile.TemporaryFile() as copy:  # standard input can be read only once, and a file may change meanwhile
        await anyio.to_thread.run_sync(_spool, file, copy)
        async with location.open() as store:
            done = await make_session(store, copy, name=name, clock=SystemClock())
    if reverted := [each for each in done.added if not isinstance(each.event, events.Renamed | events.StoreChanged)]:
        warn(
            "What was allowed, loosened or open in it does not count here: "
            f"{pluralise(len(reverted), 'event')} behind it took that back. `backstay log show {done.session}` shows them."
        )
    if done.children:
        warn(f"Sessions that it started were not in the file: {', '.join(done.children)}.")
    words = f"{done.session}: {pluralise(done.events, 'event')}"
    return print_outcome({"session": done.session, "events": done.events}, words, as_json=as_json)


def _spool(file: Path, to: BinaryIO) -> None:
    if file == Path("-"):
        shutil.copyfileobj(sys.stdin.buffer, to)
    elif file.is_dir():
        to.writelines(folder_lines(file))
    else:
        with file.open("rb") as source:
            shutil.copyfileobj(source, to)


def _report(trouble: Trouble | None) -> int:
    """Warn that a log cannot be read any further; return the exit code."""
    if trouble is None:
        return 0
    warn(f"The log goes no further: {trouble.detail}")
    return COULD_NOT


@command.command()
@click.argument("session")
@as_json
@with_location
async def repair(location: StoreLocation, *, session: str, as_json: bool) -> int:
    """Make a damaged log writable again; the damaged bytes are put aside."""
    require_person("repair logs")
    async with location.open() as store:
        meta = await find_one(store, session)
        part = await store.read(meta.id)
        words = await store.repair(meta.id)
        kept = (await store.read(meta.id)).records if await sessions.exists(store, meta.id) else ()
    aside = max(0, meta.seq - len(kept))
    if part.trouble is not None and part.trouble.kind == "damaged":
        words = f"{words} {_loss(meta.id, len(kept), aside)}"
    content = {"session": meta.id, "done": words, "kept": len(kept), "aside": aside}
    return print_outcome(content, words, as_json=as_json)


def _loss(session: str, kept: int, aside: int) -> str:
    """Say what a repair kept of a session and what it put aside."""
    put_aside = f"{pluralise(aside, 'event')} put aside" if aside else "what came after the damage is put aside"
    if kept:
        return f"{pluralise(kept, 'event')} kept, {put_aside}."
    return (
        f"Nothing of it can be read; {put_aside}, and there is no session {session!r} any more: "
        "opening that id begins a new one."
    )


def _validate_file(file: Path, as_json: bool) -> int:
    with file.open("rb") as opened:
        if is_log(opened.readline(LONGEST_HEADER)):
            return _validate_events(opened, file, as_json)
    log = read_diagnostic(file)
    found = check(log.lines, Resolver(file.parent))
    torn = [problem for problem in log.problems if problem.endswith("is torn off.")]
    unreadable = [problem for problem in log.problems if problem not in torn]
    wrong, notes = (*unreadable, *in_words(found.issues)), (*torn, *found.notes)
    about = {"file": str(file), "events": len(log.lines), "issues": found.issues}
    return _print_verdict(about, f"{file}: {pluralise(len(log.lines), 'line')}", wrong, notes, as_json=as_json)


def _validate_events(opened: BinaryIO, file: Path, as_json: bool) -> int:
    """Check a file of `log export --format events`: its lines, then the log that they are."""
    validity, wrong = Validity(), tuple[str, ...]()
    try:
        wrong = validity.take(read_log(opened)).problems
    except (LogDamaged, NeedsUpgrade) as exc:
        wrong = (str(exc),)
    about = {"file": str(file), "events": validity.events}
    words = f"{file}: {pluralise(validity.events, 'event')}"
    return _print_verdict(about, words, wrong, (), as_json=as_json)


def _print_verdict(
    about: Mapping[str, object], words: str, wrong: Sequence[str], notes: Sequence[str], *, as_json: bool
) -> int:
    """Print the problems and notes of a check, and return the exit code."""
    if as_json:
        print_json({**about, "valid": not wrong, "problems": list(wrong), "notes": list(notes)})
        return COULD_NOT if wrong else 0
    for line in (*wrong, *notes):
        print_line(escape_line(line))
    print_line(f"{words}, {pluralise(len(wrong), 'problem') if wrong else 'valid'}.")
    return COULD_NOT if wrong else 0


def _print(session: str, items: Iterable[Item], redactor: Redactor, *, as_json: bool) -> None:
    for item in items:
        if as_json:
            print_line(clean_line(stream_line(session, item), redactor).decode())
        elif words := format_item(clean_item(item, redactor)):
            print_line(escape_line(words))
