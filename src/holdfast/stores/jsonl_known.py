"""What this process knows of the sessions of a JSONL store, so that a list does not read every log again.

Knowledge is kept with a stamp: the newest token, and size and time of its segment. While the stamp is right, nothing
was written. When it is not, reading goes on where it ended. The knowledge is also kept in `cache/`, which may be
deleted at any time.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.logic.outline import project
from holdfast.ports import Trouble
from holdfast.stores.disk import open_regular, read_regular
from holdfast.stores.jsonl_claims import Names, accepted, names_in
from holdfast.stores.jsonl_files import make_folder, replace_file
from holdfast.stores.jsonl_log import Place, Reading, name_of, parts_of, read_log
from holdfast.vocab.errors import BadId, StoreUnavailable
from holdfast.vocab.ids import check_session_id
from holdfast.vocab.specs import SessionMeta

PAGE: Final = 1024
"""Events of one look, where a whole log is looked at; a batch more than that at most."""
_ATTEMPTS: Final = 5
"""How often a reading starts over because files went away under it."""


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """What changes whenever a session does."""

    newest: int
    size: int
    time: int


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A session up to a point of its log."""

    stamp: Stamp
    end: Place
    meta: SessionMeta
    trouble: Trouble | None = None
    """`damaged` or `newer`: nothing may be appended."""
    rest: int = 0
    """Bytes behind `end` in the newest segment that are no whole batch."""

    @property
    def is_session(self) -> bool:
        """Whether there is anything to open."""
        return self.meta.seq > 0 or self.trouble is not None


class FileSegments(Struct, frozen=True):
    """The segments in a session's folder."""

    folder: Path
    tokens: Sequence[int]

    def size(self, token: int) -> int:
        """The bytes of a segment."""
        return os.stat(self.folder / name_of(token)).st_size

    def content(self, token: int, start: int, end: int) -> bytes:
        """A stretch of a segment's bytes."""
        with open_regular(self.folder / name_of(token)) as file:
            file.seek(start)
            return file.read(max(0, end - start))

    def accepted(self, token: int) -> int:
        """The bytes of a segment that counted when it was given back; 0 when nobody says."""
        return accepted(self.folder, token)


class Look(Struct, frozen=True):
    """One reading of a session, and the names and the stamp that were true when it began."""

    names: Names
    stamp: Stamp
    reading: Reading
    anew: bool
    """Whether it begins at the beginning of the log: of several looks the first one does, and one for which the log was replaced."""


