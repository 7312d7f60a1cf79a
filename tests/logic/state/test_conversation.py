"""A conversation that is told from its log page by page is the one that whoever goes on with it has."""

from hypothesis import given, settings
from hypothesis import strategies as st

from backstay.logic.state.conversation import Conversation, ConversationFold, VisibleTranscript
from backstay.logic.state.transcript import Transcript, transcript_of
from backstay.testing.builders import recorded, started
from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import (
    HistoryCleared,
    InputReceived,
    InputTaken,
    MessageInjected,
    ModelReplied,
    Rewound,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
)
from backstay.vocab.events.limits import Compacted, CompactionUndone
from backstay.vocab.events.tools import HookFinished
from backstay.vocab.messages import Text, ToolCall

LONG = "It was a dark and stormy night. " * 400


class Log:
    """A log that grows by what may happen to a conversation."""

    def __init__(self) -> None:
        self.records: list[Recorded] = []
        self.transcript = Transcript()
        self.write(started())

    def write(self, *events: Event) -> None:
        for event in events:
            self.records.append(recorded(event, len(self.records) + 1))
            self.transcript.apply(self.records[-1])

    def grow(self, what: str, chance: int) -> None:
        """Let something happen; `chance` says to what of all that is there."""
        seq = len(self.records)
        nodes, messages = list(self.transcript.branches.parents), [each.id for each in self.transcript.messages]
        match what:
            case "turn" | "abandoned":
                name = f"{seq}"
                self.write(InputReceived(input=name, parts=(Text(text=f"question {name}"),)), TurnStarted(number=seq))
                turn = self.records[-1].id
                call = ToolCall(id=f"c{name}", name="Read", args="{}")
                self.write(InputTaken(inputs=(name,)), ModelReplied(parts=(Text(text=f"look {name}"), call)))
                self.write(ToolFinished(call=call.id, outcome="ok", content=(Text(text=LONG + name),)))
                if chance % 3 == 0:
                    self.write(HookFinished(event="PostToolUse", subject=call.id, output=f"short {name}"))
                if chance % 5 == 0:
                    self.grow("compacted", chance)
                self.write(TurnCompleted(turn=turn, outcome="abandoned" if what == "abandoned" else "completed"))
            case "rewound" if nodes:
                self.write(Rewound(to=["", *nodes][chance % (len(nodes) + 1)], turns=0))
            case "compacted" if messages:
                at = chance % (len(messages) + 1)
                kept = messages[at:]
                summary = None if chance % 7 == 0 else Text(text=f"summary {seq}")
                first, trimmed = (kept[0] if kept else ""), tuple(kept[::2])
                self.write(Compacted(trigger="auto", first_kept=first, summary=summary, trimmed=trimmed))
            case "undone" if newest := self.transcript.newest_compaction():
                self.write(CompactionUndone(compaction=newest))
            case "cleared":
                self.write(HistoryCleared())
            case "system":
                self.write(MessageInjected(role="system", parts=(Text(text=f"rule {seq}"),)))
            case _:
                pass


WHATS = ("turn", "turn", "abandoned", "rewound", "compacted", "compacted", "undone", "cleared", "system")


def told(records: list[Recorded]) -> Conversation:
    """The conversation of a log."""
    fold = ConversationFold()
    for record in records:
        fold.apply(record)
    return fold.over(records, "s1")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WHATS), st.integers(0, 1_000)), max_size=14))
def test_messages_path_and_history_are_those_of_the_whole_log(steps: list[tuple[str, int]]) -> None:
    log = Log()
    visible = VisibleTranscript(log.records)
    visible.apply(log.records[0])
    for what, chance in steps:
        before = len(log.records)
        log.grow(what, chance)
        for record in log.records[before:]:
            visible.apply(record)
        assert visible.messages == log.transcript.messages
    whole, paged = transcript_of(log.records), told(log.records)
    assert list(paged.messages()) == whole.messages
    assert [record.seq for record in log.records if paged.path.holds(record)] == [each.seq for each in whole.path()]
    assert tuple(entry for turn in paged.transcripts() for entry in turn.entries()) == whole.entries()
    assert [said for turn in paged.transcripts() for said in turn.walk_nodes()] == list(whole.walk_nodes())
