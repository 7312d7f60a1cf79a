"""Hosts as they are written: every spelling of an address is that address, and local names stay local."""

from ipaddress import IPv4Address, IPv6Address

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.permissions.networks import Host, Opening, matches, read_host, why_local
from backstay.system.guarded_http import Egress
from backstay.vocab.errors import EgressRefused, UserError


@pytest.mark.contract("RV-B16")
@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "0X7F.0x0.0.0x1",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0177.0.0.1",
        "0177.1",
        "127.0.0.1.",
        "0x7F.0.0.01",
        "[::ffff:7f00:1]",
        "::ffff:127.0.0.1",
        "[::FFFF:127.0.0.1]",
        "0:0:0:0:0:ffff:7f00:1",
        "\uff11\uff12\uff17.0.0.1",
        "127。0。0。1",
        "\u2460\u2461\u2466.1",
    ],
)
def test_every_spelling_of_loopback_is_loopback(text: str) -> None:
    assert read_host(text) == IPv4Address("127.0.0.1")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("example。com", "example.com"),
        ("\uff25\uff38\uff21\uff2d\uff30\uff2c\uff25.com", "example.com"),
        ("a_b.example", "a_b.example"),
        ("1.example", "1.example"),
        ("0x.example", "0x.example"),
        ("134744072", IPv4Address("8.8.8.8")),
        ("0", IPv4Address("0.0.0.0")),
        ("0x", IPv4Address("0.0.0.0")),
        ("[2606:4700::1111]", IPv6Address("2606:4700::1111")),
    ],
)
def test_a_host_has_one_spelling(text: str, host: Host) -> None:
    assert read_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "example..com",
        "example.com..",
        ".example.com",
        "-a.example",
        "a-.example",
        "exa mple.com",
        "example.com/",
        "example.com\\@evil.example",
        "user@example.com",
        "example.com%2eevil.example",
        "127.0.0.1%00.example.com",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "[::1",
        "[v1.x]",
        "1.2.3.4.5",
        "256.256.256.256",
        "1.2.3.256",
        "4294967296",
        "1.2.65536",
        "08.1",
        "127.0.1_0.1",
        "foo.0x7g.1",
        "a.example.127",
        "x" * 64 + ".example",
        "a." * 127 + "aa",
        "exa\u0000mple.com",
        "exa\nmple.com",
        "\u202eexample.com",
        "example.com:80",
    ],
)
def test_what_means_nothing_or_two_things_is_refused(text: str) -> None:
    with pytest.raises(EgressRefused) as refused:
        read_host(text)

    assert refused.value.kind == "host"


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_refused(text: str) -> None:
    try:
        host = read_host(text)
    except EgressRefused:
        return
    assert read_host(str(host)) == host


@pytest.mark.contract("RV-B16")
@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "foo.localhost",
        "printer.local",
        "metadata.google.internal",
        "metadata.google.internal.",
        "METADATA.goog",
        "metadata",
        "instance-data",
        "vault.corp",
        "router.lan",
        "box.home.arpa",
        "kubernetes.default.svc",
        "x.svc.cluster.local",
        "ip6-loopback",
        "ec2.internal",
        "localhost.localdomain",
        "hidden.onion",
        "\uff4cocalhost",
    ],
)
def test_local_names_are_refused_before_anybody_looks_them_up(name: str) -> None:
    host = read_host(name)

    assert isinstance(host, str)
    assert why_local(host)
    assert Egress().why_not(f"https://{host}/")


@pytest.mark.parametrize(
    "name", ["example.com", "local.example", "internal.example.com", "localhost.example.com", "nohome.org"]
)
def test_public_names_that_look_a_little_like_them_are_not(name: str) -> None:
    assert why_local(name) == ""