class Knowledge:
    """All sessions of one store. Every method blocks; threads may call them at the same time."""

    def __init__(self, sessions: Path, cache: Path) -> None:
        self._sessions = sessions
        self._cache = cache / "sessions.msgpack"
        self._known: dict[str, Known] = {}
        self._reached: dict[str, Place] = {}
        """A place near the end of the page that was read last."""
        self._changed = False

    def folder(self, session: str) -> Path:
        """Where a session is. Raise `BadId` for what cannot be a session."""
        return self._sessions / check_session_id(session)

    def look(self, session: str, after: int = 0, limit: int | None = None, *, trust: bool = True) -> Look:
        """Read a log; with `trust`, from a place that was read before if `after` allows it."""
        look = self._look(session, after, limit, self._place(session, after) if trust else None)
        if limit is not None:
            self._reached[session] = look.reading.last
        return look

    def looks(self, session: str, start: Place | None = None) -> Iterator[Look]:
        """Read a log to its end, or what follows `start`, a page at a time. After a look `anew`, what came before does not count."""
        place = start
        while True:
            look = self._look(session, place.seq if place else 0, PAGE, place)
            reading = look.reading
            if place is not None and not reading.resumed and reading.flaw is None:
                place = None
                continue
            yield look
            if reading.flaw is not None or len(reading.records) < PAGE:
                return
            place = reading.end

    def _place(self, session: str, after: int) -> Place | None:
        """The place nearest to the event after `after` that is not behind it."""
        known = self._known.get(session)
        places = [known.end] if known is not None and known.trouble is None else []
        places += [self._reached[session]] if session in self._reached else []
        return max((each for each in places if 0 < each.seq <= after), key=lambda each: each.seq, default=None)

    def _look(self, session: str, after: int, limit: int | None, place: Place | None) -> Look:
        folder = self.folder(session)
        for _ in range(_ATTEMPTS):
            names = names_in(folder)
            stamp = self._stamp(folder, names.newest)
            try:
                reading = read_log(FileSegments(folder, names.segments), after, limit, place)
            except FileNotFoundError:
                continue  # deleted while it was read
            return Look(names, stamp, reading, anew=place is None)
        raise StoreUnavailable(f"The files of session {session!r} in {str(folder)!r} keep changing. Try again.")

    def whole(self, session: str, look: Look) -> Look:
        """A look at the end of a log with all the segments that hold it, whichever of them were read."""
        try:
            chain, ignored = parts_of(FileSegments(self.folder(session), look.names.segments))
        except FileNotFoundError:
            return look  # deleted since it was read
        end = look.reading.end.segment
        if look.reading.flaw is not None:
            ignored = {token: more for token, more in ignored.items() if token < end}
        return replace(look, reading=replace(look.reading, chain=chain, ignored=ignored))

    def current(self, session: str) -> Known:
        """A session as it is now."""
        known = self._known.get(session)
        if known is not None and known.trouble is None and self._is_current(session, known.stamp):
            return known
        sound = known is not None and known.trouble is None and known.end.seq > 0
        meta = known.meta if known and sound else SessionMeta(id=session)
        for look in self.looks(session, known.end if known and sound else None):
            meta = project(SessionMeta(id=session) if look.anew else meta, look.reading.records)
        reading, flaw = look.reading, look.reading.flaw
        trouble = None if flaw is None else Trouble(kind=flaw.kind, detail=flaw.detail, seq=meta.seq)
        meta = meta if trouble is None else _shown(meta, trouble, look.stamp.time)
        known = Known(stamp=look.stamp, end=reading.end, meta=meta, trouble=trouble, rest=reading.rest)
        self.keep(session, known)
        return known

    def keep(self, session: str, known: Known) -> None:
        """Keep what is known of a session."""
        self._known[session] = known
        self._changed = True

    def recall(self, session: str) -> Known | None:
        """What was known of a session when it was last looked at."""
        return self._known.get(session)

    def forget(self, session: str) -> None:
        """Drop what is known of a session."""
        self._reached.pop(session, None)
        self._changed = self._known.pop(session, None) is not None or self._changed

    def names(self) -> set[str]:
        """The names of all sessions; a folder that cannot be one is none."""
        try:
            with os.scandir(self._sessions) as entries:
                return {entry.name for entry in entries if entry.is_dir() and _can_name(entry.name)}
        except FileNotFoundError:
            return set()

    def everything(self) -> Iterator[Known]:
        """All sessions as they are now; one that cannot be looked at is there with its id alone."""
        names = self.names()
        for lost in set(self._known) - names:
            self.forget(lost)
        for name in names:
            try:
                known = self.current(name)
            except (OSError, StoreUnavailable) as exc:
                trouble = Trouble(kind="damaged", detail=str(exc), seq=0)
                meta = _shown(SessionMeta(id=name), trouble, _changed_at(self._sessions / name))
                known = Known(stamp=Stamp(newest=0, size=0, time=0), end=Place(), meta=meta, trouble=trouble)
            if known.is_session:
                yield known

    def relearn(self) -> None:
        """Look at every session again and write the cache, so that it holds nothing of what was."""
        self._known.clear()
        self._reached.clear()
        self._changed = True
        for _ in self.everything():
            pass
        self.save()

    def load(self) -> None:
        """Read the cache; whatever is wrong with it, there is none then."""
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            self._known = msgspec.msgpack.decode(read_regular(self._cache), type=dict[str, Known])

    def save(self) -> None:
        """Write the cache if something changed. It is only a cache: where it cannot be written, there is none."""
        if self._changed:
            self._changed = False
            with suppress(OSError):
                make_folder(self._cache.parent)
                replace_file(self._cache, msgspec.msgpack.encode(dict(self._known)), durably=False)

    def _is_current(self, session: str, stamp: Stamp) -> bool:
        folder = self.folder(session)
        return (
            stamp.newest > 0
            and not os.path.exists(f"{folder}/{name_of(stamp.newest + 1)}")
            and self._stamp(folder, stamp.newest) == stamp
        )

    @staticmethod
    def _stamp(folder: Path, newest: int) -> Stamp:
        try:
            found = os.stat(f"{folder}/{name_of(newest)}")
        except FileNotFoundError:
            return Stamp(newest=newest, size=0, time=0)
        return Stamp(newest=newest, size=found.st_size, time=found.st_mtime_ns)


def _shown(meta: SessionMeta, trouble: Trouble, changed: int) -> SessionMeta:
    """What a list shows of a damaged session. Where its first words cannot be read it is not empty, and as old as its files."""
    if meta.prompt:
        return meta
    updated = meta.updated or changed // 1000
    return replace(meta, prompt=f"(cannot be read: {trouble.detail})", created=meta.created or updated, updated=updated)


def _can_name(name: str) -> bool:
    try:
        return check_session_id(name) == name
    except BadId:
        return False


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return time.time_ns()
