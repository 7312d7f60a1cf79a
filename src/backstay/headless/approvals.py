"""Questions that wait for an answer from outside."""

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
    """How much input was written when it was asked: an answer that begins before this place was written for something else."""
    heard: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None


class ApprovalQueue:
    """Asks whoever writes answer lines. A question takes one answer, the first. Once the input has ended, nobody is there."""

    def __init__(self, complain: Callable[[str], None] = lambda words: None) -> None:
        self._complain = complain
        self._open: list[_Asked] = []
        self._answers: dict[str, _Given] = {}
        """The answers that were taken, by what they were about: the newest question of each call."""
        self._early: _Given | None = None
        self._closed = False
        self._anything_asked = False
        """Whether anything was asked yet. From then on an answer without a question is nobody's: it must not allow the next call."""
        self._written: Callable[[], int] = int

    def attach(self, written: Callable[[], int]) -> None:
        """Learn from `written` how many bytes of input there are, read or not, whenever a question is asked."""
        self._written = written

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer to one question."""
        self._anything_asked = True
        self._answers.pop(question.call, None)
        if self._early is not None:
            given, self._early = self._early, None
            if not (problem := _unkept(question, *given)):
                return self._take(question, given)
            self._complain(problem)
        if self._closed:
            return NOBODY
        asked = _Asked(question, self._written())
        self._open.append(asked)
        try:
            await asked.heard.wait()
        finally:
            self._open.remove(asked)
        return NOBODY if asked.answer is None else asked.answer

    def answer(self, call: str, answer: Answer, changed: Input | None = None, *, place: int = 0) -> str:
        """Answer the question about `call`, or the oldest one that has no answer; return why the answer is not used, if it is not.

        `place` says where in the input the answer begins. One answer that names no call may come before the first question.
        An answer that allows `changed` arguments, other than those that were asked about, allows those, if the policy does.
        """
        given = (answer, changed)
        waiting = [each for each in self._open if each.answer is None and call in ("", each.question.call)]
        found = next((each for each in waiting if each.opened <= place), None)
        if found is not None:
            if problem := _unkept(found.question, *given):
                return problem
            found.answer = self._take(found.question, given)
            found.heard.set()
            return ""
        if not call and not self._anything_asked and self._early is None:
            self._early = given
            return ""
        return self._refusal(call, given, written_before=bool(waiting))

    def close(self) -> None:
        """Say that no answer will come any more."""
        self._closed = True
        for asked in self._open:
            asked.heard.set()

    def _take(self, question: Question, given: _Given) -> Answer:
        self._answers[question.call] = given
        return _about(question, *given)

    def _refusal(self, call: str, given: _Given, *, written_before: bool) -> str:
        """Why an answer is not used; nothing when it says again what was answered."""
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


def _unkept(question: Question, answer: Answer, changed: Input | None) -> str:
    """Why an answer cannot keep what it allows for longer than the session; empty when it can, or does not want to."""
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
