"""Secrets in settings: where a key is held, which variables the files name as keys, and how a value is shown without its secrets."""

import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from backstay.config.key_lookup import find_key
from backstay.logic.secrets.redact import REDACTED, Redactor, is_secret_key
from backstay.system.installation import hint_extra
from backstay.vocab.errors import UserError

_VARIABLE: Final = re.compile(r"\$ENV:([A-Za-z_][A-Za-z0-9_]*)")
_KEYRING: Final = re.compile(r"\$KEYRING:([^/\s]+)/([^\s]+)")


class Secret:
    """A text that only `reveal` gives away. It is no structure, so nothing that writes structures can write it."""

    __slots__ = ("_name", "_text")

    def __init__(self, text: str, *, name: str) -> None:
        """Take `$ENV:NAME`, `$KEYRING:SERVICE/USER` or a plain text; `name` says whose it is.

        Raise `UserError` for what looks like none of them.
        """
        if not text.strip():
            raise UserError("It is empty. Write $ENV:NAME with the environment variable that holds it.")
        if text.startswith("$") and not is_reference(text):
            raise UserError("It looks like a variable and is none. Write $ENV:NAME or $KEYRING:SERVICE/USER.")
        self._text = text
        self._name = name

    @property
    def is_plain(self) -> bool:
        """True when the text itself was given."""
        return not self._text.startswith("$")

    @property
    def variable(self) -> str:
        """The environment variable that holds it; empty when none does."""
        return variable_of(self._text)

    @property
    def is_in_keyring(self) -> bool:
        """True when the keyring is asked, which may take a while."""
        return _KEYRING.fullmatch(self._text) is not None

    def reveal(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the text. Raise `UserError` when its variable is not set, or the keyring does not have it."""
        if found := _KEYRING.fullmatch(self._text):
            return _from_keyring(found[1], found[2], self._name)
        found = _VARIABLE.fullmatch(self._text)
        if found is None:
            return self._text
        value = environment.get(found[1], "").strip()
        if not value:
            raise UserError(f"{self._name} needs the environment variable {found[1]!r}, which is not set.")
        return value

    def __repr__(self) -> str:
        return "Secret(...)" if self.is_plain else f"Secret({self._text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))


def is_reference(text: str) -> bool:
    """Return whether a text says where a secret is, and is none itself."""
    return bool(_VARIABLE.fullmatch(text) or _KEYRING.fullmatch(text))


def variable_of(text: str) -> str:
    """Return the variable that `$ENV:NAME` names; empty for any other text."""
    found = _VARIABLE.fullmatch(text)
    return found[1] if found else ""


def _from_keyring(service: str, user: str, name: str) -> str:
    try:
        keyring = importlib.import_module("keyring")
        errors = importlib.import_module("keyring.errors")
    except ImportError:
        raise UserError(f"{name} is in the keyring, which needs a package. Type: {hint_extra('keyring')}") from None
    try:
        value = keyring.get_password(service, user)
    except errors.KeyringError as exc:
        raise UserError(f"{name} cannot be read from the keyring ({service!r}, {user!r}): {exc}.") from exc
    if not value or not value.strip():
        hint = f"keyring set {service} {user}"
        raise UserError(f"{name} is not in the keyring under {service!r}, {user!r}. Put it there: {hint}")
    return str(value).strip()


SERVERS: Final = "mcpServers"
HOOKS: Final = "hooks"
_FILLED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?=[:}])")
"""A variable that is filled into an entry of a server."""


def find_named_keys(content: Mapping[str, object], *, own: bool, idle: bool = False) -> tuple[str, ...]:
    """Return the variables that a file names as keys: each `$ENV:NAME`, and in a file of the person's `own` what its MCP servers are given.

    Of a file that counts for nothing (`idle`) also what headers of its hooks name: those do not run.
    Every text of a file is looked at: a setting that this version does not know may name a key too.
    """
    found = set(variables(content))
    found |= set(find_hook_variables(content.get(HOOKS))) if idle else set()
    servers = content.get(SERVERS) if own else None
    for entry in servers.values() if isinstance(servers, Mapping) else ():
        found |= set(_find_filled(entry))
    return tuple(sorted(found))


def variables(value: object) -> Iterator[str]:
    """Yield the variables that `$ENV:NAME` names, at any depth."""
    for _, text in _texts(value, ""):
        if name := variable_of(text):
            yield name


def find_hook_variables(section: object) -> Iterator[str]:
    """Yield the variables that headers of hooks are made of, at any depth of the section."""
    if isinstance(section, Mapping):
        names = section.get("allowedEnvVars")
        yield from (name for name in (names if isinstance(names, list) else ()) if isinstance(name, str))
    if isinstance(section, Mapping | list):
        for inner in section.values() if isinstance(section, Mapping) else section:
            yield from find_hook_variables(inner)


def _find_filled(entry: object) -> Iterator[str]:
    """Yield the variables that make a header, and elsewhere those whose name, or that of the variable they fill, is that of a secret."""
    if not isinstance(entry, Mapping):
        return
    for section, value in entry.items():
        for key, text in _texts(value, str(section)):
            for name in _FILLED.findall(text):
                if section == "headers" or is_secret_key(name) or is_secret_key(key):
                    yield name


def _texts(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a value, and the key that it stands under."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, key)


HIDDEN: Final = "(a secret)"
_PRIVATE: Final = ("env", "headers")
"""What is hidden of a server, a hook or a transport; the rest of it says what would run."""
_OPTIONS: Final = "options"
"""What a provider or a transport is given besides: any of it may be secret."""


_QUERY: Final = frozenset(("key", "sig", "signature", "auth", "pass", "pw", "code"))
"""Names that are those of secrets in a query, and of other things elsewhere."""
_PARAMETER: Final = re.compile(r"(?<=[?&;])(?P<name>[^\s=&;#?]{1,100})=[^\s&;#]+")


def mask(where: Sequence[str], value: object) -> object:
    """Return what stands under `where`, without its secrets. Where a secret is kept, `$ENV:NAME` or `$KEYRING:...`, is none."""
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
    """Return `text` without the values that stand under the names of secrets in the query of a URL."""

    def clean(match: re.Match[str]) -> str:
        name = unquote(match["name"])
        return f"{match['name']}={REDACTED}" if name.lower() in _QUERY or is_secret_key(name) else match[0]

    return _PARAMETER.sub(clean, text) if "?" in text else text


def hide(value: object) -> object:
    """Return `value` with every text in it hidden that does not only say where a secret is."""
    if isinstance(value, Mapping):
        return {name: hide(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [hide(each) for each in value]
    return value if isinstance(value, str) and is_reference(value) else HIDDEN


def _words(where: Sequence[str], words: Sequence[object]) -> Iterator[object]:
    """Yield the items of a list, which have no name; but one after a word such as `--api-key` is what that word asks for."""
    name = ""
    for each in words:
        yield mask((*where, name), each)
        name = each.lstrip("-") if isinstance(each, str) and each.startswith("-") and "=" not in each else ""
