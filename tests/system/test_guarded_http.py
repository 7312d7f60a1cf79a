"""The guard at work: real servers, real connections, and names that lie."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest

from backstay.system.guarded_http import Egress, EgressLimits, is_this_machine, resolve_by_system
from backstay.vocab.errors import UserError
from tests.system.egress_kit import Site, always, certificate_for, get, page, rebinding, refusal

pytestmark = pytest.mark.anyio

# --- addresses -------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RV-31", "RV-B16")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "017700000001", "[::ffff:7f00:1]", "0"])
async def test_no_connection_arrives_at_a_private_address_however_it_is_spelt(host: str) -> None:
    async with Site() as site:
        refused = await refusal(Egress(allow_ports={site.port}), site.url(host=host))

        assert (refused.kind, site.connections) == ("address", 0)


@pytest.mark.contract("RV-31", "RV-B16")
async def test_no_connection_arrives_when_a_public_name_has_a_private_address() -> None:
    async with Site() as site:
        egress = Egress(allow_ports={site.port}, resolve=always("127.0.0.1"))

        refused = await refusal(egress, site.url(host="innocent.example"))

        assert (refused.kind, refused.host, refused.address) == ("address", "innocent.example", "127.0.0.1")
        assert str(refused) == "'innocent.example' is refused: 127.0.0.1 is this machine itself (loopback)."
        assert site.connections == 0


@pytest.mark.parametrize(
    "answers",
    [
        ("8.8.8.8", "127.0.0.1"),
        ("127.0.0.1", "8.8.8.8"),
        ("2606:4700::1111", "::1"),
        ("8.8.8.8", "64:ff9b::7f00:1"),
        ("8.8.8.8", "nonsense"),
        ("8.8.8.8", "fe80::1%eth0"),
    ],
)
async def test_one_bad_address_among_good_ones_is_enough(answers: Sequence[str]) -> None:
    refused = await refusal(Egress(resolve=always(*answers)), "http://mixed.example/")

    assert refused.address not in ("", "8.8.8.8", "2606:4700::1111")


@pytest.mark.contract("RV-B16")
async def test_a_name_that_means_something_else_the_second_time_gains_nothing() -> None:
    async with Site({"/": page("mine")}) as mine:
        asked: list[str] = []
        resolve = rebinding(["127.0.0.1"], ["10.0.0.1"], asked=asked)
        egress = Egress(allow_private={f"127.0.0.1:{mine.port}"}, allow_ports={mine.port}, resolve=resolve)

        response = await get(egress, mine.url(host="rebinds.example"))
        refused = await refusal(egress, mine.url(host="rebinds.example"))

        assert (response.text, asked) == ("mine", ["rebinds.example"] * 2), (
            "asked once for each connection, and dialled what it said"
        )
        assert refused.address == "10.0.0.1"


@pytest.mark.contract("RV-B16")
async def test_a_rebinding_name_server_leads_nowhere() -> None:
    async with Site({"/": page("secret")}) as inside:
        with name_server("203.0.114.1", "127.0.0.1") as (port, questions):
            resolve = partial(ask, port=port)
            hasty = Egress(allow_ports={inside.port}, limits=EgressLimits(connect_s=1), resolve=resolve)
            egress = Egress(allow_ports={inside.port}, resolve=resolve)

            with pytest.raises((httpx.ConnectTimeout, httpx.ConnectError)):
                await get(
                    hasty, inside.url(host="rebinds.example")
                )  # judged 203.0.114.1, so it dials that and nothing else
            refused = await refusal(egress, inside.url(host="rebinds.example"))

            assert (refused.address, len(questions), inside.connections) == ("127.0.0.1", 2, 0)


async def test_the_system_resolver_is_judged_too() -> None:
    assert "127.0.0.1" in await resolve_by_system("localhost")
    async with Site() as site:
        egress = Egress(allow_private={f"localhost:{site.port}"})

        assert (await get(egress, site.url(host="localhost"))).status_code == 404


async def test_a_name_without_an_address_is_an_error_of_the_name() -> None:
    async def nothing(name: str) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    for resolve in (nothing, always(), always(*["8.8.8.8"] * 65)):
        with pytest.raises(httpx.ConnectError, match=r"'missing.example' cannot be resolved") as error:
            await get(Egress(resolve=resolve), "https://missing.example/")
        assert isinstance(error.value.__context__, socket.gaierror)


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with Site({"/": page("here")}) as site:
        egress = Egress(
            allow_private={f"two.example:{site.port}"}, resolve=always("127.0.0.2", "127.0.0.1"), limits=EgressLimits()
        )

        assert (await get(egress, site.url(host="two.example"))).text == "here"


async def test_a_public_address_of_this_machine_itself_is_known_without_sending_anything() -> None:
    assert is_this_machine("127.0.0.1", 80)
    assert not is_this_machine("192.0.2.1", 80)


# --- what is listed --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ["127.0.0.1", "127.0.0.0/8", "[::ffff:127.0.0.1]", "0x7f.1", "hook.example"])
async def test_a_private_host_that_is_listed_is_reached(entry: str) -> None:
    async with Site({"/": page("hook")}) as site:
        egress = Egress(allow_private={entry}, allow_ports={site.port}, resolve=always("127.0.0.1"))
        host = entry if entry == "hook.example" else "127.0.0.1"

        assert (await get(egress, site.url(host=host))).text == "hook"


@pytest.mark.parametrize("entry", ["other.example", "127.0.0.2", "10.0.0.0/8", "127.0.0.1:1", "hook.example:1"])
async def test_a_private_host_is_opened_only_by_what_names_it(entry: str) -> None:
    async with Site() as site:
        egress = Egress(allow_private={entry}, allow_ports={site.port}, resolve=always("127.0.0.1"))

        assert (await refusal(egress, site.url(host="hook.example"))).kind == "address"
        assert site.connections == 0


@pytest.mark.parametrize("entry", ["hook.example", "169.254.0.0/16", "0.0.0.0/0", "metadata.google.internal"])
async def test_what_gives_credentials_away_is_opened_by_its_own_address_alone(entry: str) -> None:
    egress = Egress(allow_private={entry}, resolve=always("169.254.169.254"))

    assert (await refusal(egress, "http://hook.example/")).address == "169.254.169.254"
    assert (await refusal(egress, "http://metadata.google.internal/")).kind == "host"
    assert Egress(allow_private={"169.254.169.254"}).why_not("http://169.254.169.254/") == ""


@pytest.mark.parametrize("address", ["0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "::", "2002:7f00:1::"])
async def test_what_is_nobodys_private_network_is_opened_by_nothing(address: str) -> None:
    egress = Egress(allow_private={"odd.example", "0.0.0.0/0", "::/0", address}, resolve=always(address))

    assert (await refusal(egress, "http://odd.example/")).address == address


async def test_only_listed_hosts_are_reached_when_there_is_a_list() -> None:
    egress = Egress(allow_hosts={"docs.example", "*.api.example"}, resolve=always("127.0.0.1"))

    assert (await refusal(egress, "https://elsewhere.example/")).kind == "host"
    assert (await refusal(egress, "https://docs.example.evil.example/")).kind == "host"
    assert (await refusal(egress, "https://docs.example/")).kind == "address", "a listed host is judged like any other"
    assert egress.why_not("https://v1.api.example/") == ""


async def test_a_port_must_be_listed() -> None:
    egress = Egress(resolve=always("8.8.8.8"))

    refused = await refusal(egress, "https://example.com:8443/")

    assert refused.kind == "port"
    assert Egress(allow_ports={8443}).why_not("https://example.com:8443/") == ""


# --- the request -----------------------------------------------------------------------------------------------------------------


async def test_the_host_that_is_named_is_the_host_that_is_asked() -> None:
    async with Site({"/": page("x")}) as site:
        egress = Egress(allow_private={f"site.example:{site.port}"}, resolve=always("127.0.0.1"))

        await get(egress, site.url(host="site.example"), headers={"Host": "intranet", "Accept-Encoding": "br, zstd"})

        assert site.asked[0].headers["host"] == f"site.example:{site.port}"
        assert site.asked[0].headers["accept-encoding"] == "gzip, deflate"


async def test_a_certificate_is_checked_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    server, believing = certificate_for("site.example", tmp_path)
    async with Site({"/": page("sealed")}, tls=server) as site:

        def guard(certificates: ssl.SSLContext | None) -> Egress:
            private = {f"{name}:{site.port}" for name in ("site.example", "other.example")}
            return Egress(allow_private=private, resolve=always("127.0.0.1"), certificates=certificates)

        assert (await get(guard(believing), site.url(host="site.example"))).text == "sealed"
        for egress, host in ((guard(believing), "other.example"), (guard(None), "site.example")):
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await get(egress, site.url(host=host))


@pytest.mark.contract("RV-B16")
async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Site({"/": page("direct")}) as site, Site() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        monkeypatch.delenv("NO_PROXY", raising=False)

        assert (await get(site.egress(), site.url())).text == "direct"
        assert proxy.connections == 0


async def test_an_address_that_cannot_be_read_is_refused_without_its_password() -> None:
    refused = await refusal(Egress(), "http://me:hunter2@0177.0.0.1/")

    assert refused.kind == "url"
    assert "hunter2" not in str(refused)


async def test_a_certificate_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from backstay.system import guarded_http as module

    module._certificates.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    async with Site() as site:
        with pytest.raises(UserError, match="SSL_CERT_FILE"):
            await get(site.egress(), site.url())
    module._certificates.cache_clear()


# --- a name server ---------------------------------------------------------------------------------------------------------------


@contextmanager
def name_server(*answers: str) -> Iterator[tuple[int, list[bytes]]]:
    """A name server over UDP that gives the next of `answers` to each question, with no time to live."""
    questions: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                question, sender = listener.recvfrom(512)
                if not question:
                    return
                answer = socket.inet_aton(answers[min(len(questions), len(answers) - 1)])
                questions.append(question)
                head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
                record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + answer
                listener.sendto(head + question[12:] + record, sender)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], questions
        finally:
            listener.sendto(b"", listener.getsockname())
            thread.join()


async def ask(name: str, port: int) -> Sequence[str]:
    """Ask the name server on a port of this machine for the addresses of a name."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)
    async with await anyio.create_connected_udp_socket("127.0.0.1", port) as asking:
        await asking.send(question)
        answer = await asking.receive()
    return (socket.inet_ntoa(answer[-4:]),)
