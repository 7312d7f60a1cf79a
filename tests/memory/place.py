"""A project with a memory, for tests."""

from pathlib import Path

from backstay.memory.memory import Memory
from backstay.testing.clock import ObedientClock

DAY = 24 * 3600


def memory_of(root: Path, clock: ObedientClock | None = None, *, session: str = "s1", trusted: bool = True) -> Memory:
    """The memory of the project at `root`."""
    return Memory(root, clock=clock or ObedientClock(), session=session, trusted=trusted)


def index_of(root: Path) -> Path:
    """The file of the index."""
    return root / ".backstay/memory/MEMORY.md"


def write_index(root: Path, text: str) -> None:
    """Put an index there that somebody else wrote."""
    index_of(root).parent.mkdir(parents=True, exist_ok=True)
    index_of(root).write_text(text, encoding="utf-8")
