"""How the run of a hook ended, before anybody asks what it means."""

import msgspec


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run."""

    exit_code: int | None = None
    """As the system says it; negative for a signal. None for what has none, or never ended."""
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    failed: str = ""
    """Why there is no answer."""
    cut: bool = False
    """Whether standard output was longer than what is kept."""
    background: bool = False
    """Whether it goes on without us."""
    answer: str | None = None
    """What a model said."""
