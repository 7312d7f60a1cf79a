"""Questions that wait for an answer from outside."""

from collections import deque
from typing import Final

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.ports import Answer, Question

Input = dict[str, object]
"""The arguments of a call."""

NOBODY: Final = Answer(allowed=False, nobody=True)


class _Waiting(Struct, eq=False):
    question: Question
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer = NOBODY


class Desk:
    """Asks whoever writes answer lines. Once the input has ended, nobody is there."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._early: deque[tuple[Answer, Input | None]] = deque()
        self._closed = False
        self._asked = False
        """Whether anything was asked yet. From then on an answer without a question is nobody's: it must not allow the next call."""

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer to one question."""
        self._asked = True
        if self._early:
            return _about(question, *self._early.popleft())
        if self._closed:
            return NOBODY
        waiting = _Waiting(question)
        self._waiting.append(waiting)
        try:
            await waiting.answered.wait()
        finally:
            self._waiting.remove(waiting)
        return waiting.answer

    def answer(self, call: str, answer: Answer, changed: Input | None = None) -> bool:
        """Answer the question about `call`, or the oldest one; tell whether there is or may come such a question.

        An answer that allows `changed` arguments, other than those that were asked about, allows those, if the policy does.
        """
        found = next((one for one in self._waiting if call in ("", one.question.call)), None)
        if found is not None:
            found.answer = _about(found.question, answer, changed)
            found.answered.set()
        elif not call and not self._asked:
            self._early.append((answer, changed))
        return found is not None or (not call and not self._asked)

    def close(self) -> None:
        """Say that no answer will come any more."""
        self._closed = True
        for waiting in self._waiting:
            waiting.answered.set()


def _about(question: Question, answer: Answer, changed: Input | None) -> Answer:
    if not answer.allowed or changed is None or _same(changed, question.args):
        return answer
    return replace(answer, args=changed)


def _same(one: object, other: object) -> bool:
    """Whether two pieces of JSON say the same. `true` is not 1 here, as it is in Python."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case _:
            return isinstance(one, bool) == isinstance(other, bool) and one == other
