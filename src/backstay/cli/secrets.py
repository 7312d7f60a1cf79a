"""`backstay secrets`: count the secrets in stored sessions, and erase them."""

import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio.to_thread
import click
import msgspec

from backstay.catalog import sessions
from backstay.cli.output import COULD_NOT, DONE, HALTED, escape_line, print_json, print_line, warn
from backstay.cli.shared_options import StoreLocation, as_json, with_location
from backstay.config.layers import collect_keys, load_layers
from backstay.config.person import require_person
from backstay.logic.secrets.erase import Eraser
from backstay.logic.secrets.known_values import LEAST
from backstay.logic.secrets.redact import Redactor, secret_values
from backstay.logic.text import pluralise
from backstay.ports import EventStore, SessionQuery
from backstay.secrets.erase import Erased, check_erasable, is_clean, scour
from backstay.secrets.erase import erase as erase_session
from backstay.secrets.related_sessions import SessionFamily, group_families
from backstay.secrets.scan import Findings
from backstay.secrets.scan import scan as scan_session
from backstay.stores.open import default_store_url, open_store
from backstay.system.folders import data_dir
from backstay.system.machine import SystemClock
from backstay.vocab.errors import BackstayError, NoSession, UserError


@click.group("secrets")
def command() -> None:
    """Count the secrets in stored sessions, and erase them."""


_session = click.option("--session", metavar="ID", help="Only this session, by its id or its name.")


async def find_known_values(location: StoreLocation) -> tuple[str, ...]:
    """Return the keys that settings and stores name, and variables with names of secrets. Raise `UserError` for unreadable settings."""
    return await _values(location, bare=False)


async def redactor_of(location: StoreLocation) -> Redactor:
    """Return a redactor of these values and of everything that looks like a secret. Leave out unreadable settings, with a warning."""
    try:
        return Redactor(exact=await _values(location, bare=False))
    except UserError as exc:
        warn(f"{exc} Keys that stand in it are shown like any other words.")
        return Redactor(exact=await _values(location, bare=True))


async def _values(location: StoreLocation, *, bare: bool) -> tuple[str, ...]:
    layered = await load_layers(location.folder, bare=bare)
    keys = await anyio.to_thread.run_sync(collect_keys, layered.settings, layered, location.url)
    values = (*keys.values(os.environ), *secret_values(os.environ))
    return tuple(dict.fromkeys(each for each in values if len(each) >= LEAST))


MAX_PLACES: Final = 20
"""Places of a session that a person is shown."""
_NO_HASHES: Final = b"the marks of a scan are not shown"


@command.command()
@_session
@as_json
@with_location
async def scan(location: StoreLocation, *, session: str | None, as_json: bool) -> int:
    """Count secrets by session: what they are and where they stand, never what they say. Changes nothing.

    \b
    A secret is what has the shape of a key, token or password, the value of a variable whose name says that it is secret,
    or a key that the settings name.
    Without --store, the default store and the stores beside it are searched. Exit 1 when there is any secret.
    """
    known = await find_known_values(location)
    found: list[Findings] = []
    failed = False
    for url in _stores(location):
        try:
            async with _open(url, read_only=True) as store:
                for family in await _families(store, session):
                    eraser = await family.collect_secrets(store, Eraser(_NO_HASHES, known))
                    found += [await scan_session(store, each, eraser) for each in family.selected]
        except BackstayError as exc:
            failed = _skip(location, url, exc)
    if session is not None and not found and not failed:
        raise _no_session(session)
    if as_json:
        print_json([_object(each) for each in found])
    else:
        _print_findings(found)
    return COULD_NOT if failed or any(each.spots or each.problem for each in found) else DONE


@command.command()
@_session
@click.option("--reason", default="", metavar="TEXT", help="Why, for the log.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask. Without a terminal it is needed.")
@as_json
@with_location
async def erase(location: StoreLocation, *, session: str | None, reason: str, yes: bool, as_json: bool) -> int:
    """Replace every secret that `scan` finds by a mark, in events, blobs, traces, the search index and snapshots.

    \b
    A mark holds a hash and the kind: [ERASED 3f9a1c2b40d1: a private key]. The same hash, in one run, is the same secret.
    The log goes on to work, the files hold nothing of the secrets any more, and an event says what was done.
    What a file held is not given a mark: it is kept no longer, and /rewind cannot put it back.
    Without --session the files are written anew in any case, so that nothing is left of deleted sessions.
    It cannot be undone. Copies and backups of a store are not changed; a key that was written down should be replaced.
    """
    require_person("erase secrets")
    if location.url.startswith("memory:"):
        raise UserError("A session that is kept in memory leaves nothing behind: end the process that has it.")
    if not yes and not sys.stdin.isatty():
        warn("Nobody can be asked here. Look with `backstay secrets scan`; to erase: backstay secrets erase --yes")
        return HALTED
    erasure = _Erasure(await find_known_values(location), secrets.token_bytes(32), reason, yes)
    for url in _stores(location):
        try:
            async with _open(url) as store:
                await erasure.store(store, session)
        except BackstayError as exc:
            erasure.failed = _skip(location, url, exc)
    if session is not None and not erasure.visited and not erasure.failed:
        raise _no_session(session)
    if as_json:
        print_json([msgspec.to_builtins(each) for each in erasure.done])
    else:
        _print_erased(erasure.done, whole=not erasure.failed)
    return COULD_NOT if erasure.failed else DONE


