"""What the `sessions` commands do."""

import functools
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import click
import msgspec
from msgspec import Struct

from backstay.catalog import sessions as shelf
from backstay.cli.location import StoreLocation
from backstay.cli.output import COULD_NOT, escape_terminal, say, say_json, say_table, warn
from backstay.config.model_finder import Finder
from backstay.config.person import require_person
from backstay.config.settings import Settings, load_settings
from backstay.headless.formats import with_store
from backstay.headless.result import usd
from backstay.headless.run import check_name, find, find_one, fork_warning
from backstay.logic.budget import BudgetState, dollars
from backstay.logic.context_usage import ContextState, context_state, estimate_schema, estimate_text
from backstay.logic.state.entries import SKILL_INVOCATION, Entry, message_of
from backstay.logic.state.session_state import SessionRecord, State, state_of
from backstay.logic.text import pluralise
from backstay.ports import EventStore, SessionQuery
from backstay.providers.registry import full_name
from backstay.sandbox.folders import project_root
from backstay.session.assemble import open_with
from backstay.session.options import Options
from backstay.stores.open import open_store
from backstay.system.machine import SystemClock
from backstay.vocab.errors import BackstayError, NeedsUpgrade, NoSession, UserError
from backstay.vocab.event import Recorded
from backstay.vocab.events import ModelFailed, ModelNoted, ModelReplied
from backstay.vocab.events.limits import Compacted, CompactionFailed, CompactionStarted
from backstay.vocab.ids import provider_of
from backstay.vocab.messages import MediaRef, Reasoning, Text, TextRef, ToolCall, ToolResult, in_calendar, iso
from backstay.vocab.specs import Lease, SessionMeta


class Meter(Struct, frozen=True):
    """The context, and the money."""

    context: ContextState
    budget: BudgetState

    def in_words(self) -> list[tuple[str, str]]:
        """Titles and words for a person."""
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
        """The same for a program."""
        budget = self.budget
        limits = {"limit_usd": usd(budget.limit), "on_exceed": budget.on_exceed, "paused": budget.paused}
        return {
            "context": msgspec.to_builtins(self.context),
            "cost_usd": usd(budget.spent),
            "cost_microcents": budget.spent,
            "budget": None if budget.limit is None else limits,
        }


def meter_of(state: State, record: SessionRecord) -> Meter:
    """The meter of a session: as it shows itself, with the instructions and the tools that were sent last."""
    progress = state.progress
    facts = Finder(_settings(), SystemClock()).facts(progress.retries.model or progress.model)
    overhead = estimate_text(record.system_prompt) + estimate_schema(msgspec.json.encode(record.tool_schemas))
    used = progress.context.request_tokens(overhead) if progress.context.messages else 0
    return Meter(context_state(used, facts.window, exact=progress.context.exact), progress.budget)


_WHEN_SPENT = {"warn": "a warning", "fail": "the turn fails", "pause_for_approval": "the turn pauses"}


def _settings() -> Settings:
    try:
        return load_settings()
    except UserError:  # a look at a session does not need them
        return Settings()


Standing = Literal["idle", "running", "unfinished", "damaged", "newer"]

READ: Final = 20_000
"""Events that a list reads to find damage, newest sessions first; of the others it looks at the end alone."""
WORDS: Final[dict[Standing, str]] = {
    "idle": "",
    "running": "(running)",
    "unfinished": "(left in a turn)",
    "damaged": "(damaged)",
    "newer": "(of a newer Backstay)",
}
"""What a person is shown of it."""


async def standings(store: EventStore, metas: Sequence[SessionMeta]) -> list[Standing]:
    """How it stands with each of `metas`."""
    found: list[Standing] = []
    left = READ
    for meta in metas:
        left -= meta.seq
        found.append(await _standing(store, meta, 0 if left >= 0 else max(0, meta.seq - 1)))
    return found


