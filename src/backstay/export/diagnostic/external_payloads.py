"""Write and read the external payloads of a diagnostic log: a field too large for its line is a file, with a reference in its place.

A file is named by the hash of its content. A reference is exactly
`{"kind": "external-payload", "encoding": "json", "sha256", "byteLength", "relativePath"}`, the path being relative to the folder that the
log is in. A payload may hold references itself. In a list, a reference to a list stands for the items of
that list: so a long history is written once, in parts that later lines share.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from backstay.system.files import read_whole
from backstay.vocab.errors import UserError

INLINE: Final = 32 * 1024
"""A field of more bytes than this becomes a payload."""
PART: Final = 8
"""Items of a list that make a part, and parts that make a larger part."""
PARTS: Final = 1024
"""Parts that are remembered, besides those of the newest list."""
SMALL: Final = 256
"""Bytes of an item of a long list that stays in the line."""

Problem = Literal[
    "INVALID_LIMIT",
    "INVALID_REFERENCE",
    "UNRESOLVED_REFERENCE",
    "OUTSIDE_ROOT",
    "PAYLOAD_NOT_FOUND",
    "PAYLOAD_UNREADABLE",
    "BYTE_LENGTH_MISMATCH",
    "SHA256_MISMATCH",
    "INVALID_JSON",
    "MAX_DEPTH_EXCEEDED",
    "MAX_TOTAL_BYTES_EXCEEDED",
    "CIRCULAR_REFERENCE",
]


class PayloadError(UserError):
    """A reference that does not lead to its payload; `problem` says why."""

    code = "Export.Payload"

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A reference to a payload."""

    kind: Literal["external-payload"] = "external-payload"
    encoding: Literal["json"] = "json"
    sha256: str
    byte_length: int
    relative_path: str


class Payloads:
    """Write payloads beside a log, each once."""

    def __init__(self, root: Path, session: str) -> None:
        self._root = root
        self._folder = f"{session}.payloads"
        self._known: set[str] = set()
        self._parts: dict[tuple[bytes, ...], bytes] = {}
        self._older: dict[tuple[bytes, ...], bytes] = {}
        """Parts that were not used since `_parts` was started: they are dropped when it is full."""

    def keep(self, content: bytes) -> bytes:
        """Write `content` (JSON) to a file; return its reference as JSON."""
        sha = hashlib.sha256(content).hexdigest()
        path = f"{self._folder}/{sha}.json"
        if sha not in self._known:
            self._write(self._root / path, content)
            self._known.add(sha)
        reference = Reference(sha256=sha, byte_length=len(content), relative_path=path)
        return msgspec.json.encode(msgspec.to_builtins(reference))

    def field(self, content: bytes, limit: int = INLINE) -> bytes:
        """Return `content`, or its reference when it is too large."""
        return content if len(content) <= limit else self.keep(content)

    def items(self, items: Sequence[bytes]) -> bytes:
        """Return a list: in full when it is small, else as references to its parts, which longer lists of the same beginning share."""
        if sum(map(len, items)) + len(items) <= INLINE:
            return join(items)
        if len(self._parts) > PARTS + len(items):
            self._older, self._parts = self._parts, {}
        level = list(items)
        tail: list[bytes] = []
        while len(level) >= PART:
            full = len(level) - len(level) % PART
            tail = [*level[full:], *tail]
            level = [self._part(tuple(level[at : at + PART])) for at in range(0, full, PART)]
        return join([self.field(item, SMALL) for item in (*level, *tail)])

    def _part(self, items: tuple[bytes, ...]) -> bytes:
        if items not in self._parts:
            self._parts[items] = self._older.pop(items, b"") or self.keep(join(items))
        return self._parts[items]

    def _write(self, path: Path, content: bytes) -> None:
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
        except FileExistsError:
            if not path.is_file() or path.read_bytes() != content:
                raise UserError(
                    f"{str(path)!r} is there and holds something else. Remove it and export again."
                ) from None
        except OSError as exc:
            raise UserError(f"Cannot write {str(path)!r}: {exc.strerror or exc}.") from exc