class _Erasure(msgspec.Struct):
    """An erasure in progress, over all stores."""

    known: Sequence[str]
    key: bytes
    reason: str
    yes: bool
    visited: int = 0
    """Sessions that were searched."""
    done: list[Erased] = []
    failed: bool = False

    async def store(self, store: EventStore, session: str | None) -> None:
        """Erase the secrets of one store, once the person has agreed."""
        selected = await _families(store, session)
        self.visited += sum(len(family.selected) for family in selected)
        found = [await family.with_secrets(store, Eraser(_NO_HASHES, self.known)) for family in selected]
        count = sum(len(family.selected) for family in found)
        if not count and session is not None and await is_clean(store):
            return
        for family in selected if session is not None else ():
            for other in await family.find_left_out(store, Eraser(_NO_HASHES, self.known)):
                warn(
                    f"{other.id} belongs to it and keeps its secrets; what {session} tells of them cannot be found there any more. "
                    "To erase both, leave --session out."
                )
        _confirm(count, store.url, yes=self.yes)
        for family in found:
            await self._family(store, family)
        await scour(store)

    async def _family(self, store: EventStore, family: SessionFamily) -> None:
        """Erase the secrets of a family, or nothing of it: a secret that one session told is searched for in all of them."""
        if not family.selected:
            return
        for meta in family.selected:
            try:
                await check_erasable(store, meta)
            except BackstayError as exc:
                self.failed = True
                others = ", ".join(each.id for each in family.selected if each.id != meta.id)
                warn(f"{meta.id} stays as it is{f', and with it {others}' if others else ''}: {exc}")
                return
        eraser = await family.collect_secrets(store, Eraser(self.key, self.known))
        for meta in family.selected:
            try:
                self.done.append(await erase_session(store, meta, eraser, reason=self.reason, clock=SystemClock()))
            except BackstayError as exc:  # another process has opened it since
                self.failed = True
                warn(f"{meta.id} stays as it is: {exc}")


def _stores(location: StoreLocation) -> tuple[str, ...]:
    """Return the named store, or the default one and those beside it."""
    if location.store is not None:
        return (location.store,)
    folder = data_dir()
    usual = Path("/", default_store_url().partition("://")[2].lstrip("/"))
    files = [path for path in (usual, *sorted(folder.glob("*.db"))) if path.is_file()]
    return tuple(f"sqlite://{path}" for path in dict.fromkeys(files))


@asynccontextmanager
async def _open(url: str, *, read_only: bool = False) -> AsyncIterator[EventStore]:
    store = await open_store(url, clock=SystemClock(), read_only=read_only, create=False, warn=warn)
    try:
        yield store
    finally:
        await store.close()


async def _families(store: EventStore, session: str | None) -> Sequence[SessionFamily]:
    """Return the requested sessions with those that belong to them, least recently used first."""
    every = sorted(await store.list(SessionQuery(include_children=True)), key=lambda meta: (meta.updated, meta.id))
    if session is None:
        return group_families(every, {each.id for each in every})
    try:
        selected = await sessions.find(store, session)
    except NoSession:
        return ()
    return group_families([selected, *every], {selected.id})


def _skip(location: StoreLocation, url: str, error: BackstayError) -> bool:
    """Warn that a store could not be opened, and return True. Raise for a named one: there is no other to search."""
    if location.store is not None:
        raise error
    warn(f"{url} was left out: {error}")
    return True


def _no_session(session: str) -> NoSession:
    return NoSession(f"There is no session with the id or name {session!r}. `backstay sessions list` shows them.")


def _confirm(count: int, url: str, *, yes: bool) -> None:
    if yes:
        return
    what = f"secrets of {pluralise(count, 'session')}" if count else "what deleted sessions left"
    if not click.confirm(f"Erase {what} in {url}? It cannot be undone.", err=True):
        raise click.Abort


def _object(found: Findings) -> Mapping[str, object]:
    about: dict[str, object] = msgspec.to_builtins(found)
    return {**about, "count": found.count, "kinds": found.kinds}


def _print_findings(found: Sequence[Findings]) -> None:
    for each in found:
        if each.problem:
            warn(f"{each.session} cannot be read to its end: {each.problem}")
        if not each.spots:
            continue
        print_line(escape_line(f"{each.session}  {each.name or ''}".rstrip()))
        print_line(f"  {_kinds(each.kinds)}")
        for spot in each.spots[:MAX_PLACES]:
            where = f"event {spot.event} ({spot.name})" if spot.where == "event" else spot.where
            where = f"blob {spot.name[:16]} of event {spot.event}" if spot.where == "blob" else where
            print_line(f"  {where}: {_kinds(spot.kinds)}")
        if len(each.spots) > MAX_PLACES:
            print_line(f"  and {pluralise(len(each.spots) - MAX_PLACES, 'location')} more; --json has all of them")
    with_any = sum(bool(each.spots) for each in found)
    total = sum(each.count for each in found)
    print_line(f"{pluralise(total, 'secret')} in {with_any} of {pluralise(len(found), 'session')}.")


def _print_erased(done: Sequence[Erased], *, whole: bool) -> None:
    for each in done:
        words = f"; {pluralise(each.contents, 'content')} of files kept no longer" if each.contents else ""
        print_line(f"{each.session}: {pluralise(each.count, 'secret')} erased ({_kinds(each.kinds)}){words}")
    if not done:
        print_line("No session has a secret." if whole else "Nothing was erased.")
    else:
        total = sum(each.count for each in done)
        print_line(f"{pluralise(total, 'secret')} erased in {pluralise(len(done), 'session')}.")
        print_line("Replace the keys that were written down: copies and backups of the store still have them.")


def _kinds(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in kinds.items())
