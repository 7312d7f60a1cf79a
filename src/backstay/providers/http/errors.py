"""What can go wrong between here and a provider, told by the class of the error."""

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from backstay.vocab.errors import ProviderError

CONNECT_S = 15.0
"""How long a connection may take to come about, encryption included."""


def problem_of(exc: httpx.RequestError | OSError, url: str) -> ProviderError:
    """Return what an error of the connection to `url` means."""
    host = urlsplit(url).netloc
    match exc:
        case httpx.ConnectTimeout():
            hint = "Check the network, and whether a proxy is needed (HTTPS_PROXY)"
            return ProviderError("timeout", f"No connection to {host!r} within {CONNECT_S:g} seconds. {hint}.")
        case httpx.TimeoutException():
            return ProviderError("timeout", f"{host!r} took too long ({type(exc).__name__}).")
        case httpx.ProxyError():
            hint = "Check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"
            return ProviderError("transport", f"The proxy on the way to {host!r} refused: {exc}. {hint}.")
        case httpx.ConnectError():
            return ProviderError("transport", f"Cannot connect to {host!r}: {_why(exc)}")
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
            return ProviderError("bad_request", f"The request to {host!r} cannot be sent: {exc}")
        case _:
            words = f" ({exc})" if str(exc) else ""
            return ProviderError("transport", f"The connection to {host!r} was cut: {type(exc).__name__}{words}.")


def name_server(problem: ProviderError, response: httpx.Response, url: str) -> ProviderError:
    """Return the same problem, with who has it and its status where its words do not say them."""
    host, status = urlsplit(url).netloc, str(response.status_code)
    words = str(problem)
    if status in words:
        return problem
    return ProviderError(problem.kind, f"{host} answered {status}: {words}", retry_after_s=problem.retry_after_s)


def refuse_redirect(status: int, location: str, url: str) -> ProviderError:
    """Return what a redirect means: it is not followed, because the key would go along."""
    return ProviderError(
        "bad_request",
        f"{urlsplit(url).netloc!r} sends requests elsewhere ({status}, to {location!r}), and redirects are not followed. "
        "If that is the right place, make it the address of the model.",
    )


def _why(exc: httpx.ConnectError) -> str:
    causes = list(_chain(exc))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            words = getattr(cause, "verify_message", "") or cause.reason or str(cause)
            return f"no trust ({words}). A certificate of your own is named in SSL_CERT_FILE."
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "there is no such host, or no name service. Check the address and the network."
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "nobody listens there. Check the address and its port, and whether the server runs."
    return f"{exc}. Check the address and the network."


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """Return an error, what it came from, and so on, groups included."""
    seen: list[BaseException] = [exc]
    for each in seen:
        inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        seen += [more for more in (each.__cause__, each.__context__, *inner) if more is not None and more not in seen]
    return iter(seen)
