"""Tell what the person types from what a session's programs run."""

import os

from backstay.tools.shell.processes import CALL_VARIABLE, HOOK_VARIABLE, RUN_VARIABLE, is_marked
from backstay.vocab.errors import UserError
from backstay.vocab.event import By


def who_runs() -> By:
    """Return who runs this process: the person, or a hook or a model of a session that started it.

    The variables that a session sets are looked at besides the mark, for systems that have none.
    """
    if HOOK_VARIABLE in os.environ:
        return "hook"
    return "model" if is_marked() or {CALL_VARIABLE, RUN_VARIABLE} & os.environ.keys() else "user"


def require_person(action: str) -> None:
    """Raise `UserError` when this process is a program of a session: only the person may do `action`."""
    if who_runs() != "user":
        raise UserError(
            f"Only a person may {action}, and this process was started by a session. Type it in a shell of your own."
        )
