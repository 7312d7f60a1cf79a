"""Marketplaces: lists of plugins in `.claude-plugin/marketplace.json`, read and searched."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Raw, Struct, field

from backstay.config.json_document import JsonReader
from backstay.plugins.ids import check_name
from backstay.plugins.install.sources import (
    EntrySource,
    FolderSource,
    Source,
    entry_source,
)
from backstay.plugins.plugin import COMPONENTS, OURS, author_of, is_inside, read_object, resolve_inside
from backstay.vocab.errors import UserError

PLACE: Final = ".claude-plugin/marketplace.json"
MOST_ENTRIES: Final = 10_000


class MarketplaceEntry(Struct, frozen=True, kw_only=True):
    """One plugin of a marketplace."""

    name: str
    source: Source
    marketplace: str = ""
    version: str = ""
    description: str = ""
    author: str = ""
    keywords: tuple[str, ...] = ()
    """Its keywords and tags."""
    category: str = ""
    parts: Mapping[str, object] = field(default_factory=dict)
    """Parts of the plugin as the marketplace describes them; they fill gaps of its manifest."""


class Marketplace(Struct, frozen=True, kw_only=True):
    """A marketplace's file, read. An error in one entry hides no other."""

    name: str
    owner: str
    folder: Path
    description: str = ""
    version: str = ""
    entries: tuple[MarketplaceEntry, ...] = ()
    problems: tuple[str, ...] = ()

    def entry(self, name: str) -> MarketplaceEntry:
        """Return the plugin of that name. Raise `UserError` when there is none."""
        for each in self.entries:
            if each.name == name:
                return each
        raise UserError(f"The marketplace {self.name!r} has no plugin {name!r}. See `backstay plugins search`.")


def read_marketplace(folder: Path, *, name: str = "", local: bool = True) -> Marketplace:
    """Read the marketplace in `folder`; `name` is what it is known as here. Raise `UserError` when its file cannot be read.

    `local`: it is a folder of this machine that the person named, so its plugins may be repositories of this machine.
    """
    if not is_inside(folder, folder / PLACE):
        raise UserError(f"{PLACE} in {str(folder)!r} leads out of it by a link and is refused.")
    reader = read_object(folder / PLACE)
    members = reader.members(reader.text.content, ())
    if "name" not in members or "plugins" not in members:
        raise UserError(f"{reader.text.path}:1: {'plugins' if 'name' in members else 'name'}: It is required.")
    own = check_name(reader.convert(members["name"], str, ("name",)), "marketplace")
    problems: list[str] = []
    entries = tuple(_Entries(reader, folder, name or own, _root(reader, members), local, problems))
    return Marketplace(
        name=name or own,
        owner=author_of(reader, members, "owner"),
        folder=folder,
        description=reader.value_or(members, "description", str, "")
        or _metadata(reader, members).get("description", ""),
        version=reader.value_or(members, "version", str, "") or _metadata(reader, members).get("version", ""),
        entries=entries,
        problems=tuple(problems),
    )


def search(
    marketplaces: Sequence[Marketplace], words: str = "", *, keyword: str = "", category: str = ""
) -> tuple[MarketplaceEntry, ...]:
    """Return the plugins that fit: all of `words` stand in name, description or keywords; `keyword` and `category` match whole.

    Those whose name begins with the words come first.
    """
    wanted = words.casefold().split()
    found = [
        each
        for marketplace in marketplaces
        for each in marketplace.entries
        if _fits(each, wanted, keyword.casefold(), category.casefold())
    ]
    return tuple(sorted(found, key=lambda each: (_rank(each, wanted), each.name, each.marketplace)))


def _fits(entry: MarketplaceEntry, words: Sequence[str], keyword: str, category: str) -> bool:
    text = " ".join((entry.name, entry.description, *entry.keywords, entry.category)).casefold()
    return (
        all(word in text for word in words)
        and (not keyword or keyword in (each.casefold() for each in entry.keywords))
        and (not category or category == entry.category.casefold())
    )


def _rank(entry: MarketplaceEntry, words: Sequence[str]) -> int:
    name = entry.name.casefold()
    return 0 if words and name == words[0] else 1 if words and name.startswith(words[0]) else 2


class _Entries:
    """Reads the entries of one file."""

    def __init__(
        self, reader: JsonReader, folder: Path, marketplace: str, root: str, local: bool, problems: list[str]
    ) -> None:
        self._reader = reader
        self._folder = folder
        self._marketplace = marketplace
        self._root = root
        self._local = local
        self._problems = problems

    def __iter__(self) -> Iterator[MarketplaceEntry]:
        members = self._reader.members(self._reader.text.content, ())
        raws = self._reader.convert(members["plugins"], list[Raw], ("plugins",))
        if len(raws) > MOST_ENTRIES:
            self._problems.append(f"{self._reader.text.path}: Only the first {MOST_ENTRIES:,} plugins are read.")
        seen: set[str] = set()
        for number, raw in enumerate(raws[:MOST_ENTRIES]):
            where = ("plugins", str(number))
            try:
                entry = self._entry(raw, where)
            except UserError as exc:
                self._problem(number, raw, str(exc))
                continue
            if entry.name in seen:
                self._problem(number, raw, f"{entry.name!r} stands twice; the first one counts.")
                continue
            seen.add(entry.name)
            yield entry

    def _entry(self, raw: Raw, where: tuple[str, ...]) -> MarketplaceEntry:
        reader = self._reader
        members = reader.members(raw, where)
        if "name" not in members or "source" not in members:
            raise UserError(f"It has no {'source' if 'name' in members else 'name'}.")
        keywords: tuple[str, ...] = reader.value_or(members, "keywords", tuple[str, ...], ())
        tags: tuple[str, ...] = reader.value_or(members, "tags", tuple[str, ...], ())
        return MarketplaceEntry(
            name=check_name(reader.convert(members["name"], str, (*where, "name")), "plugin"),
            source=self._source(members["source"], where),
            marketplace=self._marketplace,
            version=reader.value_or(members, "version", str, ""),
            description=reader.value_or(members, "description", str, ""),
            author=author_of(reader, members),
            keywords=tuple(dict.fromkeys((*keywords, *tags))),
            category=reader.value_or(members, "category", str, ""),
            parts={key: reader.convert(members[key], object, where) for key in (*COMPONENTS, *OURS) if key in members},
        )

    def _source(self, raw: Raw, where: tuple[str, ...]) -> Source:
        members: object = self._reader.convert(raw, object, (*where, "source"))
        if not isinstance(members, str):
            return entry_source(self._reader.convert(raw, EntrySource, (*where, "source")), local=self._local)
        written = members if members.startswith(".") or not self._root else f"{self._root.rstrip('/')}/{members}"
        return FolderSource(path=str(resolve_inside(self._folder, written, "the marketplace")))

    def _problem(self, number: int, raw: Raw, words: str) -> None:
        """Add a problem of one entry, with the line that it begins at."""
        text = self._reader.text
        line = text.content[: max(0, text.content.find(bytes(raw)))].count(b"\n") + 1
        known = words.startswith(str(text.path))
        self._problems.append(words if known else f"{text.path}:{line}: plugins[{number}]: {words}")


def _metadata(reader: JsonReader, members: Mapping[str, Raw]) -> dict[str, str]:
    found: dict[str, object] = reader.value_or(members, "metadata", dict[str, object], {})
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _root(reader: JsonReader, members: Mapping[str, Raw]) -> str:
    """Return the folder that plain names of plugins are below."""
    return _metadata(reader, members).get("pluginRoot", "")
