"""What `WebFetch` calls its failures, each made to happen by a real server."""

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from backstay.ports import ToolOutput
from backstay.system.guarded_http import Egress, EgressLimits
from backstay.tools.web.download import explain_failure
from backstay.tools.web.fetch import WARNING, make_web_fetch
from tests.system.egress_kit import (
    Page,
    Site,
    always,
    certificate_for,
    for_ever,
    free_port,
    in_drops,
    in_silence,
    page,
)
from tests.tools.context import RecordingContext

pytestmark = pytest.mark.anyio


async def fetched(egress: Egress, url: str) -> ToolOutput:
    return await make_web_fetch(egress.client).run({"url": url}, RecordingContext())


QUICK = EgressLimits(headers_s=0.3, body_s=0.3)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Page(in_silence), "timeout"),
        (Page(in_drops), "timeout"),
        (Page(b"HTTP/1.1 200 OK\r\n", raw=True), "timeout"),
        (Page(for_ever), "too_large"),
        (Page(gzip.compress(b"\0" * 9_000_000), headers={"content-encoding": "gzip"}), "too_large"),
        (Page(b"", headers={"content-length": "99999999"}), "too_large"),
        (Page(b"\0\1\2", headers={"content-type": "application/zip"}), "not_text"),
        (Page(b"x", headers={"content-encoding": "br"}), "not_text"),
        (Page(b"x", headers={"content-encoding": "gzip"}), "broken"),
        (Page(b"this is not HTTP\r\n\r\n", raw=True), "broken"),
        (Page(b"no", 404), "status"),
        (Page(b"no", 500), "status"),
        (Page(b"", 304), "status"),
    ],
)
async def test_rb_w58_a_failure_is_called_what_it_is(answer: Page, code: str) -> None:
    async with Site({"/": answer}) as site:
        output = await fetched(site.egress(limits=QUICK if code == "timeout" else EgressLimits()), site.url())

        assert (output.failed, output.code) == (True, code)


async def test_rb_w58_a_name_that_does_not_exist_is_an_error_of_the_name() -> None:
    output = await fetched(Egress(resolve=always()), "https://missing.example/")

    assert (output.failed, output.code) == (True, "dns")
    assert output.text == "There is no host 'missing.example': its name cannot be resolved. Check the spelling."


async def test_rb_w58_a_refused_connection_is_an_error_of_the_connection() -> None:
    port = free_port()

    output = await fetched(Egress(allow_private={f"127.0.0.1:{port}"}), f"http://127.0.0.1:{port}/")

    assert (output.failed, output.code) == (True, "connect")


async def test_rb_w58_a_certificate_that_does_not_fit_is_an_error_of_the_seal(tmp_path: Path) -> None:
    server, _ = certificate_for("site.example", tmp_path)
    async with Site({"/": page("x")}, tls=server) as site:
        output = await fetched(site.egress(), site.url())

        assert (output.failed, output.code, site.asked) == (True, "tls", [])
        assert "http://example.com:80/" in output.text


async def test_rb_w58_a_call_that_is_stopped_is_stopped_and_not_timed_out() -> None:
    async with Site({"/": Page(in_silence)}) as site:
        outputs = []
        with anyio.move_on_after(0.1) as scope:
            outputs.append(await fetched(site.egress(), site.url()))

        assert (scope.cancelled_caught, outputs) == (True, [])


@pytest.mark.parametrize(
    "error",
    [
        lambda: httpx.ConnectTimeout("slow"),
        lambda: httpx.ReadTimeout("slow"),
        lambda: chained(httpx.ConnectError("x"), OSError(5, "y"), TimeoutError()),
    ],
)
async def test_rb_w58_the_cause_is_found_however_deep_it_is(error: Callable[[], Exception]) -> None:
    assert explain_failure(error(), "https://example.com/").code == "timeout"


async def test_a_failure_says_what_the_server_says_in_a_frame() -> None:
    sorry = Page(b"<h1>Gone</h1>", 429, headers={"content-type": "text/html", "retry-after": "120"})
    async with Site({"/": sorry}) as site:
        output = await fetched(site.egress(), site.url())

        words = f"{site.url()} answered 429 Whatever. It wants fewer requests. It says to try again after '120'."
        assert output == ToolOutput(
            text=f"{words} {WARNING}\n<web_page>\n# Gone\n</web_page>", failed=True, code="status"
        )


def chained(*errors: Any) -> Exception:
    """The first of the errors, caused by the second, caused by the third."""
    for outer, inner in itertools.pairwise(errors):
        outer.__context__ = inner
    first: Exception = errors[0]
    return first
