"""What the `log` commands do."""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import anyio
import click

from backstay.catalog import sessions
from backstay.catalog.load import PagedLog, pages, replay_pieces, with_log
from backstay.cli.location import StoreLocation
from backstay.cli.log_lines import Follower, one_line
from backstay.cli.log_validate import check_session
from backstay.cli.output import COULD_NOT, escape_terminal, say, say_json, say_pieces, warn
from backstay.cli.secret_actions import redactor_of
from backstay.config.person import require_person
from backstay.export.diagnostic.check import check, in_words
from backstay.export.diagnostic.export import json_lines, material_of, write_diagnostic
from backstay.export.diagnostic.payloads import Resolver
from backstay.export.diagnostic.trace import read_diagnostic
from backstay.export.files import write_pieces
from backstay.export.log_file import folder_lines, log_lines
from backstay.export.log_file import import_log as make_session
from backstay.headless.formats import clean_item, clean_line
from backstay.headless.run import check_name, find, find_one
from backstay.logic.secrets.redact import Redactor
from backstay.logic.text import pluralise
from backstay.ports import SessionQuery
from backstay.system.machine import SystemClock
from backstay.vocab.events import Renamed, StoreChanged
from backstay.vocab.specs import Trouble
from backstay.wire.stream import Item, line


async def show(place: StoreLocation, *, session: str, after: int, limit: int | None, as_json: bool) -> int:
    """Print the events of a session."""
    redactor = await redactor_of(place)
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, warn)
        if limit is not None:
            part = await store.read(meta.id, after, limit)
            _print(meta.id, part.records, redactor, as_json=as_json)
            return _told(part.trouble)
        async for part in pages(store, meta.id, after):
            _print(meta.id, part.records, redactor, as_json=as_json)
    return _told(part.trouble)


async def tail(place: StoreLocation, *, session: str, after: int | None, as_json: bool) -> int:
    """Print what is there, then what comes, until nobody holds the session."""
    redactor = await redactor_of(place)
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, warn)
        start = max(0, meta.seq - 10) if after is None else after
        trouble = (await store.read(meta.id, start)).trouble
        if trouble is not None and after is None:
            start = max(0, min(meta.seq, trouble.seq) - 10)
        async for items in Follower(store, meta.id, start):
            _print(meta.id, items, redactor, as_json=as_json)
            await anyio.to_thread.run_sync(sys.stdout.flush)
    return _told(trouble)


async def replay(place: StoreLocation, *, session: str, at: int | None, as_json: bool) -> int:
    """Print what the log means."""
    redactor = await redactor_of(place)
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, warn)
        if at is not None and at > meta.seq:
            raise click.UsageError(f"--at {at} is past the end: the last event of {meta.id} is {meta.seq}.")

        def tell(log: PagedLog) -> Trouble | None:
            say_pieces(replay_pieces(log, indented=sys.stdout.isatty(), redactor=redactor))
            return log.trouble

        trouble = await with_log(store, meta.id, tell, last=at)
    return _told(trouble)


async def validate(place: StoreLocation, *, session: str, as_json: bool) -> int:
    """Check the log of a session, or a diagnostic log in a file."""
    file = Path(session)
    if file.suffix == ".jsonl" and await anyio.Path(file).is_file():
        return await anyio.to_thread.run_sync(_validate_file, file, as_json)
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, warn)
        found = await check_session(store, meta.id)
    if as_json:
        issues = {"issues": found.issues} if found.issues else {}
        return _verdict_json({"session": meta.id, "events": found.events, **issues}, found.wrong, found.notes)
    return _verdict(f"{meta.id}: {pluralise(found.events, 'event')}", found.wrong, found.notes)


async def export(place: StoreLocation, *, session: str, kind: str, output: Path | None) -> int:
    """Write the diagnostic log of a session, or the session itself, to a file or to standard output."""
    output = None if output == Path("-") else output
    if kind == "events":
        return await _export_events(place, session, output)
    redactor = await redactor_of(place)
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, warn)

        def tell(log: PagedLog) -> Trouble | None:
            material = material_of(log, store.url)
            if output is not None:
                say(f"{output}: {pluralise(write_diagnostic(material, output, redactor), 'line')} of {kind}")
            else:
                for written in json_lines(material, redactor=redactor):
                    say(written.decode())
            return log.trouble

        trouble = await with_log(store, meta.id, tell)
    return _told(trouble)


