"""The package index: which one pip would ask, and where it keeps a wheel. Wheels are looked for, never installed."""

import configparser
import functools
import os
import ssl
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

import httpx
import msgspec

from backstay.providers.local.download import Unreachable, host_of

PUBLIC: Final = "https://pypi.org/simple"
_JSON: Final = "application/vnd.pypi.simple.v1+json"
_ACCEPT: Final = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class PipSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What pip was told about indexes on this machine."""

    indexes: tuple[str, ...] = (PUBLIC,)
    """Addresses over HTTP, in the order in which they are asked."""
    cert: str = ""
    """A file or folder of certificates to trust instead of the usual ones."""


def pip_settings(environ: Mapping[str, str] | None = None) -> PipSettings:
    """Read pip's variables and configuration files, as pip does: a variable beats a file, a nearer file a farther one."""
    environ = os.environ if environ is None else environ
    said = _from_files(environ) | _from_variables(environ)
    if said.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        return PipSettings(indexes=(), cert=said.get("cert", ""))
    listed = (said.get("index-url") or PUBLIC, *said.get("extra-index-url", "").split())
    return PipSettings(
        indexes=tuple(url.rstrip("/") for url in listed if urlsplit(url).scheme in ("http", "https")),
        cert=said.get("cert", ""),
    )


@functools.cache
def trust(cert: str) -> ssl.SSLContext:
    """The certificates to trust."""
    if not cert:
        return httpx.create_ssl_context()
    place = Path(cert).expanduser()
    try:
        return ssl.create_default_context(
            cafile=None if place.is_dir() else place, capath=place if place.is_dir() else None
        )
    except OSError as exc:
        raise Unreachable(f"pip's certificates at {cert!r} cannot be used: {exc}.") from exc


def find_wheel(client: httpx.Client, indexes: tuple[str, ...], project: str, wheel: str) -> str:
    """The address of a wheel on the first index that has it. Raise `Unreachable` when none does."""
    troubles: list[str] = []
    for index in indexes:
        try:
            answer = client.get(f"{index}/{project}/", headers={"accept": _ACCEPT})
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            troubles.append(f"{host_of(index)} cannot be reached ({exc})")
            continue
        if answer.status_code != httpx.codes.OK:
            troubles.append(f"{host_of(index)} answered {answer.status_code} for {project!r}")
            continue
        for name, url in _files(answer):
            if name == wheel:
                return urljoin(str(answer.url), url)
        troubles.append(f"{host_of(index)} has no {wheel!r}")
    raise Unreachable(f"The part {wheel!r} was not found: {'; '.join(troubles) or 'pip has no index here'}.")


class _Listing(msgspec.Struct):
    class File(msgspec.Struct):
        filename: str
        url: str

    files: list[File]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.extend(value for name, value in attrs if tag == "a" and name == "href" and value)


def _files(answer: httpx.Response) -> Iterator[tuple[str, str]]:
    """The files that an index lists, as JSON or as a page of links."""
    if answer.headers.get("content-type", "").startswith(_JSON):
        try:
            listing = msgspec.json.decode(answer.content, type=_Listing)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return
        yield from ((file.filename, file.url) for file in listing.files)
        return
    links = _Links()
    links.feed(answer.text)
    for url in links.found:
        yield unquote(urlsplit(url).path).rpartition("/")[2], url


def _from_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("PIP_") and value
    }


def _from_files(environ: Mapping[str, str]) -> dict[str, str]:
    said: dict[str, str] = {}
    for path in _config_files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (OSError, UnicodeDecodeError, configparser.Error):
            continue  # pip will say what is wrong with its file; here the next one counts
        for section in ("global", "install"):
            if parser.has_section(section):
                said.update({name.replace("_", "-"): value for name, value in parser.items(section) if value})
    return said


def _config_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """pip's files, the weakest first."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    home = Path(environ.get("HOME") or "~").expanduser()
    for folder in reversed(environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep)):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    yield home / ".pip" / "pip.conf"
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)
