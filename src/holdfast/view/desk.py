"""Questions that wait for an answer from outside."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import anyio

from holdfast.ports import Answer, Question

NOBODY: Final = Answer(allowed=False, nobody=True)


@dataclass(eq=False, slots=True)
class _Waiting:
    call: str
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer = NOBODY


class Desk:
    """Asks whoever writes answer lines. Once the input has ended, nobody is there."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._early: deque[Answer] = deque()
        self._closed = False
        self._asked = False
        """Whether anything was asked yet. From then on an answer without a question is nobody's: it must not allow the next call."""

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer to one question."""
        self._asked = True
        if self._early:
            return self._early.popleft()
        if self._closed:
            return NOBODY
        waiting = _Waiting(question.call)
        self._waiting.append(waiting)
        try:
            await waiting.answered.wait()
        finally:
            self._waiting.remove(waiting)
        return waiting.answer

    def answer(self, call: str, answer: Answer) -> bool:
        """Answer the question about `call`, or the oldest one; tell whether there is or may come such a question."""
        found = next((one for one in self._waiting if call in ("", one.call)), None)
        if found is not None:
            found.answer = answer
            found.answered.set()
        elif not call and not self._asked:
            self._early.append(answer)
        return found is not None or (not call and not self._asked)

    def close(self) -> None:
        """Say that no answer will come any more."""
        self._closed = True
        for waiting in self._waiting:
            waiting.answered.set()
