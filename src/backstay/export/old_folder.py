"""A session of a store of JSON lines, as 0.2.0 kept them, in the lines of `log export --format events`. Changes nothing.

`sessions/<id>/<token>.jsonl` is what one lease wrote: a line that claims it, a line that says how many bytes of which
segment before it count, then events, each ending in `crc`. An event that has `left` is part of a batch of which so many
lines follow; half a batch at the end of the newest segment does not count.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from backstay.logic.state.content import cited_blobs, digest
from backstay.stores.disk_errors import read_regular
from backstay.vocab.errors import LogDamaged, NeedsUpgrade
from backstay.vocab.event import Recorded
from backstay.wire.codec import decode
from backstay.wire.json_lines import blob_line, check_seal, event_line, header_line


class _SegmentLine(msgspec.Struct):
    """Any line of a segment: the fields that say what of the log counts."""

    gone: bool = False
    prev: int = 0
    length: int = 0
    left: int = 0


def folder_lines(folder: Path) -> Iterator[bytes]:
    """The session in `folder`, which is called by its id. Raise `LogDamaged` or `NeedsUpgrade` when not all of it can be read."""
    records = [record for path, end in _segments(folder) for record in _records(path, end)]
    if not records:
        raise LogDamaged(f"{str(folder)!r} holds no session. Give the folder of one: STORE/sessions/ID.")
    yield header_line(folder.name, len(records))
    written: set[str] = set()
    for record in records:
        for sha256 in sorted(cited_blobs(record.event) - written):
            written.add(sha256)
            yield blob_line(sha256, _blob(folder, sha256))
        yield event_line(folder.name, record)


def _segments(folder: Path) -> list[tuple[Path, int | None]]:
    """The segments that count, oldest first, and how many bytes of each; None for all."""
    paths = {int(path.stem): path for path in folder.glob("*.jsonl") if path.stem.isdigit()}
    found: list[tuple[Path, int | None]] = []
    token, end = max(paths, default=0), None
    while token:
        if token not in paths:
            raise _damaged(folder / f"{token:08}.jsonl", 0, "it is missing")
        first, *rest = _lines(paths[token], end)
        if first[1].gone:
            break
        if not rest and not found:  # whoever took the session got no further
            token = max((each for each in paths if each < token), default=0)
            continue
        if not rest:
            raise _damaged(paths[token], 2, "it is missing")
        found.append((paths[token], end))
        token, end = rest[0][1].prev, rest[0][1].length
    return found[::-1]


def _records(path: Path, end: int | None) -> Iterator[Recorded]:
    batch: list[Recorded] = []
    for number, (line, said) in enumerate(_lines(path, end)[2:], start=3):
        try:
            batch.append(decode(line))
        except (LogDamaged, NeedsUpgrade) as exc:
            raise type(exc)(f"{str(path)!r}, line {number}: {exc}") from exc
        if not said.left:
            yield from batch
            batch.clear()


def _lines(path: Path, end: int | None) -> list[tuple[bytes, _SegmentLine]]:
    """The whole lines of a segment, each with its checksum."""
    found: list[tuple[bytes, _SegmentLine]] = []
    for number, line in enumerate(read_regular(path)[:end].split(b"\n")[:-1], start=1):
        try:
            check_seal(line + b"\n")
            found.append((line, msgspec.json.decode(line, type=_SegmentLine)))
        except (LogDamaged, msgspec.DecodeError) as exc:
            raise _damaged(path, number, str(exc)) from exc
    if not found:
        raise _damaged(path, 1, "it is torn off")
    return found


def _damaged(path: Path, number: int, reason: str) -> LogDamaged:
    where = f"{str(path)!r}, line {number}" if number else repr(str(path))
    return LogDamaged(f"{where}: {reason}. Mend the session with the version that wrote it: `backstay log repair`.")


def _blob(folder: Path, sha256: str) -> bytes | None:
    """A blob, from the store or from what the session kept of it; None when it is gone or altered."""
    for path in (folder.parents[1] / "blobs" / sha256[:2] / sha256, *folder.glob(f"*.blobs/{sha256}")):
        if path.is_file() and digest(content := read_regular(path)) == sha256:
            return content
    return None
