"""A settings file as text: read once and safely, so that an error names its line."""

import hashlib
import json
import re
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from backstay.system.files import read_regular
from backstay.vocab.errors import UserError

_TOKEN: Final = re.compile(r'\s*(?:([{}\[\],:])|("(?:[^"\\]|\\.)*")|([^\s{}\[\],:"]+))')


class Node(Struct):
    """One value, and what is in it."""

    key_at: int
    """Where its key begins; where it begins itself when it has none."""
    start: int
    end: int = 0
    kind: str = "other"
    """`object`, `array` or `other`."""
    inner: "dict[str | int, Node]" = field(default_factory=dict)
    """What is in it, by key or by index. Of a key that stands twice, the last."""


class Outline(Struct, frozen=True):
    """A text and the places in it."""

    text: str
    root: Node
    breaks: tuple[int, ...]
    """Where lines end."""

    def find(self, keys: Sequence[str], *, in_lists: bool = True) -> tuple[Node, int]:
        """Return the node that `keys` lead to, as far as they are there, and how many of them were. A number may lead into a list."""
        node, known = self.root, 0
        for key in keys:
            is_index = in_lists and node.kind == "array" and key.isdecimal()
            below = node.inner.get(int(key) if is_index else key)
            if below is None:
                break
            node, known = below, known + 1
        return node, known

    def line(self, position: int) -> int:
        """Return the number of the line that a position is in."""
        return bisect_left(self.breaks, position) + 1

    def holding(self, node: Node, value: str) -> int:
        """Return where the text `value` stands in a list, or the list itself when it is not there."""
        for each in node.inner.values():
            if self.text[each.start] == '"' and json.loads(self.text[each.start : each.end]) == value:
                return each.key_at
        return node.key_at


@lru_cache(maxsize=32)
def outline(content: bytes) -> Outline:
    """Return the places of the values in `content`, which is JSON in UTF-8. Of broken JSON, those before the error."""
    text = content.decode("utf-8", "replace")
    tokens = _tokens(text)
    mark, start, end = next(tokens, ("word", 0, 0))
    root = Node(key_at=start, start=start, end=end, kind=_KINDS.get(mark, "other"))
    open_nodes = [root] if root.kind != "other" else []
    key: tuple[str, int] | None = None
    for mark, start, end in tokens:
        if not open_nodes:
            break
        within = open_nodes[-1]
        if mark in "}]":
            open_nodes.pop().end = end
        elif mark == "string" and within.kind == "object" and key is None:
            key = (json.loads(text[start:end]), start)
        elif mark not in ",:":
            name, key_at = key or (len(within.inner), start)
            node = Node(key_at=key_at, start=start, end=end, kind=_KINDS.get(mark, "other"))
            within.inner.pop(name, None)
            within.inner[name] = node
            key = None
            if node.kind != "other":
                open_nodes.append(node)
    return Outline(text, root, tuple(found.start() for found in re.finditer("\n", text)))


_KINDS: Final = {"{": "object", "[": "array"}


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield punctuation as it is, `string` and `word`, each with its begin and end."""
    position = 0
    while found := _TOKEN.match(text, position):
        position = found.end()
        group = found.lastindex or 1
        yield found[1] or ("string" if group == 2 else "word"), found.start(group), position


LARGEST: Final = 1024 * 1024
"""Bytes that a settings file may have."""
DEEPEST: Final = 64
"""Levels of objects and lists that a file may have."""
_GUARDED: Final = ("permissions", "hooks")
"""Sections in which a key that stands twice would silently lose what the first one denied."""


class JsonText(Struct, frozen=True):
    """The bytes of a file that holds one JSON object."""

    path: Path
    content: bytes
    mode: int = 0
    owner: int = 0
    group: int = 0
    inode: tuple[int, int] = (0, 0)
    """Device and number: tells two names of one file."""

    @classmethod
    def read(cls, path: Path, largest: int = LARGEST, *, what: str = "settings") -> "JsonText":
        """Read a file. Raise `UserError` when it is not there, not readable, or not one JSON object."""
        try:
            content, found = read_regular(path, largest)
        except OSError as exc:
            raise UserError(f"The {what} {str(path)!r} cannot be read: {exc.strerror}.") from exc
        _check(path, content)
        inode = (found.st_dev, found.st_ino)
        plain = content.removeprefix(b"\xef\xbb\xbf")
        return cls(path, plain, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, inode)

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes."""
        return hashlib.sha256(self.content).hexdigest()

    def parse(self) -> dict[str, object]:
        """Return the object that stands in it."""
        found: dict[str, object] = json.loads(self.content)
        return found

    def wrong(self, keys: tuple[str, ...], words: str) -> UserError:
        """Return the error of what stands under `keys`."""
        named = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in ".".join(keys))
        return UserError(f"{self.place(keys)}: {named}: {words}")

    def place(self, keys: tuple[str, ...], value: str | None = None) -> str:
        """Return the file, and the line that `keys` lead to as far as they are there, or the line of a text below them."""
        return f"{self.path}:{self.line(keys, value)}"

    def line(self, keys: tuple[str, ...], value: str | None = None) -> int:
        """Return the number of that line."""
        found = outline(self.content)
        node, known = found.find(keys)
        position = node.key_at if known else 0
        return found.line(position if value is None else found.holding(node, value))


class _Object(dict[str, object]):
    """A JSON object that remembers which of its keys stand twice."""

    twice: tuple[str, ...] = ()


