"""Packages that hold a plugin: wheels of the Python index, tarballs of the npm registry. Checked by the index's hash, never run."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec import Struct

from backstay.plugins.ids import version_key
from backstay.plugins.install.http import Web
from backstay.plugins.install.sources import NpmSource, PythonSource, check_url, split_url
from backstay.plugins.manifest import PLACE
from backstay.providers.local.sources import PipSettings, pip_settings
from backstay.vocab.errors import UserError

NPM: Final = "https://registry.npmjs.org"
_JSON: Final = "application/vnd.pypi.simple.v1+json"
_ACCEPT: Final = f"{_JSON}, text/html;q=0.1"
_SHA256: Final = re.compile(r"sha256=([0-9a-f]{64})")
_MOST_FILES: Final = 20_000
_DEEPEST: Final = 4


class Package(Struct, frozen=True, kw_only=True):
    """A file of an index."""

    name: str
    url: str
    version: str
    sha256: str = ""
    integrity: str = ""
    """As npm writes it."""


async def find_wheel(source: PythonSource, web: Web, settings: PipSettings | None = None) -> Package:
    """The wheel that pip would take without looking at what it depends on. Raise `UserError` when there is none with a hash."""
    settings = settings or pip_settings()
    project = re.sub(r"[-_.]+", "-", source.package).lower()
    troubles: list[str] = []
    for index in settings.indexes:
        try:
            content, kind, where = await web.page(f"{index}/{project}/", accept=_ACCEPT)
        except UserError as exc:
            troubles.append(str(exc))
            continue
        found = [each for each in _listed(content, kind, where) if _fits(each, project, source.version)]
        if found:
            best = max(found, key=lambda each: (_rank(each.version), each.name.endswith("-none-any.whl")))
            if not best.sha256:
                raise UserError(
                    f"The index gives no SHA-256 for {best.name!r}, so nobody could tell what came. It is refused."
                )
            return best
        troubles.append(f"{urlsplit(index).hostname} has no wheel of {source}")
    said = " ".join(troubles) or "pip has no index here."
    raise UserError(f"{source} was not found. Only wheels are taken: nothing of a package is run. {said}")


async def find_tarball(source: NpmSource, web: Web, environment: Mapping[str, str] = os.environ) -> Package:
    """The tarball that the npm registry has for a package. Raise `UserError` when there is none with a strong hash."""
    registry = source.registry or npm_registry(environment)
    url = f"{registry}/{quote(source.package, safe='@')}/{quote(source.version or 'latest', safe='')}"
    content, _, where = await web.page(url, accept="application/json")
    try:
        found = msgspec.json.decode(content, type=_NpmVersion)
    except msgspec.DecodeError as exc:
        raise UserError(f"{url!r} did not answer as a registry does: {exc}.") from None
    strong = [each for each in found.dist.integrity.split() if each.startswith("sha512-")]
    if not strong:
        raise UserError(f"The registry gives no sha512 for {source}, so nobody could tell what came. It is refused.")
    tarball = _address(found.dist.tarball, where)
    return Package(name=f"{source.package}.tgz", url=tarball, version=found.version, integrity=strong[0])


def npm_registry(environment: Mapping[str, str] = os.environ) -> str:
    """The registry that npm would ask: its variable, its file in the home folder, else the public one."""
    said = environment.get("npm_config_registry") or environment.get("NPM_CONFIG_REGISTRY") or ""
    if not said:
        try:
            lines = Path(environment.get("HOME") or "~", ".npmrc").expanduser().read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        said = next((line.partition("=")[2].strip() for line in lines if re.match(r"registry\s*=", line)), "")
    return check_url(said.strip("\"'"), ("https", "http")).rstrip("/") if said else NPM


def plugin_in(folder: Path) -> Path:
    """The folder in an unpacked package that is the plugin. Raise `UserError` unless there is exactly one."""
    found = sorted({manifest.parent.parent for manifest in _manifests(folder, 0)})
    if len(found) != 1:
        raise UserError(f"The package holds {len(found) or 'no'} plugins; it must have one {PLACE}.")
    return found[0]


def _manifests(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / PLACE).is_file():
        yield folder / PLACE
        return
    if depth < _DEEPEST:
        for each in sorted(folder.iterdir()):
            if each.is_dir() and not each.is_symlink() and each.name != "node_modules":
                yield from _manifests(each, depth + 1)


class _Dist(msgspec.Struct):
    tarball: str
    integrity: str = ""


class _NpmVersion(msgspec.Struct):
    version: str
    dist: _Dist


class _IndexFile(msgspec.Struct):
    filename: str
    url: str
    hashes: dict[str, str] = {}
    yanked: bool | str = False


class _Listing(msgspec.Struct):
    files: list[_IndexFile]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag == "a" and said.get("href") and "data-yanked" not in said and len(self.found) < _MOST_FILES:
            self.found.append(said["href"] or "")


def _listed(content: bytes, kind: str, where: str) -> Iterator[Package]:
    """The wheels that an index lists, as JSON or as a page of links."""
    if kind.startswith(_JSON):
        try:
            listing = msgspec.json.decode(content, type=_Listing)
        except msgspec.DecodeError:
            return
        for file in listing.files[:_MOST_FILES]:
            if not file.yanked:
                yield from _wheel(file.filename, where, file.url, file.hashes.get("sha256", ""))
        return
    links = _Links()
    links.feed(content.decode("utf-8", "replace"))
    for link in links.found:
        path, _, fragment = link.partition("#")
        hashed = _SHA256.search(fragment)
        yield from _wheel(unquote(path.partition("?")[0]).rpartition("/")[2], where, path, hashed[1] if hashed else "")


def _wheel(name: str, where: str, url: str, sha256: str) -> Iterator[Package]:
    """The package of a file that is a wheel under an address that can be asked."""
    parts = name.removesuffix(".whl").split("-")
    if not name.endswith(".whl") or len(parts) not in (5, 6):
        return
    with suppress(UserError):
        yield Package(name=name, url=_address(url, where), version=parts[1], sha256=sha256)


def _address(url: str, where: str) -> str:
    return check_url(split_url(url, where)._replace(fragment="").geturl(), ("https", "http"))


def _fits(package: Package, project: str, version: str) -> bool:
    same = re.sub(r"[-_.]+", "-", package.name.partition("-")[0]).lower() == project
    return same and (package.version == version if version else version_key(package.version) is not None)


def _rank(version: str) -> tuple[object, ...]:
    """Final releases before others, then the newest."""
    key = version_key(version)
    return (key[2], *key) if key is not None else (False,)
