"""Tell public hosts from private ones, for the policy and for the egress guard.

The tables are in `networks.toml`. The standard library's `is_global` is not used: it takes several special networks for global.
"""

import functools
import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

import msgspec

from backstay.vocab.errors import EgressRefused, UserError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Host = str | IPv4Address | IPv6Address
"""A name in lower case without a final dot, or the address that a text stands for in any of its spellings."""
NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
"""A part of an IPv4 address as resolvers read it: decimal, octal or hexadecimal."""


class Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names that never lead out."""

    metadata: frozenset[str]
    local_ends: tuple[str, ...]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `networks.toml` says."""

    metadata_addresses: dict[str, str]
    networks: dict[str, str]
    names: Names


@functools.cache
def table() -> Table:
    """Read the table of hosts that are not public."""
    from importlib.resources import files  # noqa: PLC0415 - it loads when a call is first judged, not with the package

    return msgspec.toml.decode(files("backstay.permissions").joinpath("networks.toml").read_bytes(), type=Table)


class Judged(NamedTuple):
    """What is wrong with an address."""

    why: str
    """In words that go on after "it is"; empty when nothing is."""
    opens: bool = False
    """Whether a person's list of private hosts may open it."""
    metadata: bool = False
    """Whether a cloud hands out credentials there: a listed name does not open it, only the address itself."""


GOOD: Final = Judged("")


def why_refused(address: str) -> str:
    """Return why no request goes to `address`; empty when it is a public one. Never looks anything up."""
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
    return _metadata(address) or _in_tables(address)


def read_host(text: str) -> Host:
    """Return the host that `text` means to a resolver. Raise `EgressRefused` when it could mean nothing, or two things."""
    if not text:
        raise EgressRefused("host", host=text, why="there is no host in the address.")
    if "%" in text:
        raise EgressRefused("host", host=text, why="a host with '%' in it has a zone or an escape. Write it plainly.")
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in bare:
        return _read_v6(bare)
    name = _ascii(text).lower().removesuffix(".")
    if NUMBER.fullmatch(name.rpartition(".")[2]):
        return _read_v4(name)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise EgressRefused("host", host=text, why="that is not a host name.")
    return name


def why_local(name: str) -> str:
    """Return why a name is never a public host, without resolving it; empty when it may be one."""
    names = table().names
    if name in names.metadata:
        return "it is a name under which clouds hand out credentials."
    if "." not in name or f".{name}".endswith(tuple(f".{end}" for end in names.local_ends)):
        return "names like this one belong to a machine or a network of its own."
    return ""


def plain(address: Address) -> Address:
    """Return the address that the operating system would dial: an IPv4 address written as IPv6 is that IPv4 address."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
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
    if (found := _metadata(address)) is not None:
        return found
    if address in _NAT64:
        inner = _low(address)
        return _inside(judge_address(inner), "NAT64 to", inner)._replace(opens=False)
    if _upper_of_interface(address) in _ISATAP and (carried := judge_address(_low(address))).why:
        return _inside(carried, "ISATAP to", _low(address))._replace(opens=False)
    found = _in_tables(address)
    if found.why:
        return found._replace(why=found.why + _unwrap_ipv4(address))
    return GOOD if address in _GLOBAL else Judged("not in public space" + _unwrap_ipv4(address))


def _metadata(address: Address) -> Judged | None:
    why = table().metadata_addresses.get(str(address))
    return Judged(why, opens=True, metadata=True) if why else None


def _inside(judged: Judged, form: str, inner: IPv4Address) -> Judged:
    return judged._replace(why=f"{form} {inner}, which is {judged.why}") if judged.why else judged


def _unwrap_ipv4(address: IPv6Address) -> str:
    """Return the IPv4 address that a deprecated form carries, for the message: every such form is refused."""
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
    """Return the networks of one protocol, the narrowest first."""
    parsed = [
        (IPv6Network(text) if ":" in text else IPv4Network(text), words) for text, words in table().networks.items()
    ]
    return tuple(sorted((row for row in parsed if row[0].version == version), key=lambda row: -row[0].prefixlen))


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    import idna  # noqa: PLC0415 - most names do without

    try:
        return idna.encode(text, uts46=True).decode()
    except idna.IDNAError as exc:
        raise EgressRefused("host", host=text, why=f"that is not a host name: {exc}.") from exc


def _read_v6(text: str) -> Address:
    try:
        return plain(IPv6Address(text))
    except AddressValueError as exc:
        raise EgressRefused("host", host=text, why="that is not an IPv6 address.") from exc


def _read_v4(name: str) -> IPv4Address:
    """Read an IPv4 address as resolvers do: one to four parts, decimal, octal or hexadecimal, the last one filling the rest."""
    parts = name.split(".")
    try:
        *first, last = [_read_number(part) for part in parts]
    except ValueError as exc:
        raise EgressRefused("host", host=name, why="it ends in a number and is not an IPv4 address.") from exc
    if len(parts) > 4 or any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):
        raise EgressRefused("host", host=name, why="it ends in a number and is not an IPv4 address.")
    return IPv4Address(last + sum(part << (24 - 8 * place) for place, part in enumerate(first)))


def _read_number(text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)


class Opening(NamedTuple):
    """An entry of `allow_private`: a host or a network of one's own, and the port when it names one."""

    host: Host | Network
    port: int | None

    @classmethod
    def parse(cls, text: str) -> "Opening":
        """Read `localhost`, `localhost:8080`, `10.1.2.3`, `[fd00::1]:80` or `10.1.0.0/16`."""
        try:
            if "/" in text:
                return cls(ip_network(text), None)
            name, port = _split_port(text)
            return cls(read_host(name), port)
        except (ValueError, EgressRefused) as exc:
            raise UserError(f"{text!r} is not a host, an address or a network that can be allowed: {exc}") from exc

    def admits(self, host: Host, address: Address, port: int, judged: Judged) -> bool:
        """Return whether a connection that `judged` speaks against may be made all the same."""
        if not judged.opens or self.port not in (None, port):
            return False
        if isinstance(self.host, str):
            return self.host == host and not judged.metadata
        if isinstance(self.host, IPv4Address | IPv6Address):
            return plain(self.host) == plain(address)
        return plain(address) in self.host and not judged.metadata

    def names(self, host: Host) -> bool:
        """Return whether this is about `host` as it is written."""
        if isinstance(self.host, str) or isinstance(host, str):
            return self.host == host
        return plain(host) in self.host if not isinstance(self.host, IPv4Address | IPv6Address) else self.host == host


def matches(pattern: str, host: Host) -> bool:
    """Return whether `host` is `example.com`, or, for `*.example.com`, any name below it."""
    if pattern.startswith("*."):
        return isinstance(host, str) and host.endswith(f".{read_host(pattern[2:])}")
    return read_host(pattern) == host


def _split_port(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\[.*\]|[^:]*)(?::([0-9]{1,5}))?", text)
    if found is None:
        return text, None  # an IPv6 address without brackets
    return found[1], int(found[2]) if found[2] else None
