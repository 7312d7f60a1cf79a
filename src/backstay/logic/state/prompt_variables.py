"""The variables of a session's context in prompts: fill `{{ctx.NAME}}`, and refuse variables that hold a secret."""

import re
from collections.abc import Mapping
from typing import Final

from backstay.logic.secrets.known_values import LEAST
from backstay.logic.secrets.redact import is_secret_key, looks_secret

_SHORT: Final = frozenset(("dsn", "pass", "pat", "pw", "sk"))
"""How the names of variables end that hold a secret, where no key of an object would be called so."""
_NAMED: Final = re.compile(r"\{\{\s*ctx\.([^\s{}]+)\s*\}\}")


def fill_variables(text: str, variables: Mapping[str, str]) -> str:
    """Put the value in place of each variable that is known. A value is never looked through for more of them."""
    if not variables or "{{" not in text:
        return text
    return _NAMED.sub(lambda found: variables.get(found[1], found[0]), text)


def is_secret_variable(name: str) -> bool:
    """Return whether a variable of this name holds a secret: `STRIPE_SK` and `DATABASE_URL` do, `PATH` does not."""
    return is_secret_key(name) or re.split(r"[^a-z0-9]+", name.lower())[-1] in _SHORT


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables that are called secrets, as far as they are no paths and long enough to be looked for anywhere."""
    values = (value.strip() for name, value in environment.items() if is_secret_variable(name))
    return tuple(dict.fromkeys(each for each in values if len(each) >= LEAST and not each.startswith("/")))


def secret_variable(variables: Mapping[str, str]) -> str:
    """Return why the variables cannot be used: one of them looks like a secret. Empty when none does. Never says the value."""
    for name, value in variables.items():
        why = looks_secret(value, name)
        if not why and value and is_secret_variable(name):
            why = f"its name, {name!r}, says so"
        if why:
            return (
                f"The variable {name!r} looks like a secret: {why}. Variables are written into the log as they are and "
                "may be sent to a model. Give a key to the tool or the provider that needs it, in its environment."
            )
    return ""