@pytest.mark.parametrize(
    ("pattern", "host", "same"),
    [
        ("example.com", "example.com", True),
        ("Example.com.", "example.com", True),
        ("example.com", "www.example.com", False),
        ("*.example.com", "www.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        ("8.8.8.8", IPv4Address("8.8.8.8"), True),
        ("*.8.8.8.8", IPv4Address("8.8.8.8"), False),
    ],
)
def test_a_list_of_hosts_means_what_it_says(pattern: str, host: Host, same: bool) -> None:
    assert matches(pattern, host) is same


@pytest.mark.parametrize(
    "text", ["", "a b", "10.0.0.0/99", "10.0.0.1/8", "localhost:x", "localhost:999999", "http://localhost"]
)
def test_a_private_host_that_cannot_be_is_found_when_the_guard_is_made(text: str) -> None:
    with pytest.raises(UserError, match="can be allowed"):
        Egress(allow_private=[text])


@pytest.mark.parametrize("text", ["", "*", "*.", "a b", "http://example.com"])
def test_a_host_that_cannot_be_is_found_when_the_guard_is_made(text: str) -> None:
    with pytest.raises(UserError, match="can be allowed"):
        Egress(allow_hosts=[text])


def test_a_private_host_is_read_with_its_port() -> None:
    assert Opening.parse("localhost:8080") == ("localhost", 8080)
    assert Opening.parse("[fd00::1]:80") == (IPv6Address("fd00::1"), 80)
    assert Opening.parse("fd00::1") == (IPv6Address("fd00::1"), None)


@pytest.mark.contract("RV-31", "RV-B16")
@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("file:///etc/passwd", "scheme"),
        ("ftp://example.com/", "scheme"),
        ("gopher://example.com/", "scheme"),
        ("data:text/html,x", "scheme"),
        ("//example.com/", "scheme"),
        ("http:///path", "host"),
        ("http://", "host"),
        ("http://user@example.com/", "userinfo"),
        ("https://user:secret@example.com/", "userinfo"),
        ("https://example.com:pw@127.0.0.1/", "userinfo"),
        ("https://example.com:8080/", "port"),
        ("https://example.com:22/", "port"),
        ("https://example.com:0/", "port"),
        ("http://127.0.0.1/", "address"),
        ("http://127.1/", "address"),
        ("http://0x7f.1/", "address"),
        ("http://2130706433/", "address"),
        ("http://017700000001/", "address"),
        ("http://[::1]/", "address"),
        ("http://[::]/", "address"),
        ("http://[::ffff:7f00:1]/", "address"),
        ("http://[64:ff9b::7f00:1]/", "address"),
        ("http://[2002:7f00:1::]/", "address"),
        ("http://0/", "address"),
        ("http://0.0.0.0/", "address"),
        ("http://169.254.169.254/latest/meta-data/", "address"),
        ("http://100.100.100.200/", "address"),
        ("http://168.63.129.16/", "address"),
        ("http://[fd00:ec2::254]/", "address"),
        ("http://[fe80::1%25eth0]/", "host"),
        ("http://127.0.0.1%2f.example.com/", "host"),
        ("http://example.com\\@127.0.0.1/", "userinfo"),
        ("http://example.com\\.evil.example/", "host"),
        ("http://metadata.google.internal/", "host"),
        ("http://1.2.3.4.5/", "host"),
    ],
)
def test_an_address_is_judged_as_it_is_written(url: str, kind: str) -> None:
    with pytest.raises(EgressRefused) as refused:
        Egress().judge_url(httpx.URL(url))

    assert refused.value.kind == kind
    assert "secret" not in str(refused.value)
    assert Egress().why_not(url) == str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://example.com/", "http://example.com:443/", "https://8.8.8.8/", "https://bücher.example/"]
)
def test_an_ordinary_address_passes(url: str) -> None:
    assert Egress().why_not(url) == ""


@pytest.mark.parametrize(
    "url", ["http://0177.0.0.1/", "http://999.1.1.1/", "http://[::1", "http://a:b:c/", "http://exa\tmple.com/"]
)
def test_an_address_that_cannot_be_read_is_refused_in_words(url: str) -> None:
    assert Egress().why_not(url)
