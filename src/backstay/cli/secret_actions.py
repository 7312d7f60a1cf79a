"""What the `secrets` commands do."""

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
from backstay.cli.location import StoreLocation
from backstay.cli.output import COULD_NOT, DONE, escape_terminal, say, say_json, warn
from backstay.cli.trust import HALTED
from backstay.config.layers import load_layers
from backstay.config.person import require_person
from backstay.config.secret import collect_keys
from backstay.logic.secrets.erase import Eraser
from backstay.logic.secrets.known_values import LEAST
from backstay.logic.secrets.redact import Redactor
from backstay.logic.state.prompt_variables import secret_values
from backstay.logic.text import pluralise
from backstay.ports import EventStore, SessionQuery
from backstay.sandbox.folders import data_dir
from backstay.secrets.erase import Erased, check_erasable, is_clean, scour
from backstay.secrets.erase import erase as erase_session
from backstay.secrets.families import Family, families
from backstay.secrets.scan import Findings
from backstay.secrets.scan import scan as scan_session
from backstay.session.options import default_store_url
from backstay.stores.open import open_store
from backstay.system.machine import SystemClock
from backstay.vocab.errors import BackstayError, NoSession, UserError


async def known_values(place: StoreLocation) -> tuple[str, ...]:
    """Keys that settings and stores name, and variables that are called secrets. Raise `UserError` for settings that nobody can read."""
    return await _values(place, bare=False)


async def redactor_of(place: StoreLocation) -> Redactor:
    """What takes these values, and whatever looks like a secret, out of what is shown. Settings that nobody can read are left out."""
    try:
        return Redactor(exact=await _values(place, bare=False))
    except UserError as exc:
        warn(f"{exc} Keys that stand in it are shown like any other words.")
        return Redactor(exact=await _values(place, bare=True))


async def _values(place: StoreLocation, *, bare: bool) -> tuple[str, ...]:
    layered = await load_layers(Path(place.cwd or "."), bare=bare)
    keys = await anyio.to_thread.run_sync(collect_keys, layered.settings, layered, place.url)
    values = (*keys.values(os.environ), *secret_values(os.environ))
    return tuple(dict.fromkeys(each for each in values if len(each) >= LEAST))


SPOTS: Final = 20
"""Places of a session that a person is shown."""
_NO_HASHES: Final = b"nobody sees the marks of a scan"


async def scan(place: StoreLocation, *, session: str | None, as_json: bool) -> int:
    """Count secrets, and change nothing."""
    known = await known_values(place)
    found: list[Findings] = []
    failed = False
    for url in _stores(place):
        try:
            async with _opened(url, read_only=True) as store:
                for family in await _families(store, session):
                    eraser = await family.teach(store, Eraser(_NO_HASHES, known))
                    found += [await scan_session(store, each, eraser) for each in family.meant]
        except BackstayError as exc:
            failed = _not_looked_at(place, url, exc)
    if session is not None and not found and not failed:
        raise _nobody(session)
    if as_json:
        say_json([_plain(each) for each in found])
    else:
        _say_findings(found)
    return COULD_NOT if failed or any(each.spots or each.problem for each in found) else DONE


async def erase(place: StoreLocation, *, session: str | None, reason: str, yes: bool, as_json: bool) -> int:
    """Replace secrets by marks, in every store that has any."""
    require_person("erase secrets")
    if place.url.startswith("memory:"):
        raise UserError("A session that is kept in memory leaves nothing behind: end the process that has it.")
    if not yes and not sys.stdin.isatty():
        warn("Nobody can be asked here. Look with `backstay secrets scan`; to erase: backstay secrets erase --yes")
        return HALTED
    erasing = _Erasing(await known_values(place), secrets.token_bytes(32), reason, yes)
    for url in _stores(place):
        try:
            async with _opened(url) as store:
                await erasing.store(store, session)
        except BackstayError as exc:
            erasing.failed = _not_looked_at(place, url, exc)
    if session is not None and not erasing.met and not erasing.failed:
        raise _nobody(session)
    if as_json:
        say_json([msgspec.to_builtins(each) for each in erasing.done])
    else:
        _say_erased(erasing.done, whole=not erasing.failed)
    return COULD_NOT if erasing.failed else DONE