async def _standing(store: EventStore, meta: SessionMeta, after: int) -> Standing:
    try:
        trouble = (await store.read(meta.id, after)).trouble
        held = await store.holder(meta.id) is not None
    except NeedsUpgrade:
        return "newer"
    except NoSession:  # somebody deleted it just now
        return "idle"
    except BackstayError:
        return "damaged"
    if trouble is not None:
        return trouble.kind
    if held:
        return "running"
    return "unfinished" if meta.open_turn else "idle"


SHOWN: Final = 50
"""Sessions that a person is shown without asking for more."""
_LAYOUT: Final = "\n\t"
_NO_COST: Final = {"cost_usd": None, "cost_microcents": None}


async def list_sessions(
    place: StoreLocation, *, project: str | None, limit: int | None, everything: bool, as_json: bool
) -> int:
    """List sessions, newest first."""
    shown = limit if limit or as_json or everything else SHOWN
    query = SessionQuery(project=_project(place, project), include_children=everything, limit=shown)
    async with place.opened() as store:
        found = await store.list(query)
        standing = await standings(store, found)
    if as_json:
        say_json([plain(meta) | {"status": status} for meta, status in zip(found, standing, strict=True)])
    elif not found:
        say("There are no sessions here yet.")
    else:
        say_table(("ID", "LAST USED", "TURNS", "NAME OR PROMPT"), list(map(_row, found, standing)))
        if limit is None and shown is not None and len(found) == shown:
            warn(f"The newest {shown} are shown. --all shows all of them.")
    return 0


async def show(place: StoreLocation, *, session: str, as_json: bool) -> int:
    """Show one session."""
    async with place.opened() as store:
        meta = await find(store, session, warn)
        part = await store.read(meta.id)
        holder = await store.holder(meta.id)
        state = state_of(meta.id, part.records)
        record = await shelf.record(store, meta.id)
    trouble = f"{part.trouble.kind}: {part.trouble.detail}" if part.trouble else ""
    meter = meter_of(state, record)
    unpriced = not meter.budget.spent and _is_unpriced(part.records)
    if as_json:
        turns = msgspec.to_builtins(list(state.results.turns.values()))
        extra = {"holder": _holder(holder), "trouble": trouble, "turn_results": turns}
        say_json(plain(meta) | msgspec.to_builtins(record) | extra | meter.as_json() | (_NO_COST if unpriced else {}))
        return 0
    figures = dict(meter.in_words()) | ({"cost": "unknown (no price)"} if unpriced else {})
    for title, words in (*_about(meta, holder, trouble), *figures.items()):
        say(f"{title + ':':<10} {escape_terminal(words)}")
    for entry in state.transcript.entries():
        for line in _entry_lines(entry):
            say(line)
    return 0


async def search(place: StoreLocation, *, text: str, limit: int, as_json: bool) -> int:
    """Find where something was said."""
    if not text.strip():
        raise click.UsageError("Say what to search for: the text is empty.")
    async with place.opened() as store:
        hits = await store.search(text, limit)
    if as_json:
        say_json(
            [{"session": hit.session, "seq": hit.seq, "snippet": hit.snippet, "name": hit.meta.name} for hit in hits]
        )
    elif not hits:
        say(f"{text!r} was not found.")
    for hit in () if as_json else hits:
        say(f"{hit.session}  {hit.seq}  {escape_terminal(' '.join(hit.snippet.split()))}")
    return 0


async def rename(place: StoreLocation, *, session: str, name: str, as_json: bool) -> int:
    """Give a session a name."""
    name = check_name(name)
    async with place.opened() as store:
        meta = await find_one(store, session)
        await shelf.rename(store, meta.id, name, clock=SystemClock())
    _done({"id": meta.id, "name": name}, f"{meta.id} is now called {name!r}.", as_json=as_json)
    return 0


async def fork(place: StoreLocation, *, session: str, at: str, name: str, session_id: str | None, as_json: bool) -> int:
    """Copy a session and print the copy's id."""
    name = name if name == "" else check_name(name)
    async with place.opened() as store:
        meta = await find(store, session, warn)
        if meta.open_turn and not at:
            warn(with_store(fork_warning(meta), store.url))
        new = await shelf.fork(store, meta.id, clock=SystemClock(), at=at, new_id=session_id, name=name)
    _done({"id": new, "origin": meta.id}, new, as_json=as_json)
    return 0


