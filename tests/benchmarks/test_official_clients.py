"""Backstay and the official clients are measured at the same work: they send the same JSON."""

import json
from pathlib import Path

import anyio
import httpx
import pytest

from benchmarks.conversations import CLIENTS, FORMATS, HISTORY, Growing, leave, length
from benchmarks.first_delta import measure as measure_first_delta
from benchmarks.frame import Bench
from benchmarks.loopback import BASES, MARKS, events, serving
from benchmarks.peers import CLIENT_WORK, WORK, Peers, at_hand, pinned
from benchmarks.requests import built, client_built, p95

PEERS = at_hand()
needs_peers = pytest.mark.skipif(PEERS.python is None, reason=PEERS.problem)


@pytest.mark.parametrize("format", FORMATS)
def test_a_request_that_grew_is_the_request_that_a_new_process_would_write(format: str) -> None:
    grown = Growing(format, 8, 2)
    grown.write()
    for _ in range(2):
        grown.grow()
        kept = grown.write()
    grown.forget()
    assert json.loads(kept.body) == json.loads(grown.write().body)


@pytest.mark.parametrize("format", CLIENTS)
def test_a_request_that_is_left_for_a_client_has_no_marks_in_its_history(format: str, tmp_path: Path) -> None:
    body = Growing(format, 8, 0).write().body
    leave(tmp_path / "request.json", format, body)
    left = json.loads((tmp_path / "request.json").read_text(encoding="utf-8"))
    assert "cache_control" not in json.dumps(left[HISTORY[format]])
    assert len(left[HISTORY[format]]) == length(format, body)


@needs_peers
@pytest.mark.parametrize("format", CLIENTS)
def test_the_official_client_sends_the_same_json(format: str, tmp_path: Path) -> None:
    ours = built(format, 8, 2, 1)
    theirs = client_built(format, ours, PEERS, tmp_path, 2)  # raises when one request differs
    assert theirs.who == f"{pinned(CLIENTS[format])} client"
    assert (len(theirs.first.wall), len(theirs.next.wall)) == (1, 2)


@needs_peers
def test_a_client_that_sends_something_else_is_an_error(tmp_path: Path) -> None:
    ours = built("openai-chat", 8, 2, 1)
    ours.bodies[-2] = ours.bodies[-2].replace(b"quick", b"quack", 1)
    with pytest.raises(AssertionError, match="do not send the same"):
        client_built("openai-chat", ours, PEERS, tmp_path, 2)


@needs_peers
def test_the_official_clients_read_what_the_server_streams(tmp_path: Path) -> None:
    rows = list(measure_first_delta(Bench(folder=tmp_path, peers=PEERS, quick=True)))
    clients = [[name for name in row.beside if "client" in name and not name.startswith("over")] for row in rows[::2]]
    assert clients == [[f"{pinned(maker)} client"] for maker in CLIENTS.values()]


def test_without_peers_a_client_builds_nothing(tmp_path: Path) -> None:
    theirs = client_built("anthropic", built("anthropic", 8, 1, 1), Peers(None), tmp_path, 1)
    assert (theirs.who, theirs.next.wall) == ("", [])


async def test_the_server_streams_an_answer_in_every_format() -> None:
    paths = {"anthropic": "/v1/messages", "openai-responses": "/responses", "openai-chat": "/chat/completions"}
    with serving() as port:
        async with httpx.AsyncClient(trust_env=False) as client:
            for format, path in paths.items():
                with anyio.fail_after(10):
                    url = f"http://127.0.0.1:{port}{BASES[format]}{path}"
                    answer = await client.post(url, json={"model": "a-model"})
                assert answer.content == b"".join(events(format))
                assert answer.text.count(MARKS[format]) == 20


def test_the_peers_scripts_are_there_and_their_packages_are_pinned() -> None:
    assert WORK.is_file()
    assert CLIENT_WORK.is_file()
    assert all(pinned(package) != package for package in ("openai", "anthropic", "openai-agents", "langgraph"))


def test_p95_is_what_nineteen_of_twenty_stay_below() -> None:
    assert p95([1.0]) == 1.0
    assert p95([float(number) for number in range(101)]) == 95.0
