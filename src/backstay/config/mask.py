"""Values of settings, fit to be shown: what only a provider, a server or a program may see is hidden."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from backstay.config.key_table import find_key
from backstay.config.secret import is_reference
from backstay.logic.secrets.redact import REDACTED, Redactor, is_secret_key

HIDDEN: Final = "(a secret)"
_PRIVATE: Final = ("env", "headers")
"""What is hidden of a server, a hook or a transport; the rest of it says what would run."""
_OPTIONS: Final = "options"
"""What a provider or a transport is given besides: nobody knows what of it is secret."""


_QUERY: Final = frozenset(("key", "sig", "signature", "auth", "pass", "pw", "code"))
"""Names that are those of secrets in a query, and of other things elsewhere."""
_PARAMETER: Final = re.compile(r"(?<=[?&;])(?P<name>[^\s=&;#?]{1,100})=[^\s&;#]+")


def mask(where: Sequence[str], value: object) -> object:
    """What stands under `where`, without its secrets. Where a secret is kept, `$ENV:NAME` or `$KEYRING:...`, is none."""
    key, name = find_key(where), where[-1] if where else ""
    told = key is not None and key.secret and (not isinstance(value, Mapping) or name == _OPTIONS)
    if told or name in _PRIVATE or (isinstance(value, str) and value and is_secret_key(name)):
        return hide(value)
    if isinstance(value, Mapping):
        return {inner: mask((*where, inner), each) for inner, each in value.items()}
    if isinstance(value, list):
        return list(_words(where, value))
    return Redactor().value(mask_query(value) if isinstance(value, str) else value)


def mask_query(text: str) -> str:
    """`text` without the values that stand under the names of secrets in the query of a URL."""

    def clean(match: re.Match[str]) -> str:
        name = unquote(match["name"])
        return f"{match['name']}={REDACTED}" if name.lower() in _QUERY or is_secret_key(name) else match[0]

    return _PARAMETER.sub(clean, text) if "?" in text else text


def hide(value: object) -> object:
    """`value` with every text in it hidden that does not only say where a secret is."""
    if isinstance(value, Mapping):
        return {name: hide(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [hide(each) for each in value]
    return value if isinstance(value, str) and is_reference(value) else HIDDEN


def _words(where: Sequence[str], words: Sequence[object]) -> Iterator[object]:
    """The items of a list, which have no name; but one after a word such as `--api-key` is what that word asks for."""
    name = ""
    for each in words:
        yield mask((*where, name), each)
        name = each.lstrip("-") if isinstance(each, str) and each.startswith("-") and "=" not in each else ""
