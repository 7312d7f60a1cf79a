"""The paths through a session: which events the conversation runs through, and which were left behind by a rewind.

Some events are *nodes*. A node's parent is the node that was newest when it was written; `Rewound` makes an earlier node the newest
again. Nothing is deleted: every path that ever was can be walked again.
"""

from typing import Final

from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import (
    ChildFinished,
    EntryAdded,
    HistoryCleared,
    InputTaken,
    MessageInjected,
    ModelReplied,
    Rewound,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
)
from backstay.vocab.events.limits import Compacted, CompactionUndone
from backstay.vocab.events.tools import HookFinished, TodosWritten

NODES: Final[frozenset[type[Event]]] = frozenset(
    {
        TurnStarted,
        InputTaken,
        ModelReplied,
        ToolFinished,
        ChildFinished,
        MessageInjected,
        HookFinished,
        TodosWritten,
        EntryAdded,
        HistoryCleared,
        Compacted,
        CompactionUndone,
        TurnCompleted,
    }
)


class Branches:
    """The tree of a session's nodes and the newest node of the active path."""

    __slots__ = ("_before_turn", "parents", "tip")

    def __init__(self) -> None:
        self.parents: dict[str, str] = {}
        self.tip = ""
        self._before_turn = ""

    def apply(self, record: Recorded) -> bool:
        """Take an event in; tell whether the path jumped, so that whoever follows it must walk it anew."""
        event = record.event
        kind = type(event)
        if kind is Rewound:
            self.tip = event.to if isinstance(event, Rewound) else ""
            return True
        if kind not in NODES:
            return False
        if kind is TurnStarted:
            self._before_turn = self.tip
        self.parents[record.id] = self.tip
        if isinstance(event, TurnCompleted) and event.outcome == "abandoned":
            self.tip = self._before_turn
            return True
        self.tip = record.id
        return False

    def path(self, to: str | None = None) -> list[str]:
        """The nodes from the beginning to `to` (the tip, when left out), in order."""
        node = self.tip if to is None else to
        nodes: list[str] = []
        while node:
            nodes.append(node)
            node = self.parents[node]
        nodes.reverse()
        return nodes
