"""Brings a source into a folder of ours, whatever kind of source it is."""

import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, assert_never

import anyio
import anyio.to_thread
from msgspec import Struct

from backstay.plugins.install.archive import single_folder, unpack
from backstay.plugins.install.git import fetch_commit
from backstay.plugins.install.package_index import Package, Web, check_public, find_tarball, find_wheel, plugin_in
from backstay.plugins.install.sources import (
    ArchiveSource,
    FolderSource,
    GitSource,
    NpmSource,
    PythonSource,
    Source,
    UrlSource,
)
from backstay.plugins.plugin import contained
from backstay.plugins.tree import remove_tree
from backstay.providers.local.download import sha256_of
from backstay.system.files import make_folder
from backstay.vocab.errors import UserError

_LEFT_BEHIND_S: Final = 86_400
"""A room this old was left behind by a process that died."""


class Fetched(Struct, frozen=True, kw_only=True):
    """What a source brought."""

    folder: Path
    commit: str = ""
    """Of a repository."""
    version: str = ""
    """Of a package, as its index says."""


class Reach(Struct, frozen=True, kw_only=True):
    """How far a source may lead: what a person typed reaches everything, what a stranger's file names does not."""

    web: Web
    local: bool
    """Whether repositories of this machine may be meant."""

    @classmethod
    def of_person(cls) -> "Reach":
        """For what somebody typed."""
        return cls(web=Web(), local=True)

    @classmethod
    def of_marketplace(cls, source: Source) -> "Reach":
        """For what the file of a marketplace names that came from `source`."""
        if isinstance(source, FolderSource):
            return cls.of_person()
        web = Web().beside(source.url) if isinstance(source, UrlSource) else Web(guarded=True)
        return cls(web=web, local=False)


async def fetch(source: Source, room: Path, reach: Reach) -> Fetched:
    """Bring a source into the empty folder `room`; one of this machine stays where it is. Raise `UserError` when it cannot be had."""
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
                folder=contained(folder, source.path, "the repository") if source.path else folder, commit=commit
            )
        case ArchiveSource():
            archive = await _archive(source, room, reach)
            await anyio.to_thread.run_sync(unpack, archive, room / "unpacked")
            return Fetched(folder=await anyio.to_thread.run_sync(single_folder, room / "unpacked"))
        case PythonSource():
            wheel = await find_wheel(source, Web())
            return await _unpacked(wheel, room, Web())
        case NpmSource():
            web = reach.web if source.registry else Web()  # the registry of this machine is as good as typed
            return await _unpacked(await find_tarball(source, web), room, web)
        case UrlSource():
            raise UserError(
                f"{source.url!r} is the file of a marketplace, not a plugin. Add it: backstay plugins marketplace add"
            )
        case _:
            assert_never(source)


@asynccontextmanager
async def room_in(folder: Path) -> AsyncIterator[Path]:
    """An empty folder for this user alone, below `folder`; removed in the end with what is left in it."""
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


async def _unpacked(package: Package, room: Path, web: Web) -> Fetched:
    target = room / "package"
    await web.download(package.url, target, sha256=package.sha256, integrity=package.integrity)
    await anyio.to_thread.run_sync(unpack, target, room / "unpacked")
    return Fetched(folder=await anyio.to_thread.run_sync(plugin_in, room / "unpacked"), version=package.version)
