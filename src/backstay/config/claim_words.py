"""What a workspace wants, in its own words."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from backstay.config.json_text import read_regular
from backstay.config.layer_file import LayerFile, environment_of
from backstay.config.masking import masked
from backstay.extensions.frontmatter import folded, read_frontmatter
from backstay.extensions.problems import Unusable
from backstay.vocab.errors import UserError

LARGEST_TEXT: Final = 512 * 1024
"""Bytes of a text whose top is read."""


def hook_words(hooks: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The words of each handler of a section of hooks, and the handler."""
    for event, groups in hooks.items():
        for group in groups if isinstance(groups, list) else (groups,):
            handlers = group.get("hooks", group) if isinstance(group, dict) else group
            for each in handlers if isinstance(handlers, list) else (handlers,):
                yield f"{event}: {' '.join(all_texts(_said_by(each)))}", each


def _said_by(handler: object) -> object:
    """What a handler runs or asks, without the keys that only say when and how."""
    if not isinstance(handler, dict):
        return handler
    quiet = ("type", "timeout", "statusMessage", "matcher", "shell", "async", "asyncRewake", "onFailure", "once")
    return {key: value for key, value in handler.items() if key not in quiet}


def server_words(servers: object) -> Iterator[tuple[str, object]]:
    """The words of each server, and the server."""
    for name, server in servers.items() if isinstance(servers, dict) else ():
        yield f"{name}: {' '.join(all_texts(masked(('mcpServers', str(name)), server)))}", server


def granted_words(path: Path) -> Iterator[str]:
    """What the text of a skill or command may use without asking while it is followed."""
    try:
        content, _ = read_regular(path, LARGEST_TEXT)
        head = read_frontmatter(content, str(path)) if b"llowed" in content else None
    except (OSError, Unusable):  # such a text is not loaded either
        return
    for key, value in head.values.items() if head is not None else ():
        if folded(key) == "allowedtools" and value:
            words = value if isinstance(value, str) else ", ".join(all_texts(value))
            yield f"{words} (while this text is followed)"


def variables(file: LayerFile) -> tuple[str, ...]:
    """The names of the variables that a file sets."""
    try:
        return tuple(environment_of(file))
    except UserError:
        return ()


def env_words(file: LayerFile) -> tuple[str, ...]:
    """The variables that a file sets, with their values."""
    try:
        return tuple(f"{name}={value}" for name, value in environment_of(file).items())
    except UserError:
        return ("it cannot be read",)


def setting_words(changes: Mapping[str, object]) -> Iterator[str]:
    """What other settings a file changes."""
    for section, value in changes.items():
        for name, each in value.items() if isinstance(value, dict) else (("", value),):
            words = " ".join(all_texts(masked((section, name) if name else (section,), each)))
            yield f"{section}.{name}: {words}" if name else f"{section}: {words}"


def all_texts(value: object) -> Iterator[str]:
    """Every text in a JSON value, in order, names of objects' members left out."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += reversed(tuple(each.values()))
        elif isinstance(each, list | tuple):
            waiting += reversed(each)
        elif each is not None:
            yield str(each)
