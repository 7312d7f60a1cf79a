"""What a run without a person prints: one class for each `--output-format`."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from backstay.headless.result import About, Answered, EndedTurn, command_object, result_object
from backstay.logic.text import show_invisible
from backstay.session.options import default_store_url
from backstay.vocab.deltas import CommandResult
from backstay.vocab.errors import BackstayError
from backstay.wire.json_text import json_line
from backstay.wire.stream import Item, line


class OutputFormat(Protocol):
    """Turns what happens into lines, each without its end."""

    def opening(self, about: About) -> list[bytes]:
        """What is printed before anything happens."""

    async def show(self, item: Item) -> list[bytes]:
        """What is printed for an event, a delta, a notice, or what was missed."""

    def answered(self, request: str, problem: str = "") -> list[bytes]:
        """What is printed when a control request was carried out, or could not be."""

    def result(self, ended: EndedTurn) -> list[bytes]:
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

    def result(self, ended: EndedTurn) -> list[bytes]:
        """Nothing."""
        return []

    def command(self, answered: Answered) -> list[bytes]:
        """Nothing."""
        return []


class TextFormat(_Silent):
    """The final text of each turn."""

    def result(self, ended: EndedTurn) -> list[bytes]:
        """The text, when there is any."""
        return [ended.text.encode("utf-8", "replace")] if ended.text else []

    def command(self, answered: Answered) -> list[bytes]:
        """Its message, with nothing in it that a terminal obeys: much of it is strangers' words. What went wrong is a complaint."""
        text = show_invisible(answered.message)
        return [text.encode("utf-8", "replace")] if text and answered.success else []


class ResultObjects(_Silent):
    """The result of each prompt as a JSON object, on a line of its own."""

    def __init__(self, session: str) -> None:
        self._session = session

    def result(self, ended: EndedTurn) -> list[bytes]:
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


_COMMAND: Final = re.compile(r"`(backstay (?:log|sessions|export|-r|-c|-p)\b[^`]*)`")
"""A command about sessions, as messages quote it."""


def with_store(words: str, url: str) -> str:
    """`words` with the store at `url` named in each command that looks into one."""
    if not url or url.startswith("memory:") or _path(url) == _path(default_store_url()):
        return words
    return _COMMAND.sub(lambda found: f"`{_named(found[1], url)}`", words)


@contextmanager
def hinting(url: str) -> Iterator[None]:
    """Let the errors of what is done with the store at `url` name it in their hints."""
    try:
        yield
    except BackstayError as exc:
        exc.args = (with_store(str(exc), url), *exc.args[1:])
        raise


def _named(command: str, url: str) -> str:
    return command if "--store" in command else f"{command} --store {shlex.quote(url)}"


def _path(url: str) -> str:
    """The file or folder of a URL, however its slashes are written and whatever it says of a key."""
    return re.sub(r"^\w+:/*", "/", url).partition("?")[0]
