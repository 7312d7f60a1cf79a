"""Packages that hold a plugin: wheels of the Python index, tarballs of the npm registry. Checked by the index's hash, never run."""

import base64
import hashlib
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import anyio
import httpx
import msgspec
from msgspec import Struct

from backstay.plugins.ids import version_key
from backstay.plugins.install.sources import NpmSource, PythonSource, check_url, split_url
from backstay.plugins.plugin import PLACE
from backstay.providers.local.sources import PipSettings, pip_settings, trust
from backstay.sandbox.egress import Egress, EgressLimits
from backstay.vocab.errors import UserError

LARGEST: Final = 64 * 1024 * 1024
"""Bytes that one answer may have."""
LARGEST_PAGE: Final = 16 * 1024 * 1024
"""Bytes that an answer that is kept in memory may have."""
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_FAILURES: Final = (httpx.HTTPError, httpx.InvalidURL)


class Web:
    """The way out. `guarded`: addresses come from a stranger, so only public ones are asked, and those of `own` hosts."""

    def __init__(self, *, guarded: bool = False, own: Sequence[str] = ()) -> None:
        self.guarded = guarded
        self._own = tuple(own)

    def beside(self, url: str) -> "Web":
        """The way out for addresses that a file at `url` names: public ones, and the file's own host."""
        parts = urlsplit(url)
        own = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        return Web(guarded=True, own=(own,) if parts.hostname and not self.guarded else ())

    async def page(self, url: str, *, accept: str = "*/*", largest: int = LARGEST_PAGE) -> tuple[bytes, str, str]:
        """What an address has, its type, and where it was found in the end."""
        found = bytearray()
        async with self._answer(url, accept) as answer:
            async for piece in answer.aiter_bytes():
                found += piece
                if len(found) > largest:
                    raise UserError(f"{_host(url)} sent more than {largest // 1024**2} MiB. It is refused.")
            return bytes(found), answer.headers.get("content-type", ""), str(answer.url)

    async def download(self, url: str, target: Path, *, sha256: str = "", integrity: str = "") -> str:
        """Bring a file to `target` and return its SHA-256. Raise `UserError`, and keep nothing, when a hash that is given is another.

        `integrity` is written as npm does it: `sha512-` and base64.
        """
        content, _, _ = await self.page(url, largest=LARGEST)
        found = hashlib.sha256(content).hexdigest()
        if sha256 and found != sha256:
            raise UserError(f"What came from {url!r} has the SHA-256 {found}, not {sha256}. It is refused.")
        if integrity and f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}" != integrity:
            raise UserError(f"What came from {url!r} is not what its registry promised (sha512). It is refused.")
        await anyio.Path(target).write_bytes(content)
        return found

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
        return httpx.AsyncClient(follow_redirects=True, timeout=_TIMEOUT, verify=trust(pip_settings().cert))


async def check_public(url: str) -> None:
    """Raise `UserError` when a repository that a stranger names is at an address that is not public."""
    parts = urlsplit(url) if "://" in url else urlsplit(f"ssh://{url.replace(':', '/', 1)}")
    if parts.scheme == "file" or not parts.hostname:
        return
    try:
        await Egress(allow_ports=(22, parts.port or 22)).admit(parts.hostname, parts.port or 443)
    except httpx.HTTPError as exc:
        raise UserError(f"{url!r} cannot be reached: {exc}") from exc


def _host(url: str) -> str:
    return repr(urlsplit(url).hostname or url)


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
