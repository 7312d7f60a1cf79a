"""Which addresses are out in the open internet, and which are somebody's own.

The tables are the two registries of special-purpose addresses that IANA keeps (RFC 6890 and what came after), and what they leave
out: multicast, forms that carry another address inside, and the addresses under which clouds hand out credentials. The standard
library's `is_global` is not used: it takes several of these for global.
"""

import functools
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Judged(NamedTuple):
    """What is wrong with an address."""

    why: str
    """In words that go on after "it is"; empty when nothing is."""
    opens: bool = False
    """Whether somebody who lists the host as private may reach it all the same."""
    metadata: bool = False
    """Whether a cloud hands out credentials there: a listed name does not open it, only the address itself."""


GOOD: Final = Judged("")


def why_refused(address: str) -> str:
    """Why no request goes to `address`; empty when it is a public one. Never looks anything up."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return f"{address!r} is not an IP address"
    why = judge_address(parsed).why
    return f"{address} is {why}" if why else ""


def judge_address(address: Address) -> Judged:
    """Say what is wrong with an address, looking at every address that it carries inside."""
    if isinstance(address, IPv6Address):
        return _judge_v6(address)
    if str(address) in METADATA:
        return Judged(METADATA[str(address)], opens=True, metadata=True)
    return _in_tables(address)


def plain(address: Address) -> Address:
    """The address that the operating system would dial: an IPv4 address written as IPv6 is that IPv4 address."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


METADATA: Final = {
    "169.254.169.254": "where clouds hand out credentials",
    "169.254.170.2": "where AWS hands out credentials to containers",
    "169.254.170.23": "where AWS hands out credentials to pods",
    "169.254.42.42": "where Scaleway hands out credentials",
    "169.254.0.23": "where Tencent Cloud hands out credentials",
    "100.100.100.200": "where Alibaba Cloud hands out credentials",
    "100.96.0.96": "where Volcano Engine hands out credentials",
    "168.63.129.16": "where Azure talks to its machines",
    "192.0.0.192": "where Oracle Cloud hands out credentials",
    "fd00:ec2::254": "where AWS hands out credentials",
    "fd00:ec2::23": "where AWS hands out credentials to pods",
    "fd20:ce::254": "where Google Cloud hands out credentials",
    "fd00:c1::a9fe:a9fe": "where Oracle Cloud hands out credentials",
    "fd00:42::42": "where Scaleway hands out credentials",
}
"""Addresses of metadata services, in the form that `ipaddress` writes. One of them lies in public space."""

