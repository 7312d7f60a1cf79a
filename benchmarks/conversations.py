"""One long conversation as the requests of each wire format, ready to be sent by anybody."""

import json
from pathlib import Path
from typing import Any, Final

from backstay.logic.state.request_messages import Outgoing
from backstay.logic.state.session_state import state_of
from backstay.ports import ModelRequest
from backstay.providers.format import Encoder, HttpRequest
from backstay.providers.registry import load_format
from backstay.tools.files.edit import edit_file
from backstay.tools.files.read import read_file
from backstay.tools.files.write import write_file
from backstay.tools.shell.bash import run_command
from backstay.vocab.specs import ModelFacts
from benchmarks.histories import EVENTS_A_TURN, MESSAGES_A_TURN, past

FORMATS: Final = ("anthropic", "openai-responses", "openai-chat", "google")
CLIENTS: Final = {"anthropic": "anthropic", "openai-responses": "openai", "openai-chat": "openai"}
"""Who makes the official client of a format."""
PROVIDERS: Final = {"anthropic": "anthropic", "openai-responses": "openai", "openai-chat": "openai", "google": "google"}
HISTORY: Final = {"anthropic": "messages", "openai-responses": "input", "openai-chat": "messages", "google": "contents"}
"""Where a request has its conversation."""
MODEL: Final = "a-model"
KEY: Final = "a-key-0123456789"
FACTS: Final = ModelFacts(known=True, window=100_000_000, abilities=frozenset(("tools", "caching")))
"""Of a model that takes tools, remembers what it is told to, and never needs a summary."""
INSTRUCTIONS: Final = "Look before you answer, and say what you saw in plain words. " * 30
ASKED: Final = 3
"""Events of a turn up to the input that it begins with."""

Json = dict[str, Any]  # Any: a request is JSON


class Growing:
    """A conversation that grows by a turn at a time, and what it takes to write its requests in one format."""

    def __init__(self, format: str, messages: int, more: int) -> None:
        turns = messages // MESSAGES_A_TURN
        records = past("s1", turns + more + 1)
        cut = 1 + turns * EVENTS_A_TURN + ASKED
        self._format = format
        self._rest = iter(records[cut:])
        self._state = state_of("s1", records[:cut])
        self._tools = tuple(each.spec for each in (read_file, write_file, edit_file, run_command))
        self.forget()

    def forget(self) -> None:
        """Start anew, as a process that has just opened the session."""
        self._outgoing = Outgoing()
        self._encoder: Encoder = load_format(self._format).encoder(PROVIDERS[self._format], FACTS)

    def grow(self) -> None:
        """Live through one more turn, up to its question."""
        for _, record in zip(range(EVENTS_A_TURN), self._rest, strict=False):
            self._state.apply(record)

    def write(self) -> HttpRequest:
        """Write the next request."""
        transcript = self._state.transcript
        self._outgoing.extend(self._outgoing.fresh(transcript), _no_blob, transcript.opaques)
        request = ModelRequest(
            model=MODEL,
            messages=tuple(self._outgoing.messages),
            instructions=INSTRUCTIONS,
            tools=self._tools,
            parameters={"max_output": 4096},
        )
        return self._encoder.encode(request)


def leave(path: Path, format: str, body: bytes) -> None:
    """Write a request to a file for the official client, without the marks that move with the end of the conversation."""
    request: Json = json.loads(body)
    if format == "anthropic":
        for message in request["messages"]:
            for block in message["content"]:
                block.pop("cache_control", None)
    path.write_text(json.dumps(request), encoding="utf-8")


def length(format: str, body: bytes) -> int:
    """How many messages a request has, as its format counts."""
    return len(json.loads(body)[HISTORY[format]])


def longest(format: str, messages: int, more: int, path: Path) -> None:
    """Leave the request of a conversation of so many messages and `more` turns."""
    growing = Growing(format, messages, more)
    for _ in range(more):
        growing.grow()
    leave(path, format, growing.write().body)


def _no_blob(sha256: str) -> bytes:
    raise AssertionError(f"{sha256!r} has no business here")
