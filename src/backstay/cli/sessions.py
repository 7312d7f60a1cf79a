"""`backstay sessions`: list, show, search and change stored sessions."""

import functools
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Literal

import click
import msgspec
from msgspec import Struct

from backstay.catalog import sessions as catalog
from backstay.cli.output import COULD_NOT, escape_line, print_json, print_line, print_outcome, print_table, warn
from backstay.cli.shared_options import StoreLocation, as_json, settings, with_location, yes
from backstay.config.model_finder import Finder
from backstay.config.person import require_person
from backstay.config.settings import Settings, load_settings
from backstay.headless.formats import with_store
from backstay.headless.lookup import find, find_one, fork_warning
from backstay.headless.result import usd
from backstay.logic.budget import BudgetState, dollars
from backstay.logic.context_usage import ContextState, context_state, estimate_schema, estimate_text
from backstay.logic.state.entries import SKILL_INVOCATION, Entry, message_of
from backstay.logic.state.session_state import SessionRecord, State, state_of
from backstay.logic.text import pluralise, show_invisible
from backstay.ports import EventStore, SessionQuery
from backstay.providers.registry import full_name
from backstay.session.options import Options
from backstay.stores.open import open_store
from backstay.system.folders import project_root
from backstay.system.machine import SystemClock
from backstay.vocab import events
from backstay.vocab.errors import BackstayError, NeedsUpgrade, NoSession, UserError
from backstay.vocab.event import Recorded
from backstay.vocab.ids import provider_of
from backstay.vocab.messages import MediaRef, Reasoning, Text, TextRef, ToolCall, ToolResult, in_calendar, iso
from backstay.vocab.specs import Lease, SessionMeta

MAX_DAYS: Final = 1_000_000
"""The highest age that can be given."""
MAX_ROWS: Final = 50
"""Sessions that a person is shown unless `--limit` or `--all` says otherwise."""
_NO_COST: Final = {"cost_usd": None, "cost_microcents": None}


def _check_days(ctx: click.Context, option: click.Parameter, given: float | None) -> float | None:
    if given is not None and not 0 <= given <= MAX_DAYS:  # NaN is refused too
        raise click.BadParameter(f"{given:g} is not between 0 and {MAX_DAYS:,}.", ctx, option)
    return given


@click.group("sessions")
def command() -> None:
    """List, search, rename, fork, compact, delete and move sessions."""


@command.command("list")
@click.option("--project", type=click.Path(), metavar="DIR", help="Only the sessions of the project that DIR is in.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many; 50 where a person reads.")
@click.option("--all", "everything", is_flag=True, help="All of them, child sessions too.")
@as_json
@with_location
async def list_sessions(
    location: StoreLocation, *, project: str | None, limit: int | None, everything: bool, as_json: bool
) -> int:
    """List sessions, newest first.

    \b
    (running)         a process has it open; `backstay log tail ID` follows it
    (left in a turn)  no process has, and a turn is open: `backstay -r ID --finish` finishes it
    (damaged)         its log cannot be read to its end; `backstay sessions verify ID` says why
    With --json it is the field "status": idle, running, unfinished, damaged or newer (of a newer Backstay).
    """
    shown = limit if limit or as_json or everything else MAX_ROWS
    query = SessionQuery(project=_project(location, project), include_children=everything, limit=shown)
    async with location.open() as store:
        found = await store.list(query)
        statuses = await _statuses(store, found)
    if as_json:
        print_json([_meta_object(meta) | {"status": status} for meta, status in zip(found, statuses, strict=True)])
    elif not found:
        print_line("There are no sessions here yet.")
    else:
        print_table(("ID", "LAST USED", "TURNS", "NAME OR PROMPT"), list(map(_row, found, statuses)))
        if limit is None and shown is not None and len(found) == shown:
            warn(f"The newest {shown} are shown. --all shows all of them.")
    return 0


