"""Reads a settings file key by key: what is wrong is an error with its place, what nobody knows is a warning with its place."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw

from holdfast.config.json_text import JsonText

T = TypeVar("T")


class JsonReader:
    """The values of one file, each checked when it is asked for."""

    def __init__(self, text: JsonText) -> None:
        self.text = text
        self.warnings: list[str] = []

    def entries(self, said: Mapping[str, Raw], key: str) -> Iterator[tuple[str, Raw]]:
        """The entries of the object under `key`; none when it is not there."""
        yield from self.members(said[key], (key,)).items() if key in said else ()

    def members(self, raw: bytes | Raw, where: tuple[str, ...]) -> dict[str, Raw]:
        """An object, with its values still unread."""
        return self.convert(raw, dict[str, Raw], where)

    def value_or(self, said: Mapping[str, Raw], key: str, kind: object, other: T) -> T:
        """What stands under `key` as a `kind`, or `other` when nothing does."""
        if key not in said:
            return other
        found: T = self.convert(said[key], kind, (key,))  # type: ignore[arg-type]  # mypy has no type for a form of a type
        return found

    def convert(self, raw: bytes | Raw, kind: type[T], where: tuple[str, ...]) -> T:
        """`raw` as a `kind`. Raise `UserError` with the place when it is something else."""
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError as exc:
            words, _, inner = str(exc).partition(" - at `$")
            keys = tuple(key for key in inner.strip("`").replace("[", ".").replace("]", "").split(".") if key)
            raise self.text.wrong((*where, *keys), words + ".") from None

    def warn_of_others(self, said: Mapping[str, Raw], known: tuple[str, ...], where: tuple[str, ...]) -> None:
        """Warn of every key that is not `known`."""
        for key in said:
            if key not in known:
                self.warn((*where, key), "is not a setting that this version knows; it is left out")

    def warn(self, where: tuple[str, ...], words: str, value: str | None = None) -> None:
        """Warn of what stands under `where`."""
        self.warnings.append(f"{self.text.place(where, value)}: {'.'.join(where)!r} {words}.")
