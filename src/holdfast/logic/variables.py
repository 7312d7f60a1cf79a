"""The variables of a session's context in what a person says: `{{ctx.NAME}}`."""

import re
from collections.abc import Mapping
from typing import Final

from holdfast.logic.redact import looks_secret

_NAMED: Final = re.compile(r"\{\{\s*ctx\.([^\s{}]+)\s*\}\}")


def filled_in(text: str, variables: Mapping[str, str]) -> str:
    """`text` with the value in place of each variable that is known. A value is never looked through for more of them."""
    if not variables or "{{" not in text:
        return text
    return _NAMED.sub(lambda found: variables.get(found[1], found[0]), text)


def secret_variable(variables: Mapping[str, str]) -> str:
    """Why the variables cannot be used: one of them looks like a secret. Empty when none does. Never says the value."""
    for name, value in variables.items():
        if why := looks_secret(value, name):
            return (
                f"The variable {name!r} looks like a secret: {why}. Variables are written into the log as they are and "
                "may be sent to a model. Give a key to the tool or the provider that needs it, in its environment."
            )
    return ""
