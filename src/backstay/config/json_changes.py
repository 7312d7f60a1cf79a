"""Change one value of a settings file in its text, so that every other character stays."""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from backstay.config.json_document import LARGEST, JsonText, Node, outline
from backstay.config.person import require_person
from backstay.config.private_file import alone, write_private
from backstay.system.files import is_missing
from backstay.vocab.errors import Bug, UserError

_GONE: Final = object()
_INDENT: Final = "  "


def change_setting(path: Path, keys: Sequence[str], value: object, *, data: Path, root: Path | None = None) -> bool:
    """Put a JSON `value` under `keys`, such as `("enabledPlugins", "a@b")`; say whether anything was changed.

    The file is made when there is none. `data` is the data folder, which holds the lock. With a `root`, a file that links lead out
    of that folder is refused. Raise `UserError` when the file is broken, is no object where one is needed, or cannot be written.
    """
    return _change(path, tuple(keys), value, data, root)


def remove_setting(path: Path, keys: Sequence[str], *, data: Path, root: Path | None = None) -> bool:
    """Take away what stands under `keys`; say whether anything did. Otherwise as `change_setting`."""
    return _change(path, tuple(keys), _GONE, data, root)


def insert_value(text: JsonText, keys: Sequence[str], value: object) -> bytes:
    """Return the bytes of a file with `value` under `keys`. Raise `UserError` when something else than an object is in the way."""
    found = outline(text.content)
    node, known = found.find(keys, in_lists=False)
    if known == len(keys):
        start, end = node.start, node.end
        words = _encode(value, _indent_of(found.text, node.key_at))
    elif node.kind != "object":
        raise text.wrong(tuple(keys[:known]), "An object is needed here. Mend the file first.")
    else:
        for key in reversed(keys[known + 1 :]):
            value = {key: value}
        start, end, words = _insert_member(found.text, node, keys[known], value)
    return (found.text[:start] + words + found.text[end:]).encode()


def cut_value(text: JsonText, keys: Sequence[str]) -> bytes:
    """Return the bytes of a file without what stands under `keys`."""
    found = outline(text.content)
    node, known = found.find(keys, in_lists=False)
    if known < len(keys):
        return text.content
    above, _ = found.find(keys[:-1], in_lists=False)
    names = list(above.inner)
    at = names.index(keys[-1])
    if at + 1 < len(names):
        start, end = node.key_at, above.inner[names[at + 1]].key_at
    elif at:
        start, end = above.inner[names[at - 1]].end, node.end
    else:
        start, end = above.start + 1, above.end - 1
    return (found.text[:start] + found.text[end:]).encode()


def _change(path: Path, keys: tuple[str, ...], value: object, data: Path, root: Path | None) -> bool:
    require_person("change settings")
    target = Path(os.path.realpath(path))
    if root is not None and not target.is_relative_to(os.path.realpath(root)):
        raise UserError(f"{str(path)!r} is a link that leads to {str(target)!r}. Change that file yourself.")
    try:
        with alone(data / "settings"):
            before = JsonText(target, b"{}\n") if is_missing(target) else JsonText.read(target)
            after = cut_value(before, keys) if value is _GONE else insert_value(before, keys, value)
            if after == before.content:
                return False
            _verify(before, after, keys, value)
            write_private(target, after)
            if before.mode:  # it stays as readable as it was, and no more writable
                target.chmod(before.mode & ~(stat.S_IWGRP | stat.S_IWOTH))
    except OSError as exc:
        raise UserError(f"{str(path)!r} cannot be written: {exc.strerror}.") from exc
    except UnicodeEncodeError as exc:
        raise UserError(f"{'.'.join(keys)!r} cannot be written as JSON: it is no valid Unicode.") from exc
    return True


def _verify(before: JsonText, after: bytes, keys: tuple[str, ...], value: object) -> None:
    """Raise unless `after` is `before` with exactly this one change."""
    wanted = within = json.loads(before.content)
    for key in keys[:-1]:
        within = within[key] if value is _GONE else within.setdefault(key, {})
    if value is _GONE:
        del within[keys[-1]]
    else:
        within[keys[-1]] = json.loads(json.dumps(value))
    if json.loads(after) != wanted:
        raise Bug(
            f"The change of {'.'.join(keys)!r} in {str(before.path)!r} would have changed more. Nothing was written."
        )
    if len(after) > LARGEST:
        raise UserError(f"{str(before.path)!r} would have more than {LARGEST:,} bytes. Nothing was written.")


def _insert_member(text: str, node: Node, key: str, value: object) -> tuple[int, int, str]:
    """Return which range to replace with which text, so that an object has one more member, formatted like its others."""
    if node.inner:
        first, last = next(iter(node.inner.values())), list(node.inner.values())[-1]
        between = text[node.start + 1 : first.key_at]
        indent = _indent_of(text, first.key_at) if "\n" in between else ""
        return last.end, last.end, f",{between or ' '}{_member(key, value, indent)}"
    outer = _indent_of(text, node.key_at)
    return node.start, node.end, f"{{\n{outer}{_INDENT}{_member(key, value, outer + _INDENT)}\n{outer}}}"


def _member(key: str, value: object, indent: str) -> str:
    return f"{json.dumps(key, ensure_ascii=False)}: {_encode(value, indent)}"


def _encode(value: object, indent: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=_INDENT, allow_nan=False).replace("\n", f"\n{indent}")


def _indent_of(text: str, position: int) -> str:
    """Return the blanks that the line of a position begins with."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]
