"""Hosts as they stand in addresses: one spelling for each, and which of them never lead out."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network
from typing import Final, NamedTuple

from holdfast.vocab.errors import EgressRefused, UserError
from holdfast.workspaces.egress_ranges import Address, Judged, Network, plain

Host = str | IPv4Address | IPv6Address
"""A name in lower case without a final dot, or the address that a text stands for in any of its spellings."""


def read_host(text: str) -> Host:
    """The host that `text` means to a resolver. Raise `EgressRefused` when it could mean nothing, or two things."""
    if not text:
        raise EgressRefused("host", host=text, why="there is no host in the address.")
    if "%" in text:
        raise EgressRefused("host", host=text, why="a host with '%' in it has a zone or an escape. Write it plainly.")
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in bare:
        return _read_v6(bare)
    name = _ascii(text).lower().removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _read_v4(name)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise EgressRefused("host", host=text, why="that is not a host name.")
    return name


def why_local(name: str) -> str:
    """Why a name never leads out into the internet, whatever it resolves to; empty when it may."""
    if name in METADATA_NAMES:
        return "it is a name under which clouds hand out credentials."
    if name in _LOCAL or name.rpartition(".")[2] in _LOCAL_ENDS or name.endswith(_LOCAL_TAILS):
        return "names like this one belong to a machine or a network of its own."
    return ""


METADATA_NAMES: Final = frozenset(
    (
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.internal",
        "metadata.azure.com",
        "metadata.tencentyun.com",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "api.metadata.cloud.ibm.com",
        "instance-data",
        "instance-data.ec2.internal",
        "rancher-metadata",
    )
)
_LOCAL: Final = frozenset(("localhost", "localhost6", "ip6-localhost", "ip6-loopback", "broadcasthost"))
_LOCAL_ENDS: Final = frozenset(
    (
        "localhost",
        "localdomain",
        "localdomain6",
        "local",
        "internal",
        "intranet",
        "private",
        "corp",
        "home",
        "lan",
        "onion",
    )
)
_LOCAL_TAILS: Final = (".home.arpa", ".cluster.local", ".svc")


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
        """Whether a connection that `judged` speaks against may be made all the same."""
        if not judged.opens or self.port not in (None, port):
            return False
        if isinstance(self.host, str):
            return self.host == host and not judged.metadata
        if isinstance(self.host, IPv4Address | IPv6Address):
            return plain(self.host) == plain(address)
        return plain(address) in self.host and not judged.metadata

    def names(self, host: Host) -> bool:
        """Whether this is about `host` as it is written."""
        if isinstance(self.host, str) or isinstance(host, str):
            return self.host == host
        return plain(host) in self.host if not isinstance(self.host, IPv4Address | IPv6Address) else self.host == host


def matches(pattern: str, host: Host) -> bool:
    """Whether `host` is `example.com`, or, for `*.example.com`, any name below it."""
    if pattern.startswith("*."):
        return isinstance(host, str) and host.endswith(f".{read_host(pattern[2:])}")
    return read_host(pattern) == host


_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


def _split_port(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\[.*\]|[^:]*)(?::([0-9]{1,5}))?", text)
    if found is None:
        return text, None  # an IPv6 address without brackets
    return found[1], int(found[2]) if found[2] else None


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
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)
