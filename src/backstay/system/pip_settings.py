"""The settings of pip on this machine: its package indexes, and the certificates that it trusts."""

import configparser
import functools
import os
import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from backstay.vocab.errors import UserError

PUBLIC: Final = "https://pypi.org/simple"


class PipSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of pip about indexes on this machine."""

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
def pip_certificates(cert: str) -> ssl.SSLContext:
    """Return the certificates in `cert`, else the usual ones. Raise `UserError` when they cannot be used."""
    if not cert:
        return httpx.create_ssl_context()
    place = Path(cert).expanduser()
    try:
        return ssl.create_default_context(
            cafile=None if place.is_dir() else place, capath=place if place.is_dir() else None
        )
    except OSError as exc:
        raise UserError(f"pip's certificates at {cert!r} cannot be used: {exc}.") from exc


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
    """Yield pip's configuration files, the weakest first."""
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