async def compact(
    place: StoreLocation,
    *,
    session: str,
    instructions: str,
    model: str | None,
    settings: str | None,
    undo: bool,
    as_json: bool,
) -> int:
    """Make a session's conversation shorter, or undo that."""
    if undo and (instructions or model):
        raise click.UsageError("--undo writes no summary: leave --instructions and --model away.")
    said = load_settings(settings)
    model = _whole_name(model, said, place) if model else None
    async with place.opened() as store:
        meta = await find_one(store, session)
        options = Options(resume=meta.id, store=store, settings=said, allow_unpriced=True)
        async with open_with(options) as opened:
            opened.hold()
            done = None if undo else await opened.compact(instructions, model=model or "")
            if undo:
                await opened.undo_compaction()
            messages, context = len(opened.history), opened.context_state
        added = (await store.read(meta.id, meta.seq)).records
    if undo:
        words = f"The conversation has its {pluralise(messages, 'message')} again: about {context.used:,} tokens."
        _done({"id": meta.id, "undone": True, "messages": messages, "tokens": context.used}, words, as_json=as_json)
        return 0
    if done is None:
        content = {"id": meta.id, "compacted": False, "messages": messages, "tokens": context.used}
        _done(content, "There is nothing that could be shortened.", as_json=as_json)
        return 0
    figures = {"before": done.before, "after": done.after, "window": done.window, "messages": done.messages}
    why = _without_model(done, added, model or meta.model)
    words = f"{meta.id}: {done.before:,} to {done.after:,} tokens; {escape_terminal(why) or f'{done.model} wrote the summary'}."
    content = {"id": meta.id, "trigger": done.trigger, "model": done.model, "note": why, **figures}
    _done(content, words, as_json=as_json)
    return 0


async def delete(place: StoreLocation, *, sessions: Sequence[str], yes: bool, as_json: bool) -> int:
    """Forget sessions."""
    require_person("delete sessions")
    async with place.opened() as store:
        found = [await find_one(store, session) for session in sessions]
        _confirm(f"Delete {', '.join(meta.id for meta in found)}?", yes=yes)
        for meta in found:
            await shelf.delete(store, meta.id)
    ids = [meta.id for meta in found]
    _done({"deleted": ids}, "\n".join(f"{one} is deleted." for one in ids), as_json=as_json)
    return 0