def _object(pairs: Sequence[tuple[str, object]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        count = Counter(name for name, _ in pairs)
        made.twice = tuple(sorted(name for name, number in count.items() if number > 1))
    return made


def _check(path: Path, content: bytes) -> None:
    """Raise `UserError` unless `content` is one JSON object without doubt about what it denies."""
    try:
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_object)
        msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"), type=msgspec.Raw)
    except UnicodeDecodeError:
        raise UserError(f"{path}:1: This is not UTF-8 text.") from None
    except json.JSONDecodeError as exc:
        raise UserError(
            f"{path}:{exc.lineno}: This is not JSON: {exc.msg} (column {exc.colno}). Mend the file or move it away."
        ) from None
    except RecursionError:
        raise UserError(f"{path}:1: This is nested too deeply.") from None
    except ValueError as exc:  # NaN, half a surrogate pair, a number of thousands of digits
        raise UserError(f"{path}:1: This is not JSON: {exc}. Mend the file or move it away.") from None
    if not isinstance(found, _Object):
        raise UserError(f'{path}:1: This is not a JSON object. Write one, like {{"chat": {{}}}}.')
    if _is_deep(found):
        raise UserError(f"{path}:1: This is nested too deeply: more than {DEEPEST} levels.")
    for name, each in (("", found), *((name, found.get(name)) for name in _GUARDED)):
        if isinstance(each, _Object) and each.twice:
            where = f"{name}.{each.twice[0]}" if name else each.twice[0]
            raise UserError(f"{path}:1: {where}: The key stands twice, and only one of them would count. Join them.")


def _is_deep(value: object) -> bool:
    """Return whether a value has more than `DEEPEST` levels: code that walks it by recursion could not end."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inner_values(each)]
    return bool(level)


def _inner_values(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


T = TypeVar("T")
MOST_TOLD: Final = 100
"""Warnings about one file."""


class JsonReader:
    """The values of one file, each checked when it is asked for."""

    def __init__(self, text: JsonText, *, foreign: bool = False) -> None:
        """Read `text`. In a file of another program (`foreign`) a wrong value is left out with a warning."""
        self.text = text
        self.foreign = foreign
        self.warnings: list[str] = []

    def members(self, raw: bytes | Raw, where: tuple[str, ...]) -> dict[str, Raw]:
        """Return an object, with its values still unread."""
        return self.convert(raw, dict[str, Raw], where)

    def value_or(self, said: Mapping[str, Raw], key: str, kind: object, other: T) -> T:
        """Return what stands under `key` as a `kind`, or `other` when nothing does."""
        if key not in said:
            return other
        found: T = self.convert(said[key], kind, (key,))  # type: ignore[arg-type]  # mypy has no type for a form of a type
        return found

    def convert(self, raw: bytes | Raw, kind: type[T], where: tuple[str, ...]) -> T:
        """Return `raw` as a `kind`. Raise `UserError` with the place when it is something else."""
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError as exc:
            raise self._error(exc, where, kind) from None

    def check(self, value: object, kind: type[T], where: tuple[str, ...]) -> T:
        """Return a decoded `value` as a `kind`. Raise `UserError` with the place when it is something else."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as exc:
            raise self._error(exc, where, kind) from None

    def _error(self, problem: msgspec.ValidationError, where: tuple[str, ...], kind: object) -> UserError:
        words, keys = explain_mismatch(problem, kind)
        return self.text.wrong((*where, *keys), words)

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


def explain_mismatch(problem: msgspec.ValidationError, kind: object) -> tuple[str, tuple[str, ...]]:
    """Return what a value should have been to be a `kind`, and the keys inside it that lead to what is wrong."""
    words, _, inner = str(problem).partition(" - at `$")
    keys = tuple(key for key in re.split(r"[.\[\]]", inner.strip("`")) if key.strip("."))
    if found := _EXPECTED.fullmatch(words):
        wanted = " or ".join(_IN_WORDS.get(each, each) for each in found["wanted"].split(" | "))
        given = "a fraction" if found["got"] == "float" else _IN_WORDS.get(found["got"], found["got"])
        got = f", not {given}" if given else ""
        return f"It must be {wanted}{found['limit']}{got}.", keys
    if words.startswith("Invalid enum value"):
        value = words.removeprefix("Invalid enum value ")
        choices = ", ".join(map(str, _find_choices(kind, keys)))
        return f"{value} is none of its values{f': {choices}' if choices else ''}.", keys
    return f"{words}.", keys


_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[\w |]+)`(?P<limit>[^,`]*)(?:, got `(?P<got>\w+)`)?")
_IN_WORDS: Final[Mapping[str, str]] = {
    "object": "an object in braces",
    "array": "a list in brackets",
    "str": "a text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
"""What JSON calls the types that msgspec names."""


def _find_choices(kind: object, keys: Sequence[str]) -> tuple[object, ...]:
    """Return the values that `kind` allows under `keys`; none when they cannot be found."""
    import msgspec.inspect as shapes  # noqa: PLC0415  # loaded only when something is wrong

    found: list[object] = []

    def walk(shape: shapes.Type, keys: Sequence[str]) -> None:
        match shape:
            case shapes.Metadata():
                walk(shape.type, keys)
            case shapes.UnionType():
                for each in shape.types:
                    walk(each, keys)
            case shapes.DictType():
                walk(shape.value_type, keys)
            case shapes.ListType() | shapes.VarTupleType():
                walk(shape.item_type, keys)
            case shapes.StructType() if keys:
                for field in shape.fields:
                    if field.encode_name == keys[0]:
                        walk(field.type, keys[1:])
            case shapes.LiteralType() if not keys:
                found.extend(shape.values)
            case _:
                pass

    walk(shapes.type_info(kind), keys)
    return tuple(dict.fromkeys(found))


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."


_LONGEST: Final = 200