@command.command()
@click.argument("session")
@as_json
@with_location
async def show(location: StoreLocation, *, session: str, as_json: bool) -> int:
    """Show one session: what it is, its turns and its messages."""
    async with location.open() as store:
        meta = await find(store, session, warn)
        part = await store.read(meta.id)
        holder = await store.holder(meta.id)
        state = state_of(meta.id, part.records)
        record = await catalog.record(store, meta.id)
    trouble = f"{part.trouble.kind}: {part.trouble.detail}" if part.trouble else ""
    consumption = _consumption(state, record)
    unpriced = not consumption.budget.spent and _is_unpriced(part.records)
    if as_json:
        turns = msgspec.to_builtins(list(state.results.turns.values()))
        extra = {"holder": _holder(holder), "trouble": trouble, "turn_results": turns}
        cost = _NO_COST if unpriced else {}
        print_json(_meta_object(meta) | msgspec.to_builtins(record) | extra | consumption.as_json() | cost)
        return 0
    figures = dict(consumption.in_words()) | ({"cost": "unknown (no price)"} if unpriced else {})
    for title, words in (*_about(meta, holder, trouble), *figures.items()):
        print_line(f"{title + ':':<10} {escape_line(words)}")
    for entry in state.transcript.entries():
        for line in _entry_lines(entry):
            print_line(line)
    return 0


@command.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="At most so many hits.")
@as_json
@with_location
async def search(location: StoreLocation, *, text: str, limit: int, as_json: bool) -> int:
    """Find where something was said or shown, newest first."""
    if not text.strip():
        raise click.UsageError("Say what to search for: the text is empty.")
    async with location.open() as store:
        hits = await store.search(text, limit)
    if as_json:
        print_json(
            [{"session": hit.session, "seq": hit.seq, "snippet": hit.snippet, "name": hit.meta.name} for hit in hits]
        )
    elif not hits:
        print_line(f"{text!r} was not found.")
    for hit in () if as_json else hits:
        print_line(f"{hit.session}  {hit.seq}  {escape_line(' '.join(hit.snippet.split()))}")
    return 0


@command.command()
@click.argument("session")
@click.argument("name")
@as_json
@with_location
async def rename(location: StoreLocation, *, session: str, name: str, as_json: bool) -> int:
    """Give a session a name."""
    name = catalog.check_name(name)
    async with location.open() as store:
        meta = await find_one(store, session)
        await catalog.rename(store, meta.id, name, clock=SystemClock())
    return print_outcome({"id": meta.id, "name": name}, f"{meta.id} is now called {name!r}.", as_json=as_json)


@command.command()
@click.argument("session")
@click.option("--at", default="", metavar="TURN", help="Copy up to the end of this turn: its number or id.")
@click.option("--name", default="", metavar="NAME", help="Name the copy.")
@click.option("--session-id", metavar="ID", help="The id of the copy.")
@as_json
@with_location
async def fork(
    location: StoreLocation, *, session: str, at: str, name: str, session_id: str | None, as_json: bool
) -> int:
    """Copy a session's conversation into a new session and print its id."""
    name = name if name == "" else catalog.check_name(name)
    async with location.open() as store:
        meta = await find(store, session, warn)
        if meta.open_turn and not at:
            warn(with_store(fork_warning(meta), store.url))
        new = await catalog.fork(store, meta.id, clock=SystemClock(), at=at, new_id=session_id, name=name)
    return print_outcome({"id": new, "origin": meta.id}, new, as_json=as_json)


@command.command()
@click.argument("session")
@click.option("--instructions", default="", metavar="TEXT", help="What the summary should pay attention to.")
@click.option("--model", metavar="NAME", help="The model that writes the summary; the session's own model stays.")
@settings
@click.option("--undo", is_flag=True, help="Bring back what the newest compaction took out.")
@as_json
@with_location
async def compact(
    location: StoreLocation,
    *,
    session: str,
    instructions: str,
    model: str | None,
    settings: str | None,
    undo: bool,
    as_json: bool,
) -> int:
    """Make a session's conversation shorter. Nothing is deleted: --undo brings it back."""
    if undo and (instructions or model):
        raise click.UsageError("--undo writes no summary: leave --instructions and --model away.")
    from backstay.session.assemble import open_with  # the other commands need none of it

    in_force = load_settings(settings)
    if model:  # the name for the log: with a profile's own model, and a script's whole path
        model = full_name(Finder(in_force, SystemClock()).complete(model), location.folder.absolute())
    async with location.open() as store:
        meta = await find_one(store, session)
        options = Options(resume=meta.id, store=store, settings=in_force, allow_unpriced=True)
        async with open_with(options) as opened:
            opened.hold()
            done = None if undo else await opened.compact(instructions, model=model or "")
            if undo:
                await opened.undo_compaction()
            messages, context = len(opened.history), opened.context_state
        added = (await store.read(meta.id, meta.seq)).records
    if undo:
        words = f"The conversation has its {pluralise(messages, 'message')} again: about {context.used:,} tokens."
        content = {"id": meta.id, "undone": True, "messages": messages, "tokens": context.used}
        return print_outcome(content, words, as_json=as_json)
    if done is None:
        content = {"id": meta.id, "compacted": False, "messages": messages, "tokens": context.used}
        return print_outcome(content, "There is nothing that could be shortened.", as_json=as_json)
    figures = {"before": done.before, "after": done.after, "window": done.window, "messages": done.messages}
    why = _without_model(done, added, model or meta.model)
    words = (
        f"{meta.id}: {done.before:,} to {done.after:,} tokens; {escape_line(why) or f'{done.model} wrote the summary'}."
    )
    return print_outcome(
        {"id": meta.id, "trigger": done.trigger, "model": done.model, "note": why, **figures}, words, as_json=as_json
    )


