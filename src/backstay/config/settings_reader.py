"""Reads settings files by the table of keys: what is not in the table cannot be read, and is told with the nearest key that is."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Raw

from backstay.config.json_document import JsonReader, JsonText
from backstay.config.key_table import find_key, is_elsewhere, names_below

T = TypeVar("T")


class SettingsReader(JsonReader):
    """The settings of one file. `elsewhere` is a file of another program: only the keys that it shares with us are read."""

    def __init__(self, text: JsonText, *, elsewhere: bool = False) -> None:
        super().__init__(text)
        self.elsewhere = elsewhere

    def everything(self) -> dict[str, Raw]:
        """What the file says, of another program's file only what is read from such."""
        said = self.members(self.text.content, ())
        return {name: raw for name, raw in said.items() if is_shared((name,))} if self.elsewhere else said

    def convert(self, raw: bytes | Raw, kind: type[T], where: tuple[str, ...]) -> T:
        """`raw` as a `kind`. Raise `UserError` with the place when it is something else."""
        inside = any(find_key(where[:size]) for size in range(1, len(where) + 1))
        assert not where or inside or names_below(where), (
            f"{'.'.join(where)!r} is read and not in the table of settings"
        )
        return super().convert(raw, kind, where)

    def warn_of_unknown(self, said: Mapping[str, Raw], where: tuple[str, ...]) -> None:
        """Warn of every key under `where` that no version of the table has, and no other program knows."""
        others = {key: said[key] for key in said if not is_elsewhere((*where, key))}
        self.warn_of_others(others, names_below(where), where)


def is_shared(where: tuple[str, ...]) -> bool:
    """Whether what stands under `where` is read from other programs' files too."""
    key = find_key(where)
    if key is not None:
        return key.elsewhere != "no"
    return any(is_shared((*where, name)) for name in names_below(where))
