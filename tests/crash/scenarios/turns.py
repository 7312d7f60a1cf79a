"""Scenarios of the conversation itself: calls, approvals, steering, interrupts, forks and rewinds."""

from collections.abc import Callable
from typing import Final

import anyio
import anyio.lowlevel

from backstay.ports import Answer, Question
from backstay.session.session import Session
from backstay.testing.crash.stage import Scenario, Stage
from backstay.vocab.deltas import TextDelta
from backstay.vocab.errors import TurnError
from backstay.vocab.event import Recorded
from backstay.vocab.events import InputReceived, ToolStarted
from tests.crash.scenarios.cast import LONG, call, played


async def _serial(stage: Stage) -> None:
    async with stage.open(name="serial") as session:
        await session.run("Do it all.")
        await session.rename("done")
        await session.set_permission_mode("acceptEdits")
        await session.inject("assistant", "Something was said in between.")
        await session.inject("system", "Be brief.")
        async for item in session.send("Now the hard ones."):
            if isinstance(item, Recorded) and isinstance(item.event, ToolStarted) and item.event.name == "stumble":
                await anext(session.send("And then?", input_id="queued"))
        await session.finish()


SERIAL: Final = Scenario(
    name="serial",
    options=played(
        [
            {"text": "First.", "calls": [call("count", n=1), call("pay", n=1)]},
            {"reasoning": "Hm.", "text": "Then.", "calls": [call("put", n=2), call("book", n=2), call("pay", n=2)]},
            {"text": "Done."},
            {"text": "Hard.", "calls": [call("stumble", n=3), call("nothing", n=3), call("pay", n=3)]},
            {"raw_args": {"name": "pay", "text": "{broken"}},
            {"calls": [call("delegate", prompt="What do you think?"), call("pay", wrong=1)]},
            {"text": "That was hard."},
        ]
    ),
    act=_serial,
)


async def _parallel(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run("Look around.")
        await session.run("Again.")


PARALLEL: Final = Scenario(
    name="parallel",
    options=played(
        [
            {
                "text": "Looking.",
                "calls": [
                    *(call("look", n=n) for n in (1, -2, 3, 4)),
                    call("pay", n=5),
                    call("look", n=6),
                    call("look", n=7),
                ],
            },
            {"reasoning": "Only a thought.", "calls": [call("look", n=n) for n in range(10)]},
            {"text": LONG, "chunk": len(LONG)},
            {"text": "Yes."},
        ]
    ),
    act=_parallel,
)


async def _decide(question: Question) -> Answer:
    await anyio.lowlevel.checkpoint()
    match question.args.get("n"):
        case 2:
            return Answer(allowed=False, message="not today")
        case 3:
            return Answer(allowed=True, grant="session")
        case 4:
            raise RuntimeError("nobody is at home")
        case _:
            return Answer(allowed=True)


async def _approval(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run("Order.")
        await session.run("Order more.")


APPROVAL: Final = Scenario(
    name="approval",
    options=played(
        [
            {"text": "May I?", "calls": [call("look", n=1), call("order", n=1), call("order", n=2), call("look", n=2)]},
            {"calls": [call("order", n=3), call("order", n=4)]},
            {"text": "Done."},
            {"calls": [call("order", n=3), call("pay", n=1)]},
            {"text": "Done again."},
        ],
        _decide,
    ),
    act=_approval,
)


async def _steered(stage: Stage) -> None:
    async with stage.open() as session:
        said = 0
        async for item in session.send("Go."):
            if isinstance(item, TextDelta) and not said:
                said = 1
                await session.steer("Wait, this first.")
            if isinstance(item, Recorded) and isinstance(item.event, ToolStarted) and said == 1:
                said = 2
                await session.steer("And that.")
                await session.steer("And that too.")
                await anext(session.send("Later.", input_id="later"))
        await session.finish()
        await session.run("The end.")


STEERED: Final = Scenario(
    name="steered",
    options=played(
        [
            {"text": "I begin with a long sentence.", "chunk": 4, "calls": [call("look", n=1), call("pay", n=1)]},
            {"text": "Then.", "calls": [call("put", n=1)]},
            {"text": "Good."},
            {"text": "Later it is."},
        ]
    ),
    act=_steered,
)


async def _interrupted(stage: Stage) -> None:
    async with stage.open() as session:
        await _stop_at(session, "Talk.", lambda item: isinstance(item, TextDelta))
        await _stop_at(session, "Ring.", lambda item: _starts(item, "ring"))
        await _stop_at(session, "Ring again.", lambda item: isinstance(item, Recorded) and _received(item))
        await session.run("Enough.")


INTERRUPTED: Final = Scenario(
    name="interrupted",
    options=played(
        [
            {"reasoning": "Hm, hm.", "text": "I was about to", "hang": True},
            {"text": "Ringing.", "calls": [call("look", n=1), call("ring", n=1), call("pay", n=1)]},
            {"text": "Ringing.", "calls": [call("pay", n=2)]},
            {"text": "Quiet."},
        ]
    ),
    act=_interrupted,
)


async def _forked(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run("One.")
        first = session.turns[0].turn
        fork = await session.fork()
        await session.run("Two.")
        early = await session.fork(at=first)
        async with stage.open(resume=fork) as other:
            await other.run("Two, but differently.")
        await session.run("Three.")
    async with stage.open(resume=early) as other:
        await other.run("Two, a third way.")


FORKED: Final = Scenario(
    name="forked",
    options=played(
        [
            {"text": "Paying.", "calls": [call("pay", n=1), call("look", n=1)]},
            {"text": "Paid."},
            {"calls": [call("put", n=2), call("pay", n=2)]},
            {"text": "Again."},
        ]
    ),
    act=_forked,
)


async def _rewound(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run("One.")
        await session.run("Two.")
        await session.rewind(to=session.turns[0].turn)
        await session.run("Two, better.")
        await session.rewind(before=session.turns[0].turn)
        await session.run("One, better.")
        await session.rewind(to=session.turns[1].turn)
        await session.run("Back to the first way.")
        await session.clear_history()
        await session.run("A clean table.")


REWOUND: Final = Scenario(
    name="rewound",
    options=played(
        [
            {"text": "Paying.", "calls": [call("pay", n=1), call("look", n=1)]},
            {"text": "Paid."},
            {"calls": [call("book", n=2)]},
            {"text": "Booked."},
            {"calls": [call("pay", n=3)]},
            {"text": "Paid again."},
        ]
    ),
    act=_rewound,
)

TURNS: Final = (SERIAL, PARALLEL, APPROVAL, STEERED, INTERRUPTED, FORKED, REWOUND)


async def _stop_at(session: Session, prompt: str, moment: Callable[[object], bool]) -> None:
    """Say something and interrupt the turn at the first item that is the moment."""
    stopped = False
    try:
        async for item in session.send(prompt):
            if not stopped and moment(item):
                stopped = True
                await session.abort("enough")
    except TurnError:
        return


def _starts(item: object, name: str) -> bool:
    return isinstance(item, Recorded) and isinstance(item.event, ToolStarted) and item.event.name == name


def _received(item: Recorded) -> bool:
    return isinstance(item.event, InputReceived)
