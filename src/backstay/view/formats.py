"""What a run without a person prints: one class for each `--output-format`."""

from typing import Protocol

from backstay.logic.text.invisible import shown
from backstay.view.account import About, Answered, Ended
from backstay.view.result_object import command_object, result_object
from backstay.vocab.deltas import CommandResult
from backstay.wire.stream import Item, line
from backstay.wire.unbroken import json_line


class Format(Protocol):
    """Turns what happens into lines, each without its end."""

    def opening(self, about: About) -> list[bytes]:
        """What is printed before anything happens."""

    async def show(self, item: Item) -> list[bytes]:
        """What is printed for an event, a delta, a notice, or what was missed."""

    def answered(self, request: str, problem: str = "") -> list[bytes]:
        """What is printed when a control request was carried out, or could not be."""

    def result(self, ended: Ended) -> list[bytes]:
        """What is printed for a turn that is over."""

    def command(self, answered: Answered) -> list[bytes]:
        """What is printed for a command that spoke to no model."""


class _Silent:
    """Prints nothing; the formats say what they add."""

    def opening(self, about: About) -> list[bytes]:
        """Nothing."""
        return []

    async def show(self, item: Item) -> list[bytes]:
        """Nothing."""
        return []

    def answered(self, request: str, problem: str = "") -> list[bytes]:
        """Nothing."""
        return []

    def result(self, ended: Ended) -> list[bytes]:
        """Nothing."""
        return []

    def command(self, answered: Answered) -> list[bytes]:
        """Nothing."""
        return []


class PlainText(_Silent):
    """The final text of each turn."""

    def result(self, ended: Ended) -> list[bytes]:
        """The text, when there is any."""
        return [ended.text.encode("utf-8", "replace")] if ended.text else []

    def command(self, answered: Answered) -> list[bytes]:
        """Its message, with nothing in it that a terminal obeys: much of it is strangers' words. What went wrong is a complaint."""
        text = shown(answered.message)
        return [text.encode("utf-8", "replace")] if text and answered.success else []


class ResultObjects(_Silent):
    """The result of each prompt as a JSON object, on a line of its own."""

    def __init__(self, session: str) -> None:
        self._session = session

    def result(self, ended: Ended) -> list[bytes]:
        """The object."""
        return [json_line(result_object(self._session, ended))]

    def command(self, answered: Answered) -> list[bytes]:
        """The object."""
        return [json_line(command_object(self._session, answered))]


class NativeStream(_Silent):
    """Every event, delta and notice."""

    def __init__(self, session: str) -> None:
        self._session = session

    async def show(self, item: Item) -> list[bytes]:
        """The line of an item."""
        return [line(self._session, item)]

    def command(self, answered: Answered) -> list[bytes]:
        """A line of its own, which is no event: nothing of it is in the log."""
        result = CommandResult(
            after=answered.seq,
            command=answered.name,
            success=answered.success,
            message=answered.message,
            data=dict(answered.content),
        )
        return [line(self._session, result)]
