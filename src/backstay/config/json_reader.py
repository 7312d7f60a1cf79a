"""Reads a settings file key by key: what is wrong is an error with its place, what nobody knows is a warning with its place."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from backstay.config.json_text import JsonText
from backstay.config.keys import nearly

T = TypeVar("T")
MOST_WARNINGS: Final = 20
"""Unknown keys of one object that are told one by one."""
MOST_TOLD: Final = 100
"""Warnings about one file."""


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
        """Warn of the keys that are not `known`, and say which ones were likely meant."""
        others = [] if "*" in known or self._is_full() else [key for key in said if key not in known]
        for key in others[:MOST_WARNINGS]:
            near = nearly(key, known)
            meant = f" (did you mean {near!r}?)" if near else ""
            self.warn((*where, key), f"is not a setting that this version knows{meant}; it is left out")
        if len(others) > MOST_WARNINGS:
            more = len(others) - MOST_WARNINGS
            self.warn((*where, others[MOST_WARNINGS]), f"and {more - 1} more are no settings that this version knows")

    def warn(self, where: tuple[str, ...], words: str, *, at: int | None = None) -> None:
        """Warn of what stands under `where`, or of one element of the list there."""
        if self._is_full():
            return
        place = self.text.place(where if at is None else (*where, str(at)))
        self.warnings.append(f"{place}: {_short('.'.join(where))!r} {words}{'' if words.endswith('?') else '.'}")
        if self._is_full():
            self.warnings.append(
                f"{self.text.path}: There is more to be said about this file than {MOST_TOLD} warnings."
            )

    def _is_full(self) -> bool:
        return len(self.warnings) >= MOST_TOLD


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."


_LONGEST: Final = 200
