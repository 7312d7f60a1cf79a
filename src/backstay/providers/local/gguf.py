"""Reads the one thing that is needed from a model's file: its chat template."""

import struct
from pathlib import Path
from typing import BinaryIO, Final

from backstay.vocab.errors import UserError

_TEMPLATE: Final = b"tokenizer.chat_template"
_WIDTHS: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value of each type that has a fixed length."""
_STRING: Final = 8
_ARRAY: Final = 9
_LONGEST: Final = 1 << 24


def read_template(path: Path) -> str:
    """The chat template of a GGUF file. Raise `UserError` when the file is none, or has no template."""
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
