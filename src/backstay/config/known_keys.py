"""Collect the keys that a session knows of, in one list: what its settings and its store's address name."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from backstay.config.layers import Layered
from backstay.config.secret import Secret, find_hook_variables, variables
from backstay.config.settings import Settings
from backstay.stores.open import key_of
from backstay.vocab.env_keys import Keys

_OF_STORE: Final = re.compile(r"[?&]key=env:([A-Za-z_][A-Za-z0-9_]*)")


def collect_keys(settings: Settings | None, layered: Layered | None = None, store_url: str = "") -> Keys:
    """Return the keys that `settings`, every file of `layered` that counts, and the store's address name.

    The key of a profile that a higher file replaced is still a key. What an untrusted workspace names does not count: it could name any
    variable, and keep it from programs that need it. Of a broken file what it named when it could last be read counts. A store's key that
    is in a file or the keyring is fetched there, which may take a while.
    """
    named = set(_OF_STORE.findall(unquote(store_url)))
    texts = [key] if (key := key_of(store_url).strip()) else []
    for secret in () if settings is None else _secrets(settings):
        if secret.is_plain:
            texts.append(secret.reveal())
        elif name := secret.variable:
            named.add(name)
    if layered is not None:
        named |= layered.keys_beside.union(*(file.keys for file in layered.counted_files))
    for profile in () if settings is None else settings.providers.values():
        named |= set(variables(profile.options))
    sections = () if layered is None else (layer.section for layer in layered.hooks)
    sent = (name for section in sections for name in find_hook_variables(section))
    return Keys(frozenset(named), tuple(texts), frozenset(sent))


def _secrets(settings: Settings) -> Iterator[Secret]:
    for profile in settings.providers.values():
        yield from profile.headers.values()
        if profile.api_key is not None:
            yield profile.api_key
