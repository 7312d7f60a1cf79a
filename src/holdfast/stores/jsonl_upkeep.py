"""Checking, mending and deleting whole sessions of the JSONL store. Everything here blocks."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.logic.parts import cited_blobs
from holdfast.stores.blobs import BlobFolder
from holdfast.stores.disk import open_regular
from holdfast.stores.jsonl_append import begin
from holdfast.stores.jsonl_claims import Claims, claim_of, names_in
from holdfast.stores.jsonl_files import make_folder, sync_folder
from holdfast.stores.jsonl_known import Knowledge, Look
from holdfast.stores.jsonl_lines import Flaw, Head, read_head
from holdfast.stores.jsonl_log import HEAD_ROOM, name_of
from holdfast.vocab.errors import BlobMissing, NeedsUpgrade

ASIDE: Final = "damaged"
"""The folder in a session's folder where repairs keep what they found."""


class Upkeep(Struct, frozen=True):
    """Looks after whole sessions."""

    knowledge: Knowledge
    claims: Claims
    blobs: BlobFolder

    def verify(self, session: str) -> tuple[str, ...]:
        """Read everything of a session back and name what is wrong."""
        cited: set[str] = set()
        for look in self.knowledge.looks(session):
            found = (sha for record in look.reading.records for sha in cited_blobs(record.event))
            cited = {*found} if look.anew else cited | {*found}
        wrong = (look.reading.flaw.detail,) if look.reading.flaw else ()
        return (*wrong, *self._blob_troubles(cited))

    def leftovers(self, session: str, look: Look) -> Iterator[str]:
        """Name the bytes that a reading of a whole log passed over. Nothing is wrong with a log for them."""
        folder, reading = self.knowledge.folder(session), look.reading
        for token, count in reading.ignored.items():
            if not is_aside(folder, token):
                yield ignored(token, count)
        for token in () if reading.flaw else _orphans(folder, look):
            yield f"{name_of(token)} is not part of the log: its writer came too late."
        if reading.rest and not reading.flaw and not self.claims.holder(folder):
            yield torn(reading.end.segment, reading.rest)

    def repair(self, session: str) -> str:
        """Keep what can be read of a log and put the damaged segments aside. Whoever holds the session loses it."""
        folder = self.knowledge.folder(session)
        flaw = self._end_of(session).reading.flaw
        if flaw is not None and flaw.kind == "newer":
            raise NeedsUpgrade(f"Session {session!r} is not damaged: {flaw.detail}")
        if flaw is None:
            return f"Session {session!r} needs no repair."
        claim = self.claims.seize(folder)
        look = self._end_of(session)
        end = look.reading.end
        aside = folder / ASIDE / f"{claim.segment:08}"
        make_folder(aside)
        for token in look.names.segments:
            if end.segment <= token < claim.segment:
                # a link, not a move: while the name is taken, a lost lease cannot look like a held one
                os.link(folder / name_of(token), aside / name_of(token))
        sync_folder(aside)
        begin(folder, claim, at=end)
        self.knowledge.forget(session)
        return f"Session {session!r} now ends at event {end.seq}; everything that was there is kept in {str(aside)!r}."

    def delete(self, session: str) -> None:
        """Forget a session. It is gone at once; its files follow."""
        folder = self.knowledge.folder(session)
        newest = names_in(folder).newest
        claim = claim_of(folder, newest)
        if newest and (claim is None or not claim.gone):
            newest = self.claims.seize(folder, gone=True).segment
        self.knowledge.forget(session)
        if newest:
            self._sweep(folder, newest)

    def _sweep(self, folder: Path, below: int) -> None:
        """Remove what tokens below `below` left behind, segments in ascending order."""
        named = [path for path in (*folder.iterdir(), *folder.glob(f"{ASIDE}/*")) if path.name[:8].isdigit()]
        for path in sorted((path for path in named if _token_of(path) < below), key=_token_of):
            with suppress(FileNotFoundError):  # somebody else deletes it too
                if path.suffix == ".blobs":
                    self.blobs.drop(path)
                elif path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        sync_folder(folder)

    def _end_of(self, session: str) -> Look:
        """The look that comes to the end of a log, or to where it cannot be read any further."""
        for look in self.knowledge.looks(session):
            last = look
        return last

    def _blob_troubles(self, cited: set[str]) -> Iterator[str]:
        for sha256 in sorted(cited):
            try:
                self.blobs.get(sha256)
            except BlobMissing as exc:
                yield str(exc)


def torn(token: int, count: int) -> str:
    """Say that the newest segment ends with half a batch. Nobody can tell whether it was whole once."""
    return f"{name_of(token)}: the last {count} bytes are not whole and are ignored."


def ignored(token: int, count: int) -> str:
    """Say that an older segment ends with bytes that were not there, or not whole, when the next one began."""
    return f"{name_of(token)}: the last {count} bytes are not part of the log and are ignored."


def is_aside(folder: Path, token: int) -> bool:
    """Whether a repair has put this segment aside."""
    return any(folder.glob(f"{ASIDE}/*/{name_of(token)}"))


def _token_of(path: Path) -> int:
    return int(path.name.partition(".")[0])


def _orphans(folder: Path, look: Look) -> Iterator[int]:
    """Segments with events that no other segment names."""
    newest = look.reading.chain[-1] if look.reading.chain else 0
    for token in reversed(look.names.segments):
        if token in look.reading.chain or token > newest or is_aside(folder, token):
            continue
        with suppress(FileNotFoundError), open_regular(folder / name_of(token)) as file:
            head = read_head(file.read(HEAD_ROOM))
            if isinstance(head, Head) and head.claim.gone:
                return  # what is below a deletion is no log's any more
            if isinstance(head, Flaw) or (head.beginning is not None and file.seek(0, os.SEEK_END) > head.length):
                yield token
