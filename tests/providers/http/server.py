"""A provider in the box: a real HTTP server on a free port that speaks a wire format, follows a script, and can fail in many ways.

    async with FakeProvider("anthropic", script=[says("Hello."), fails(429, retry_after="2"), says("Hello again.")]) as server:
        async with open_session(model=server.model()) as session:
            ...
        assert len(server.requests) == 3

Each request takes the next step of the script; one past the end is refused with status 400. A step is made by `says`, `answers_whole`,
`fails`, `shows_page`, `redirects` or `raw`, and hurt by its methods: `says("...").cut(-3)`, `.stalled(40)`, `.trickled()`, `.pinging(5)`,
`.with_error(after=2)`, `.garbled(after=2)`, `.kept_open()`, `.without_framing()`. A step does not know the format: one script serves
all four.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

import anyio
from anyio.abc import SocketAttribute, SocketStream

from backstay.ports import Model
from backstay.providers.http.model import HttpModel
from backstay.providers.registry import load_format
from backstay.vocab.specs import ModelFacts
from tests.providers.http import wires
from tests.providers.http.wires import FormatName, Said

KEY: Final = "test-key-0123456789"
End = Literal["clean", "cut", "stall"]
Write = Callable[[FormatName], list[bytes]]


@dataclass(frozen=True, kw_only=True)
class Step:
    """How one request is answered."""

    write: Write
    """Makes the events of the body, each written at once unless something else is said."""
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    end: End = "clean"
    at: int | None = None
    """How many bytes of the body are sent before the end; all of them when it is not said, and fewer when it is negative."""
    piece: int = 0
    """Bytes written at once; 0 for an event."""
    pause_s: float = 0.0
    """Between two pieces."""
    framed: bool = True
    """Whether the end of the body can be told from a cut: chunks, or only the end of the connection."""

    def cut(self, at: int) -> Self:
        """Close the connection after `at` bytes of the body."""
        return replace(self, end="cut", at=at)

    def stalled(self, at: int) -> Self:
        """Send `at` bytes of the body, then nothing more, and keep the connection open."""
        return replace(self, end="stall", at=at)

    def kept_open(self) -> Self:
        """Send everything, and never end the body."""
        return replace(self, end="stall")

    def trickled(self, piece: int = 1, pause_s: float = 0.0) -> Self:
        """Send a few bytes at a time."""
        return replace(self, piece=piece, pause_s=pause_s)

    def without_framing(self) -> Self:
        """End the body by ending the connection, so that a cut looks like an end."""
        return replace(self, framed=False)

    def pinging(self, count: int, pause_s: float = 0.0) -> Self:
        """Send signs of life before anything else."""
        return replace(self, write=lambda format: [wires.ping(format)] * count + self.write(format), pause_s=pause_s)

    def with_error(self, after: int, message: str = "Overloaded") -> Self:
        """Send the provider's error event in place of everything after `after` events."""
        return replace(self, write=lambda format: [*self.write(format)[:after], wires.error_event(format, message)])

    def garbled(self, after: int) -> Self:
        """Send something that is not JSON after `after` events, then the rest."""
        broken = b'data: {"broken": \n\n'
        return replace(self, write=lambda format: [*self.write(format)[:after], broken, *self.write(format)[after:]])


def says(text: str = "", *calls: tuple[str, Mapping[str, object]], **rest: int) -> Step:
    """Answer with a text and calls of tools, streamed. `input` and `output` are the tokens, `pieces` how many deltas the text is."""
    said = Said(text=text, calls=calls, **rest)
    return Step(write=lambda format: wires.stream(format, said))


def answers_whole(text: str = "", *calls: tuple[str, Mapping[str, object]], **rest: int) -> Step:
    """Answer with one JSON document, as a server does that does not stream."""
    said = Said(text=text, calls=calls, **rest)
    return Step(write=lambda format: [wires.document(format, said)], content_type="application/json")


