"""Make events, envelopes and whole logs for tests, without saying more than the test is about.

`python -m backstay.testing.builders FOLDER` writes the golden logs of the current shapes: one of every event, and short
sessions.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from backstay.vocab import events
from backstay.vocab.event import By, Event, Recorded
from backstay.vocab.ids import call_id, check_session_id, event_id
from backstay.vocab.messages import Text, ToolCall
from backstay.vocab.specs import SessionContext, Usage
from backstay.wire.codec import encode

START: Final = 1_767_225_600_000_000
"""When built logs begin: 2026-01-01, in microseconds."""

_S = TypeVar("_S", bound=msgspec.Struct)


def example(cls: type[_S]) -> _S:
    """Make one valid instance of a struct from its annotations.

    Every field holds something that is not its default; a tuple of a union holds one of each member. The same class
    always gives the same instance.
    """
    shape = inspect.type_info(cls)
    assert isinstance(shape, inspect.StructType), f"{cls!r} is not a struct"
    return cls(**{field.name: _fill(field) for field in shape.fields})


def example_events() -> tuple[Event, ...]:
    """Make one of every event."""
    return tuple(example(cls) for cls in events.EVENTS)


def recorded(
    event: Event, seq: int = 1, *, id: str = "", at: int | None = None, by: By = "system", cause: str = ""
) -> Recorded:
    """Put `event` in an envelope; id and time follow from `seq` unless they are given."""
    return Recorded(
        seq=seq,
        id=id or event_id("t0", seq),
        at=START + seq * 1_000 if at is None else at,
        by=by,
        cause=cause,
        event=event,
    )


def log(*events: Event, after: int = 0) -> tuple[Recorded, ...]:
    """Number `events` from `after + 1` on."""
    return tuple(recorded(event, seq) for seq, event in enumerate(events, after + 1))


def started(session: str = "s1", **fields: object) -> events.Started:
    """Return the first event of a session in `/work` on a scripted model."""
    known: dict[str, object] = {
        "session": check_session_id(session),
        "context": SessionContext(working_dir="/work"),
        "store": "store-1",
        "model": "scripted:test",
    }
    return events.Started(**{**known, **fields})  # type: ignore[arg-type]  # msgspec checks nothing here; the caller names fields


def conversation(*exchanges: tuple[str, str], session: str = "s1", tool: str = "") -> tuple[Recorded, ...]:
    """Return the log of a session in which each prompt was answered; with `tool`, every answer needed one call of it first."""
    records = [recorded(started(session), by="user")]
    for number, (prompt, answer) in enumerate(exchanges, 1):
        records += _turn(len(records), number, prompt, answer, tool)
    return tuple(records)


def cut_conversation(session: str = "s1") -> tuple[Recorded, ...]:
    """Return the log of a process that died while a tool was running, was opened again, and was interrupted by its person."""
    whole = conversation(("Delete the old files.", "Done."), session=session, tool="Bash")
    died = next(index for index, record in enumerate(whole) if isinstance(record.event, events.ToolStarted)) + 1
    running = whole[died - 1].event
    assert isinstance(running, events.ToolStarted)
    turn = next(record.id for record in whole if isinstance(record.event, events.TurnStarted))
    return (
        *whole[:died],
        recorded(events.Opened(version="0.1.0"), died + 1),
        recorded(
            events.ToolFinished(call=running.call, outcome="unknown", code="restart"),
            died + 2,
            cause=whole[died - 1].id,
        ),
        recorded(events.Interrupted(reason="enough"), died + 3, by="user"),
        recorded(events.TurnCompleted(turn=turn, outcome="interrupted"), died + 4),
    )


def golden_logs() -> dict[str, tuple[Recorded, ...]]:
    """Return the logs that every later version must be able to read, by file name."""
    return {
        "every_event": log(*example_events()),
        "conversation": conversation(("Hello", "Hi."), ("Say ü and \u2028.", "ü and \u2028.")),
        "tools": conversation(("What is in a.txt?", "One line."), ("And b.txt?", "Nothing."), tool="Read"),
        "cut": cut_conversation(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the golden logs into a new folder; 1 when it exists."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1:
        print("usage: python -m backstay.testing.builders FOLDER", file=sys.stderr)
        return 2
    folder = Path(given[0])
    if folder.exists():
        print(
            f"{str(folder)!r} exists, and the logs of a release never change. Name the next version.", file=sys.stderr
        )
        return 1
    folder.mkdir(parents=True)
    for name, records in golden_logs().items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(encode(record) + b"\n" for record in records))
    return 0


def _turn(after: int, number: int, prompt: str, answer: str, tool: str) -> Iterator[Recorded]:
    key, turn = f"in-{number}", event_id("t0", after + 2)
    yield recorded(events.InputReceived(input=key, parts=(Text(text=prompt),)), after + 1, by="user")
    yield recorded(events.TurnStarted(number=number), after + 2)
    yield recorded(events.InputTaken(inputs=(key,)), after + 3, cause=turn)
    seq = after + 4
    if tool:
        yield from _round_with_call(seq, turn, tool, number)
        seq += 6
    yield recorded(events.ModelAsked(turn=turn, round=2 if tool else 1, model="scripted:test"), seq)
    said = events.ModelReplied(parts=(Text(text=answer),), model="scripted:test", usage=Usage(input=20, output=5))
    yield recorded(said, seq + 1, by="model", cause=event_id("t0", seq))
    yield recorded(events.TurnCompleted(turn=turn, outcome="completed", stop_reason="end"), seq + 2)


def _round_with_call(seq: int, turn: str, tool: str, number: int) -> Iterator[Recorded]:
    call = call_id(event_id("t0", seq + 1), 0)
    args = json.dumps({"file_path": f"{number}.txt"})
    wanted = ToolCall(id=call, name=tool, args=args, provider_id=f"toolu_{number}")
    yield recorded(events.ModelAsked(turn=turn, round=1, model="scripted:test"), seq)
    yield recorded(
        events.ModelReplied(parts=(wanted,), stop="tool_calls"), seq + 1, by="model", cause=event_id("t0", seq)
    )
    yield recorded(events.CallInspected(call=call), seq + 2)
    yield recorded(events.CallJudged(call=call, decision="allow", reason="mode"), seq + 3, by="rule")
    yield recorded(events.ToolStarted(call=call, name=tool, effect="once", key=call), seq + 4)
    done = events.ToolFinished(call=call, outcome="ok", content=(Text(text="one line"),))
    yield recorded(done, seq + 5, cause=event_id("t0", seq + 4))


def _fill(field: inspect.Field) -> object:
    made = _make(field.type, field.name)
    if made == field.default and isinstance(field.type, inspect.LiteralType):
        return next(value for value in field.type.values if value != field.default)
    return made


def _make(shape: inspect.Type, name: str) -> object:
    match shape:
        case inspect.StrType():
            return f"{name}-1"
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 1.5
        case inspect.BoolType():
            return True
        case inspect.NoneType():
            return None
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.StructType(cls=cls):
            return example(cls)
        case inspect.VarTupleType(item_type=inspect.UnionType(types=types)):
            return tuple(_make(each, name) for each in types)
        case inspect.VarTupleType(item_type=item):
            return (_make(item, name),)
        case inspect.UnionType(types=types):
            return next(_make(each, name) for each in types if not isinstance(each, inspect.NoneType))
        case inspect.DictType(value_type=value):
            return {f"{name}-1": _make(value, name)}
        case inspect.CustomType() | inspect.AnyType():
            return {"any": [1, 1.5, "text", True, None]}
    raise TypeError(f"No example for {shape!r} of {name!r} yet: add a case to {__name__}._make.")


if __name__ == "__main__":
    sys.exit(main())