async def _export_events(place: StoreLocation, session: str, output: Path | None) -> int:
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, warn)
        started = await store.list(SessionQuery(include_children=True))

        def tell(log: PagedLog) -> None:
            pieces = (each.decode() for each in log_lines(log, meta.seq))
            if output is not None:
                write_pieces(output, pieces)
                say(f"{output}: {pluralise(meta.seq, 'event')}; nothing in it is masked")
            else:
                for piece in pieces:
                    say(piece[:-1])

        await with_log(store, meta.id, tell, last=meta.seq)
    if children := sorted(each.id for each in started if each.parent == meta.id):
        warn(f"Sessions that {meta.id} started are not in it; export each: {', '.join(children)}.")
    return 0


async def import_log(place: StoreLocation, *, file: Path, name: str, as_json: bool) -> int:
    """Make a session from a file of lines or an old folder, and say what of it does not count."""
    name = check_name(name) if name else ""
    with tempfile.TemporaryFile() as again:  # standard input can be read once only, and a file may change meanwhile
        await anyio.to_thread.run_sync(_spool, file, again)
        async with place.opened() as store:
            done = await make_session(store, again, name=name, clock=SystemClock())
    if taken_back := [each for each in done.added if not isinstance(each.event, Renamed | StoreChanged)]:
        warn(
            "What was allowed, loosened or open in it does not count here: "
            f"{pluralise(len(taken_back), 'event')} behind it took that back. `backstay log show {done.session}` shows them."
        )
    if done.children:
        warn(f"Sessions that it started were not in the file: {', '.join(done.children)}.")
    if as_json:
        say_json({"session": done.session, "events": done.events})
    else:
        say(f"{done.session}: {pluralise(done.events, 'event')}")
    return 0


def _spool(file: Path, to: BinaryIO) -> None:
    if file == Path("-"):
        shutil.copyfileobj(sys.stdin.buffer, to)
    elif file.is_dir():
        to.writelines(folder_lines(file))
    else:
        with file.open("rb") as source:
            shutil.copyfileobj(source, to)


def _told(trouble: Trouble | None) -> int:
    """Say where a log cannot be read any further; return what that means for the exit code."""
    if trouble is None:
        return 0
    warn(f"The log goes no further: {trouble.detail}")
    return COULD_NOT


async def repair(place: StoreLocation, *, session: str, as_json: bool) -> int:
    """Make a damaged log writable again, and say what that costs."""
    require_person("repair logs")
    async with place.opened() as store:
        meta = await find_one(store, session)
        part = await store.read(meta.id)
        words = await store.repair(meta.id)
        kept = (await store.read(meta.id)).records if await sessions.exists(store, meta.id) else ()
    aside = max(0, meta.seq - len(kept))
    if part.trouble is not None and part.trouble.kind == "damaged":
        words = f"{words} {_cost(meta.id, len(kept), aside)}"
    if as_json:
        say_json({"session": meta.id, "done": words, "kept": len(kept), "aside": aside})
    else:
        say(words)
    return 0


def _cost(session: str, kept: int, aside: int) -> str:
    """What a repair made of a session."""
    put_aside = f"{pluralise(aside, 'event')} put aside" if aside else "what came after the damage is put aside"
    if kept:
        return f"{pluralise(kept, 'event')} kept, {put_aside}."
    return (
        f"Nothing of it can be read; {put_aside}, and there is no session {session!r} any more: "
        "whoever opens that id begins a new one."
    )


def _validate_file(file: Path, as_json: bool) -> int:
    log = read_diagnostic(file)
    found = check(log.lines, Resolver(file.parent))
    torn = [problem for problem in log.problems if problem.endswith("is torn off.")]
    unreadable = [problem for problem in log.problems if problem not in torn]
    wrong, notes = (*unreadable, *in_words(found.issues)), (*torn, *found.notes)
    if as_json:
        return _verdict_json({"file": str(file), "events": len(log.lines), "issues": found.issues}, wrong, notes)
    return _verdict(f"{file}: {pluralise(len(log.lines), 'line')}", wrong, notes)


def _verdict(about: str, wrong: Sequence[str], notes: Sequence[str]) -> int:
    for words in (*wrong, *notes):
        say(escape_terminal(words))
    say(f"{about}, {pluralise(len(wrong), 'problem') if wrong else 'valid'}.")
    return COULD_NOT if wrong else 0


def _verdict_json(about: Mapping[str, object], wrong: Sequence[str], notes: Sequence[str]) -> int:
    say_json({**about, "valid": not wrong, "problems": list(wrong), "notes": list(notes)})
    return COULD_NOT if wrong else 0


def _print(session: str, items: Iterable[Item], redactor: Redactor, *, as_json: bool) -> None:
    for item in items:
        if as_json:
            say(clean_line(line(session, item), redactor).decode())
        elif words := one_line(clean_item(item, redactor)):
            say(escape_terminal(words))
