"""The events that a hook can be written for, as a table: when it matters, what it may decide, and what becomes of a hook that breaks."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

OnFailure = Literal["block", "continue"]
"""What becomes of the step when a hook cannot answer: it is refused, or it goes on as if there were no hook."""

Decides = Literal["call", "step", "result", ""]
"""`call`: allow, ask or deny. `step`: it can be blocked. `result`: it has happened; a block tells the model why it was wrong."""

Exit2 = Literal["blocks", "model", "person", "ignored"]
"""What exit code 2 does: it blocks, or what the hook wrote to standard error goes to the model, to the person, or nowhere."""


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an event."""

    name: str
    moment: bool = True
    """Whether there is a moment for it. A hook for an event without one is kept in the settings and never runs."""
    word: str = ""
    """The field of the input that a matcher is compared with; empty when the event takes no matcher."""
    decides: Decides = ""
    exit_2: Exit2 = "ignored"
    context: bool = False
    """Whether what a hook adds is told to the model."""
    text: bool = False
    """Whether plain text on standard output counts as context."""
    timeout: float | None = None
    """Seconds for every kind of handler; None: the usual ones of its kind."""
    on_failure: OnFailure = "continue"
    """What a hook that breaks means when it does not say."""
    again: bool = False
    """Whether it runs again when the process died before it was over."""
    tool: bool = False
    """Whether it is about the call of a tool: only then can `if` be compared."""
    narrow: bool = False
    """Whether a matcher with a blank, a comma or a hyphen is a pattern already."""


def _table(*events: HookEvent) -> Mapping[str, HookEvent]:
    return MappingProxyType({event.name: event for event in events})


EVENTS: Final = _table(
    HookEvent(
        name="PreToolUse",
        word="tool_name",
        decides="call",
        exit_2="blocks",
        context=True,
        on_failure="block",
        again=True,
        tool=True,
    ),
    HookEvent(name="PostToolUse", word="tool_name", decides="result", exit_2="model", context=True, tool=True),
    HookEvent(name="PostToolUseFailure", word="tool_name", decides="result", exit_2="model", context=True, tool=True),
    HookEvent(name="PostToolBatch", decides="step", exit_2="blocks", context=True, again=True),
    HookEvent(name="PermissionRequest", word="tool_name", decides="call", again=True, tool=True),
    HookEvent(name="PermissionDenied", word="tool_name", context=True, tool=True),
    HookEvent(
        name="UserPromptSubmit",
        decides="step",
        exit_2="blocks",
        context=True,
        text=True,
        timeout=30,
        on_failure="block",
        again=True,
    ),
    HookEvent(
        name="UserPromptExpansion",
        moment=False,
        word="command_name",
        decides="step",
        exit_2="blocks",
        context=True,
        text=True,
        on_failure="block",
    ),
    HookEvent(name="SessionStart", word="source", exit_2="person", context=True, text=True),
    HookEvent(name="SessionEnd", word="reason", exit_2="person", timeout=1.5),
    HookEvent(name="Stop", decides="step", exit_2="blocks", context=True, again=True),
    HookEvent(name="StopFailure", word="error", narrow=True),
    HookEvent(name="SubagentStart", word="agent_type", exit_2="person", context=True),
    HookEvent(name="SubagentStop", word="agent_type", decides="step", exit_2="blocks", context=True, again=True),
    HookEvent(name="PreCompact", word="trigger", decides="step", exit_2="blocks", again=True),
    HookEvent(name="PostCompact", word="trigger", exit_2="person"),
    HookEvent(name="PreModelSwitch", decides="step", exit_2="blocks", on_failure="block", again=True),
    HookEvent(name="PostModelSwitch"),
    HookEvent(name="Notification", word="notification_type", context=True),
    HookEvent(name="Setup", moment=False, word="trigger", exit_2="person"),
    HookEvent(name="TeammateIdle", moment=False, decides="step", exit_2="blocks"),
    HookEvent(name="TaskCreated", moment=False, decides="step", exit_2="blocks"),
    HookEvent(name="TaskCompleted", moment=False, decides="step", exit_2="blocks"),
    HookEvent(name="Elicitation", moment=False, word="mcp_server_name", decides="step", exit_2="blocks"),
    HookEvent(name="ElicitationResult", moment=False, word="mcp_server_name", decides="step", exit_2="blocks"),
    HookEvent(name="ConfigChange", moment=False, word="source", decides="step", exit_2="blocks"),
    HookEvent(name="WorktreeCreate", moment=False, decides="step", exit_2="blocks"),
    HookEvent(name="WorktreeRemove", moment=False),
    HookEvent(name="InstructionsLoaded", moment=False, word="load_reason"),
    HookEvent(name="CwdChanged", moment=False, exit_2="person"),
    HookEvent(name="FileChanged", moment=False, word="file_path", exit_2="person", narrow=True),
    HookEvent(name="DirectoryAdded", moment=False),
    HookEvent(name="MessageDisplay", moment=False, timeout=10),
)
"""Every event that settings may name.

A hook that breaks refuses the step where the step is what the hook stands guard over: a call, a prompt, a change of model. It does not
where refusing would help nobody: a broken `Stop` or `PostToolBatch` hook would keep a turn from ever ending, a broken `PreCompact` hook
would let the conversation overflow, and after a broken `PermissionRequest` hook the person is asked, as without it.
"""
