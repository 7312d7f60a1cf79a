"""Entries of the full history: folded from events, matched by call, robust against whatever a log holds."""

from collections.abc import Mapping

import msgspec
import pytest

from backstay.logic.state.entries import (
    Entry,
    entry_added,
    entry_of,
    is_chat,
    is_entry,
    message_of,
    messages_for_api,
    read_entry,
    skill_entry,
)
from backstay.logic.state.file_diffs import RESULT_CHARS, file_diffs, first_argument, result_content
from backstay.logic.state.transcript import Transcript, transcript_of
from backstay.testing.builders import log, started
from backstay.vocab.errors import UserError
from backstay.vocab.event import Event, ToolOutcome
from backstay.vocab.events import (
    EntryAdded,
    InputReceived,
    InputTaken,
    ModelReplied,
    PermissionAnswered,
    Rewound,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from backstay.vocab.events.files import FileKept
from backstay.vocab.events.instructions import MemoryNoted
from backstay.vocab.messages import SessionMessage, Text, TextRef, ToolCall, text_of


def wants(*calls: tuple[str, str, Mapping[str, object]]) -> ModelReplied:
    made = (ToolCall(id=id, name=name, args=msgspec.json.encode(args).decode()) for id, name, args in calls)
    return ModelReplied(parts=tuple(made), stop="tool_calls")


def starts(call: str, name: str, *, again: bool = False) -> ToolStarted:
    return ToolStarted(call=call, name=name, effect="once", key=call, again=again)


def ends(call: str, text: str, outcome: ToolOutcome = "ok", code: str = "") -> ToolFinished:
    return ToolFinished(call=call, outcome=outcome, content=(Text(text=text),), code=code)


def turn(*events: Event, after: int = 1) -> tuple[Event, ...]:
    """A turn around `events`, in a log that has `after` events already."""
    begun = f"t0.{after + 2}"
    return (
        InputReceived(input=f"in-{after}", parts=(Text(text="go"),)),
        TurnStarted(number=1),
        InputTaken(inputs=(f"in-{after}",)),
        *events,
        TurnCompleted(turn=begun, outcome="completed"),
    )


def folded(*events: Event) -> Transcript:
    return transcript_of(log(started(), *events))


def notes(transcript: Transcript, kind: str, before: Mapping[str, str] | None = None) -> list[dict[str, object]]:
    return [e.data for e in transcript.entries(before) if e.type == kind and isinstance(e.data, dict)]


def signs(lines: object) -> list[str]:
    assert isinstance(lines, list)
    return [f"{line['type']}:{line['text']}" for line in lines]


@pytest.mark.contract("RB-65")
def test_rb_w45_calls_of_one_name_are_told_apart_by_their_ids() -> None:
    said = folded(
        *turn(
            wants(("c1", "look", {"at": "a"}), ("c2", "look", {"at": "b"}), ("c3", "look", {"at": "c"})),
            ends("c3", "Not run.", "denied", "denied"),  # it never started, and marks no sibling that runs
            starts("c1", "look"),
            starts("c2", "look"),
            ends("c2", "saw b"),
            ends("c1", "no a", "failed", "raised"),
        )
    )
    assert [(note["call"], note["args"]) for note in notes(said, "tool-start")] == [
        ("c1", '{"at":"a"}'),
        ("c2", '{"at":"b"}'),
    ]
    assert [(note["call"], note["outcome"]) for note in notes(said, "tool-end")] == [
        ("c3", "denied"),
        ("c2", "ok"),
        ("c1", "failed"),
    ]
    assert notes(said, "tool-summary") == [
        {
            "turn": "t0.3",
            "calls": 3,
            "ok": 1,
            "tools": [
                {"call": "c3", "tool": "look", "outcome": "denied", "code": "denied", "shown": "c"},
                {"call": "c2", "tool": "look", "outcome": "ok", "code": "", "shown": "b"},
                {"call": "c1", "tool": "look", "outcome": "failed", "code": "raised", "shown": "a"},
            ],
        }
    ]


def test_a_call_that_was_started_twice_says_so_and_one_on_a_path_left_behind_is_not_shown() -> None:
    first = turn(wants(("c1", "look", {})), starts("c1", "look"), starts("c1", "look", again=True), ends("c1", "x"))
    said = folded(*first, Rewound(to=""), *turn(wants(("c2", "look", {})), starts("c2", "look"), after=10))
    assert [note["call"] for note in notes(said, "tool-start")] == ["c2"]
    whole = folded(*first)
    assert [note.get("again") for note in notes(whole, "tool-start")] == [None, True]


def test_an_entry_shows_the_arguments_that_ran() -> None:
    answered = PermissionAnswered(call="c1", allowed=True, args='{"at":"sea"}')
    said = folded(
        *turn(wants(("c1", "look", {"at": "sky"})), answered, starts("c1", "look"), ends("c1", "x")),
    )
    assert [note["args"] for note in notes(said, "tool-start")] == ['{"at":"sea"}']


@pytest.mark.contract("RB-66")
def test_a_written_file_is_compared_with_what_was_kept_of_it_and_then_with_what_the_turn_left() -> None:
    def write(call: str, content: str, result: str = "Replaced '/w/a': 9 bytes.") -> tuple[Event, ...]:
        return (
            wants((call, "Write", {"file_path": "a", "content": content})),
            starts(call, "Write"),
            ends(call, result),
        )

    edit = {"file_path": "a", "old_string": "three", "new_string": "3"}
    said = folded(
        FileKept(path="/w/a", kind="file", sha256="f00", call="c1"),
        *turn(
            *write("c1", "one\ntwo\n"),
            *write("c2", "one\nthree\n"),
            wants(("c3", "Edit", edit)),
            ends("c3", "Edited '/w/a' at line 2."),
            *write("c4", "one\n4\n"),
            wants(("c5", "Bash", {"command": "sed -i s/one/1/ a"})),
            ends("c5", ""),
            *write("c6", "1\n"),
            after=2,
        ),
        *turn(*write("c7", "x\n"), after=40),
        *turn(*write("c8", "new\n", "Created '/w/a': 4 bytes."), after=50),
    )
    assert dict(said.file_captures()) == {"c1": "f00"}
    found = {
        note["call"]: signs(note["diffLines"])
        for note in notes(said, "tool-end", {"c1": "one\n"})
        if "diffLines" in note
    }
    assert found == {
        "c1": ["hunk:@@ -1 +1,2 @@", "context:one", "add:two"],
        "c2": ["hunk:@@ -1,2 +1,2 @@", "context:one", "remove:two", "add:three"],
        "c3": ["hunk:@@ -2,1 +2,1 @@", "remove:three", "add:3"],
        "c4": ["hunk:@@ -1,2 +1,2 @@", "context:one", "remove:3", "add:4"],
        "c6": [],  # a command may have changed it
        "c7": [],  # anybody may have, between the turns
        "c8": ["hunk:@@ -0,0 +1 @@", "add:new"],
    }


def test_a_pre_image_that_was_not_kept_is_no_empty_file() -> None:
    kept = (
        FileKept(path="/w/a", kind="file", sha256="", call="c1"),
        FileKept(path="/w/b", kind="absent", call="c2"),
    )
    assert dict(folded(*kept).file_captures()) == {"c2": ""}


def test_a_patch_has_a_difference_for_each_file_with_the_numbers_of_its_report() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** Add File: b.py\n+y = 1\n"
        "*** Delete File: c.py\n*** End Patch"
    )
    report = (
        "Updated '/w/a.py' at line 7.\n@@ -7,1 +7,1 @@\n-x = 1\n+x = 2\nAdded '/w/b.py': 1 lines.\nRemoved '/w/c.py'."
    )
    update, added, removed = file_diffs("apply_patch", {"patch": patch}, report)
    assert [(line.type, line.text, line.line) for line in update.lines] == [
        ("hunk", "@@ -7,1 +7,1 @@", 0),
        ("remove", "x = 1", 7),
        ("add", "x = 2", 7),
    ]
    assert (added.file, [line.text for line in added.lines]) == ("b.py", ["@@ -0,0 +1 @@", "y = 1"])
    assert (removed.file, removed.lines) == ("c.py", ())
    without_report = file_diffs("apply_patch", {"patch": patch}, "")[0]
    assert [(line.type, line.line) for line in without_report.lines] == [("remove", 0), ("add", 0)]
    assert file_diffs("apply_patch", {"patch": "nonsense"}, report) == ()


