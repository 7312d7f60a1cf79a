"""Marketplaces: lists of plugins in `.claude-plugin/marketplace.json`, read, searched, fetched and kept."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread
import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from backstay.config.json_document import JsonReader
from backstay.config.private_file import Book
from backstay.plugins.ids import DIRECT, check_name
from backstay.plugins.install.fetch import Reach, fetch, room_in
from backstay.plugins.install.sources import (
    EntrySource,
    FolderSource,
    GitSource,
    NpmSource,
    PythonSource,
    Source,
    UrlSource,
    entry_source,
)
from backstay.plugins.plugin import COMPONENTS, OURS, author_of, is_inside, read_object, resolve_inside
from backstay.plugins.tree import TreeLimits, copy_tree, remove_tree
from backstay.system.files import make_folder
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


DEFAULT: Final = "claude-plugins-official"
DEFAULT_SOURCE: Final = GitSource(url="https://github.com/anthropics/claude-plugins-official.git")
"""The marketplace that is known from the start. It is not fetched before it is asked for."""


LIMITS: Final = TreeLimits(files=50_000, total=1024**3)
"""Limits of a marketplace, which may hold all of its plugins."""


class KnownMarketplace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A known marketplace."""

    source: Source
    commit: str = ""
    """The commit of a repository, as it was fetched."""
    added: int = 0
    updated: int = 0
    """The time of the last fetch, in microseconds since 1970; 0: never."""

    @property
    def fetched(self) -> bool:
        """Whether its list is here."""
        return self.updated > 0 or isinstance(self.source, FolderSource)


class _MarketplacesFile(msgspec.Struct, kw_only=True):
    version: int = 1
    default: str = DEFAULT
    marketplaces: dict[str, KnownMarketplace] = msgspec.field(
        default_factory=lambda: {DEFAULT: KnownMarketplace(source=DEFAULT_SOURCE)}
    )

    def __post_init__(self) -> None:
        for name in self.marketplaces:
            check_name(name, "marketplace")


class KnownMarketplaces:
    """The marketplaces of one person, in the data folder, as they were last fetched."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "plugins"
        path, action = self.folder / "known_marketplaces.json", "change which marketplaces are known"
        self._book = Book(path, _MarketplacesFile, "add your marketplaces", person=action)

    def read_known(self) -> dict[str, KnownMarketplace]:
        """Return every marketplace, by name. Raise `UserError` when the file cannot be trusted."""
        return self._book.read().marketplaces

    @property
    def default(self) -> str:
        """The default marketplace; empty when it was removed."""
        book = self._book.read()
        return book.default if book.default in book.marketplaces else ""

    def read(self, name: str) -> Marketplace:
        """Return the list of a marketplace, as it was fetched. Raise `UserError` when it is unknown, or not fetched yet."""
        known = self.read_known().get(name)
        if known is None:
            raise UserError(
                f"There is no marketplace {name!r}. `backstay plugins marketplace list` shows what there is."
            )
        if not known.fetched:
            raise UserError(
                f"The marketplace {name!r} was not fetched yet. `backstay plugins marketplace update {name}` does it."
            )
        return read_marketplace(self.folder_of(name, known), name=name, local=isinstance(known.source, FolderSource))

    def read_all(self) -> tuple[tuple[Marketplace, ...], tuple[str, ...]]:
        """Return the lists that are here, and their problems."""
        found: list[Marketplace] = []
        problems: list[str] = []
        for name, known in self.read_known().items():
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
        """Remove a marketplace and its files; return whether it was known. Its plugins are not loaded any more."""
        with self._book.changing() as book:
            known = book.marketplaces.pop(name, None)
        if known is not None and not isinstance(known.source, FolderSource):
            remove_tree(self.folder / "marketplaces" / check_name(name, "marketplace"))
        return known is not None

    def folder_of(self, name: str, known: KnownMarketplace) -> Path:
        """Return the folder of a marketplace's list, there or not."""
        if isinstance(known.source, FolderSource):
            return Path(known.source.path)
        return self.folder / "marketplaces" / check_name(name, "marketplace")

    async def add(self, source: Source, at: int, *, name: str = "", default: bool = False) -> Marketplace:
        """Fetch a marketplace and store it under its own name or `name`. Raise `UserError` when that cannot be done.

        A name that stands for another source already is refused: nothing is replaced without a word.
        """
        if isinstance(source, PythonSource | NpmSource):
            raise UserError(f"{source} is a package, not a marketplace. Install it: backstay plugins install {source}")
        async with room_in(self.folder / "staging") as room:
            found, commit, folder = await self._bring(source, room, name)
            before = self.read_known().get(found.name)
            if before is not None and before.source != source:
                raise UserError(
                    f"There is a marketplace {found.name!r} already, from {before.source}. "
                    f"Remove it first: backstay plugins marketplace remove {found.name}"
                )
            known = KnownMarketplace(source=source, commit=commit, added=before.added if before else at, updated=at)
            await anyio.to_thread.run_sync(self._keep, found.name, known, folder, default)
        return self.read(found.name)

    async def update(self, name: str, at: int) -> Marketplace:
        """Fetch a marketplace again. When that fails, the old list stays."""
        known = self.read_known().get(name)
        if known is None:
            raise UserError(
                f"There is no marketplace {name!r}. `backstay plugins marketplace list` shows what there is."
            )
        async with room_in(self.folder / "staging") as room:
            _, commit, folder = await self._bring(known.source, room, name)
            await anyio.to_thread.run_sync(self._keep, name, replace(known, commit=commit, updated=at), folder, False)
        return self.read(name)

    async def _bring(self, source: Source, room: Path, name: str) -> tuple[Marketplace, str, Path]:
        """Fetch and read a marketplace; return it, its commit, and its folder."""
        if isinstance(source, UrlSource):
            content, _, _ = await Reach.of_person().web.page(source.url)
            await anyio.to_thread.run_sync(_write_list, room / "list", content)
            folder, commit = room / "list", ""
        else:
            fetched = await fetch(source, room, Reach.of_person())
            folder, commit = fetched.folder, fetched.commit
        local = isinstance(source, FolderSource)
        found = await anyio.to_thread.run_sync(lambda: read_marketplace(folder, name=name, local=local))
        if found.name == DIRECT:
            raise UserError(f"A marketplace cannot be called {DIRECT!r}. Give it another name with --name.")
        return found, commit, folder

    def _keep(self, name: str, known: KnownMarketplace, folder: Path, default: bool) -> None:
        with self._book.changing() as book:
            if not isinstance(known.source, FolderSource):
                swap_in(folder, self.folder_of(name, known))
            book.marketplaces[name] = known
            if default:
                book.default = name


def merge_known(book: KnownMarketplaces, extra: Mapping[str, Source]) -> dict[str, KnownMarketplace]:
    """Return the stored marketplaces and those that settings name besides; of two with one name the stored one counts."""
    return {**{name: KnownMarketplace(source=source) for name, source in extra.items()}, **book.read_known()}


def swap_in(folder: Path, target: Path) -> None:
    """Put a copy of `folder` at `target`, in place of what is there."""
    make_folder(target.parent)
    fresh, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    for each in (fresh, old):
        remove_tree(each)
    copy_tree(folder, fresh, LIMITS, tolerant=True)
    if target.exists():
        os.rename(target, old)
    os.rename(fresh, target)
    remove_tree(old)


def _write_list(folder: Path, content: bytes) -> None:
    place = folder / PLACE
    make_folder(place.parent)
    place.write_bytes(content)
