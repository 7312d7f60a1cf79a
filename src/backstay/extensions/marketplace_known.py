"""Which marketplaces a person knows: `known_marketplaces.json`, read without fetching anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from backstay.config.private_file import Book
from backstay.extensions.install_sources import FolderSource, GitSource, Source
from backstay.extensions.marketplace import Marketplace, read_marketplace
from backstay.extensions.plugin_names import check_name
from backstay.extensions.plugin_tree import remove_tree
from backstay.vocab.errors import UserError

DEFAULT: Final = "claude-plugins-official"
DEFAULT_SOURCE: Final = GitSource(url="https://github.com/anthropics/claude-plugins-official.git")
"""The marketplace that is known from the start. Nothing of it is fetched before somebody asks."""


class KnownMarketplace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A marketplace, and what is known of it."""

    source: Source
    commit: str = ""
    """Of a repository, as it was fetched."""
    added: int = 0
    updated: int = 0
    """When it was fetched, in microseconds since 1970; 0: never."""

    @property
    def fetched(self) -> bool:
        """Whether its list is here."""
        return self.updated > 0 or isinstance(self.source, FolderSource)


class _Book(msgspec.Struct, kw_only=True):
    version: int = 1
    default: str = DEFAULT
    marketplaces: dict[str, KnownMarketplace] = msgspec.field(
        default_factory=lambda: {DEFAULT: KnownMarketplace(source=DEFAULT_SOURCE)}
    )

    def __post_init__(self) -> None:
        for name in self.marketplaces:
            check_name(name, "marketplace")


class KnownBook:
    """The marketplaces of one person, in the data folder, as they were last fetched."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "plugins"
        path, action = self.folder / "known_marketplaces.json", "change which marketplaces are known"
        self._book = Book(path, _Book, "add your marketplaces", person=action)

    def known(self) -> dict[str, KnownMarketplace]:
        """Every marketplace, by its name. Raise `UserError` when the book cannot be believed."""
        return self._book.read().marketplaces

    @property
    def default(self) -> str:
        """The marketplace that is meant when none is named; empty when it was removed."""
        book = self._book.read()
        return book.default if book.default in book.marketplaces else ""

    def read(self, name: str) -> Marketplace:
        """The list of a marketplace, as it was fetched. Raise `UserError` when it is not known, or not fetched yet."""
        known = self.known().get(name)
        if known is None:
            raise UserError(
                f"There is no marketplace {name!r}. `backstay plugins marketplace list` shows what there is."
            )
        if not known.fetched:
            raise UserError(
                f"The marketplace {name!r} was not fetched yet. `backstay plugins marketplace update {name}` does it."
            )
        return read_marketplace(self.place(name, known), name=name, local=isinstance(known.source, FolderSource))

    def read_all(self) -> tuple[tuple[Marketplace, ...], tuple[str, ...]]:
        """The lists that are here, and what is wrong with any of them."""
        found: list[Marketplace] = []
        problems: list[str] = []
        for name, known in self.known().items():
            if not known.fetched:
                continue
            try:
                found.append(self.read(name))
            except UserError as exc:
                problems.append(f"The marketplace {name!r} is left out: {exc}")
                continue
            problems += found[-1].problems
        return tuple(found), tuple(problems)

    def remove(self, name: str) -> bool:
        """Forget a marketplace and what was fetched of it; say whether it was known. Its plugins are not loaded any more."""
        with self._book.changing() as book:
            known = book.marketplaces.pop(name, None)
        if known is not None and not isinstance(known.source, FolderSource):
            remove_tree(self.folder / "marketplaces" / check_name(name, "marketplace"))
        return known is not None

    def place(self, name: str, known: KnownMarketplace) -> Path:
        """Where the list of a marketplace is, or will be."""
        if isinstance(known.source, FolderSource):
            return Path(known.source.path)
        return self.folder / "marketplaces" / check_name(name, "marketplace")


def known_with(book: KnownBook, extra: Mapping[str, Source]) -> dict[str, KnownMarketplace]:
    """The marketplaces of the book, and those that settings name besides; of two with one name the book's counts."""
    return {**{name: KnownMarketplace(source=source) for name, source in extra.items()}, **book.known()}
