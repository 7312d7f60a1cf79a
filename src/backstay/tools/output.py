"""Output that may be endless, kept within bounds: its beginning and its end."""

from collections import deque
from collections.abc import Callable
from typing import Final

HEAD: Final = 15_000
"""Characters kept of the beginning."""
TAIL: Final = 15_000
"""Characters kept of the end."""
LIVE: Final = 256 * 1024
"""Characters that a watcher is shown in a second."""


class BoundedText:
    """A growing text of which only the beginning and the end are kept."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._head: list[str] = []
        self._room = head
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._left_out = 0

    def add(self, text: str) -> None:
        """Append a piece."""
        if self._room:
            self._head.append(text[: self._room])
            text, self._room = text[self._room :], max(0, self._room - len(text))
        if text:
            self._tail.append(text)
            self._tail_size += len(text)
            while self._tail_size - len(self._tail[0]) >= self._tail_limit:
                self._drop(len(self._tail.popleft()))

    @property
    def text(self) -> str:
        """What is kept, with a note in the middle of how much is not."""
        return self.shown()

    @property
    def left_out(self) -> int:
        """Characters that are not kept."""
        return self._left_out + max(0, self._tail_size - self._tail_limit)

    @property
    def next_line(self) -> int:
        """The number of the line, counted from 1, in which the beginning ends."""
        return 1 + sum(piece.count("\n") for piece in self._head)

    def shown(self, hint: str = "") -> str:
        """What is kept, with a note in the middle of how much is not; `hint` says where to find it."""
        tail = "".join(self._tail)
        note = f"\n[{self.left_out} characters are left out here{hint}]\n" if self.left_out else ""
        return "".join(self._head) + note + tail[max(0, len(tail) - self._tail_limit) :]

    def _drop(self, size: int) -> None:
        self._tail_size -= size
        self._left_out += size


class LiveText:
    """Shows a growing text to a watcher, so much in a second; a flood is cut, and what was held back is counted."""

    def __init__(self, show: Callable[[str], None], per_second: int = LIVE) -> None:
        self._show = show
        self._per_second = per_second
        self._room = per_second
        self._since = 0.0
        self._held = 0

    def add(self, text: str, now: float) -> None:
        """Show a piece, or as much of it as there is room for in this second."""
        if now >= self._since + 1:
            self.close()
            self._since, self._room = now, self._per_second
        if shown := text[: self._room]:
            self._show(shown)
        self._room -= len(shown)
        self._held += len(text) - len(shown)

    def close(self) -> None:
        """Say what was held back."""
        if self._held:
            self._show(f"\n[{self._held} characters are not shown live]\n")
            self._held = 0