class _Erasing(msgspec.Struct):
    """An erasing under way, over all stores."""

    known: Sequence[str]
    key: bytes
    reason: str
    yes: bool
    met: int = 0
    """Sessions that were looked at."""
    done: list[Erased] = []
    failed: bool = False

    async def store(self, store: EventStore, session: str | None) -> None:
        """Erase what one store has, after a yes."""
        meant = await _families(store, session)
        self.met += sum(len(family.meant) for family in meant)
        found = [await family.with_secrets(store, Eraser(_NO_HASHES, self.known)) for family in meant]
        count = sum(len(family.meant) for family in found)
        if not count and session is not None and await is_clean(store):
            return
        for family in meant if session is not None else ():
            for other in await family.left_out(store, Eraser(_NO_HASHES, self.known)):
                warn(
                    f"{other.id} belongs to it and keeps its secrets; what {session} tells of them cannot be found there any more. "
                    "To erase both, leave --session out."
                )
        _ask(count, store.url, yes=self.yes)
        for family in found:
            await self._family(store, family)
        await scour(store)

    async def _family(self, store: EventStore, family: Family) -> None:
        """Erase what a family has, or nothing of it: what one of them told is looked for in all, and no one tells it after that."""
        if not family.meant:
            return
        for meta in family.meant:
            try:
                await check_erasable(store, meta)
            except BackstayError as exc:
                self.failed = True
                others = ", ".join(each.id for each in family.meant if each.id != meta.id)
                warn(f"{meta.id} stays as it is{f', and with it {others}' if others else ''}: {exc}")
                return
        eraser = await family.teach(store, Eraser(self.key, self.known))
        for meta in family.meant:
            try:
                self.done.append(await erase_session(store, meta, eraser, reason=self.reason, clock=SystemClock()))
            except BackstayError as exc:  # somebody has opened it since
                self.failed = True
                warn(f"{meta.id} stays as it is: {exc}")


def _stores(place: StoreLocation) -> tuple[str, ...]:
    """The store that is named; else the usual one and those that lie beside it."""
    if place.store is not None:
        return (place.store,)
    folder = data_dir()
    usual = Path("/", default_store_url().partition("://")[2].lstrip("/"))
    files = [path for path in (usual, *sorted(folder.glob("*.db"))) if path.is_file()]
    return tuple(f"sqlite://{path}" for path in dict.fromkeys(files))


@asynccontextmanager
async def _opened(url: str, *, read_only: bool = False) -> AsyncIterator[EventStore]:
    store = await open_store(url, clock=SystemClock(), read_only=read_only, create=False)
    try:
        yield store
    finally:
        await store.close()


async def _families(store: EventStore, session: str | None) -> Sequence[Family]:
    """The sessions that are meant with those that they belong to, least recently used first."""
    every = sorted(await store.list(SessionQuery(include_children=True)), key=lambda meta: (meta.updated, meta.id))
    if session is None:
        return families(every, {each.id for each in every})
    try:
        meant = await sessions.find(store, session)
    except NoSession:
        return ()
    return families([meant, *every], {meant.id})


def _not_looked_at(place: StoreLocation, url: str, error: BackstayError) -> bool:
    """Say that a store could not be opened. One that was named is the whole of what was asked for."""
    if place.store is not None:
        raise error
    warn(f"{url} was left out: {error}")
    return True


def _nobody(session: str) -> NoSession:
    return NoSession(f"There is no session with the id or name {session!r}. `backstay sessions list` shows them.")


def _ask(count: int, url: str, *, yes: bool) -> None:
    if yes:
        return
    what = f"secrets of {pluralise(count, 'session')}" if count else "what deleted sessions left"
    if not click.confirm(f"Erase {what} in {url}? It cannot be undone.", err=True):
        raise click.Abort


def _plain(found: Findings) -> Mapping[str, object]:
    about: dict[str, object] = msgspec.to_builtins(found)
    return {**about, "count": found.count, "kinds": found.kinds}


def _say_findings(found: Sequence[Findings]) -> None:
    for each in found:
        if each.problem:
            warn(f"{each.session} cannot be read to its end: {each.problem}")
        if not each.spots:
            continue
        say(escape_terminal(f"{each.session}  {each.name or ''}".rstrip()))
        say(f"  {_kinds(each.kinds)}")
        for spot in each.spots[:SPOTS]:
            where = f"event {spot.event} ({spot.name})" if spot.where == "event" else spot.where
            where = f"blob {spot.name[:16]} of event {spot.event}" if spot.where == "blob" else where
            say(f"  {where}: {_kinds(spot.kinds)}")
        if len(each.spots) > SPOTS:
            say(f"  and {pluralise(len(each.spots) - SPOTS, 'place')} more; --json has all of them")
    with_any = sum(bool(each.spots) for each in found)
    total = sum(each.count for each in found)
    say(f"{pluralise(total, 'secret')} in {with_any} of {pluralise(len(found), 'session')}.")


def _say_erased(done: Sequence[Erased], *, whole: bool) -> None:
    for each in done:
        words = f"; {pluralise(each.contents, 'content')} of files kept no longer" if each.contents else ""
        say(f"{each.session}: {pluralise(each.count, 'secret')} erased ({_kinds(each.kinds)}){words}")
    if not done:
        say("No session has a secret." if whole else "Nothing was erased.")
    else:
        total = sum(each.count for each in done)
        say(f"{pluralise(total, 'secret')} erased in {pluralise(len(done), 'session')}.")
        say("Replace the keys that were written down: copies and backups of the store still have them.")


def _kinds(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in kinds.items())
