"""One hook as read from settings or code: its event, its matcher, its handler, and what its failure means."""

import hashlib
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from backstay.hooks.events import EVENTS, HookEvent, OnFailure
from backstay.logic.secrets.redact import PLAIN

HookSource = Literal["managed", "person", "project", "local", "plugin", "flag", "program"]
"""The origin of a hook. `program`: the code that opened the session."""

SESSION_END_AT_MOST: Final = 60.0
"""Seconds that a `SessionEnd` hook may take at most: the end of the program waits for it."""

_LABEL: Final = 80


class _Handler(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class CommandHook(_Handler, frozen=True, kw_only=True, tag="command"):
    """A program that reads the input as JSON and answers with its exit code and its output."""

    command: str
    args: tuple[str, ...] | None = None
    """With arguments, `command` is started as it is; without, a shell reads it."""
    shell: Literal["bash", "powershell"] = "bash"
    background: bool = False
    """The session does not wait for it, and it decides nothing."""
    wakes: bool = False
    """In the background, exit code 2 tells the model what it wrote."""
    env: tuple[tuple[str, str], ...] = ()


class HttpHook(_Handler, frozen=True, kw_only=True, tag="http"):
    """An address that the input is posted to."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    env_names: tuple[str, ...] = ()
    """Variables that `$NAME` in a header may stand for."""


class PromptHook(_Handler, frozen=True, kw_only=True, tag="prompt"):
    """A question to a model, asked once."""

    prompt: str
    model: str = ""
    continues: bool = False
    """Whether a refusal of what has happened already is told to the model, instead of ending the turn."""


class AgentHook(_Handler, frozen=True, kw_only=True, tag="agent"):
    """A question to a child session that may use tools before it answers."""

    prompt: str = ""
    agent: str = ""
    model: str = ""
    max_turns: int = 50


class PythonHook(_Handler, frozen=True, kw_only=True, tag="python"):
    """A function of the program that opened the session."""

    name: str


class BrokenHook(_Handler, frozen=True, kw_only=True, tag="broken"):
    """An entry of the settings that cannot be used. It still guards: it fails whenever its event is due."""

    problem: str


Handler = CommandHook | HttpHook | PromptHook | AgentHook | PythonHook | BrokenHook


class HookSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One hook."""

    id: str
    """Stays the same while the hook does the same."""
    event: str
    handler: Handler
    matcher: str = ""
    if_rule: str = ""
    """A permission rule that the call must match."""
    timeout: float
    """Seconds."""
    on_failure: OnFailure
    source: HookSource = "person"
    root: str = ""
    """The folder of the settings or of the plugin that the hook comes from."""
    where: str = ""
    """The keys that lead to it in its file."""
    status: str = ""
    """The status to show while it runs."""
    doubt: str = ""
    """Why its matcher or its rule cannot be read. It runs for everything then, may refuse, and may not allow or change anything."""

    @property
    def facts(self) -> HookEvent:
        """The row of its event."""
        return EVENTS[self.event]

    @property
    def label(self) -> str:
        """Its name in messages: the command, the address, the name."""
        return label_of(self.handler, self.where)


def make_spec(
    event: str,
    handler: Handler,
    *,
    matcher: str = "",
    if_rule: str = "",
    timeout: float | None = None,
    on_failure: OnFailure | None = None,
    source: HookSource = "person",
    root: str = "",
    where: str = "",
    status: str = "",
    doubt: str = "",
) -> HookSpec:
    """Make a hook with its id, and with the usual timeout and failure rule where none is given."""
    seconds = _seconds(event, handler, timeout)
    failing = on_failure or EVENTS[event].on_failure
    identity = (event, matcher, if_rule, handler, seconds, failing, root if source == "plugin" else "")
    digest = hashlib.sha256(msgspec.json.encode(identity)).hexdigest()
    return HookSpec(
        id=f"hook-{digest[:12]}",
        event=event,
        handler=handler,
        matcher=matcher,
        if_rule=if_rule,
        timeout=seconds,
        on_failure=failing,
        source=source,
        root=root,
        where=where,
        status=status,
        doubt=doubt,
    )


def label_of(handler: Handler, where: str = "") -> str:
    """Return a short name for a handler, without secrets."""
    match handler:
        case CommandHook():
            words = PLAIN.text(" ".join((handler.command, *(handler.args or ()))))
            return words if len(words) <= _LABEL else words[: _LABEL - 1] + "…"
        case HttpHook():
            parts = urlsplit(handler.url)
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:_LABEL]
        case PromptHook():
            return "prompt: " + " ".join(handler.prompt.split())[: _LABEL - 8]
        case AgentHook():
            return f"agent: {handler.agent or ' '.join(handler.prompt.split())}"[:_LABEL]
        case PythonHook():
            return handler.name
        case BrokenHook():
            return where or "a hook that cannot be read"


def _seconds(event: str, handler: Handler, timeout: float | None) -> float:
    if timeout is not None:
        return float(min(timeout, SESSION_END_AT_MOST) if event == "SessionEnd" else timeout)
    usual = EVENTS[event].timeout
    if usual is not None:
        return float(usual)
    match handler:
        case PromptHook():
            return 30.0
        case AgentHook() | PythonHook():
            return 60.0
        case _:
            return 600.0
