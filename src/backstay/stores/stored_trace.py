"""Read a stored trace, and change what was written.

A secret that became known later is taken out (`change_trace`): a stream is put together first, since no line holds all of the secret.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from backstay.logic.secrets.rewrite import Change, as_text, change_bytes, change_texts, texts_in
from backstay.stores.trace import CUT, LOST, REQUEST, TraceLine, decoder, older_path, trace_path
from backstay.stores.trace_lines import (
    Line,
    RequestReader,
    Streams,
    TracePiece,
    line_of,
    pieces_of,
    put_text,
)
from backstay.system.files import read_whole, replace_file
from backstay.vocab.deltas import DELTAS
from backstay.vocab.errors import StoreUnavailable

ChangePieces = Callable[[Sequence[str]], list[str]]
"""Gives the pieces of a stream with other words in them, as many as there were."""
_KINDS: Final = {kind.__name__: kind for kind in DELTAS}


class TraceSlice(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a trace that can be read. Lines that cannot be read are lost, never an error."""

    lines: tuple[TraceLine, ...]
    lost: int = 0
    """Lines known to be missing: a torn tail, unreadable bytes, what the writer could not write.

    A line that was half written when the disk failed may count twice.
    """
    cut: bool = False
    """Whether the oldest lines were dropped to keep the trace small."""


def read_trace(folder: str | os.PathLike[str], session: str) -> TraceSlice:
    """Return everything that can be read of a session's trace, also while it is being written; empty when there is none."""
    lines: list[TraceLine] = []
    unreadable = 0
    for piece in b"\n".join(segments(trace_path(folder, session))).split(b"\n"):
        if piece:
            try:
                lines.append(decoder.decode(piece))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                unreadable += 1
    requests = RequestReader()
    lines = [_whole(line, requests) if line.kind == REQUEST else line for line in lines]
    reported = sum(_count_lost(line) for line in lines)
    return TraceSlice(lines=tuple(lines), lost=unreadable + reported, cut=any(line.kind == CUT for line in lines))


def trace_texts(folder: str | os.PathLike[str], session: str) -> Iterator[str]:
    """Return every text of a session's trace: those of each line, and the streams put together."""
    streams, joined = Streams(), dict[str, list[str]]()
    for line in b"\n".join(segments(trace_path(folder, session))).split(b"\n"):
        try:
            yield from texts_in(decoder.decode(line).data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield as_text(line)
        piece = _piece(line, streams)
        for each in pieces_of(piece) if piece is not None else ():
            joined.setdefault(each.stream, []).append(each.text)
    for pieces in joined.values():
        yield "".join(pieces)


def change_trace(folder: str | os.PathLike[str], session: str, change: Change, change_pieces: ChangePieces) -> int:
    """Change both files of a session's trace, each in one step; return how many lines are different now.

    `change` is applied to every text of every line, `change_pieces` before that to the pieces of each stream.
    Nobody writes the trace meanwhile.
    """
    newer = trace_path(folder, session)
    paths = [path for path in (older_path(newer), newer) if path.exists()]
    before = {path: path.read_bytes().split(b"\n") for path in paths}
    lines = _change_streams([line for path in paths for line in before[path]], change_pieces)
    lines = [_change_line(line, change) for line in lines]
    count = 0
    for path in paths:
        after, lines = lines[: len(before[path])], lines[len(before[path]) :]
        different = sum(one != other for one, other in zip(before[path], after, strict=True))
        if different:
            replace_file(Path(path), b"\n".join(after))
        count += different
    return count


def _whole(line: TraceLine, requests: RequestReader) -> TraceLine:
    return msgspec.structs.replace(line, data=requests.unpack(line.data))


def _count_lost(line: TraceLine) -> int:
    lines = line.data.get("lines") if line.kind == LOST else 0
    return lines if isinstance(lines, int) else 0


def _change_line(line: bytes, change: Change) -> bytes:
    try:
        traced = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return change_bytes(line, change)
    after = change_texts(traced.data, change)
    return line if after == traced.data else msgspec.json.encode(msgspec.structs.replace(traced, data=after))


def _change_streams(lines: list[bytes], change_pieces: ChangePieces) -> list[bytes]:
    """Return the lines without what only the pieces of a stream together show."""
    streams, joined = Streams(), dict[str, list[tuple[int, TracePiece]]]()
    for place, line in enumerate(lines):
        found = _piece(line, streams)
        for piece in pieces_of(found) if found is not None else ():
            joined.setdefault(piece.stream, []).append((place, piece))
    changes: dict[int, list[TracePiece]] = {}
    for pieces in joined.values():
        after = change_pieces([piece.text for _, piece in pieces])
        for (place, piece), text in zip(pieces, after, strict=True):
            if text != piece.text:
                changes.setdefault(place, []).append(piece._replace(text=text))
    return [_put_into(line, changes[place]) if place in changes else line for place, line in enumerate(lines)]


def _put_into(line: bytes, pieces: Iterable[TracePiece]) -> bytes:
    content = msgspec.json.decode(line, type=dict[str, object])
    for piece in pieces:
        put_text(content["data"], piece.path, piece.text)
    return msgspec.json.encode(content)


def _piece(line: bytes, streams: Streams) -> Line | None:
    try:
        traced = decoder.decode(line)
        return line_of(line, traced.after, traced.kind, _content(traced), streams)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
        return None


def _content(traced: TraceLine) -> dict[str, object]:
    kind = _KINDS.get(traced.kind)
    return traced.data if kind is None else {**traced.data, "delta": msgspec.convert(traced.data.get("delta"), kind)}


def segments(path: Path) -> tuple[bytes, bytes]:
    """Return both files, the older one first, as they were at one moment."""
    while True:
        before = _identity(path)
        found = _read_segment(older_path(path)), _read_segment(path)
        if _identity(path) == before:
            return found


def _identity(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _read_segment(path: Path) -> bytes:
    try:
        return read_whole(path)
    except FileNotFoundError:
        return b""
    except OSError as exc:
        raise StoreUnavailable(f"Cannot read the trace {str(path)!r}: {exc}. Check who may read it.") from exc
