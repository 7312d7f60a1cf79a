"""The table of hook events: when each fires, what its hooks may decide, and what a broken hook means."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

OnFailure = Literal["block", "continue"]
"""What happens to the step when a hook cannot answer: it is refused, or it goes on as if there were no hook."""

Decides = Literal["call", "step", "result", ""]
"""`call`: allow, ask or deny. `step`: it can be blocked. `result`: it has happened; a block tells the model why it was wrong."""

Exit2 = Literal["blocks", "model", "person", "ignored"]
"""The effect of exit code 2: it blocks, or standard error goes to the model, to the person, or nowhere."""


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One hook event."""

    name: str
    fires: bool = True
    """Whether this version fires it. A hook for an event that never fires is kept in the settings and does not run."""
    matcher_field: str = ""
    """The field of the input that a matcher is compared with; empty when the event takes no matcher."""
    decides: Decides = ""
    exit_2: Exit2 = "ignored"
    context: bool = False
    """Whether the model gets what a hook adds."""
    text: bool = False
    """Whether plain text on standard output counts as context."""
    timeout: float | None = None
    """Seconds for every kind of handler; None: the usual ones of its kind."""
    on_failure: OnFailure = "continue"
    """The failure rule of a hook that names none."""
    reruns: bool = False
    """Whether it runs again when the process died before it ended."""
    tool: bool = False
    """Whether it is about a tool call: only then can `if` be compared."""
    narrow: bool = False
    """Whether a matcher with a blank, a comma or a hyphen is a pattern already."""


def _table(*events: HookEvent) -> Mapping[str, HookEvent]:
    return MappingProxyType({event.name: event for event in events})


EVENTS: Final = _table(
    HookEvent(
        name="PreToolUse",
        matcher_field="tool_name",
        decides="call",
        exit_2="blocks",
        context=True,
        on_failure="block",
        reruns=True,
        tool=True,
    ),
    HookEvent(name="PostToolUse", matcher_field="tool_name", decides="result", exit_2="model", context=True, tool=True),
    HookEvent(
        name="PostToolUseFailure", matcher_field="tool_name", decides="result", exit_2="model", context=True, tool=True
    ),
    HookEvent(name="PostToolBatch", decides="step", exit_2="blocks", context=True, reruns=True),
    HookEvent(name="PermissionRequest", matcher_field="tool_name", decides="call", reruns=True, tool=True),
    HookEvent(name="PermissionDenied", matcher_field="tool_name", context=True, tool=True),
    HookEvent(
        name="UserPromptSubmit",
        decides="step",
        exit_2="blocks",
        context=True,
        text=True,
        timeout=30,
        on_failure="block",
        reruns=True,
    ),
    HookEvent(
        name="UserPromptExpansion",
        fires=False,
        matcher_field="command_name",
        decides="step",
        exit_2="blocks",
        context=True,
        text=True,
        on_failure="block",
    ),
    HookEvent(name="SessionStart", matcher_field="source", exit_2="person", context=True, text=True),
    HookEvent(name="SessionEnd", matcher_field="reason", exit_2="person", timeout=1.5),
    HookEvent(name="Stop", decides="step", exit_2="blocks", context=True, reruns=True),
    HookEvent(name="StopFailure", matcher_field="error", narrow=True),
    HookEvent(name="SubagentStart", matcher_field="agent_type", exit_2="person", context=True),
    HookEvent(
        name="SubagentStop", matcher_field="agent_type", decides="step", exit_2="blocks", context=True, reruns=True
    ),
    HookEvent(name="PreCompact", matcher_field="trigger", decides="step", exit_2="blocks", reruns=True),
    HookEvent(name="PostCompact", matcher_field="trigger", exit_2="person"),
    HookEvent(name="PreModelSwitch", decides="step", exit_2="blocks", on_failure="block", reruns=True),
    HookEvent(name="PostModelSwitch"),
    HookEvent(name="Notification", matcher_field="notification_type", context=True),
    HookEvent(name="Setup", fires=False, matcher_field="trigger", exit_2="person"),
    HookEvent(name="TeammateIdle", fires=False, decides="step", exit_2="blocks"),
    HookEvent(name="TaskCreated", fires=False, decides="step", exit_2="blocks"),
    HookEvent(name="TaskCompleted", fires=False, decides="step", exit_2="blocks"),
    HookEvent(name="Elicitation", fires=False, matcher_field="mcp_server_name", decides="step", exit_2="blocks"),
    HookEvent(name="ElicitationResult", fires=False, matcher_field="mcp_server_name", decides="step", exit_2="blocks"),
    HookEvent(name="ConfigChange", fires=False, matcher_field="source", decides="step", exit_2="blocks"),
    HookEvent(name="WorktreeCreate", fires=False, decides="step", exit_2="blocks"),
    HookEvent(name="WorktreeRemove", fires=False),
    HookEvent(name="InstructionsLoaded", fires=False, matcher_field="load_reason"),
    HookEvent(name="CwdChanged", fires=False, exit_2="person"),
    HookEvent(name="FileChanged", fires=False, matcher_field="file_path", exit_2="person", narrow=True),
    HookEvent(name="DirectoryAdded", fires=False),
    HookEvent(name="MessageDisplay", fires=False, timeout=10),
)
"""Every event that settings may name.

A hook that breaks refuses the step where the step is what the hook stands guard over: a call, a prompt, a change of model. It does not
where refusing would help nobody: a broken `Stop` or `PostToolBatch` hook would keep a turn from ever ending, a broken `PreCompact` hook
would let the conversation overflow, and after a broken `PermissionRequest` hook the person is asked, as without it.
"""
