"""Changing what was traced of a session, line by line; what is split over the pieces of a stream is found in the pieces put together."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from backstay.logic.secrets.rewrite import Change, as_text, change_bytes, change_texts, texts_in
from backstay.stores.trace.files import older_path, segments, trace_path
from backstay.stores.trace.scrub import Line, Streams, TracePiece, line_of, pieces_of, put_text
from backstay.stores.trace.trace import TraceLine, decoder
from backstay.system.files import replace_file
from backstay.vocab.deltas import DELTAS

ChangePieces = Callable[[Sequence[str]], list[str]]
"""Gives the pieces of a stream with other words in them, as many as there were."""
_KINDS: Final = {kind.__name__: kind for kind in DELTAS}


def trace_texts(folder: str | os.PathLike[str], session: str) -> Iterator[str]:
    """Every text of a session's trace: those of each line, and the streams put together."""
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
    lines = _joined([line for path in paths for line in before[path]], change_pieces)
    lines = [_changed(line, change) for line in lines]
    count = 0
    for path in paths:
        after, lines = lines[: len(before[path])], lines[len(before[path]) :]
        different = sum(one != other for one, other in zip(before[path], after, strict=True))
        if different:
            replace_file(Path(path), b"\n".join(after))
        count += different
    return count


def _changed(line: bytes, change: Change) -> bytes:
    try:
        traced = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return change_bytes(line, change)
    after = change_texts(traced.data, change)
    return line if after == traced.data else msgspec.json.encode(msgspec.structs.replace(traced, data=after))


def _joined(lines: list[bytes], change_pieces: ChangePieces) -> list[bytes]:
    """The lines without what only the pieces of a stream together show."""
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
