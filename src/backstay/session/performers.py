"""The table of performers: which class performs which intent.

Assembly gives it to the runner, so that the loop knows no feature. A new effect on the world is an intent and a row here.
"""

from typing import Final

from backstay.checkpoints.restore import RestoreFiles
from backstay.hooks.dispatch import RunHook
from backstay.runtime.ask_approval import AskApproval, AskBudget
from backstay.runtime.ask_model import AskModel, Wait
from backstay.runtime.compact import Compact
from backstay.runtime.run_tool import InspectCall, RunTool
from backstay.runtime.services import Perform
from backstay.session.subagents import RunChild
from backstay.vocab import events
from backstay.vocab.event import Event

PERFORMERS: Final[dict[type[Event], Perform]] = {
    events.ModelAsked: AskModel,
    events.CallProposed: InspectCall,
    events.PermissionAsked: AskApproval,
    events.ToolStarted: RunTool,
    events.ChildStarted: RunChild,
    events.WaitStarted: Wait,
    events.CompactionStarted: Compact,
    events.BudgetAsked: AskBudget,
    events.HookStarted: RunHook,
    events.RestoreStarted: RestoreFiles,
}
