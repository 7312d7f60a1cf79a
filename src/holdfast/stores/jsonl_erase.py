"""Changing the past of the JSONL store, and leaving nothing of it in the folder. Everything here blocks.

A rewritten log is one segment, that of the lease that rewrites it: its second line says that the log begins there. It takes the place
of the file that held only the claim, in one rename; from then on the older segments are no part of the log, and are removed. A process
that dies in between leaves them to the next scouring.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.logic.parts import cited_blobs
from holdfast.logic.rewriting import Change, as_text
from holdfast.stores.blobs import BlobFolder
from holdfast.stores.jsonl_claims import holds
from holdfast.stores.jsonl_files import change_files, create_file, replace_file, sync_folder
from holdfast.stores.jsonl_known import Knowledge
from holdfast.stores.jsonl_lines import Beginning, Flaw, read_head, seal_batch, seal_struct
from holdfast.stores.jsonl_log import HEAD_ROOM, name_of
from holdfast.stores.jsonl_upkeep import ASIDE
from holdfast.stores.rewritable import ChangedPast
from holdfast.vocab.errors import LeaseLost, LogDamaged, SeqConflict
from holdfast.vocab.specs import Lease

_BEGINNING: Final = Beginning(prev=0, length=0, after=0)


class Eraser(Struct, frozen=True):
    """Rewrites sessions."""

    knowledge: Knowledge
    blobs: BlobFolder
    unclean: Path
    """A file that is there from the beginning of a rewrite to the end of the scouring."""

    def rewrite(self, lease: Lease, past: ChangedPast) -> None:
        """Put `past` in the place of what a session's log says."""
        folder = self.knowledge.folder(lease.session)
        if not holds(folder, lease):
            raise LeaseLost(f"Session {lease.session!r} was taken over or deleted. Nothing was changed.")
        reading = self.knowledge.look(lease.session, trust=False).reading
        if reading.flaw is not None:
            raise LogDamaged(f"The log of session {lease.session!r} cannot be read to its end: {reading.flaw.detail}")
        if reading.end.seq != past.added.seq - 1:
            raise SeqConflict(
                f"The log of session {lease.session!r} ends at {reading.end.seq}, not at {past.added.seq - 1}."
            )
        new = {record.seq: record for record in past.changed}
        records = [*(new.get(record.seq, record) for record in reading.records), past.added]
        create_file(self.unclean, b"")
        keeper = folder / f"{lease.token:08}.blobs"
        for sha256, content in past.blobs.items():
            self.blobs.put(sha256, content, keeper)
        self.blobs.keep({sha for record in records for sha in cited_blobs(record.event)} - set(past.gone), keeper)
        segment = folder / name_of(lease.token)
        batches = b"".join(seal_batch((record,)) for record in records)
        replace_file(segment, _claim_line(segment) + seal_struct(_BEGINNING) + batches)
        self.knowledge.forget(lease.session)

    def aside(self, session: str) -> tuple[str, ...]:
        """What repairs put aside of a session."""
        return tuple(as_text(path.read_bytes()) for path in self._aside(session))

    def change_aside(self, session: str, change: Change) -> int:
        """Change what repairs put aside of a session."""
        return change_files(self._aside(session), change)

    def is_clean(self) -> bool:
        """Whether the last erasing came to its end."""
        return not self.unclean.exists()

    def scour(self) -> None:
        """Remove what is no part of any log, and learn anew what is known of the sessions."""
        for session in sorted(self.knowledge.names()):
            self._sweep(session)
        self.blobs.drop_unused()
        self.knowledge.relearn()
        self.unclean.unlink(missing_ok=True)
        sync_folder(self.unclean.parent)

    def _aside(self, session: str) -> list[Path]:
        return sorted((self.knowledge.folder(session) / ASIDE).glob("*/*"))

    def _sweep(self, session: str) -> None:
        """Remove the files of a session that are no part of its log any more."""
        folder = self.knowledge.folder(session)
        for path in self._older(session):
            with suppress(FileNotFoundError):  # somebody else removes it too
                if path.suffix == ".blobs":
                    self.blobs.drop(path)
                else:
                    path.unlink()
        sync_folder(folder)

    def _older(self, session: str) -> Iterator[Path]:
        """What tokens below the segment that begins the log left behind, in ascending order."""
        folder = self.knowledge.folder(session)
        reading = self.knowledge.look(session, trust=False).reading
        if reading.flaw is not None or not reading.chain or not _begins(folder / name_of(reading.chain[0])):
            return
        first = reading.chain[0]
        left = [path for path in folder.iterdir() if path.name[:8].isdigit() and int(path.name[:8]) < first]
        yield from sorted(left, key=lambda path: (int(path.name[:8]), path.suffix))


def _begins(segment: Path) -> bool:
    with open(segment, "rb") as file:
        head = read_head(file.read(HEAD_ROOM))
    return not isinstance(head, Flaw) and head.beginning is not None and not head.beginning.prev


def _claim_line(segment: Path) -> bytes:
    with open(segment, "rb") as file:
        return file.readline()
