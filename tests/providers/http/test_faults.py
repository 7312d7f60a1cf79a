"""Everything that can go wrong between here and a provider becomes a kind, and a cut answer never looks finished."""

import socket
from typing import Any

import pytest

from backstay.ports import ModelReply
from backstay.providers.http.model import HttpModel, _certificates
from backstay.providers.registry import load_format
from backstay.vocab.errors import ErrorKind, ProviderError
from backstay.vocab.messages import text_of
from tests.providers.http import wires
from tests.providers.http.server import FakeProvider, Step, collect, fails, raw, redirects, says, shows_page
from tests.providers.http.test_http_model import HELLO, REQUEST, ask, every_format
from tests.providers.http.wires import FormatName


async def failure(format: FormatName, step: Step) -> ProviderError:
    """The error that a step ends in."""
    async with FakeProvider(format, [step]) as server:
        with pytest.raises(ProviderError) as caught:
            await ask(server)
    return caught.value


@every_format
@pytest.mark.parametrize(
    ("step", "kind", "retry_after_s"),
    [
        (fails(429, retry_after="7"), "rate_limit", 7.0),
        (fails(429, retry_after_ms="250"), "rate_limit", 0.25),
        (fails(500), "transport", None),
        (fails(503, retry_after="2"), "overloaded", 2.0),
        (fails(529), "overloaded", None),
        (fails(401), "auth", None),
        (fails(400), "bad_request", None),
        (shows_page(502), "transport", None),
        (shows_page(503), "overloaded", None),
    ],
)
async def test_a_refusal_becomes_a_kind(
    format: FormatName, step: Step, kind: ErrorKind, retry_after_s: float | None
) -> None:
    problem = await failure(format, step)

    assert (problem.kind, problem.retry_after_s) == (kind, retry_after_s)


@every_format
async def test_a_page_for_people_is_told_in_words(format: FormatName) -> None:
    problem = await failure(format, shows_page(502, "Bad Gateway"))

    assert "Bad Gateway" in str(problem)
    assert "<" not in str(problem)


@every_format
async def test_a_refusal_whose_explanation_is_cut_is_still_a_refusal(format: FormatName) -> None:
    assert (await failure(format, fails(429, "Slow down.").cut(5))).kind == "rate_limit"


@every_format
async def test_a_refusal_whose_explanation_never_comes_is_still_a_refusal(
    format: FormatName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstay.providers.http.model.FAILURE_S", 0.01)
    assert (await failure(format, fails(529, "Busy.").stalled(5))).kind == "overloaded"


@every_format
@pytest.mark.parametrize("after", [0, 2])
async def test_an_error_in_the_middle_of_a_stream_is_an_error(format: FormatName, after: int) -> None:
    problem = await failure(format, says(HELLO).with_error(after, "Overloaded, sorry"))

    assert problem.kind in ("overloaded", "transport")
    assert "Overloaded, sorry" in str(problem)


@every_format
@pytest.mark.parametrize("after", [1, 3])
async def test_garbage_in_the_middle_of_a_stream_is_an_error(format: FormatName, after: int) -> None:
    assert (await failure(format, says(HELLO).garbled(after))).kind == "transport"


@every_format
@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "text/html"])
async def test_an_empty_answer_is_a_cut_one(format: FormatName, content_type: str) -> None:
    assert (await failure(format, raw(content_type=content_type))).kind in ("transport", "unknown")


async def test_a_page_in_place_of_an_answer_asks_for_the_address() -> None:
    problem = await failure("anthropic", shows_page(200, "Welcome"))

    assert problem.kind == "unknown"
    assert "text/html" in str(problem)
    assert "Is the address right?" in str(problem)


async def test_redirects_are_not_followed() -> None:
    async with FakeProvider("anthropic", [says("No.")]) as elsewhere:
        problem = await failure("anthropic", redirects(elsewhere.base_url))

    assert problem.kind == "bad_request"
    assert elsewhere.base_url in str(problem)
    assert elsewhere.requests == []


@every_format
async def test_a_stream_that_is_cut_anywhere_is_never_finished(format: FormatName) -> None:
    """The connection ends like a body without a length does: only the stream itself can tell."""
    events = wires.stream(format, wires.Said(text=HELLO, calls=[("Read", {"a": "é"})]))
    if format == "openai-chat":
        events = events[:-2]  # what follows the reason for the end is a courtesy
    last = len(b"".join(events).rstrip(b"\n"))
    begun = last - len(events[-1])
    step = says(HELLO, ("Read", {"a": "é"})).without_framing()
    cuts = [*range(0, begun, 97), *range(begun, last, 29), *range(last - 8, last)]
    async with FakeProvider(format, [step.cut(at) for at in cuts]) as server:
        model = server.model()
        ends = [await _end(model) for _ in cuts]
        await model.aclose()

    assert [at for at, end in zip(cuts, ends, strict=True) if end != "transport"] == []


@every_format
async def test_a_cut_in_the_middle_of_a_character_is_a_cut(format: FormatName) -> None:
    body = b"".join(wires.stream(format, wires.Said(text=HELLO)))
    inside = body.index("ü".encode()) + 1
    assert (await failure(format, says(HELLO).cut(inside))).kind == "transport"


@every_format
async def test_a_connection_that_breaks_after_the_last_word_changes_nothing(format: FormatName) -> None:
    body = b"".join(wires.stream(format, wires.Said(text=HELLO)))
    async with FakeProvider(format, [says(HELLO).cut(len(body))]) as server:
        assert text_of((await ask(server))[-1].parts) == HELLO


async def test_nobody_listening_is_said_with_the_host_and_what_to_check() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        problem = await _problem(f"http://{host}")

    assert problem.kind == "transport"
    assert host in str(problem)
    assert "whether the server runs" in str(problem)


async def test_an_unknown_host_is_said_with_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)

    problem = await _problem("http://nowhere.invalid")

    assert problem.kind == "transport"
    assert "'nowhere.invalid'" in str(problem)


async def test_a_proxy_that_does_not_answer_is_an_error_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert (await _problem("http://provider.invalid")).kind == "transport"


async def test_this_machine_is_never_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with FakeProvider("anthropic", [says("Yes.")]) as server:
        assert text_of((await ask(server))[-1].parts) == "Yes."


async def test_a_proxy_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "gopher://127.0.0.1:9")

    problem = await _problem("http://provider.invalid")

    assert problem.kind == "bad_request"
    assert "ALL_PROXY" in str(problem)


async def test_certificates_that_cannot_be_read_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    _certificates.cache_clear()

    problem = await _problem("https://127.0.0.1:9")

    assert problem.kind == "bad_request"
    assert "SSL_CERT_FILE" in str(problem)


async def _problem(base_url: str) -> ProviderError:
    model = HttpModel("anthropic:x", format=load_format("anthropic"), base_url=base_url, key="k")
    with pytest.raises(ProviderError) as caught:
        await collect(model, REQUEST)
    await model.aclose()
    return caught.value


async def _end(model: HttpModel) -> str:
    """The text of the reply, or the kind of the error."""
    items: list[Any] = []
    try:
        async for item in model.ask(REQUEST):
            items.append(item)
    except ProviderError as exc:
        return exc.kind
    assert isinstance(items[-1], ModelReply)
    return text_of(items[-1].parts)
