"""Identifiers: what they look like and how they are derived.

A session's id is chosen once. An event's id is `<opening>.<n>`: a nonce of the process that wrote it and its number in base 36, so ids
stay unique when a fork copies a path. Ids inside a step derive from their cause, so that `decide` needs no randomness.
"""

import hashlib
import re
from datetime import UTC, datetime
from typing import Final

from backstay.vocab.errors import BadId

LONGEST: Final = 128
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def check_session_id(text: str) -> str:
    """Return `text` when it can name a session; raise `BadId` otherwise."""
    if not _SESSION_ID.fullmatch(text) or ".." in text:
        raise BadId(
            f"{text!r} is not a session id. Use 1 to 128 letters, digits, '.', '_' or '-', "
            "beginning with a letter or a digit, without '..'."
        )
    return str(text)  # a plain one: what is more than a string cannot be written down


def make_session_id(now: int, nonce: str) -> str:
    """Return a fresh session id that sorts by time (`now` in microseconds) and can be typed."""
    return f"{datetime.fromtimestamp(now / 1_000_000, UTC):%Y%m%d-%H%M%S}-{nonce}"


def make_opening(token: int, nonce: str) -> str:
    """Return the nonce of an opening: no other holder of this session, or of one it was copied from, has it."""
    return f"{base36(token)}{nonce}"


def event_id(nonce: str, seq: int) -> str:
    """Return the id of the event that the opening `nonce` writes at `seq`."""
    return f"{nonce}.{base36(seq)}"


def call_id(ask: str, index: int) -> str:
    """Return the id of the `index`-th tool call in the reply to the intent `ask`. The provider's own id is only data."""
    return f"{ask}-{index}"


def child_session_id(session: str, call: str) -> str:
    """Return the id of the session that a call of `session` starts: the same after every crash, and never too long."""
    name = f"{session}.{call}"
    return (
        name if len(name) <= LONGEST else f"{session[:64].rstrip('.')}.{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    )


def base36(number: int) -> str:
    """Return `number` (not negative) in base 36."""
    digits = ""
    while True:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
        if not number:
            return digits


def provider_of(model: str) -> str:
    """Return the provider in a model's name: `anthropic` in `anthropic:claude-sonnet-4-6`."""
    return model.partition(":")[0]
