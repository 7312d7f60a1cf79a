"""Hooks for tests."""

import json

from backstay.hooks.events import OnFailure
from backstay.hooks.merge import HookAnswer
from backstay.hooks.output import read_answer
from backstay.hooks.settings import read_hooks
from backstay.hooks.spec import CommandHook, HookSpec, make_spec


def command(
    event: str = "PreToolUse",
    text: str = "guard",
    *,
    matcher: str = "",
    on_failure: OnFailure | None = None,
    doubt: str = "",
) -> HookSpec:
    """A program as a hook."""
    return make_spec(event, CommandHook(command=text), matcher=matcher, on_failure=on_failure, doubt=doubt)


def one(entry: object, event: str = "PreToolUse", matcher: object = None) -> HookSpec:
    """The hook that an entry of the settings makes."""
    group = {"hooks": [entry]} if matcher is None else {"matcher": matcher, "hooks": [entry]}
    (spec,) = read_hooks({event: [group]}, source="person").specs
    return spec


def said(event: str, content: object, *, exit_code: int = 0, on_failure: OnFailure | None = None) -> HookAnswer:
    """What a hook means that prints `content` as JSON."""
    return read_answer(
        event, spec=command(event, on_failure=on_failure), exit_code=exit_code, stdout=json.dumps(content)
    )


def about_call(**fields: object) -> dict[str, object]:
    """An answer about a call."""
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}}
