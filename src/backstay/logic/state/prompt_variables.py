"""The variables of a session's context in prompts: fill `{{ctx.NAME}}`, and refuse variables that hold a secret."""

import re
from collections.abc import Mapping
from typing import Final

from backstay.logic.secrets.redact import looks_secret
from backstay.logic.secrets.secret_names import is_secret_variable

_NAMED: Final = re.compile(r"\{\{\s*ctx\.([^\s{}]+)\s*\}\}")


def fill_variables(text: str, variables: Mapping[str, str]) -> str:
    """Put the value in place of each variable that is known. A value is never looked through for more of them."""
    if "{{" not in text:
        return text
    return _NAMED.sub(lambda found: variables.get(found[1], found[0]), text)


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
