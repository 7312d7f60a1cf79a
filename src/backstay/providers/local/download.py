"""Download one file over HTTP to the disk, and continue where an earlier attempt stopped."""

import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from backstay.vocab.errors import UserError

Moved = Callable[[int], None]
"""Called with the number of bytes of the file that are there, whenever there are more."""

_TIMEOUT: Final = httpx.Timeout(30.0, connect=8.0)


class Unreachable(UserError):
    """A source does not have the file, or cannot be reached."""


class Tampered(UserError):
    """A source gave something else than what is pinned."""


def open_client(trusted: ssl.SSLContext) -> httpx.Client:
    """Return a client that gives up soon on a host that does not answer."""
    return httpx.Client(follow_redirects=True, timeout=_TIMEOUT, verify=trusted)


def download(client: httpx.Client, url: str, path: Path, size: int, moved: Moved) -> None:
    """Make `path` hold the `size` bytes of `url`. What it holds already is kept and continued. Raise `Unreachable`.

    The content is not checked: the caller compares its hash.
    """
    while (before := _length(path)) != size:
        if before > size:
            path.unlink()
            continue
        try:
            _continue(client, url, path, size, moved)
            trouble = f"it stopped after {_length(path)} of {size} bytes of {path.name!r}"
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            trouble = str(exc) or type(exc).__name__
        except OSError as exc:
            raise UserError(
                f"Cannot write {str(path)!r}: {exc}. What is there is kept; run the command again."
            ) from exc
        if _length(path) <= before:  # a cut connection is taken up again as long as that brings something
            raise Unreachable(f"{host_of(url)} cannot be reached: {trouble}.")


def host_of(url: str) -> str:
    """Return the host of an address, without the user name and the password that it may carry."""
    return urlsplit(url).hostname or url


def _continue(client: httpx.Client, url: str, path: Path, size: int, moved: Moved) -> None:
    have = _length(path)
    headers = {"accept-encoding": "identity"} | ({"range": f"bytes={have}-"} if have else {})
    with client.stream("GET", url, headers=headers) as answer:
        if answer.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            raise Unreachable(f"{host_of(url)} answered {answer.status_code} for {path.name!r}.")
        begins = _begins_at(answer)
        if begins not in (0, have):
            raise Unreachable(f"{host_of(url)} sent another piece of {path.name!r} than was asked for.")
        with path.open("ab") as file:
            file.truncate(begins)
            for piece in answer.iter_raw():
                file.write(piece)
                begins += len(piece)
                if begins > size:
                    file.truncate(0)
                    raise Tampered(
                        f"{host_of(url)} sent more than the {size} bytes of {path.name!r}. It was refused and removed."
                    )
                moved(begins)


def _begins_at(answer: httpx.Response) -> int:
    """Return where in the file the answer's bytes begin; -1 when it does not say so in a way that can be read."""
    if answer.status_code == httpx.codes.OK:
        return 0
    found = re.match(r"bytes (\d+)-", answer.headers.get("content-range", ""))
    return int(found[1]) if found else -1


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
