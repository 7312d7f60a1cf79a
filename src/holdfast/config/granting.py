"""What people allowed for longer than a session: kept in the data folder, out of the reach of any repository."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.config.person import require_person
from holdfast.config.private_file import alone, read_private, writable_name, write_private
from holdfast.vocab.errors import UserError
from holdfast.vocab.rules import Rule

EVERYWHERE: Final = "*"
"""The place of a grant that holds in every project."""


class GrantBook:
    """The rules that were granted by project, and everywhere."""

    def __init__(self, data: Path) -> None:
        self._path = data / "grants.json"

    def rules(self, project: str) -> tuple[Rule, ...]:
        """What is allowed in a project, wherever it was granted. Raise `UserError` when the book cannot be believed."""
        texts = [text for rules in self.here(project).values() for text in rules]
        return tuple(replace(Rule.parse("allow", text), source="grant", root=project) for text in dict.fromkeys(texts))

    def here(self, project: str) -> Mapping[str, tuple[str, ...]]:
        """The grants that hold in a project, by their place. Raise `UserError` when the book cannot be believed."""
        book = self._read()
        return {place: book[place] for place in (writable_name(project), EVERYWHERE) if place in book}

    def add(self, place: str, rules: Sequence[str]) -> None:
        """Remember rules for a project, or for `EVERYWHERE`. Raise `UserError` when that cannot be done."""
        with self._changing() as book:
            name = place if place == EVERYWHERE else writable_name(place)
            book[name] = tuple(dict.fromkeys((*book.get(name, ()), *rules)))

    def remove(self, rule: str, places: Sequence[str]) -> int:
        """Forget a rule that was granted for these places; say at how many that was."""
        with self._changing() as book:
            places = [place for place in map(writable_name, places) if rule in book.get(place, ())]
            for place in places:
                book[place] = tuple(each for each in book[place] if each != rule)
        return len(places)

    def _read(self) -> dict[str, tuple[str, ...]]:
        content = read_private(self._path)
        try:
            return {} if content is None else msgspec.json.decode(content, type=dict[str, tuple[str, ...]])
        except msgspec.DecodeError as exc:
            raise UserError(f"{str(self._path)!r} is damaged ({exc}). Remove it, and grant again.") from exc

    @contextmanager
    def _changing(self) -> Iterator[dict[str, tuple[str, ...]]]:
        require_person("change what is allowed for longer than a session")
        try:
            with alone(self._path):
                book = self._read()
                yield book
                write_private(self._path, msgspec.json.encode({place: rules for place, rules in book.items() if rules}))
        except OSError as exc:
            raise UserError(f"{str(self._path)!r} cannot be written: {exc.strerror}.") from exc
