"""The guard of what goes out: requests reach public addresses by default ports, and nothing else that nobody listed.

    async with Egress().client() as client:
        response = await client.get("https://example.com/")

A name is resolved here, every address that it has is judged, and the connection goes to one that was judged: a name that means another
address a moment later gains nothing. Proxies of the environment are not used, because they would do the resolving.
"""

import functools
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import anyio
import httpx
from msgspec import Struct, field

from backstay.permissions.networks import (
    Address,
    Host,
    Opening,
    judge_address,
    matches,
    plain,
    read_host,
    table,
    why_local,
)
from backstay.permissions.networks import why_refused as why_refused  # noqa: PLC0414 - a part of what this module offers
from backstay.sandbox.egress_transport import EgressLimits, GuardedClient, GuardedTransport, is_this_machine
from backstay.vocab.errors import EgressRefused, UserError

DEFAULT_PORTS: Final = frozenset((80, 443))
ANSWERS: Final = 64
"""Addresses that a name may have."""

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Finds the addresses of a name. Raises `socket.gaierror` when it has none."""


async def resolve_by_system(name: str) -> Sequence[str]:
    """Ask the operating system for the addresses of a name."""
    found = await anyio.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class Egress(Struct, frozen=True, kw_only=True, dict=True):
    """Where requests may go."""

    allow_hosts: Collection[str] | None = None
    """Only these hosts, when it is given: `example.com`, `*.example.com`."""
    allow_ports: Collection[int] = ()
    """Ports besides 80 and 443."""
    allow_private: Collection[str] = ()
    """Hosts, addresses and networks of one's own that may be reached all the same: `localhost:8080`, `10.1.2.3`, `10.1.0.0/16`. A port
    named here need not be in `allow_ports`. Addresses that clouds hand out credentials at must be listed themselves."""
    limits: EgressLimits = field(default_factory=EgressLimits)
    resolve: Resolve = resolve_by_system
    certificates: ssl.SSLContext | None = None
    """Whom to trust about names; those of SSL_CERT_FILE or SSL_CERT_DIR, else the ones that come along."""

    def __post_init__(self) -> None:
        """Find mistakes in the lists before anything relies on them."""
        for text in self.allow_private:
            Opening.parse(text)
        for pattern in self.allow_hosts or ():
            try:
                matches(pattern, "")
            except EgressRefused as exc:
                raise UserError(f"{pattern!r} is not a host that can be allowed: {exc.why}") from exc

    def client(self, *, follow_redirects: bool = False, limits: EgressLimits | None = None) -> httpx.AsyncClient:
        """Make a client all of whose requests are judged. Redirects are handed to the caller unless they are to be followed."""
        limits = limits or self.limits
        transport = GuardedTransport(
            self.look, self.admit, limits=limits, certificates=lambda: self.certificates or _certificates()
        )
        return GuardedClient(transport, limits=limits, follow_redirects=follow_redirects)

    def why_not(self, url: str) -> str:
        """Why a request to `url` would be refused as it is written; empty when it would depend on what the name resolves to."""
        try:
            self.look(httpx.URL(url))
        except (EgressRefused, httpx.InvalidURL) as exc:
            return str(exc)
        return ""

    def look(self, url: httpx.URL) -> None:
        """Judge an address as it is written. Raise `EgressRefused`."""
        if url.scheme not in ("http", "https"):
            raise EgressRefused("scheme", host=url.host, why=f"{url.scheme!r} is not http or https.")
        if url.userinfo:
            raise EgressRefused("userinfo", host=url.host, why="the address has a user's name in it. Leave that out.")
        port = url.port if url.port is not None else (443 if url.scheme == "https" else 80)
        host = self._judge_host(url.host, port)
        if not isinstance(host, str):
            self._judge_address(url.host, host, host, port, private=True)

    async def admit(self, text: str, port: int, private: bool = True) -> Sequence[str]:
        """The addresses of a host that a connection may be made to. Raise `EgressRefused` when any of its addresses is a bad one."""
        host = self._judge_host(text, port)
        if not isinstance(host, str):
            return (self._judge_address(text, host, host, port, private=private),)
        answers = await self._answers(host)
        return tuple(self._judge_address(text, host, _parsed(text, one), port, private=private) for one in answers)

    async def _answers(self, name: str) -> Sequence[str]:
        try:
            answers = await self.resolve(name)
            if 0 < len(answers) <= ANSWERS:
                return answers
            raise socket.gaierror(socket.EAI_NONAME, f"it has {len(answers)} addresses")
        except socket.gaierror as exc:
            raise httpx.ConnectError(f"The name {name!r} cannot be resolved: {exc.strerror}.") from exc

    def _judge_host(self, text: str, port: int) -> Host:
        host = read_host(text)
        listed = any(opening.names(host) for opening in self._openings)
        if self.allow_hosts is not None and not listed and not any(matches(known, host) for known in self.allow_hosts):
            raise EgressRefused("host", host=text, why="it is not among the hosts that are allowed.")
        if isinstance(host, str) and (why := why_local(host)) and (not listed or host in table().names.metadata):
            raise EgressRefused("host", host=text, why=why)
        named = {opening.port for opening in self._openings if opening.names(host)}
        if port not in DEFAULT_PORTS.union(self.allow_ports, named):
            why = f"port {port} is not a web server's usual one. Allow it in the settings if you mean it."
            raise EgressRefused("port", host=text, why=why)
        return host

    def _judge_address(self, text: str, host: Host, address: Address, port: int, *, private: bool) -> str:
        judged = judge_address(address)
        if judged.why:
            if private and any(each.admits(host, address, port, judged) for each in self._openings):
                return str(plain(address))
            why = f"{address} is {judged.why}."
            raise EgressRefused("address", host=text, address=str(address), why=why)
        if is_this_machine(str(plain(address)), port):
            why = f"{address} is an address of this machine."
            raise EgressRefused("address", host=text, address=str(address), why=why)
        return str(plain(address))

    @functools.cached_property
    def _openings(self) -> tuple[Opening, ...]:
        return tuple(Opening.parse(text) for text in self.allow_private)


def _parsed(text: str, answer: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(answer)
    except ValueError as exc:
        why = f"its name resolves to {answer!r}, which is not an address."
        raise EgressRefused("address", host=text, address=answer, why=why) from exc


@functools.cache
def _certificates() -> ssl.SSLContext:
    try:
        return httpx.create_ssl_context()
    except OSError as exc:
        named = "the file of SSL_CERT_FILE or the folder of SSL_CERT_DIR"
        raise UserError(f"The certificates cannot be read: {exc}. Check {named}.") from exc
