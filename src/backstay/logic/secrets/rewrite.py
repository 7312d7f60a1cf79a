"""Change the words of events and blobs: the one way in which a log, or an event before it is written, loses a secret. Pure.

A blob is named by its hash, so other words in it give it another name, and what cites it has to cite the new one. What a file held
(`FileKept`, and the trees and plans that list contents) is never given other words: a restore would put them into the file. Such a
content is given up instead, and is "not kept" from then on; so is a listing with a secret in the name of a file or the target of a link.
Opaque state of a provider that would change is given up too: it is signed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.checkpoints.tree import FileChange, RestorePlan, Tree, TreeEntry, pack, unpack_plan, unpack_tree
from backstay.logic.context_usage import estimate_text
from backstay.logic.stored_content import HEAD, digest
from backstay.vocab import events
from backstay.vocab.errors import LogDamaged
from backstay.vocab.event import Event

Change = Callable[[str], str]
"""Gives a text with other words in it, or the text itself."""
E = TypeVar("E", bound=Event)

LISTING_LOST: Final = "what was kept of the folder is gone: a name in it held a key, which was erased"
_BETWEEN_NAMES: Final = "\n\0\n"
FILES: Final = (events.FileKept, events.ContentsKept, events.TreeKept, events.RestoreStarted)
"""Events about what files held. Their blobs are never given other words."""


class Moved(Struct, frozen=True):
    """The blob that stands in the place of another."""

    content: bytes
    sha256: str

    @property
    def text(self) -> str:
        """Its content as text."""
        return self.content.decode("utf-8", "replace")


def change_blob(content: bytes, change: Change) -> Moved | None:
    """Change the words of a blob; return None when it stays as it is. What is no text is looked through all the same."""
    new = change_bytes(content, change)
    return None if new == content else Moved(new, digest(new))


def change_bytes(content: bytes, change: Change) -> bytes:
    """Change the words of bytes as if they were text."""
    return change(as_text(content)).encode("utf-8", "surrogateescape")


def as_text(content: bytes) -> str:
    """Return bytes as text, from which the same bytes can be had again."""
    return content.decode("utf-8", "surrogateescape")


def rewrite_event(event: E, change: Change, moved: Mapping[str, Moved], dropped_contents: Iterable[str] = ()) -> E:
    """Return `event` with other words, citing the blobs that took the places of others.

    `dropped_contents` are contents of files that are kept no longer.
    """
    if isinstance(event, events.ModelReplied) and event.opaque is not None and event.opaque.sha256 in moved:
        event = replace(event, opaque=None)
    event = _poorer(event, change, frozenset(dropped_contents))
    before = msgspec.to_builtins(event)
    after = _walk(before, change, moved)
    return event if after == before else msgspec.convert(after, type(event))


def _poorer(event: E, change: Change, lost: frozenset[str]) -> E:
    """Return an event about files without what is kept no longer. What would be put back under another name is not put back."""
    match event:
        case events.FileKept() if change(event.path) != event.path or change(event.target) != event.target:
            return replace(event, kind="file", sha256="", target="")
        case events.FileKept(sha256=sha) if sha in lost:
            return replace(event, sha256="")
        case events.ContentsKept(blobs=blobs) if not lost.isdisjoint(blobs):
            return replace(event, blobs=tuple(each for each in blobs if each not in lost))
        case events.TreeKept(tree=sha) if sha in lost:
            return replace(event, tree="", problem=event.problem or LISTING_LOST)
        case events.RestoreStarted(plan=sha) if sha in lost:
            return replace(event, plan="")
        case _:
            return event


def change_texts(value: dict[str, object], change: Change) -> dict[str, object]:
    """Change every text in JSON-like data."""
    return {change(key): _walk(inner, change, {}) for key, inner in value.items()}


def texts_in(value: object) -> Iterator[str]:
    """Yield every text in JSON-like data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts_in(key)
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


def list_texts(content: bytes) -> str:
    """Return every name and every target of a link in a tree or a plan; the bytes as they are of what is neither."""
    plain = _listing(content)
    if plain is None:
        return as_text(content)
    if isinstance(plain, Tree):
        entries, beside = plain.entries, (plain.root, *plain.left_out)
    else:
        entries = tuple(each for change in plain.changes for each in (change.want, change.now) if each is not None)
        words = (plain.label, *(text for problem in plain.problems for text in problem))
        beside = (*plain.roots, *(text.encode("utf-8", "surrogatepass") for text in words))
    names = (*beside, *(each.path for each in entries), *(each.target for each in entries if each.target))
    return _BETWEEN_NAMES.join(map(as_text, names))


def without_contents(content: bytes, dropped_contents: Iterable[str]) -> Moved | None:
    """Return a tree or a plan that lists no content of `dropped_contents` as kept; None when it lists none of them, or is neither."""
    lost = frozenset(bytes.fromhex(each) for each in dropped_contents)
    plain = _listing(content)
    if plain is None:
        return None
    after = _tree(plain, lost) if isinstance(plain, Tree) else _plan(plain, lost)
    if after == plain:
        return None
    new = pack(after)
    return Moved(new, digest(new))


def _listing(content: bytes) -> Tree | RestorePlan | None:
    for unpack in (unpack_tree, unpack_plan):
        with suppress(LogDamaged):
            return unpack(content)
    return None


def _tree(tree: Tree, lost: frozenset[bytes]) -> Tree:
    return replace(tree, entries=tuple(_entry(each, lost) for each in tree.entries))


def _plan(plan: RestorePlan, lost: frozenset[bytes]) -> RestorePlan:
    def change(each: FileChange) -> FileChange:
        return replace(each, want=_entry(each.want, lost), now=None if each.now is None else _entry(each.now, lost))

    return replace(plan, changes=tuple(map(change, plan.changes)))


def _entry(entry: TreeEntry, lost: frozenset[bytes]) -> TreeEntry:
    return replace(entry, sha256=b"") if entry.sha256 in lost else entry


def _walk(value: object, change: Change, moved: Mapping[str, Moved]) -> object:
    match value:
        case str():
            return moved[value].sha256 if value in moved else change(value)
        case dict():
            about = {change(key): _walk(inner, change, moved) for key, inner in value.items()}
            blob = moved.get(str(value.get("sha256", "")))
            return about if blob is None else about | _measures(value, blob)
        case list() | tuple():
            return [_walk(inner, change, moved) for inner in value]
        case _:
            return value


def _measures(handle: Mapping[str, object], blob: Moved) -> dict[str, object]:
    """Return the fields of a handle about its blob, but for the name."""
    if "chars" in handle:
        text = blob.text
        return {"chars": len(text), "tokens": estimate_text(text), "head": text[:HEAD]}
    return {"size": len(blob.content)} if "size" in handle else {}
