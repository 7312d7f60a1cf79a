"""Lists of hosts that settings give: hosts of one's own that may be reached all the same, and hosts that alone may be reached."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import NamedTuple

from backstay.logic.permissions.networks import Address, Host, Judged, Network, plain, read_host
from backstay.vocab.errors import EgressRefused, UserError


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


def _split_port(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\[.*\]|[^:]*)(?::([0-9]{1,5}))?", text)
    if found is None:
        return text, None  # an IPv6 address without brackets
    return found[1], int(found[2]) if found[2] else None