@pytest.mark.parametrize(
    "args",
    [{}, {"file_path": 7}, {"edits": "x"}, {"edits": [3, {"old_string": 1}]}, {"old_string": None}, {"content": []}],
)
@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "Write", "apply_patch"])
def test_arguments_of_any_shape_break_nothing(tool: str, args: dict[str, object]) -> None:
    said = folded(*turn(wants(("c1", tool, args)), starts("c1", tool), ends("c1", "@@ -1 +1 @@\nnonsense")))
    assert [note["call"] for note in notes(said, "tool-end")] == ["c1"]


def test_entries_and_arguments_that_are_no_json_are_shown_all_the_same() -> None:
    broken = ModelReplied(parts=(ToolCall(id="c1", name="Edit", args='{"file_path": '),), stop="tool_calls")
    said = folded(*turn(broken, ends("c1", "The arguments are not JSON.", "invalid", "bad_arguments")))
    said.apply(log(EntryAdded(kind="odd", content="not json"), after=99)[0])
    assert notes(said, "odd") == [{"content": "not json"}]
    assert notes(said, "tool-end")[0]["code"] == "bad_arguments"


@pytest.mark.contract("RB-65")
def test_a_command_carries_its_output_and_status_and_a_command_tool_its_object() -> None:
    assert result_content("Bash", {"command": "ls"}, "a\nb", "") == {"output": "a\nb", "exitCode": 0}
    assert result_content("Bash", {"command": "ls"}, "no", "exit:2") == {"output": "no", "exitCode": 2}
    assert result_content("Bash", {"command": "ls"}, "slow", "timeout") == {"output": "slow", "exitCode": None}
    assert result_content("memory", {"args": "list"}, '{"success":true}', "") == {"success": True}
    assert result_content("Read", {"file_path": "a"}, "text", "") is None
    long = result_content("Bash", {"command": "ls"}, "x" * (RESULT_CHARS + 1), "")
    assert long == {"output": "x" * RESULT_CHARS + "…", "exitCode": 0}


