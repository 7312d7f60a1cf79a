"""The active path of a log as runs of seqs: a few numbers, however long the log is."""

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct

from backstay.logic.state.branches import NODES
from backstay.vocab.event import Recorded
from backstay.vocab.events import Rewound, TurnCompleted, TurnStarted

Node = int | str
"""The seq of a node; its id while nobody has looked where that is; 0 before the first node."""


class PathRuns(Struct, frozen=True):
    """The stretches of a log that its active path runs through, oldest first."""

    runs: tuple[tuple[int, int], ...]

    def holds(self, record: Recorded) -> bool:
        """Whether `record` is a node of the path."""
        if type(record.event) not in NODES:
            return False
        at = bisect_right(self.runs, record.seq, key=lambda run: run[0]) - 1
        return at >= 0 and record.seq <= self.runs[at][1]


class PathFold:
    """Follows the path of a log an event at a time, as `Branches` does, without keeping its nodes."""

    def __init__(self) -> None:
        self._forks: list[tuple[int, Node]] = []
        """Nodes that do not grow from the one before them, and what they grow from."""
        self._tip: Node = 0
        self._before_turn: Node = 0
        self._jumped = True

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        event = record.event
        if isinstance(event, Rewound):
            self._tip, self._jumped = event.to or 0, True
        elif type(event) in NODES:
            if isinstance(event, TurnStarted):
                self._before_turn = self._tip
            if self._jumped:
                self._forks.append((record.seq, self._tip))
            self._tip, self._jumped = record.seq, False
            if isinstance(event, TurnCompleted) and event.outcome == "abandoned":
                self._tip, self._jumped = self._before_turn, True

    def runs(self, log: Iterable[Recorded]) -> PathRuns:
        """The path. The log is read once more when it was ever rewound."""
        wanted = {node for node in (self._tip, *(parent for _, parent in self._forks)) if isinstance(node, str)}
        seqs: dict[Node, int] = {each.id: each.seq for each in log if each.id in wanted} if wanted else {}
        runs: list[tuple[int, int]] = []
        node = seqs.get(self._tip, self._tip)
        while node:
            assert isinstance(node, int)
            first, parent = self._forks[bisect_right(self._forks, node, key=lambda fork: fork[0]) - 1]
            runs.append((first, node))
            node = seqs.get(parent, parent)
        return PathRuns(tuple(reversed(runs)))