async def prune(
    place: StoreLocation, *, older_than: float | None, empty: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Forget old or empty sessions."""
    if older_than is None and not empty:
        raise click.UsageError("Say what to prune: --older-than DAYS, --empty, or both.")
    if not dry_run:
        require_person("delete sessions")
    async with place.opened() as store:
        clock = SystemClock()
        which = functools.partial(shelf.prune, store, clock=clock, older_than_days=older_than, empty=empty)
        stay: list[str] = []
        gone = await which(dry_run=True, tell=stay.append)
        if gone and not dry_run:
            _confirm(f"Delete {pluralise(len(gone), 'session')}?", yes=yes)
            stay.clear()
            gone = await which(tell=stay.append)
    for reason in stay:
        warn(reason)
    ids = [meta.id for meta in gone]
    words = "would be deleted" if dry_run else "deleted"
    kind = "would_delete" if dry_run else "deleted"
    _done({kind: ids, "dry_run": dry_run}, "\n".join((*ids, f"{len(ids)} {words}.")), as_json=as_json)
    return 0


async def move(place: StoreLocation, *, session: str, target: str, as_json: bool) -> int:
    """Bring a session into another store."""
    if target.startswith("memory:"):
        raise click.UsageError("A session that is moved to memory: ends with this command. Name a store that stays.")
    require_person("move sessions")
    clock = SystemClock()
    async with place.opened() as store:
        meta = await find_one(store, session)
        other = await open_store(target, clock=clock)
        try:
            if other.identity == store.identity:
                raise UserError(f"Session {meta.id!r} is in {target!r} already.")
            missing = await shelf.move(store, other, meta.id, clock=clock)
        finally:
            await other.close()
    for sha in missing:
        warn(f"The blob {sha} was gone or altered, and is missing there too.")
    _done({"id": meta.id, "store": target}, f"{meta.id} is now in {target}.", as_json=as_json)
    return 0


async def verify(place: StoreLocation, *, sessions: Sequence[str], as_json: bool) -> int:
    """Read sessions back and say what is wrong."""
    async with place.opened() as store:
        named = [(await find(store, session, warn)).id for session in sessions]
        ids = named or [meta.id for meta in await store.list(SessionQuery(include_children=True))]
        wrong = {session: await _troubles(store, session) for session in ids}
    if as_json:
        say_json([{"id": session, "ok": not found, "problems": list(found)} for session, found in wrong.items()])
    else:
        for session, found in wrong.items():
            say(f"{session}  {'ok' if not found else 'NOT ok'}")
            for words in found:
                say(f"  {words}")
    return COULD_NOT if any(wrong.values()) else 0


def plain(meta: SessionMeta) -> dict[str, object]:
    """What a list shows of a session, as JSON has it: times are texts."""
    found: dict[str, object] = {name: getattr(meta, name) for name in meta.__struct_fields__}
    return found | {"created": iso(meta.created), "updated": iso(meta.updated), "empty": meta.empty}


def _whole_name(model: str, settings: Settings, place: StoreLocation) -> str:
    """The name that goes into the log: with a profile's own model, and a script's whole path."""
    return full_name(Finder(settings, SystemClock()).complete(model), Path(place.cwd or ".").absolute())


def _without_model(done: Compacted, added: Sequence[Recorded], model: str) -> str:
    """Why no model wrote the summary, as the log or the model tells it; empty when one did."""
    asked = {record.id for record in added if isinstance(record.event, CompactionStarted)}
    for record in added:
        if isinstance(record.event, ModelNoted) and record.cause in asked:
            return record.event.note.rstrip(".")
    if done.model:
        return ""
    played = provider_of(model) in ("scripted", "recorded")
    why = "what is only played cannot summarise" if played else "there is too little to ask one about"
    return f"the summary was put together without a model: {why}"


def _is_unpriced(records: Sequence[Recorded]) -> bool:
    """Whether models were asked and the cost of none of their answers is known."""
    kinds = (ModelReplied, ModelFailed, Compacted, CompactionFailed)
    used = [each.event for each in records if isinstance(each.event, kinds) and each.event.usage is not None]
    return bool(used) and all(event.cost is None for event in used)


async def _troubles(store: EventStore, session: str) -> tuple[str, ...]:
    try:
        return await shelf.verify(store, session)
    except BackstayError as exc:
        return (str(exc),)


def _project(place: StoreLocation, given: str | None) -> str | None:
    return None if given is None else str(project_root((Path(place.cwd or ".") / given).expanduser().absolute()))


def _row(meta: SessionMeta, status: Standing) -> tuple[str, str, str, str]:
    used = datetime.fromtimestamp(in_calendar(meta.updated) / 1_000_000).astimezone()
    words = (meta.name or meta.prompt or "(empty)")[:70]
    return meta.id, f"{used:%Y-%m-%d %H:%M}", str(meta.turns), f"{words}  {WORDS[status]}".rstrip()


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
    """What a person is shown of an entry of the history: a message as it was typed or said, and which skills were used."""
    message = message_of(entry)
    if message is not None:
        text = entry.display or " ".join(_text(part) for part in message.content)
        mark = ", interrupted" if message.state == "interrupted" else ""
        yield f"\n[{message.role}{mark}] {escape_terminal(text, keep=_LAYOUT)}"
    elif entry.type == SKILL_INVOCATION and isinstance(entry.data, dict):
        said = {key: escape_terminal(str(entry.data.get(key, ""))) for key in ("skill", "mode", "status", "by")}
        yield f"\n[skill] {said['skill']} ({said['mode']}, {said['status']}, by {said['by']})"


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


def _done(content: dict[str, object], words: str, *, as_json: bool) -> None:
    if as_json:
        say_json(content)
    else:
        say(words)