def test_the_beginning_of_a_very_long_result_is_not_mistaken_for_the_whole() -> None:
    ref = TextRef(sha256="00", chars=99_999, tokens=9, head='{"a":1}')
    edit = wants(("c1", "Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}), ("c2", "ask", {}))
    long = (ToolFinished(call=call, outcome="ok", content=(ref,)) for call in ("c1", "c2"))
    first, second = notes(folded(*turn(edit, *long)), "tool-end")
    assert signs(first["diffLines"]) == ["remove:x", "add:y"]
    assert "toolResultData" not in second


def test_a_long_argument_is_shown_with_its_beginning_and_its_end() -> None:
    assert first_argument({"n": 1, "path": "a\n b"}) == "a b"
    shown = first_argument({"path": "x" * 60 + "y" * 60})
    assert (len(shown), shown[:3], shown[-30:]) == (80, "xxx", "y" * 30)


def test_what_became_of_memories_is_kept_over_rewinds_and_snapshots() -> None:
    noted = MemoryNoted(act="used", memory="mem_1")
    said = folded(noted, *turn(after=2), Rewound(to=""), MemoryNoted(act="saved", memory="mem_2"))
    assert [each.memory for each in said.memory] == ["mem_1", "mem_2"]
    stored = msgspec.msgpack.encode(said.snapshot(()))
    again = Transcript(msgspec.msgpack.decode(stored, type=type(said.snapshot(()))))
    assert again.memory == said.memory


@pytest.mark.contract("RB-78")
def test_an_entry_converts_to_and_from_a_message_and_to_and_from_json() -> None:
    said = folded(*turn(ModelReplied(parts=(Text(text="done"),))))
    entries = said.entries()
    assert all(map(is_entry, entries))
    assert [is_chat(entry) for entry in entries] == [True, True]
    assert [message_of(entry) for entry in entries] == said.messages
    assert messages_for_api(entries) == tuple(said.messages)
    assert tuple(map(entry_of, said.messages)) == entries
    assert tuple(read_entry(msgspec.to_builtins(entry)) for entry in entries) == entries
    note = Entry(id="e", timestamp="t", category="event", type="odd", data={"a": 1})
    assert (message_of(note), read_entry(msgspec.to_builtins(note))) == (None, note)


@pytest.mark.contract("RB-78")
@pytest.mark.parametrize("value", [None, {}, [], "entry", 7])
def test_what_is_no_entry_is_refused(value: object) -> None:
    assert not is_entry(value)
    with pytest.raises(UserError, match="not an entry"):
        read_entry(value)


@pytest.mark.contract("RB-78")
def test_an_entry_whose_category_and_content_do_not_fit_is_none() -> None:
    message = SessionMessage(id="m", session="s", number=1, role="user", content=(Text(text="x"),), at=0)
    assert text_of(message.content) == "x"
    assert is_entry(entry_of(message))
    assert not is_entry(Entry(id="m", timestamp="t", category="chat", type="user", data={}))
    assert not is_entry(Entry(id="m", timestamp="t", category="event", type="odd", data=message))
    assert not is_entry(Entry(id="", timestamp="t", category="event", type="odd", data={}))


def test_an_entry_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(UserError, match="needs a kind"):
        entry_added("", {})
    with pytest.raises(UserError, match="may be"):
        entry_added("long", {"text": "x" * 40_000})
    with pytest.raises(UserError, match="JSON"):
        entry_added("odd", {"value": object()})
    assert len(skill_entry("x", "y" * 99_999).content) < 3_000
