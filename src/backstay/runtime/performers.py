"""Who performs what."""

from typing import Final

from backstay.runtime.ask_budget import AskBudget
from backstay.runtime.ask_human import AskHuman
from backstay.runtime.ask_model import AskModel
from backstay.runtime.children import RunChild
from backstay.runtime.compact import Compact
from backstay.runtime.inspect_call import InspectCall
from backstay.runtime.kept_files import KeepingFirst, RestoreKept
from backstay.runtime.run_hook import RunHook
from backstay.runtime.run_tool import RunTool
from backstay.runtime.wait import Wait
from backstay.runtime.world import Perform
from backstay.vocab.event import Event
from backstay.vocab.event_files import RestoreStarted
from backstay.vocab.event_limits import BudgetAsked, CompactionStarted, WaitStarted
from backstay.vocab.event_tools import HookStarted
from backstay.vocab.events import CallProposed, ChildStarted, ModelAsked, PermissionAsked, ToolStarted

PERFORMERS: Final[dict[type[Event], Perform]] = {
    ModelAsked: AskModel,
    CallProposed: InspectCall,
    PermissionAsked: AskHuman,
    ToolStarted: RunTool,
    ChildStarted: lambda record, world: KeepingFirst(RunChild(record, world), record, world),
    WaitStarted: Wait,
    CompactionStarted: Compact,
    BudgetAsked: AskBudget,
    HookStarted: lambda record, world: KeepingFirst(RunHook(record, world), record, world),
    RestoreStarted: RestoreKept,
}
