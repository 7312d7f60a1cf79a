"""Fetch the source of a plugin or marketplace into a folder of ours."""

import hashlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, assert_never
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx
from msgspec import Struct

from backstay.plugins.install.archive import single_folder, unpack
from backstay.plugins.install.git import fetch_commit
from backstay.plugins.install.sources import (
    ArchiveSource,
    FolderSource,
    GitSource,
    NpmSource,
    PythonSource,
    Source,
    UrlSource,
)
from backstay.plugins.plugin import resolve_inside
from backstay.plugins.tree import remove_tree
from backstay.system.files import make_folder, sha256_of
from backstay.system.guarded_http import Egress, EgressLimits
from backstay.system.pip_settings import pip_certificates, pip_settings
from backstay.vocab.errors import UserError

LARGEST: Final = 64 * 1024 * 1024
"""Bytes that one answer may have."""
LARGEST_PAGE: Final = 16 * 1024 * 1024
"""Bytes that an answer that is kept in memory may have."""
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_FAILURES: Final = (httpx.HTTPError, httpx.InvalidURL)


class Web:
    """Downloads. `guarded`: addresses are untrusted, so only public ones are asked, and those of `own` hosts."""

    def __init__(self, *, guarded: bool = False, own: Sequence[str] = ()) -> None:
        self.guarded = guarded
        self._own = tuple(own)

    def beside(self, url: str) -> "Web":
        """Return the downloads for addresses that a file at `url` names: public ones, and the file's own host."""
        parts = urlsplit(url)
        own = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        return Web(guarded=True, own=(own,) if parts.hostname and not self.guarded else ())

    async def page(self, url: str, *, accept: str = "*/*", largest: int = LARGEST_PAGE) -> tuple[bytes, str, str]:
        """Return the content of an address, its type, and its final address."""
        found = bytearray()
        async with self._answer(url, accept) as answer:
            async for piece in answer.aiter_bytes():
                found += piece
                if len(found) > largest:
                    raise UserError(f"{_host(url)} sent more than {largest // 1024**2} MiB. It is refused.")
            return bytes(found), answer.headers.get("content-type", ""), str(answer.url)

    async def download(self, url: str, target: Path, *, sha256: str = "") -> None:
        """Download a file to `target`. Raise `UserError`, and keep nothing, when its SHA-256 is not the one that is given."""
        content, _, _ = await self.page(url, largest=LARGEST)
        found = hashlib.sha256(content).hexdigest()
        if sha256 and found != sha256:
            raise UserError(f"What came from {url!r} has the SHA-256 {found}, not {sha256}. It is refused.")
        await anyio.Path(target).write_bytes(content)

    @asynccontextmanager
    async def _answer(self, url: str, accept: str) -> AsyncIterator[httpx.Response]:
        try:
            async with (
                self._client() as client,
                client.stream("GET", url, headers={"accept": accept, "accept-encoding": "identity"}) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise UserError(f"{_host(url)} answered {answer.status_code} for {url!r}.")
                yield answer
        except _FAILURES as exc:
            raise UserError(f"{url!r} cannot be fetched: {str(exc) or type(exc).__name__}.") from exc

    def _client(self) -> httpx.AsyncClient:
        if self.guarded:
            limits = EgressLimits(body_s=300.0, body_bytes=LARGEST)
            return Egress(limits=limits, allow_private=self._own).client(follow_redirects=True)
        return httpx.AsyncClient(follow_redirects=True, timeout=_TIMEOUT, verify=pip_certificates(pip_settings().cert))


async def check_public(url: str) -> None:
    """Raise `UserError` when an untrusted repository is not at a public address."""
    parts = urlsplit(url) if "://" in url else urlsplit(f"ssh://{url.replace(':', '/', 1)}")
    if parts.scheme == "file" or not parts.hostname:
        return
    try:
        await Egress(allow_ports=(22, parts.port or 22)).admit(parts.hostname, parts.port or 443)
    except httpx.HTTPError as exc:
        raise UserError(f"{url!r} cannot be reached: {exc}") from exc


def _host(url: str) -> str:
    return repr(urlsplit(url).hostname or url)


_LEFT_BEHIND_S: Final = 86_400
"""A temporary folder this old was left by a process that died."""


class Fetched(Struct, frozen=True, kw_only=True):
    """A fetched source."""

    folder: Path
    commit: str = ""
    """Of a repository."""


class Reach(Struct, frozen=True, kw_only=True):
    """The reach of a source: what a person typed reaches everything, what an untrusted file names does not."""

    web: Web
    local: bool
    """Whether it may name repositories of this machine."""

    @classmethod
    def of_person(cls) -> "Reach":
        """Return the reach of what a person typed."""
        return cls(web=Web(), local=True)

    @classmethod
    def of_marketplace(cls, source: Source) -> "Reach":
        """Return the reach of what the file of a marketplace names that came from `source`."""
        if isinstance(source, FolderSource):
            return cls.of_person()
        web = Web().beside(source.url) if isinstance(source, UrlSource) else Web(guarded=True)
        return cls(web=web, local=False)


async def fetch(source: Source, room: Path, reach: Reach) -> Fetched:
    """Fetch a source into the empty folder `room`; a local folder stays where it is. Raise `UserError` when it cannot be had."""
    match source:
        case FolderSource(path=path):
            if not await anyio.Path(path).is_dir():
                raise UserError(f"The folder {path!r} is not there.")
            return Fetched(folder=Path(path))
        case GitSource():
            if not reach.local:
                await check_public(source.url)
            commit = await fetch_commit(source, room / "repository", local=reach.local)
            folder = room / "repository"
            return Fetched(
                folder=resolve_inside(folder, source.path, "the repository") if source.path else folder, commit=commit
            )
        case ArchiveSource():
            archive = await _archive(source, room, reach)
            await anyio.to_thread.run_sync(unpack, archive, room / "unpacked")
            return Fetched(folder=await anyio.to_thread.run_sync(single_folder, room / "unpacked"))
        case PythonSource() | NpmSource():
            command = "pip download --no-deps" if isinstance(source, PythonSource) else "npm pack"
            package = str(source).partition(":")[2]
            raise UserError(
                f"Nothing is fetched from package indexes. Download {package!r} yourself (`{command} {package}`), look at it, "
                "and install the file: `backstay plugins install ./FILE`."
            )
        case UrlSource():
            raise UserError(
                f"{source.url!r} is the file of a marketplace, not a plugin. Add it: backstay plugins marketplace add"
            )
        case _:
            assert_never(source)


@asynccontextmanager
async def room_in(folder: Path) -> AsyncIterator[Path]:
    """Make an empty folder for this user alone, below `folder`; it is removed in the end."""
    made = await anyio.to_thread.run_sync(_make_room, folder)
    try:
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove_tree, made)


def _make_room(folder: Path) -> Path:
    try:
        make_folder(folder)
        for old in folder.glob("room-*"):
            if old.lstat().st_mtime < time.time() - _LEFT_BEHIND_S:
                remove_tree(old)
        return Path(tempfile.mkdtemp(dir=folder, prefix="room-"))
    except OSError as exc:
        raise UserError(
            f"The folder {str(folder)!r} cannot be used: {exc}. BACKSTAY_DATA_DIR names another one."
        ) from exc


async def _archive(source: ArchiveSource, room: Path, reach: Reach) -> Path:
    if os.path.isabs(source.url):
        found = Path(source.url)
        if source.sha256 and await anyio.to_thread.run_sync(sha256_of, found) != source.sha256:
            raise UserError(f"{source.url!r} is not what was pinned: its SHA-256 is not {source.sha256}.")
        return found
    target = room / "archive"
    await reach.web.download(source.url, target, sha256=source.sha256)
    return target
