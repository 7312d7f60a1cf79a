"""What people allowed for longer than a session: kept in the data folder, out of the reach of any repository."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from backstay.config.private_file import Book, writable_name
from backstay.vocab.rules import Rule

EVERYWHERE: Final = "*"
"""The place of a grant that holds in every project."""


class GrantStore:
    """The rules that were granted by project, and everywhere."""

    def __init__(self, data: Path) -> None:
        action = "change what is allowed for longer than a session"
        self._book = Book(data / "grants.json", dict[str, tuple[str, ...]], "grant", person=action)

    def rules(self, project: str) -> tuple[Rule, ...]:
        """What is allowed in a project, wherever it was granted. Raise `UserError` when the book cannot be believed."""
        texts = [text for rules in self.here(project).values() for text in rules]
        return tuple(replace(Rule.parse("allow", text), source="grant", root=project) for text in dict.fromkeys(texts))

    def here(self, project: str) -> Mapping[str, tuple[str, ...]]:
        """The grants that hold in a project, by their place. Raise `UserError` when the book cannot be believed."""
        book = self._book.read()
        return {place: book[place] for place in (writable_name(project), EVERYWHERE) if place in book}

    def add(self, place: str, rules: Sequence[str]) -> None:
        """Remember rules for a project, or for `EVERYWHERE`. Raise `UserError` when that cannot be done."""
        with self._book.changing() as book:
            name = place if place == EVERYWHERE else writable_name(place)
            book[name] = tuple(dict.fromkeys((*book.get(name, ()), *rules)))

    def remove(self, rule: str, places: Sequence[str]) -> int:
        """Forget a rule that was granted for these places; say at how many that was."""
        with self._book.changing() as book:
            places = [place for place in map(writable_name, places) if rule in book.get(place, ())]
            for place in places:
                book[place] = tuple(each for each in book[place] if each != rule)
                if not book[place]:
                    del book[place]
        return len(places)
