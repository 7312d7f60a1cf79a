"""The permission policy and the guard of what goes out know the same hosts: what the guard refuses, the policy never allows unasked."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backstay.permissions.networks import table
from backstay.system.guarded_http import Egress
from backstay.vocab.specs import Mode
from tests.permissions.desk import weighed

L12 = [
    "168.63.129.16",
    "[fec0::1]",
    "[64:ff9b:1::7f00:1]",
    "[::ffff:0:7f00:1]",
    "hidden.onion",
    "127.0.0.1%00.example.com",
]
BESIDE = ["home.arpa", "svc", "192.88.99.1", "[64:ff9b:1::1]", "[5f00::1]", "[fd20:ce::254]", "metadata.goog", "a.svc"]
PUBLIC = [
    "example.com",
    "8.8.8.8",
    "[2606:4700::1111]",
    "home.arpa.example",
    "my-onion.org",
    "168.63.129.17",
    "1.example",
]
EDGES = [
    str(address) if ":" not in str(address) else f"[{address}]"
    for text in table().networks
    for network in (ip_network(text),)
    for address in (network[0], network[-1], network[0] - 1 if int(network[0]) else network[0])
]
NAMES = [*sorted(table().names.metadata), *(name for end in table().names.local_ends for name in (end, f"a.{end}"))]


def allowed(host: str, mode: Mode = "default") -> bool:
    return weighed("WebFetch", f"https://{host}/", allow=["WebFetch"], mode=mode).decision == "allow"


def admitted(host: str) -> bool:
    return not Egress().why_not(f"https://{host}/")


@pytest.mark.parametrize("host", [*L12, *BESIDE])
def test_l12_the_policy_allows_no_host_that_the_guard_refuses(host: str) -> None:
    assert not admitted(host)
    assert not allowed(host)
    assert not allowed(host, "bypassPermissions")
    assert not allowed(host, "dontAsk")


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_host_is_allowed_by_a_rule_and_admitted_by_the_guard(host: str) -> None:
    assert admitted(host)
    assert allowed(host)


@pytest.mark.parametrize("host", [*EDGES, *NAMES])
def test_l12_policy_and_guard_agree_at_the_edges_of_every_network_and_on_every_name(host: str) -> None:
    assert allowed(host) == admitted(host)


FOUR = st.ip_addresses(v=4).map(str)
SIX = st.one_of(
    st.ip_addresses(v=6),
    st.ip_addresses(v=6, network="::/32"),
    st.ip_addresses(v=6, network="64:ff9b::/32"),
    st.ip_addresses(v=6, network="2001::/16"),
    st.integers(0, 2**32 - 1).map(lambda low: IPv6Address(0x2606_4700_0000_0000_0000_5EFE << 32 | low)),
)


@given(FOUR)
@example("168.63.129.16")
def test_l12_policy_and_guard_agree_on_any_address(host: str) -> None:
    assert allowed(host) == admitted(host)


@given(SIX)
def test_l12_the_policy_allows_no_long_address_that_the_guard_refuses(address: IPv6Address) -> None:
    assert admitted(f"[{address}]") >= allowed(f"[{address}]")


@given(st.text(st.sampled_from("0123456789abx.-_%[]:@\u3002\uff0e\u2460"), min_size=1, max_size=24))
def test_l12_the_policy_allows_no_text_for_a_host_that_the_guard_refuses(host: str) -> None:
    try:
        url = httpx.URL(f"https://{host}/")
    except httpx.InvalidURL:
        return  # no request is ever made of it
    if allowed(host, "bypassPermissions") and url.port is None and not url.userinfo:
        assert admitted(host)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "0x{:x}", "0{:o}"]))
def test_l12_the_policy_allows_no_address_in_an_old_spelling_that_the_guard_refuses(number: int, form: str) -> None:
    host = form.format(number)
    assert admitted(host) >= allowed(host, "bypassPermissions")
    assert admitted(str(IPv4Address(number))) == admitted(host)