@command.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@yes
@as_json
@with_location
async def delete(location: StoreLocation, *, sessions: Sequence[str], yes: bool, as_json: bool) -> int:
    """Delete sessions. No other session is changed.

    On a terminal you are asked first. Without one, as in a script, they are deleted without a question.
    """
    require_person("delete sessions")
    async with location.open() as store:
        found = [await find_one(store, session) for session in sessions]
        _confirm(f"Delete {', '.join(meta.id for meta in found)}?", yes=yes)
        for meta in found:
            await catalog.delete(store, meta.id)
    ids = [meta.id for meta in found]
    return print_outcome({"deleted": ids}, "\n".join(f"{one} is deleted." for one in ids), as_json=as_json)


@command.command()
@click.option("--older-than", type=float, callback=_check_days, metavar="DAYS", help="Sessions not used for that long.")
@click.option("--empty", is_flag=True, help="Sessions without a message.")
@click.option("--dry-run", is_flag=True, help="Only list them.")
@yes
@as_json
@with_location
async def prune(
    location: StoreLocation, *, older_than: float | None, empty: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Delete old or empty sessions; one that a process has open stays.

    On a terminal you are asked first. Without one, as in a script, they are deleted without a question: look with --dry-run.
    """
    if older_than is None and not empty:
        raise click.UsageError("Say what to prune: --older-than DAYS, --empty, or both.")
    if not dry_run:
        require_person("delete sessions")
    async with location.open() as store:
        clock = SystemClock()
        which = functools.partial(catalog.prune, store, clock=clock, older_than_days=older_than, empty=empty)
        stay: list[str] = []
        gone = await which(dry_run=True, report=stay.append)
        if gone and not dry_run:
            _confirm(f"Delete {pluralise(len(gone), 'session')}?", yes=yes)
            stay.clear()
            gone = await which(report=stay.append)
    for reason in stay:
        warn(reason)
    ids = [meta.id for meta in gone]
    words = "would be deleted" if dry_run else "deleted"
    kind = "would_delete" if dry_run else "deleted"
    return print_outcome({kind: ids, "dry_run": dry_run}, "\n".join((*ids, f"{len(ids)} {words}.")), as_json=as_json)


@command.command()
@click.argument("session")
@click.argument("target", metavar="STORE_URL")
@as_json
@with_location
async def move(location: StoreLocation, *, session: str, target: str, as_json: bool) -> int:
    """Move a session into another store, with everything it needs."""
    if target.startswith("memory:"):
        raise click.UsageError("A session that is moved to memory: ends with this command. Name a store that stays.")
    require_person("move sessions")
    clock = SystemClock()
    async with location.open() as store:
        meta = await find_one(store, session)
        other = await open_store(target, clock=clock, warn=warn)
        try:
            if other.identity == store.identity:
                raise UserError(f"Session {meta.id!r} is in {target!r} already.")
            missing = await catalog.move(store, other, meta.id, clock=clock)
        finally:
            await other.close()
    for sha in missing:
        warn(f"The blob {sha} was gone or altered, and is missing there too.")
    return print_outcome({"id": meta.id, "store": target}, f"{meta.id} is now in {target}.", as_json=as_json)


@command.command()
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@as_json
@with_location
async def verify(location: StoreLocation, *, sessions: Sequence[str], as_json: bool) -> int:
    """Read sessions back and say what is wrong; all of them when none is named.

    Every event must be readable and as many as were acknowledged, ids must not repeat, blobs must have their hashes, and the
    metadata must follow from the log. Events have no checksum: another letter in a text that is still an event is not noticed.
    """
    async with location.open() as store:
        named = [(await find(store, session, warn)).id for session in sessions]
        ids = named or [meta.id for meta in await store.list(SessionQuery(include_children=True))]
        wrong = {session: await _troubles(store, session) for session in ids}
    if as_json:
        print_json([{"id": session, "ok": not found, "problems": list(found)} for session, found in wrong.items()])
    else:
        for session, found in wrong.items():
            print_line(f"{session}  {'ok' if not found else 'NOT ok'}")
            for words in found:
                print_line(f"  {words}")
    return COULD_NOT if any(wrong.values()) else 0


class _Consumption(Struct, frozen=True):
    """The context and the budget of a session."""

    context: ContextState
    budget: BudgetState

    def in_words(self) -> list[tuple[str, str]]:
        """Return titles and words for a person."""
        context, budget = self.context, self.budget
        about = "" if context.exact else "about "
        found = [
            ("context", f"{about}{context.used:,} of {context.max:,} tokens ({context.percentage:g} %)"),
            ("cost", dollars(budget.spent)),
        ]
        if budget.limit is not None:
            paused = ", paused" if budget.paused else ""
            found.append(
                ("budget", f"{dollars(budget.limit)}, {_WHEN_SPENT[budget.on_exceed]} when it is spent{paused}")
            )
        return found

    def as_json(self) -> dict[str, object]:
        """Return the same for a program."""
        budget = self.budget
        limit = {"limit_usd": usd(budget.limit), "on_exceed": budget.on_exceed, "paused": budget.paused}
        return {
            "context": msgspec.to_builtins(self.context),
            "cost_usd": usd(budget.spent),
            "cost_microcents": budget.spent,
            "budget": None if budget.limit is None else limit,
        }


def _consumption(state: State, record: SessionRecord) -> _Consumption:
    """Return what a session uses and costs, with the instructions and the tools that were sent last."""
    progress = state.progress
    facts = Finder(_settings(), SystemClock()).facts(progress.retries.model or progress.model)
    overhead = estimate_text(record.system_prompt) + estimate_schema(msgspec.json.encode(record.tool_schemas))
    used = progress.context.request_tokens(overhead) if progress.context.messages else 0
    return _Consumption(context_state(used, facts.window, exact=progress.context.exact), progress.budget)


_WHEN_SPENT = {"warn": "a warning", "fail": "the turn fails", "pause_for_approval": "the turn pauses"}


def _settings() -> Settings:
    try:
        return load_settings()
    except UserError:  # showing a session does not need them
        return Settings()


SessionStatus = Literal["idle", "running", "unfinished", "damaged", "newer"]

MAX_EVENTS: Final = 20_000
"""Events that a list reads to find damage, newest sessions first; of the other sessions it reads the last event alone."""
_STATUS_WORDS: Final[dict[SessionStatus, str]] = {
    "idle": "",
    "running": "(running)",
    "unfinished": "(left in a turn)",
    "damaged": "(damaged)",
    "newer": "(of a newer Backstay)",
}


async def _statuses(store: EventStore, metas: Sequence[SessionMeta]) -> list[SessionStatus]:
    found: list[SessionStatus] = []
    left = MAX_EVENTS
    for meta in metas:
        left -= meta.seq
        found.append(await _status(store, meta, 0 if left >= 0 else max(0, meta.seq - 1)))
    return found


async def _status(store: EventStore, meta: SessionMeta, after: int) -> SessionStatus:
    try:
        trouble = (await store.read(meta.id, after)).trouble
        held = await store.holder(meta.id) is not None
    except NeedsUpgrade:
        return "newer"
    except NoSession:  # it was deleted just now
        return "idle"
    except BackstayError:
        return "damaged"
    if trouble is not None:
        return trouble.kind
    if held:
        return "running"
    return "unfinished" if meta.open_turn else "idle"


def _meta_object(meta: SessionMeta) -> dict[str, object]:
    """Return the metadata of a session for programs: times are texts."""
    found: dict[str, object] = {name: getattr(meta, name) for name in meta.__struct_fields__}
    return found | {"created": iso(meta.created), "updated": iso(meta.updated), "empty": meta.empty}


def _without_model(done: events.Compacted, added: Sequence[Recorded], model: str) -> str:
    """Return why no model wrote the summary, from the log or the name of the model; empty when one did."""
    asked = {record.id for record in added if isinstance(record.event, events.CompactionStarted)}
    for record in added:
        if isinstance(record.event, events.ModelNoted) and record.cause in asked:
            return record.event.note.rstrip(".")
    if done.model:
        return ""
    played = provider_of(model) in ("scripted", "recorded")
    why = "what is only played cannot summarise" if played else "there is too little to ask one about"
    return f"the summary was put together without a model: {why}"


def _is_unpriced(records: Sequence[Recorded]) -> bool:
    """Return whether models were asked and no answer has a known cost."""
    kinds = (events.ModelReplied, events.ModelFailed, events.Compacted, events.CompactionFailed)
    used = [each.event for each in records if isinstance(each.event, kinds) and each.event.usage is not None]
    return bool(used) and all(event.cost is None for event in used)


async def _troubles(store: EventStore, session: str) -> tuple[str, ...]:
    try:
        return await catalog.verify(store, session)
    except BackstayError as exc:
        return (str(exc),)


def _project(location: StoreLocation, given: str | None) -> str | None:
    return None if given is None else str(project_root((location.folder / given).expanduser().absolute()))


def _row(meta: SessionMeta, status: SessionStatus) -> tuple[str, str, str, str]:
    used = datetime.fromtimestamp(in_calendar(meta.updated) / 1_000_000).astimezone()
    words = (meta.name or meta.prompt or "(empty)")[:70]
    return meta.id, f"{used:%Y-%m-%d %H:%M}", str(meta.turns), f"{words}  {_STATUS_WORDS[status]}".rstrip()


def _about(meta: SessionMeta, holder: Lease | None, trouble: str) -> list[tuple[str, str]]:
    found = [
        ("session", meta.id),
        ("name", meta.name),
        ("project", meta.project),
        ("folder", meta.cwd),
        ("created", iso(meta.created)),
        ("last used", iso(meta.updated)),
        ("model", meta.model),
        ("mode", meta.mode),
        ("turns", f"{meta.turns}{', one is open' if meta.open_turn else ''}"),
        ("events", str(meta.seq)),
        ("tokens", f"{meta.input_tokens} in, {meta.output_tokens} out"),
        ("copy of", meta.origin),
        ("child of", meta.parent),
        ("held by", f"{holder.owner.label} (pid {holder.owner.pid} on {holder.owner.host})" if holder else ""),
        ("trouble", trouble),
    ]
    return [(title, words) for title, words in found if words]


def _holder(lease: Lease | None) -> dict[str, object] | None:
    if lease is None:
        return None
    owner = lease.owner
    return {"pid": owner.pid, "host": owner.host, "label": owner.label, "since": iso(lease.since)}


def _entry_lines(entry: Entry) -> Iterator[str]:
    """Yield what a person is shown of an entry of the history: a message, or the use of a skill."""
    message = message_of(entry)
    if message is not None:
        text = entry.display or " ".join(_text(part) for part in message.content)
        mark = ", interrupted" if message.state == "interrupted" else ""
        yield f"\n[{message.role}{mark}] {show_invisible(text)}"
    elif entry.type == SKILL_INVOCATION and isinstance(entry.data, dict):
        skill, mode, status, by = (
            escape_line(str(entry.data.get(key, ""))) for key in ("skill", "mode", "status", "by")
        )
        yield f"\n[skill] {skill} ({mode}, {status}, by {by})"


def _text(part: object) -> str:
    match part:
        case Text() | Reasoning():
            return part.text
        case TextRef():
            return f"{part.head}... ({part.chars} characters)"
        case ToolCall():
            return f"-> {part.name} {part.args}"
        case ToolResult():
            return ("(error) " if part.is_error else "") + " ".join(_text(each) for each in part.content)
        case MediaRef():
            return f"({part.media_type}, {part.size} bytes)"
        case _:
            return ""


def _confirm(question: str, *, yes: bool) -> None:
    if not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
        raise click.Abort