class Resolver:
    """Read payloads back, within limits. Raise `PayloadError`; without a root every reference is unresolved."""

    def __init__(self, root: Path | None, *, max_depth: int = 16, max_total_bytes: int = 1 << 30) -> None:
        if max_depth < 1 or max_total_bytes < 1:
            raise PayloadError("INVALID_LIMIT", f"A limit must be 1 or more, not {min(max_depth, max_total_bytes)!r}.")
        self._root = root
        self._max_depth = max_depth
        self._left = max_total_bytes
        self._sound: set[Reference] = set()

    def resolve(self, value: object) -> object:
        """Return `value` with every reference in it, at any depth, replaced by its payload."""
        return self._resolve(value, ())

    def verify(self, value: object) -> None:
        """Raise when a reference in `value`, at any depth, cannot be resolved. A payload is read only once."""
        self._verify(value, ())

    def _verify(self, value: object, within: tuple[str, ...]) -> None:
        if isinstance(value, dict):
            if is_reference(value):
                reference = reference_of(value)
                if reference not in self._sound:
                    self._verify(self._content(reference, within), (*within, reference.relative_path))
                    self._sound.add(reference)
                return
            value = list(value.values())
        if isinstance(value, list):
            for inner in value:
                self._verify(inner, within)

    def _resolve(self, value: object, within: tuple[str, ...]) -> object:
        match value:
            case {"kind": "external-payload"}:
                return self._payload(value, within)
            case dict():
                return {key: self._resolve(inner, within) for key, inner in value.items()}
            case list():
                resolved: list[object] = []
                for item in value:
                    found = self._resolve(item, within)
                    if isinstance(found, list) and is_reference(item):
                        resolved += found
                    else:
                        resolved.append(found)
                return resolved
            case _:
                return value

    def _payload(self, value: object, within: tuple[str, ...]) -> object:
        reference = reference_of(value)
        return self._resolve(self._content(reference, within), (*within, reference.relative_path))

    def _content(self, reference: Reference, within: tuple[str, ...]) -> object:
        if reference.relative_path in within:
            raise PayloadError("CIRCULAR_REFERENCE", f"The payload {reference.relative_path!r} holds itself.")
        if len(within) >= self._max_depth:
            raise PayloadError("MAX_DEPTH_EXCEEDED", f"Payloads are nested more than {self._max_depth} deep.")
        content = self._read(reference)
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise PayloadError("INVALID_JSON", f"The payload {reference.relative_path!r} is not JSON: {exc}.") from exc

    def _read(self, reference: Reference) -> bytes:
        name = reference.relative_path
        path = self._path(name)
        self._left -= reference.byte_length
        if self._left < 0:
            raise PayloadError("MAX_TOTAL_BYTES_EXCEEDED", "The payloads hold more bytes than the limit allows.")
        try:
            if path.stat().st_size != reference.byte_length:
                raise PayloadError(
                    "BYTE_LENGTH_MISMATCH", f"The payload {name!r} is not {reference.byte_length} bytes."
                )
            content = read_whole(path)
        except FileNotFoundError:
            raise PayloadError("PAYLOAD_NOT_FOUND", f"The payload {name!r} is not there.") from None
        except OSError as exc:
            raise PayloadError("PAYLOAD_UNREADABLE", f"The payload {name!r} cannot be read: {exc}.") from exc
        if hashlib.sha256(content).hexdigest() != reference.sha256:
            raise PayloadError("SHA256_MISMATCH", f"The payload {name!r} is not what was written.")
        return content

    def _path(self, name: str) -> Path:
        if self._root is None:
            raise PayloadError("UNRESOLVED_REFERENCE", f"There is no folder to look for the payload {name!r} in.")
        root = self._root.resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root) or path == root:
            raise PayloadError("OUTSIDE_ROOT", f"The payload {name!r} lies outside of {str(root)!r}.")
        return path


def is_reference(value: object) -> bool:
    """Return whether `value` claims to be a reference."""
    return isinstance(value, dict) and value.get("kind") == "external-payload"


def reference_of(value: object) -> Reference:
    """Read a reference. Raise `PayloadError` with `INVALID_REFERENCE` for a malformed one."""
    try:
        reference = msgspec.convert(value, Reference)
    except msgspec.ValidationError as exc:
        raise PayloadError("INVALID_REFERENCE", f"Not a reference to a payload: {exc}.") from exc
    if not _SHA256.fullmatch(reference.sha256) or reference.byte_length < 0 or not reference.relative_path:
        raise PayloadError("INVALID_REFERENCE", f"Not a reference to a payload: {reference!r}.")
    return reference


def join(items: Sequence[bytes]) -> bytes:
    """Join JSON values to a JSON list."""
    return b"[" + b",".join(items) + b"]"


_SHA256: Final = re.compile("[0-9a-f]{64}")