SPECIAL: Final = (
    ("0.0.0.0/8", "of this network alone"),
    ("0.0.0.0/32", "this machine itself"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared behind a carrier's gateway"),
    ("127.0.0.0/8", "this machine itself (loopback)"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "kept for protocols"),
    ("192.0.0.0/29", "kept for IPv4 behind IPv6"),
    ("192.0.0.8/32", "a dummy"),
    ("192.0.0.9/32", "the nearest gateway's (port control)"),
    ("192.0.0.10/32", "the nearest relay's (TURN)"),
    ("192.0.0.170/32", "kept for finding NAT64"),
    ("192.0.0.171/32", "kept for finding NAT64"),
    ("192.0.2.0/24", "for documentation"),
    ("192.31.196.0/24", "a name server's for private addresses (AS112)"),
    ("192.52.193.0/24", "the nearest relay's (multicast tunnels)"),
    ("192.88.99.0/24", "the nearest relay's (6to4)"),
    ("192.88.99.2/32", "the nearest relay's (6a44)"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "a name server's for private addresses (AS112)"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("255.255.255.255/32", "a broadcast"),
    ("::/128", "this machine itself"),
    ("::1/128", "this machine itself (loopback)"),
    ("64:ff9b:1::/48", "behind a local NAT64"),
    ("100::/64", "thrown away"),
    ("100:0:0:1::/64", "a dummy"),
    ("2001::/23", "kept for protocols"),
    ("2001::/32", "a Teredo tunnel"),
    ("2001:1::1/128", "the nearest gateway's (port control)"),
    ("2001:1::2/128", "the nearest relay's (TURN)"),
    ("2001:1::3/128", "the nearest registrar's (service discovery)"),
    ("2001:2::/48", "for benchmarks"),
    ("2001:3::/32", "the nearest relay's (multicast tunnels)"),
    ("2001:4:112::/48", "a name server's for private addresses (AS112)"),
    ("2001:10::/28", "an identifier, not a place (ORCHID)"),
    ("2001:20::/28", "an identifier, not a place (ORCHID)"),
    ("2001:30::/28", "an identifier, not a place (DRIP)"),
    ("2001:db8::/32", "for documentation"),
    ("2002::/16", "a 6to4 tunnel"),
    ("2620:4f:8000::/48", "a name server's for private addresses (AS112)"),
    ("3fff::/20", "for documentation"),
    ("5f00::/16", "a segment of a route (SRv6)"),
    ("fc00::/7", "private (unique local)"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
"""Networks that a request never goes to by itself, and what an address in them is. `::ffff:0:0/96` and `64:ff9b::/96`, which the
registries have too, are judged by the IPv4 address inside."""

_OPENED: Final = ("private", "shared", "this machine itself (loopback)", "link-local", "site-local", "for benchmarks")
"""How the descriptions of those begin that may be somebody's own network."""
_GLOBAL: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_TEREDO: Final = IPv6Network("2001::/32")
_SIXTOFOUR: Final = IPv6Network("2002::/16")
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE, 0x0100_5EFE, 0x0300_5EFE)
"""The upper half of an interface identifier whose lower half is an IPv4 address, with the universal and group bits either way."""


def _judge_v6(address: IPv6Address) -> Judged:
    if address.scope_id is not None:
        return Judged("of one network interface alone")
    if address.ipv4_mapped is not None:
        return _inside(judge_address(address.ipv4_mapped), "IPv4", address.ipv4_mapped)
    if str(address) in METADATA:
        return Judged(METADATA[str(address)], opens=True, metadata=True)
    if address in _NAT64:
        inner = _low(address)
        return _inside(judge_address(inner), "NAT64 to", inner)._replace(opens=False)
    if _upper_of_interface(address) in _ISATAP and (carried := judge_address(_low(address))).why:
        return _inside(carried, "ISATAP to", _low(address))._replace(opens=False)
    found = _in_tables(address)
    if found.why:
        return found._replace(why=found.why + _tunnelled(address))
    return GOOD if address in _GLOBAL else Judged("not in public space" + _tunnelled(address))


def _inside(judged: Judged, form: str, inner: IPv4Address) -> Judged:
    return judged._replace(why=f"{form} {inner}, which is {judged.why}") if judged.why else judged


def _tunnelled(address: IPv6Address) -> str:
    """The IPv4 address that a deprecated form carries: such a form is refused whatever it carries, and a reader wants to know what."""
    if address in _TEREDO:
        client = IPv4Address(~int(address) & 0xFFFF_FFFF)
        return f" to {client} by way of {IPv4Address(int(address) >> 64 & 0xFFFF_FFFF)}"
    if address in _SIXTOFOUR:
        return f" to {IPv4Address(int(address) >> 80 & 0xFFFF_FFFF)}"
    top = int(address) >> 32
    if (top in (0, 0xFFFF_0000) and int(address) > 0xFFFF) or top >> 48 == 0x64_FF9B_0001:
        return f" ({_low(address)} as IPv6)"
    return ""


def _low(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)


def _upper_of_interface(address: IPv6Address) -> int:
    return int(address) >> 32 & 0xFFFF_FFFF


def _in_tables(address: Address) -> Judged:
    for network, words in _networks(address.version):
        if address in network:
            return Judged(words, opens=words.startswith(_OPENED))
    return GOOD


@functools.cache
def _networks(version: int) -> tuple[tuple[Network, str], ...]:
    """The networks of one protocol, the narrowest first."""
    parsed = [(IPv6Network(text) if ":" in text else IPv4Network(text), words) for text, words in SPECIAL]
    return tuple(sorted((row for row in parsed if row[0].version == version), key=lambda row: -row[0].prefixlen))
