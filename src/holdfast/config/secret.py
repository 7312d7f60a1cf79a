"""A key as settings hold it: in an environment variable, or in the file itself and then shown nowhere."""

import os
import re
from collections.abc import Mapping
from typing import Final

from holdfast.vocab.errors import UserError

_VARIABLE: Final = re.compile(r"\$ENV:([A-Za-z_][A-Za-z0-9_]*)")


class Secret:
    """A text that only `reveal` gives away. It is no structure, so nothing that writes structures can write it."""

    __slots__ = ("_name", "_text")

    def __init__(self, text: str, *, name: str) -> None:
        """Take `$ENV:NAME` or a plain text; `name` says whose it is. Raise `UserError` for what looks like neither."""
        if not text.strip():
            raise UserError("It is empty. Write $ENV:NAME with the environment variable that holds it.")
        if text.startswith("$") and not _VARIABLE.fullmatch(text):
            raise UserError("It looks like a variable and is none. Write $ENV:NAME.")
        self._text = text
        self._name = name

    @property
    def is_plain(self) -> bool:
        """Whether the text itself was given."""
        return not self._text.startswith("$")

    def reveal(self, environment: Mapping[str, str] = os.environ) -> str:
        """The text. Raise `UserError` when its variable is not set."""
        found = _VARIABLE.fullmatch(self._text)
        if found is None:
            return self._text
        value = environment.get(found[1], "").strip()
        if not value:
            raise UserError(f"{self._name} needs the environment variable {found[1]!r}, which is not set.")
        return value

    def __repr__(self) -> str:
        return "Secret(...)" if self.is_plain else f"Secret({self._text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))
