"""The keys that a session knows of, in one list: what its settings and its store name. Everybody who keeps keys away uses it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from holdfast.config.layer_file import LayerFile
from holdfast.config.layers import Layered
from holdfast.config.secret import Secret, variable_of
from holdfast.config.settings import Settings
from holdfast.vocab.keys import Keys

_OF_STORE: Final = re.compile(r"[?&]key=env:([A-Za-z_][A-Za-z0-9_]*)")


def known_keys(settings: Settings | None, layered: Layered | None = None, store_url: str = "") -> Keys:
    """The keys that `settings`, every file of `layered` that counts, and the store's address name.

    A profile that a higher file replaced is still somebody's key. What an untrusted workspace names is not heard: it could name any
    variable, and keep it from programs that need it.
    """
    named = set(_OF_STORE.findall(unquote(store_url)))
    texts: list[str] = []
    for secret in () if settings is None else _secrets(settings):
        if secret.is_plain:
            texts.append(secret.reveal())
        elif name := secret.variable:
            named.add(name)
    for file in () if layered is None else _counted(layered):
        named |= set(_variables(_said(file)))
    for profile in () if settings is None else settings.providers.values():
        named |= set(_variables(profile.options))
    for transport in () if settings is None else settings.transports.values():
        named |= set(_variables(transport.options))
    return Keys(frozenset(named), tuple(texts))


def _secrets(settings: Settings) -> Iterator[Secret]:
    for profile in settings.providers.values():
        yield from profile.headers.values()
        if profile.api_key is not None:
            yield profile.api_key


def _counted(layered: Layered) -> Iterable[LayerFile]:
    trusted = layered.trust.trusted
    return (file for file in layered.files if file.text is not None and (trusted or not file.place.of_project))


def _said(file: LayerFile) -> object:
    """What a file says, whatever it means: a key that this version does not know may name a secret too."""
    assert file.text is not None  # see _counted
    try:
        return msgspec.json.decode(file.text.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # whoever reads it for use says what is wrong


def _variables(value: object) -> Iterator[str]:
    """The variables that `$ENV:NAME` names, at any depth."""
    if isinstance(value, str):
        if name := variable_of(value):
            yield name
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _variables(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _variables(inner)
