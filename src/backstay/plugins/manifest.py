"""The `.claude-plugin/plugin.json` of a plugin: what it says about itself. Only its name is required."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from backstay.config.json_document import JsonReader, JsonText, read_regular
from backstay.plugins.ids import check_name, check_version
from backstay.vocab.errors import UserError

PLACE: Final = ".claude-plugin/plugin.json"
PATHS: Final = ("skills", "commands", "agents")
"""Keys that name folders or files besides the usual ones."""
COMPONENTS: Final = (*PATHS, "hooks", "mcpServers")
"""Keys that a marketplace may say for a plugin too."""
OURS: Final = ("tools", "permissions", "systemPrompt", "instructions")
_ABOUT: Final = tuple("$schema name version description author homepage repository license keywords".split())
_ELSEWHERE: Final = tuple(
    (
        "outputStyles lspServers dependencies userConfig channels experimental themes monitors workflows displayName "
        "features category tags strict source"
    ).split()
)
"""Keys that other programs know and that do nothing here."""


class Manifest(Struct, frozen=True, kw_only=True):
    """What a plugin says about itself."""

    name: str
    version: str = ""
    description: str = ""
    author: str = ""
    homepage: str = ""
    repository: str = ""
    license: str = ""
    keywords: tuple[str, ...] = ()


def read_manifest(reader: JsonReader) -> tuple[Manifest, Mapping[str, Raw], tuple[str, ...]]:
    """The manifest in a file, everything that the file says, and what is worth a note. Raise `UserError` with the place."""
    said = reader.members(reader.text.content, ())
    if "name" not in said:
        raise UserError(f"{reader.text.path}:1: name: It is required.")
    try:
        name = check_name(reader.convert(said["name"], str, ("name",)), "plugin")
        version = reader.value_or(said, "version", str, "")
        if version:
            check_version(version, name)
    except UserError as exc:
        raise _placed(reader, exc) from None
    manifest = Manifest(
        name=name,
        version=version,
        description=reader.value_or(said, "description", str, ""),
        author=author_of(reader, said),
        homepage=reader.value_or(said, "homepage", str, ""),
        repository=_repository(reader, said),
        license=reader.value_or(said, "license", str, ""),
        keywords=reader.value_or(said, "keywords", tuple[str, ...], ()),
    )
    return manifest, said, tuple(_odd(reader, said))


def author_of(reader: JsonReader, said: Mapping[str, Raw]) -> str:
    """Who made it: a text, or an object with a name."""
    found: object = reader.value_or(said, "author", str | dict[str, object], "")
    return _named(found, "name")


def _repository(reader: JsonReader, said: Mapping[str, Raw]) -> str:
    found: object = reader.value_or(said, "repository", str | dict[str, object], "")
    return _named(found, "url")


def _named(found: object, key: str) -> str:
    return str(found.get(key, "")) if isinstance(found, dict) else str(found)


def _odd(reader: JsonReader, said: Mapping[str, Raw]) -> list[str]:
    notes = []
    for key in said:
        if key in _ELSEWHERE:
            notes.append(f"{reader.text.place((key,))}: {key!r} does nothing here.")
        elif key not in (*_ABOUT, *COMPONENTS, *OURS):
            notes.append(f"{reader.text.place((key,))}: {key!r} is not known and is left out.")
    return notes


def _placed(reader: JsonReader, error: UserError) -> UserError:
    """An error with the file in front of it, unless it names the file already."""
    words = str(error)
    return error if words.startswith(str(reader.text.path)) else UserError(f"{reader.text.place(('name',))}: {words}")


LARGEST: Final = 4 * 1024 * 1024
"""Bytes that such a file may have; a marketplace with thousands of plugins has about one million."""
DEEPEST: Final = 64


def read_object(path: Path, largest: int = LARGEST) -> JsonReader:
    """The object in a file, ready to be read key by key. Raise `UserError` when there is none."""
    try:
        content, _ = read_regular(path, largest)
    except OSError as exc:
        raise UserError(f"{str(path)!r} cannot be read: {exc.strerror}.") from exc
    return object_in(path, content)


def object_in(path: Path, content: bytes) -> JsonReader:
    """The object in `content`, which is what stands at `path`. Raise `UserError` when there is none."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        found = json.loads(content.decode())
        msgspec.json.decode(content, type=msgspec.Raw)
    except UnicodeDecodeError:
        raise UserError(f"{path}:1: This is not UTF-8 text.") from None
    except json.JSONDecodeError as exc:
        raise UserError(f"{path}:{exc.lineno}: This is not JSON: {exc.msg} (column {exc.colno}).") from None
    except (RecursionError, ValueError) as exc:  # nested too deeply; NaN, half a surrogate pair, a number without end
        raise UserError(f"{path}:1: This is not JSON that can be read: {exc}.") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}:1: This is not a JSON object.")
    if _depth(found) > DEEPEST:
        raise UserError(f"{path}:1: This is nested more than {DEEPEST} levels deep.")
    return JsonReader(JsonText(path, content))


def _depth(value: object) -> int:
    """How many levels a value has; the value was read, so it has an end."""
    depth, level = 0, [value]
    while level and depth <= DEEPEST:
        inner: list[object] = []
        for each in level:
            inner += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        depth, level = depth + 1, inner
    return depth
