"""Events of secrets that were in the log and are no more."""

from backstay.vocab.event import Event


class SecretsErased(Event, frozen=True, kw_only=True):
    """Secrets that stood in earlier events and blobs were replaced by marks. The marks say where, this says how many."""

    count: int
    """Secrets that are gone, counted as `secrets scan` counts them: a mark stands for each, but for those in contents that are given up."""
    kinds: dict[str, int] = {}
    """What they were, and how many of each."""
    blobs: int = 0
    """Blobs that have other content, and another name, now."""
    contents: int = 0
    """Contents of files that were kept for a restore and are kept no longer."""
    reason: str = ""
    """Why it was done, in the words of whoever did it."""
