"""Queue the questions of a headless run until an answer line of the input answers them."""

import json
from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.ports import Answer, Question

Input = dict[str, object]
"""The arguments of a call."""

_Given = tuple[Answer, Input | None]
"""An answer as it was written, with the arguments that it names."""

NOBODY: Final = Answer(allowed=False, nobody=True)


class _Asked(Struct, eq=False):
    question: Question
    opened: int
    """The bytes of input written when it was asked: an answer that begins before this offset is about something else."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None


class ApprovalQueue:
    """Ask questions that answer lines answer. A question takes one answer, the first. At the end of the input all are refused."""

    def __init__(self, warn: Callable[[str], None] = lambda words: None) -> None:
        self._warn = warn
        self._open: list[_Asked] = []
        self._answers: dict[str, _Given] = {}
        """The answers that were taken, by the call of the question; a new question about a call drops the old answer."""
        self._early: _Given | None = None
        self._closed = False
        self._anything_asked = False
        """Whether a question was asked yet. From then on an answer without a question is dropped: it must not allow the next call."""
        self._written: Callable[[], int] = int

    def attach(self, written: Callable[[], int]) -> None:
        """Call `written` whenever a question is asked, for the bytes of input that there are, read or not."""
        self._written = written

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer to one question."""
        self._anything_asked = True
        self._answers.pop(question.call, None)
        if self._early is not None:
            given, self._early = self._early, None
            if not (problem := _grant_problem(question, *given)):
                return self._take(question, given)
            self._warn(problem)
        if self._closed:
            return NOBODY
        asked = _Asked(question, self._written())
        self._open.append(asked)
        try:
            await asked.answered.wait()
        finally:
            self._open.remove(asked)
        return NOBODY if asked.answer is None else asked.answer

    def answer(self, call: str, answer: Answer, changed: Input | None = None, *, offset: int = 0) -> str:
        """Answer the question about `call`, or the oldest open one; return why the answer is not used, or nothing.

        `offset` is where in the input the answer begins. One answer that names no call may come before the first question.
        An answer with `changed` arguments allows those, if the policy does.
        """
        given = (answer, changed)
        waiting = [each for each in self._open if each.answer is None and call in ("", each.question.call)]
        found = next((each for each in waiting if each.opened <= offset), None)
        if found is not None:
            if problem := _grant_problem(found.question, *given):
                return problem
            found.answer = self._take(found.question, given)
            found.answered.set()
            return ""
        if not call and not self._anything_asked and self._early is None:
            self._early = given
            return ""
        return self._refusal(call, given, written_before=bool(waiting))

    def close(self) -> None:
        """Refuse all open questions: no more answers come."""
        self._closed = True
        for asked in self._open:
            asked.answered.set()

    def _take(self, question: Question, given: _Given) -> Answer:
        self._answers[question.call] = given
        return _change_args(question, *given)

    def _refusal(self, call: str, given: _Given, *, written_before: bool) -> str:
        """Return why an answer is not used; empty when it repeats the one that was taken."""
        if written_before:
            about = f" about {call!r}" if call else ""
            return f"An answer was written before the open question{about} was asked; it was not used."
        if not call:
            return "An answer came when no question was open; it was not used."
        taken = self._answers.get(call)
        if taken is None:
            return f"No question about {call!r} is open; the answer was not used."
        if given == taken:
            return ""
        word = "allowed" if taken[0].allowed else "refused"
        return f"The question about {call!r} was answered before: {word}. That holds; this answer was not used."


def _grant_problem(question: Question, answer: Answer, changed: Input | None) -> str:
    """Return why an answer cannot grant what it allows beyond the session; empty when it can, or does not try to."""
    if not answer.allowed or answer.grant not in ("project", "person"):
        return ""
    if any(rule in question.offers for rule in answer.rules):
        return ""
    if not answer.rules and question.exact and (changed is None or _same(changed, question.args)):
        return ""
    what = "none of its rules was suggested" if answer.rules else "no rule means exactly this call"
    offers = f'"rules" with any of {json.dumps(question.offers, ensure_ascii=False)}, or ' if question.offers else ""
    return (
        f"The answer about {question.call!r} was not used: it would keep nothing for the grant {answer.grant!r}, since {what}. "
        f'Answer again with {offers}the grant "session" or "once".'
    )


def _change_args(question: Question, answer: Answer, changed: Input | None) -> Answer:
    if not answer.allowed or changed is None or _same(changed, question.args):
        return answer
    return replace(answer, args=changed)


def _same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal. `true` is not 1 here, unlike in Python."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case _:
            return isinstance(one, bool) == isinstance(other, bool) and one == other
