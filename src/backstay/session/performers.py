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
from backstay.vocab.event import Event
from backstay.vocab.events import CallProposed, ChildStarted, ModelAsked, PermissionAsked, ToolStarted
from backstay.vocab.events.files import RestoreStarted
from backstay.vocab.events.limits import BudgetAsked, CompactionStarted, WaitStarted
from backstay.vocab.events.tools import HookStarted

PERFORMERS: Final[dict[type[Event], Perform]] = {
    ModelAsked: AskModel,
    CallProposed: InspectCall,
    PermissionAsked: AskApproval,
    ToolStarted: RunTool,
    ChildStarted: RunChild,
    WaitStarted: Wait,
    CompactionStarted: Compact,
    BudgetAsked: AskBudget,
    HookStarted: RunHook,
    RestoreStarted: RestoreFiles,
}
