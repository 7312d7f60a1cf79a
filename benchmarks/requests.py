"""Building a request: all that keeps the event loop between a turn and the bytes that are sent, beside the official clients."""

import gc
import hashlib
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from backstay.providers.format import HttpRequest
from backstay.providers.http.tap import Trail
from backstay.providers.registry import load_format
from benchmarks.conversations import CLIENTS, FORMATS, KEY, Growing, leave, length
from benchmarks.frame import Aim, Bench, Figure, Row, short
from benchmarks.peers import CLIENT_WORK, Peers, pinned

AIMS: Final = {600: Aim(most=2)}
ADDRESS: Final = "http://127.0.0.1:9"


def measure(bench: Bench) -> Iterator[Row]:
    """The first request of an opened session and those that follow a turn, at two lengths, in each format."""
    for messages in bench.pick((600, 5_000), (8, 16)):
        for format in FORMATS:
            ours = built(format, messages, bench.pick(40, 2), bench.pick(9, 1))
            times = min(20, 30_000 // messages)  # at 5,000 messages one request takes seconds
            theirs = client_built(format, ours, bench.peers, bench.folder, bench.pick(times, 2))
            dumped = {"json.dumps of the same": Timed(tuple(ours.dumped.wall), "ms")}
            yield Row(
                what=f"request at {messages:,} messages, {format}",
                figure=Timed(tuple(ours.next.wall), "ms"),
                aim=AIMS.get(messages),
                beside={**_beside("", ours.next), **_beside(theirs.who, theirs.next), **dumped},
            )
            yield Row(
                what="... the first of a session, nothing kept yet",
                figure=Timed(tuple(ours.first.wall), "ms"),
                beside={**_beside("", ours.first), **_beside(_first_of(theirs.who), theirs.first)},
            )


class Timed(Figure):
    """Shown as the median and what nineteen of twenty stay below."""

    def __str__(self) -> str:
        """Such as `1.2 ms (p95 1.5)`."""
        shown = f"{short(self.median)} {self.unit}"
        return f"{shown} (p95 {short(p95(self.values))})" if len(self.values) > 1 else shown


@dataclass
class Times:
    """Milliseconds, one for each request."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@dataclass
class Built:
    """What building requests took."""

    who: str = "Backstay"
    first: Times = field(default_factory=Times)
    next: Times = field(default_factory=Times)
    bodies: list[bytes] = field(default_factory=list)
    """Of the requests that followed a turn, and before them the one that they grew from."""
    dumped: Times = field(default_factory=Times)
    """The same by `json.dumps` of lists and dicts, which nobody can do without who keeps nothing."""


def built(format: str, messages: int, times: int, firsts: int) -> Built:
    """Build the requests of a growing conversation."""
    growing = Growing(format, messages, times)
    found = Built()
    with_client = _send(format)
    for _ in range(firsts):
        growing.forget()
        _timed(found.first, growing.write, with_client)
    found.bodies.append(growing.write().body)
    for _ in range(times):
        growing.grow()
        found.bodies.append(_timed(found.next, growing.write, with_client))
    whole = json.loads(found.bodies[-1])
    for _ in range(min(times, 10)):
        _timed(found.dumped, lambda: HttpRequest(path="/", body=json.dumps(whole).encode()), with_client)
    return found


def client_built(format: str, ours: Built, peers: Peers, folder: Path, times: int) -> Built:
    """Have the official client build the newest of the same requests. It must send the same; that it does not is an error."""
    maker = CLIENTS.get(format, "")
    bodies = ours.bodies[-1 - times :]
    asked, answered = folder / f"{format}-asked.json", folder / f"{format}-sent.json"
    leave(asked, format, bodies[-1])
    lengths = [length(format, body) for body in bodies]
    given: Mapping[str, object] = {"path": str(asked), "format": format, "lengths": lengths, "sent": str(answered)}
    measured = peers.measure("build_requests", work=CLIENT_WORK, **given) if maker else {}
    found = Built(who=f"{pinned(maker)} client" if measured else "", dumped=ours.dumped)
    if measured:
        sent = json.loads(answered.read_text(encoding="utf-8"))
        if sent != [_digest(body) for body in bodies]:
            raise AssertionError(f"Backstay and the {found.who} do not send the same in the format {format!r}.")
        wall, cpu = measured["wall"], measured["cpu"]
        found.first, found.next = Times(wall[:1], cpu[:1]), Times(wall[1:], cpu[1:])
    return found


def p95(values: Sequence[float]) -> float:
    """What nineteen of twenty stay below."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _timed(times: Times, write: Callable[[], HttpRequest], send: Callable[[HttpRequest], bytes]) -> bytes:
    gc.collect()
    start, busy = time.perf_counter(), time.thread_time()
    body = send(write())
    times.cpu.append((time.thread_time() - busy) * 1000)
    times.wall.append((time.perf_counter() - start) * 1000)
    return body


def _send(format: str) -> Callable[[HttpRequest], bytes]:
    """The rest of what a model does before it waits for the network: tell the trace, and hand the bytes to the client."""
    client = httpx.AsyncClient()
    headers = load_format(format).headers(KEY)
    trail = Trail(lambda kind, content: None, KEY)

    def send(posted: HttpRequest) -> bytes:
        url = ADDRESS + posted.path
        trail.report_request("POST", url, headers, posted.body)
        return client.build_request("POST", url, content=posted.body, headers=headers).content

    return send


def _first_of(who: str) -> str:
    return f"{who}, the first of its process"


def _beside(who: str, times: Times) -> dict[str, Figure]:
    if not times.wall:
        return {}
    wall = {who: Timed(tuple(times.wall), "ms")} if who else {}
    return {**wall, f"{who or 'its'} CPU": Timed(tuple(times.cpu), "ms")}


def _digest(body: bytes) -> str:
    return hashlib.sha256(json.dumps(json.loads(body), sort_keys=True).encode()).hexdigest()
