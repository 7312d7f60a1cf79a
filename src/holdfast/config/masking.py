"""Values of settings, fit to be shown: what only a provider, a server or a program may see is hidden."""

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.config.keys import find_key
from holdfast.config.secret import is_reference
from holdfast.logic.redact import Redactor

HIDDEN: Final = "(a secret)"
_PRIVATE: Final = ("env", "headers")
"""What is hidden of a server or a transport; the rest of it says what would run."""


def masked(where: Sequence[str], value: object) -> object:
    """What stands under `where`, without its secrets. Where a secret is kept, `$ENV:NAME` or `$KEYRING:...`, is none."""
    key = find_key(where)
    if key is None and isinstance(value, Mapping):
        return {name: masked((*where, name), inner) for name, inner in value.items()}
    if key is None or not key.secret:
        return Redactor().value(value) if isinstance(value, str | list | Mapping) else value
    if isinstance(value, Mapping):
        shown = {name: hidden(inner) if name in _PRIVATE else inner for name, inner in value.items()}
        return Redactor().value(shown)
    return hidden(value)


def hidden(value: object) -> object:
    """`value` with every text in it hidden that does not only say where a secret is."""
    if isinstance(value, Mapping):
        return {name: hidden(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [hidden(each) for each in value]
    return value if isinstance(value, str) and is_reference(value) else HIDDEN
