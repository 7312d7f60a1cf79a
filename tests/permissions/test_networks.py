"""Which addresses are public. The two registries are written down here a second time, row by row, as IANA has them."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.permissions.networks import judge_address, plain, table, why_refused

IPV4_REGISTRY = {
    "0.0.0.0/8": "This network",
    "0.0.0.0/32": "This host on this network",
    "10.0.0.0/8": "Private-Use",
    "100.64.0.0/10": "Shared Address Space",
    "127.0.0.0/8": "Loopback",
    "169.254.0.0/16": "Link Local",
    "172.16.0.0/12": "Private-Use",
    "192.0.0.0/24": "IETF Protocol Assignments",
    "192.0.0.0/29": "IPv4 Service Continuity Prefix",
    "192.0.0.8/32": "IPv4 dummy address",
    "192.0.0.9/32": "Port Control Protocol Anycast",
    "192.0.0.10/32": "Traversal Using Relays around NAT Anycast",
    "192.0.0.170/32": "NAT64/DNS64 Discovery",
    "192.0.0.171/32": "NAT64/DNS64 Discovery",
    "192.0.2.0/24": "Documentation (TEST-NET-1)",
    "192.31.196.0/24": "AS112-v4",
    "192.52.193.0/24": "AMT",
    "192.88.99.0/24": "Deprecated (6to4 Relay Anycast)",
    "192.88.99.2/32": "6a44-relay anycast address",
    "192.168.0.0/16": "Private-Use",
    "192.175.48.0/24": "Direct Delegation AS112 Service",
    "198.18.0.0/15": "Benchmarking",
    "198.51.100.0/24": "Documentation (TEST-NET-2)",
    "203.0.113.0/24": "Documentation (TEST-NET-3)",
    "240.0.0.0/4": "Reserved",
    "255.255.255.255/32": "Limited Broadcast",
}
IPV6_REGISTRY = {
    "::1/128": "Loopback Address",
    "::/128": "Unspecified Address",
    "64:ff9b:1::/48": "IPv4-IPv6 Translat.",
    "100::/64": "Discard-Only Address Block",
    "100:0:0:1::/64": "Dummy IPv6 Prefix",
    "2001::/23": "IETF Protocol Assignments",
    "2001::/32": "TEREDO",
    "2001:1::1/128": "Port Control Protocol Anycast",
    "2001:1::2/128": "Traversal Using Relays around NAT Anycast",
    "2001:1::3/128": "DNS-SD Service Registration Protocol Anycast",
    "2001:2::/48": "Benchmarking",
    "2001:3::/32": "AMT",
    "2001:4:112::/48": "AS112-v6",
    "2001:10::/28": "Deprecated (previously ORCHID)",
    "2001:20::/28": "ORCHIDv2",
    "2001:30::/28": "Drone Remote ID Protocol Entity Tags",
    "2001:db8::/32": "Documentation",
    "2002::/16": "6to4",
    "2620:4f:8000::/48": "Direct Delegation AS112 Service",
    "3fff::/20": "Documentation",
    "5f00::/16": "Segment Routing (SRv6) SIDs",
    "fc00::/7": "Unique-Local",
    "fe80::/10": "Link-Local Unicast",
}
BESIDES = ("224.0.0.0/4", "fec0::/10", "ff00::/8")
"""Not in the registries of special purposes: multicast and what was site-local."""
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.31.195.255",
    "192.31.197.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "168.63.129.15",
    "168.63.129.17",
    "2001:200::",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "2003::",
    "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db9::",
    "2620:4f:7fff::",
    "2620:4f:8001::",
    "3ffe::",
    "2600::",
]


def test_the_table_has_every_row_of_both_registries_and_nothing_that_has_no_reason() -> None:
    assert set(table().networks) == {*IPV4_REGISTRY, *IPV6_REGISTRY, *BESIDES}


@pytest.mark.contract("RV-31", "RV-B16")
@pytest.mark.parametrize("text", [*IPV4_REGISTRY, *IPV6_REGISTRY, *BESIDES])
def test_every_special_network_is_refused_from_its_first_address_to_its_last(text: str) -> None:
    network = ip_network(text)
    middle = network[network.num_addresses // 2]

    assert all(why_refused(str(address)) for address in (network[0], middle, network[-1]))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass_right_up_to_the_edges_of_the_special_ones(address: str) -> None:
    assert why_refused(address) == ""


@pytest.mark.contract("RV-B16")
@pytest.mark.parametrize(
    "inner", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "0.0.0.0", "168.63.129.16"]
)
@pytest.mark.parametrize(
    "form",
    [
        "mapped",
        "compatible",
        "translated",
        "6to4",
        "teredo",
        "teredo server",
        "nat64",
        "local nat64",
        "local nat64 48",
        "isatap",
    ],
)
def test_a_bad_address_inside_an_ipv6_address_is_found(form: str, inner: str) -> None:
    address = wrapped(form, IPv4Address(inner))

    assert why_refused(str(address))
    assert why_refused(str(address).upper())


@pytest.mark.parametrize("form", ["mapped", "nat64", "isatap"])
def test_forms_that_are_in_use_pass_with_a_public_address_inside(form: str) -> None:
    assert why_refused(str(wrapped(form, IPv4Address("8.8.8.8")))) == ""


@pytest.mark.parametrize("form", ["compatible", "translated", "6to4", "teredo", "local nat64"])
def test_forms_that_nobody_serves_the_web_from_are_refused_whatever_is_inside(form: str) -> None:
    assert why_refused(str(wrapped(form, IPv4Address("8.8.8.8"))))


def test_a_bad_address_inside_is_named() -> None:
    assert why_refused("64:ff9b::a9fe:a9fe") == (
        "64:ff9b::a9fe:a9fe is NAT64 to 169.254.169.254, which is where clouds hand out credentials"
    )
    assert why_refused("2002:7f00:1::") == "2002:7f00:1:: is a 6to4 tunnel to 127.0.0.1"


@pytest.mark.parametrize("address", table().metadata_addresses)
def test_addresses_that_give_credentials_away_say_so(address: str) -> None:
    assert str(ip_address(address)) == address
    assert judge_address(ip_address(address)).metadata


@pytest.mark.parametrize("address", ["fe80::1%eth0", "::1%1", "2606:4700::1%eth0"])
def test_an_address_with_a_zone_is_refused(address: str) -> None:
    assert why_refused(address)


@pytest.mark.parametrize(
    "text", ["", "127.1", "example.com", "0x7f000001", "1.2.3.4.5", "::g", "127.0.0.01", "\uff18.8.8.8"]
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    assert why_refused(text) == f"{text!r} is not an IP address"


def test_an_ipv4_address_written_as_ipv6_is_dialled_as_what_it_is() -> None:
    assert plain(ip_address("::ffff:808:808")) == IPv4Address("8.8.8.8")
    assert plain(ip_address("2606:4700::1")) == IPv6Address("2606:4700::1")


@given(st.integers(0, 2**128 - 1))
def test_every_ipv6_address_has_an_answer_and_only_global_unicast_passes(value: int) -> None:
    address = IPv6Address(value)

    if not judge_address(address).why and address not in ip_network("64:ff9b::/96"):
        assert address in ip_network("2000::/3")


@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_is_judged_alike_in_each_form_that_is_in_use(value: int) -> None:
    inner = IPv4Address(value)

    verdicts = {bool(judge_address(wrapped(form, inner)).why) for form in ("mapped", "nat64", "isatap")}

    assert verdicts == {bool(judge_address(inner).why)}


def wrapped(form: str, inner: IPv4Address) -> IPv6Address:
    """`inner` inside an IPv6 address."""
    value = int(inner)
    match form:
        case "mapped":
            return IPv6Address(0xFFFF << 32 | value)
        case "compatible":
            return IPv6Address(value)
        case "translated":
            return IPv6Address(0xFFFF << 48 | value)
        case "6to4":
            return IPv6Address(0x2002 << 112 | value << 80 | 1)
        case "teredo":
            return IPv6Address(0x2001_0000 << 96 | int(IPv4Address("8.8.4.4")) << 64 | value ^ 0xFFFF_FFFF)
        case "teredo server":
            return IPv6Address(0x2001_0000 << 96 | value << 64 | int(IPv4Address("8.8.4.4")) ^ 0xFFFF_FFFF)
        case "nat64":
            return IPv6Address(0x64_FF9B << 96 | value)
        case "local nat64":
            return IPv6Address(0x64_FF9B_0001 << 80 | value)
        case "local nat64 48":
            return IPv6Address(0x64_FF9B_0001 << 80 | (value >> 16) << 64 | (value & 0xFFFF) << 40)
        case _:
            return IPv6Address(0x2A00_1450 << 96 | 0x0200_5EFE << 32 | value)
