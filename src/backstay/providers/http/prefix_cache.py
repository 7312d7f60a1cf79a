"""Cache the encoded beginning of a growing conversation from one request to the next."""

from collections.abc import Callable, Sequence

from backstay.vocab.messages import Message

Encode = Callable[[Sequence[Message]], bytes]
"""Writes neighbouring messages as the provider's own message or messages, separated by commas; may be empty."""
Joins = Callable[[Message, Message], bool]
"""Whether the second message belongs into the same group as the first."""


class Prefix:
    """Groups of messages and their bytes. A message that is the same object as last time is not encoded again.

    Works because the history of a session keeps its message objects: what was said once is never said differently.
    """

    def __init__(self, encode: Encode, joins: Joins) -> None:
        self._encode = encode
        self._joins = joins
        self._messages: tuple[Message, ...] = ()
        self._ends: list[int] = []
        self._chunks: list[bytes] = []

    def chunks(self, messages: Sequence[Message]) -> Sequence[bytes]:
        """Return the bytes of each group of `messages`. Valid until the next call."""
        known = self._count_known(messages)
        while self._ends and self._ends[-1] >= known:  # the newest group may have grown
            self._ends.pop()
            self._chunks.pop()
        at = self._ends[-1] if self._ends else 0
        self._messages = self._messages[:at]  # should a message fail to encode, nothing of it counts as known
        while at < len(messages):
            end = at + 1
            while end < len(messages) and self._joins(messages[end - 1], messages[end]):
                end += 1
            self._chunks.append(self._encode(messages[at:end]))
            self._ends.append(end)
            at = end
        self._messages = tuple(messages)
        return self._chunks

    def newest(self, count: int) -> Sequence[tuple[int, Sequence[Message]]]:
        """Return the last `count` groups: the index of each chunk, and its messages."""
        starts = [0, *self._ends]
        first = max(0, len(self._ends) - count)
        return [(i, self._messages[starts[i] : starts[i + 1]]) for i in range(first, len(self._ends))]

    def _count_known(self, messages: Sequence[Message]) -> int:
        same = 0
        for old, new in zip(self._messages, messages, strict=False):
            if old is not new:
                break
            same += 1
        return same
