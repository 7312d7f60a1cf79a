"""Brings one file over HTTP to the disk, and goes on where an earlier attempt stopped."""

import functools
import hashlib
import re
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
from msgspec.structs import replace

from backstay.vocab.errors import UserError
from backstay.vocab.specs import ToolSpec

Moved = Callable[[int], None]
"""Told how many bytes of the file are there, whenever more are."""

_PIECE: Final = 1 << 20
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

    Nothing is promised about the content: whoever uses the file checks its hash.
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


def sha256_of(path: Path, moved: Moved | None = None) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    seen = hashlib.sha256()
    done = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            seen.update(piece)
            done += len(piece)
            if moved is not None:
                moved(done)
    return seen.hexdigest()


def host_of(url: str) -> str:
    """Whom an address asks, without the name and password that it may carry."""
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


WORDS: Final = {
    "Write": "Make a new file from a text that the user gave. Never use it to copy, rename or change a file.",
    "Read": "Show what a file says.",
    "Bash": (
        "Run a shell command: show a file with cat, list, search text with grep, count, copy with cp, rename with mv, "
        "delete with rm, replace words with sed, make folders, add lines."
    ),
}
"""What these tools are for, in the order in which they are shown: the last one is the one that it turns to first.

With the usual descriptions and order the 1.5B model wrote a made-up file when it was asked to copy, rename or change one.
"""
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_IDLE: Final = ("title", "default", "$schema", "additionalProperties")


def slim(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """`specs` without the arguments that may be left out, briefly described, those of `WORDS` last."""
    places = {name: place for place, name in enumerate(WORDS, start=1)}
    ordered = sorted(specs, key=lambda spec: places.get(spec.name, 0))
    return tuple(
        replace(spec, description=WORDS.get(spec.name) or _first(spec.description), schema=_short(spec.schema))
        for spec in ordered
    )


def _short(schema: dict[str, object]) -> dict[str, object]:
    required = schema.get("required")
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(required, list) or not required:
        return schema
    kept = {name: _property(value) for name, value in properties.items() if name in required}
    return {**{k: v for k, v in schema.items() if k not in _IDLE}, "properties": kept}


def _property(schema: object) -> object:
    if not isinstance(schema, dict):
        return schema
    said = {name: value for name, value in schema.items() if name not in _IDLE}
    return said | ({"description": _first(said["description"])} if "description" in said else {})


@functools.cache
def _first(text: str) -> str:
    return _SENTENCE.split(text.strip(), maxsplit=1)[0]
