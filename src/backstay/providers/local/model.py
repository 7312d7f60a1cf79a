"""The local model as a `Model`: requests to the engine on this machine, shortened for a small model, in one of our own wire formats."""

import functools
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread
import msgspec
from msgspec.structs import replace

from backstay.ports import Model, ModelReply, ModelRequest
from backstay.providers.http.model import HttpModel
from backstay.providers.local.engine import SHARED, WINDOW, Engine, Engines, fitting, require_engine, require_file
from backstay.providers.local.pins import ModelPin, list_pins, pin_of
from backstay.providers.registry import load_format
from backstay.vocab.deltas import Delta
from backstay.vocab.messages import Message, ToolCall
from backstay.vocab.specs import ModelFacts, Prices, ToolSpec

FACTS: Final = ModelFacts(
    window=WINDOW, max_output=1024, prices=Prices(input=0, output=0), abilities=frozenset(("tools",)), known=True
)
PREFIX: Final = "local:"
CIRCLE: Final = "It made the same call twice in a row, so it was told to answer without tools."


def find_local(name: str, folder: Path, *, free: int | None = None) -> "LocalModel":
    """Return the model called `local:NAME`; with `local:` alone, the best one of `folder` that the free memory is enough for.

    Raise `UserError` when the engine is not installed or the model was not pulled: the message has the one command that helps.
    """
    pin, remark = choose(name, folder, free=free)
    require_engine()
    return LocalModel(pin, require_file(pin, folder), remark=remark)


def choose(name: str, folder: Path, *, free: int | None = None) -> tuple[ModelPin, str]:
    """Return the model that `name` means, and a remark on the choice, or an empty one."""
    if wanted := name.removeprefix(PREFIX):
        return pin_of(wanted), ""
    pulled = tuple(pin for pin in list_pins() if (folder / pin.file).exists())
    return fitting(pulled or list_pins(), free)


class LocalModel:
    """A small model on this machine. Asking it starts the engine, which all sessions of the process share."""

    def __init__(
        self, pin: ModelPin, path: Path, *, remark: str = "", format: str = "openai-chat", engines: Engines = SHARED
    ) -> None:
        self._pin = pin
        self._path = path
        self._remark = remark
        self._format = load_format(format)
        self._engines = engines
        self._asked: tuple[Engine, HttpModel] | None = None

    @property
    def name(self) -> str:
        """As it is written in the log."""
        return f"{PREFIX}{self._pin.name}"

    @property
    def format(self) -> str:
        """The wire format that it is asked in."""
        return self._format.name

    @property
    def facts(self) -> ModelFacts:
        """What is known of it: it costs nothing, and remembers little."""
        return FACTS

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer one request, always with the likeliest words, so that the same question has the same answer."""
        model = await self._model()
        notes = [self._remark] if self._remark else []
        if repeats_itself(request.messages):
            notes.append(CIRCLE)
        async for item in model.ask(fit_request(request)):
            if isinstance(item, ModelReply):
                self._remark = ""  # said once
                yield replace(item, notes=(*item.notes, *notes))
            else:
                yield item

    async def aclose(self) -> None:
        """Close the connections. The engine goes on for the other sessions of this process."""
        if self._asked is not None:
            await self._asked[1].aclose()

    async def _model(self) -> HttpModel:
        engine = await anyio.to_thread.run_sync(self._engines.get, self._path, self._pin.name, abandon_on_cancel=True)
        if self._asked is None or self._asked[0] is not engine:
            base = engine.address if self._format.name == "anthropic" else f"{engine.address}/v1"
            made = HttpModel(self.name, format=self._format, base_url=base, key=engine.key, facts=FACTS)
            self._asked = (engine, made)
        return self._asked[1]


def fit_request(request: ModelRequest) -> ModelRequest:
    """Return `request` as a small model copes with it: short tools, temperature 0, and no tools once it repeats its calls."""
    parameters: dict[str, object] = {"temperature": 0, "max_output": FACTS.max_output, **request.parameters}
    if repeats_itself(request.messages):
        parameters["tool_choice"] = "none"
    return replace(request, tools=shorten_tools(request.tools), parameters=parameters)


def repeats_itself(messages: Sequence[Message]) -> bool:
    """Return whether the last two calls since the person spoke are the same call."""
    calls: list[tuple[str, object]] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        calls.extend((part.name, _meaning(part.args)) for part in reversed(message.parts) if isinstance(part, ToolCall))
        if len(calls) > 1:
            return calls[0] == calls[1]
    return False


def _meaning(args: str) -> object:
    try:
        return msgspec.json.decode(args)
    except msgspec.DecodeError:
        return args


WORDS: Final = {
    "Write": "Make a new file from a text that the user gave. Never use it to copy, rename or change a file.",
    "Read": "Show what a file says.",
    "Bash": (
        "Run a shell command: show a file with cat, list, search text with grep, count, copy with cp, rename with mv, "
        "delete with rm, replace words with sed, make folders, add lines."
    ),
}
"""What these tools are for, in the order in which they are shown: a small model turns to the last one first.

With the usual descriptions and order the 1.5B model wrote a made-up file when it was asked to copy, rename or change one.
"""
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_IDLE: Final = ("title", "default", "$schema", "additionalProperties")


def shorten_tools(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return `specs` without optional arguments and with one sentence as description, those of `WORDS` last."""
    places = {name: place for place, name in enumerate(WORDS, start=1)}
    ordered = sorted(specs, key=lambda spec: places.get(spec.name, 0))
    return tuple(
        replace(spec, description=WORDS.get(spec.name) or _first(spec.description), schema=_short(spec.schema))
        for spec in ordered
    )


def _short(schema: dict[str, object]) -> dict[str, object]:
    required = schema.get("required")
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(required, list) or not required:
        return schema
    kept = {name: _property(value) for name, value in properties.items() if name in required}
    return {**{k: v for k, v in schema.items() if k not in _IDLE}, "properties": kept}


def _property(schema: object) -> object:
    if not isinstance(schema, dict):
        return schema
    said = {name: value for name, value in schema.items() if name not in _IDLE}
    return said | ({"description": _first(said["description"])} if "description" in said else {})


@functools.cache
def _first(text: str) -> str:
    return _SENTENCE.split(text.strip(), maxsplit=1)[0]


if TYPE_CHECKING:
    _: Model = LocalModel(list_pins()[0], Path())