def fails(status: int, message: str = "No.", *, retry_after: str = "", **headers: str) -> Step:
    """Refuse, in the provider's own words. Underscores in the names of headers become dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if retry_after:
        named["retry-after"] = retry_after
    return Step(
        write=lambda format: [wires.refusal(format, status, message)],
        status=status,
        content_type="application/json",
        headers=named,
    )


def shows_page(status: int, text: str = "Bad Gateway") -> Step:
    """Answer with a page for people, as something between us and the provider does."""
    page = f"<html><head><title>{text}</title></head><body><h1>{text}</h1><p>nginx</p></body></html>".encode()
    return Step(write=lambda _: [page], status=status, content_type="text/html")


def redirects(to: str, status: int = 307) -> Step:
    """Send the client elsewhere."""
    return Step(write=lambda _: [b""], status=status, headers={"location": to}, content_type="text/plain")


def raw(*pieces: bytes, content_type: str = "text/event-stream", status: int = 200) -> Step:
    """Answer with these bytes, whatever they are."""
    return Step(write=lambda _: list(pieces), content_type=content_type, status=status)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int
    """Which connection it came through, from 1."""

    @property
    def json(self) -> Any:  # Any: a request is JSON
        """The body, read."""
        return json.loads(self.body)


class FakeProvider:
    """Serves one format while it is entered."""

    def __init__(self, format: FormatName, script: Sequence[Step] = (), *, port: int = 0) -> None:
        self.format: FormatName = format
        self.script = list(script)
        self.requests: list[Asked] = []
        self.connections = 0
        self.left = anyio.Event()
        """Set when a client has closed its connection, in the middle of an answer or after one."""
        self.stalling = anyio.Event()
        """Set when an answer stalls."""
        self.port = port
        self._stack = AsyncExitStack()

    @property
    def base_url(self) -> str:
        """What a client takes as the provider's address."""
        return f"http://127.0.0.1:{self.port}{wires.base_path(self.format)}"

    def model(
        self, *, model: str = wires.MODEL, key: str | Callable[[], str] = KEY, facts: ModelFacts | None = None
    ) -> HttpModel:
        """A model that asks this server."""
        return HttpModel(
            f"{wires.PROVIDERS[self.format]}:{model}",
            format=load_format(self.format),
            base_url=self.base_url,
            key=key,
            facts=facts,
        )

    async def __aenter__(self) -> Self:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.port)
        await self._stack.enter_async_context(listener)
        self.port = listener.extra(SocketAttribute.local_port)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(listener.serve, self._serve)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _serve(self, client: SocketStream) -> None:
        self.connections += 1
        number = self.connections
        async with client:
            try:
                while (asked := await _read_request(client, number)) is not None:
                    self.requests.append(asked)
                    step = self._next(asked)
                    if not await self._answer(client, step):
                        return
                self.left.set()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.left.set()

    def _next(self, asked: Asked) -> Step:
        if asked.path != wires.paths(self.format):
            return fails(404, f"there is nothing at {asked.path}")
        return self.script.pop(0) if self.script else fails(400, "the script has no more steps")

    async def _answer(self, client: SocketStream, step: Step) -> bool:
        """Send one answer; say whether the connection can be used again."""
        pieces = _pieces(step, step.write(self.format))
        await client.send(_head(step))
        for number, piece in enumerate(pieces):
            if number and step.pause_s:
                await anyio.sleep(step.pause_s)
            await client.send(b"%x\r\n%s\r\n" % (len(piece), piece) if step.framed else piece)
        if step.end == "stall":
            self.stalling.set()
            await _hang_up(client)
            self.left.set()
            return False
        if step.end == "cut" or not step.framed:
            return False
        await client.send(b"0\r\n\r\n")
        return True


async def collect(model: Model, request: Any) -> list[Any]:  # Any: whatever a model yields
    """Everything that a model yields for a request."""
    return [item async for item in model.ask(request)]


def _pieces(step: Step, events: list[bytes]) -> list[bytes]:
    if step.at is None and not step.piece:
        return [event for event in events if event]
    body = b"".join(events)[: step.at]
    size = step.piece or max(1, len(body))
    return [body[at : at + size] for at in range(0, len(body), size)]


def _head(step: Step) -> bytes:
    lines = [f"HTTP/1.1 {step.status} Whatever", f"content-type: {step.content_type}"]
    lines += [f"{name}: {value}" for name, value in step.headers.items()]
    lines.append("transfer-encoding: chunked" if step.framed else "connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read_request(client: SocketStream, connection: int) -> Asked | None:
    content = b""
    while b"\r\n\r\n" not in content:
        try:
            content += await client.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None
    head, _, body = content.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await client.receive()
    return Asked(path=first.split(" ")[1], headers=headers, body=body, connection=connection)


async def _hang_up(client: SocketStream) -> None:
    """Wait until the client goes away."""
    try:
        while True:
            await client.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return
