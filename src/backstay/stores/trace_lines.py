"""One line of a trace and its JSON, which there is for whatever somebody wants to have traced."""

import json
from typing import Final

import msgspec


class TraceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. Lines with `n` 0 are the trace's own: `trace_lost` and `trace_cut`."""

    after: int
    token: int
    n: int
    at: int
    """Microseconds since 1970."""
    kind: str
    data: dict[str, object] = {}


def _named(thing: object) -> str:
    return f"<{type(thing).__name__}>"


_encoder: Final = msgspec.json.Encoder(enc_hook=_named)
decoder: Final = msgspec.json.Decoder(TraceLine)


def encode(line: TraceLine) -> bytes:
    """One line of JSON, whatever the content is: what cannot be written is replaced by its name."""
    try:
        return _encoder.encode(line)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _encoder.encode(msgspec.structs.replace(line, data=_salvage(line.data)))


def _salvage(content: dict[str, object]) -> dict[str, object]:
    """Save what can be of content that the encoder refuses, such as text with half a character."""
    try:
        text = json.dumps(content, default=_named, skipkeys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as exc:
        return {"unwritable": f"{type(exc).__name__}: {exc}"}
    return {"salvaged": text.encode("utf-8", "replace").decode()}
