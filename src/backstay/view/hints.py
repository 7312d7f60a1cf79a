"""Commands that people are told to type: with the store in them, where it is not the usual one."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from backstay.options import default_store_url
from backstay.vocab.errors import BackstayError

_COMMAND: Final = re.compile(r"`(backstay (?:log|sessions|export|-r|-c|-p)\b[^`]*)`")
"""A command about sessions, as messages quote it."""


def with_store(words: str, url: str) -> str:
    """`words` with the store at `url` named in each command that looks into one."""
    if not url or url.startswith("memory:") or _path(url) == _path(default_store_url()):
        return words
    return _COMMAND.sub(lambda found: f"`{_named(found[1], url)}`", words)


@contextmanager
def hinting(url: str) -> Iterator[None]:
    """Let the errors of what is done with the store at `url` name it in their hints."""
    try:
        yield
    except BackstayError as exc:
        exc.args = (with_store(str(exc), url), *exc.args[1:])
        raise


def _named(command: str, url: str) -> str:
    return command if "--store" in command else f"{command} --store {shlex.quote(url)}"


def _path(url: str) -> str:
    """The file or folder of a URL, however its slashes are written and whatever it says of a key."""
    return re.sub(r"^\w+:/*", "/", url).partition("?")[0]
