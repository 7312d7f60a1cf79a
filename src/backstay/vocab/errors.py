"""The errors that Backstay raises, by who can act.

BackstayError
├── UserError              fix the input
│   ├── BadId              an id that cannot name a session
│   ├── NoSession          nothing is stored under that id           Session.NoSnapshot
│   ├── StoreMismatch      another store wrote the session           Session.ResumeMismatch
│   ├── IllegalTransition  the lifecycle does not allow it           Session.IllegalTransition
│   ├── InputConflict      an input id was used for another text
│   └── EgressRefused      an address that requests do not go to
├── ProviderError          retry or switch; `kind` is one of a closed set
├── StoreError             the place where sessions live
│   ├── StoreUnavailable   cannot be read or written                 Session.StoreUnavailable
│   ├── StoreFull          no space; nothing acknowledged was lost
│   ├── StoreReadOnly      may be read, not written
│   ├── LogDamaged         bytes that are not what was written       Session.ManifestDrift
│   ├── NeedsUpgrade       written by a newer Backstay
│   ├── BlobMissing        a cited blob is gone or altered
│   ├── SessionBusy        another process holds the session
│   ├── LeaseLost          another process took the session over
│   └── SeqConflict        another writer appended first
├── TurnError              what `run()` raises after the event is durable
│   ├── TurnFailed
│   ├── TurnInterrupted
│   └── TurnPaused         raise the budget, then finish the turn
└── Bug                    ours: please report it
"""

from typing import ClassVar, Literal

ErrorKind = Literal[
    "rate_limit",
    "overloaded",
    "timeout",
    "transport",
    "auth",
    "bad_request",
    "content_filter",
    "context_overflow",
    "unknown",
]
"""Why a model call failed. Decisions are functions of the kind, never of a message."""


class BackstayError(Exception):
    """The root of everything that Backstay raises."""

    code: ClassVar[str] = "Backstay.Error"


class UserError(BackstayError):
    """The input is wrong; the message says how to mend it."""

    code = "Validation.InputInvalid"


class BadId(UserError):
    """A text that cannot be an id."""

    code = "Validation.IdInvalid"


class NoSession(UserError):
    """Nothing is stored under that id."""

    code = "Session.NoSnapshot"


class StoreMismatch(UserError):
    """Another store wrote this session."""

    code = "Session.ResumeMismatch"


class IllegalTransition(UserError):
    """The lifecycle does not allow this now."""

    code = "Session.IllegalTransition"


class InputConflict(UserError):
    """The input id belongs to another text."""

    code = "Validation.InputConflict"


class ProviderError(BackstayError):
    """A model call failed."""

    code = "Provider.Failed"

    def __init__(self, kind: ErrorKind, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s


class StoreError(BackstayError):
    """The store failed."""

    code = "Session.StoreUnavailable"


class StoreUnavailable(StoreError):
    """The store cannot be opened, read or written."""


class StoreFull(StoreError):
    """There is no space left; what was acknowledged is safe."""

    code = "Session.StoreFull"


class StoreReadOnly(StoreError):
    """The store can be read but not written."""

    code = "Session.StoreReadOnly"


class LogDamaged(StoreError):
    """The stored bytes are not what was written."""

    code = "Session.ManifestDrift"


class NeedsUpgrade(StoreError):
    """A newer Backstay wrote this."""

    code = "Session.NeedsUpgrade"


class BlobMissing(StoreError):
    """A cited blob is gone or altered."""

    code = "Session.BlobMissing"


class SessionBusy(StoreError):
    """Another process holds the session; the message says who and since when."""

    code = "Session.Busy"


class LeaseLost(StoreError):
    """Another process took the session over; nothing more is written here."""

    code = "Session.LeaseLost"


class SeqConflict(StoreError):
    """The log is not where the writer thought it was."""

    code = "Session.SeqConflict"


class TurnError(BackstayError):
    """A turn did not complete. `turn` is its id; the log holds what happened."""

    code = "Turn.Error"

    def __init__(self, message: str, *, turn: str, text: str = "") -> None:
        super().__init__(message)
        self.turn = turn
        self.text = text
        """What the model had said before the turn ended."""


class TurnFailed(TurnError):
    """The turn failed; `reason` is the code recorded with it."""

    code = "Turn.Failed"

    def __init__(self, message: str, *, turn: str, reason: str, text: str = "") -> None:
        super().__init__(message, turn=turn, text=text)
        self.reason = reason


class TurnInterrupted(TurnError):
    """The turn was interrupted; the partial text is kept."""

    code = "Cancellation.TurnCancelled"


class TurnPaused(TurnError):
    """The turn is open and waits: the budget is spent. Raise it and finish the turn."""

    code = "Turn.Paused"


class Bug(BackstayError):
    """Something that must not happen. Please report it."""

    code = "Backstay.Bug"


EgressKind = Literal["url", "scheme", "userinfo", "host", "port", "address", "redirect", "too_large", "encoding"]
"""Why a request did not go out, or its answer was not taken."""


class EgressRefused(UserError):
    """A request would have gone where none may go, or its answer was not fit to be taken. No byte of it was sent to that address."""

    code = "Egress.Refused"

    def __init__(self, kind: EgressKind, *, host: str, why: str, address: str = "") -> None:
        super().__init__(f"{host!r} is refused: {why}")
        self.kind = kind
        self.host = host
        self.address = address
        """The address that was found bad; empty when it did not come to that."""
        self.why = why
