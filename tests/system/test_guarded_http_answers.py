"""Answers are taken within bounds: of time, of bytes, of what they unpack to."""

import gzip
import zlib
from collections.abc import Sequence

import anyio
import httpx
import pytest

from backstay.system.guarded_http import MEMBERS, Egress, EgressLimits
from backstay.vocab.errors import EgressRefused
from tests.system.egress_kit import Page, Send, Site, for_ever, free_port, get, in_drops, in_silence, page, refusal

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("body", [in_silence, in_drops])
async def test_a_body_that_trickles_is_given_up(body: object) -> None:
    async with Site({"/": Page(body)}) as site:  # type: ignore[arg-type]  # one of the ways to write a body
        with pytest.raises(httpx.ReadTimeout, match=r"took more than 0.2 seconds"):
            await get(site.egress(limits=EgressLimits(body_s=0.2)), site.url())


async def test_headers_that_trickle_are_given_up() -> None:
    async with Site({"/": Page(b"HTTP/1.1 200 OK\r\nx-slow: ", raw=True)}) as site:
        with pytest.raises(httpx.ReadTimeout, match=r"did not answer within 0.2 s"):
            await get(site.egress(limits=EgressLimits(headers_s=0.2)), site.url())


async def test_a_name_server_that_is_silent_is_given_up() -> None:
    async def never(name: str) -> Sequence[str]:
        await anyio.sleep_forever()
        return ()

    with pytest.raises(httpx.ConnectTimeout, match=r"Looking 'slow.example' up"):
        await get(Egress(resolve=never, limits=EgressLimits(connect_s=0.05)), "http://slow.example/")


async def test_a_refused_connection_is_an_error_of_the_connection() -> None:
    port = free_port()

    with pytest.raises(httpx.ConnectError):
        await get(Egress(allow_private={f"127.0.0.1:{port}"}), f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "answer",
    [
        Page(for_ever),
        Page(b"", headers={"content-length": "200001"}),
        Page(b"x" * 200_001),
        Page(gzip.compress(b"\0" * 50_000_000, mtime=0), headers={"content-encoding": "gzip"}),
        Page(zlib.compress(b"\0" * 50_000_000), headers={"content-encoding": "deflate"}),
    ],
    ids=["endless", "announced", "a byte too long", "gzip bomb", "deflate bomb"],
)
async def test_a_body_that_is_too_large_is_cut_off(answer: Page) -> None:
    async with Site({"/": answer}) as site:
        refused = await refusal(site.egress(limits=EgressLimits(body_bytes=200_000)), site.url())

        assert (refused.kind, refused.why) == ("too_large", "its answer is larger than 200,000 bytes.")


async def test_a_bomb_is_unpacked_in_small_steps() -> None:
    async with Site(
        {"/": Page(gzip.compress(b"\0" * 50_000_000, mtime=0), headers={"content-encoding": "gzip"})}
    ) as site:
        egress = site.egress(limits=EgressLimits(body_bytes=200_000))
        sizes = []
        with pytest.raises(EgressRefused):  # noqa: PT012 - it comes in the middle
            async with egress.client() as client, client.stream("GET", site.url()) as response:
                async for chunk in response.aiter_bytes():
                    sizes.append(len(chunk))

        assert max(sizes) <= 65536
        assert sum(sizes) <= 200_000


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"packed " * 1000, mtime=0)),
        ("x-gzip", gzip.compress(b"packed " * 1000, mtime=0)),
        ("GZIP", gzip.compress(b"packed " * 500, mtime=0) + gzip.compress(b"packed " * 500, mtime=0)),
        ("deflate", zlib.compress(b"packed " * 1000)),
        ("deflate", zlib.compress(b"packed " * 1000)[2:-4]),
        ("identity", b"packed " * 1000),
        ("", b"packed " * 1000),
    ],
)
async def test_packed_answers_are_unpacked(coding: str, body: bytes) -> None:
    async with Site({"/": Page(body, headers={"content-encoding": coding})}) as site:
        response = await get(site.egress(), site.url())

        assert response.content == b"packed " * 1000
        assert coding in ("identity", "") or "content-encoding" not in response.headers


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip, br", "compress", "x" * 500])
async def test_an_answer_packed_in_another_way_is_not_taken(coding: str) -> None:
    async with Site({"/": Page(b"abc", headers={"content-encoding": coding})}) as site:
        refused = await refusal(site.egress(), site.url())

        assert refused.kind == "encoding"
        assert len(refused.why) < 200


@pytest.mark.parametrize(
    "body",
    [
        b"not packed at all",
        gzip.compress(b"cut short" * 100, mtime=0)[:-12],
        gzip.compress(b"x", mtime=0) + b"garbage after it",
        gzip.compress(b"", mtime=0) * (MEMBERS + 2),
    ],
    ids=["garbage", "cut", "trailing", "many parts"],
)
async def test_a_packed_answer_that_is_broken_is_an_error(body: bytes) -> None:
    async with Site({"/": Page(body, headers={"content-encoding": "gzip"})}) as site:
        with pytest.raises(httpx.DecodingError):
            await get(site.egress(), site.url())


async def test_an_empty_answer_that_claims_to_be_packed_is_empty() -> None:
    async with Site({"/": Page(b"", headers={"content-encoding": "gzip"})}) as site:
        assert (await get(site.egress(), site.url())).content == b""


async def test_an_answer_that_is_cut_off_is_an_error() -> None:
    async def three(send: Send) -> None:
        await send(b"abc")

    async with Site({"/": Page(three, headers={"content-length": "10"})}) as site:
        with pytest.raises(httpx.RemoteProtocolError):
            await get(site.egress(), site.url())


async def test_a_stream_without_end_is_read_when_the_limits_are_lifted() -> None:
    lifted = EgressLimits(body_s=None, body_bytes=None)
    async with Site({"/": Page(for_ever)}) as site:
        taken = 0
        async with site.egress().client(limits=lifted) as client, client.stream("GET", site.url()) as response:
            async for chunk in response.aiter_bytes():
                taken += len(chunk)
                if taken > 6_000_000:
                    break

        assert taken > 6_000_000


async def test_rb_w58_a_request_that_is_cancelled_is_cancelled_and_not_timed_out() -> None:
    async with Site({"/": Page(in_silence)}) as site:
        with anyio.move_on_after(0.1) as scope:
            await get(site.egress(), site.url())

        assert scope.cancelled_caught


async def test_connections_are_used_again_and_closed_with_the_client() -> None:
    async with Site({"/": page("x")}) as site:
        async with site.egress().client() as client:
            for _ in range(3):
                await client.get(site.url())

        assert (len(site.asked), site.connections) == (3, 1)
