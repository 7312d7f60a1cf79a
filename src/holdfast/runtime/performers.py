"""Who performs what."""

from typing import Final

from holdfast.runtime.ask_budget import AskBudget
from holdfast.runtime.ask_human import AskHuman
from holdfast.runtime.ask_model import AskModel
from holdfast.runtime.children import RunChild
from holdfast.runtime.compact import Compact
from holdfast.runtime.inspect_call import InspectCall
from holdfast.runtime.kept_files import KeepingFirst, RestoreKept
from holdfast.runtime.run_hook import RunHook
from holdfast.runtime.run_tool import RunTool
from holdfast.runtime.wait import Wait
from holdfast.runtime.world import Perform
from holdfast.vocab.event import Event
from holdfast.vocab.event_files import RestoreStarted
from holdfast.vocab.event_limits import BudgetAsked, CompactionStarted, WaitStarted
from holdfast.vocab.event_tools import HookStarted
from holdfast.vocab.events import CallProposed, ChildStarted, ModelAsked, PermissionAsked, ToolStarted

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
