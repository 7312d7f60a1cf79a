"""Whoever uses a simulated session: talks, interrupts, steers, forks, rewinds, and comes back after every crash."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import anyio
from msgspec import Struct, field

from backstay.session.session import Session
from backstay.vocab.errors import BackstayError, Bug, StoreError, TurnError, UserError
from backstay.vocab.specs import MODES
from tests.simulation.actors import OTHER
from tests.simulation.stores import Universe

Action = Callable[["Client", Session], Awaitable[None]]


class Client(Struct, eq=False, kw_only=True):
    """A person with a plan of some turns, who does not give up."""

    universe: Universe
    turns: int
    session_id: str
    said: int = 0
    """Turns begun so far."""
    acknowledged: dict[str, set[str]] = field(default_factory=dict)
    """By session: the inputs that were answered or accepted."""
    unanswered: dict[str, str] = field(default_factory=dict)
    """Inputs of the current session whose fate is not known: they are sent again under the same id."""
    _failures: int = 0
    """How often in a row nothing could be said."""

    @property
    def done(self) -> bool:
        """Whether the plan is carried out."""
        return self.said >= self.turns

    async def use(self, session: Session, wanted: Callable[[], bool]) -> None:
        """Use an open session until it is lost, left, no longer `wanted`, or the plan is carried out."""
        if self.universe.happens("client", 0.3):
            await self.bear(session.finish())
        for name, text in list(self.unanswered.items()) if self.universe.dice("client").random() < 0.5 else ():
            await self.say(session, name, text)
        while not self.done and wanted() and self._failures < 2:
            action = self.universe.pick("client", ACTIONS)
            self.universe.note(f"{session.id}: {_name(action)}")
            if action is leave:
                break
            await action(self, session)
        self._failures = 0

    def move_to(self, session_id: str) -> None:
        """Go on in another session, without what was not answered in this one."""
        self.session_id = session_id
        self.unanswered = {}

    async def say(self, session: Session, name: str, text: str) -> None:
        """Say something and wait for the end of the turn; keep what was not acknowledged for another try."""
        self.unanswered[name] = text
        try:
            await session.run(text, input_id=name)
        except TurnError as exc:
            if not exc.turn:
                self.unanswered.pop(name, None)  # it was dropped
                return
        except BackstayError as exc:
            self._failures += 1
            self._endure(exc)
            return
        self._failures = 0
        self.acknowledged.setdefault(session.id, set()).add(name)
        self.unanswered.pop(name, None)

    def _endure(self, exc: BackstayError) -> None:
        """Everything that the world does to a session is an error that says so; our own mistakes are not borne."""
        if isinstance(exc, Bug) or not isinstance(exc, StoreError | TurnError | UserError):
            raise exc
        self.universe.note(f"{type(exc).__name__}: {exc}")

    async def bear(self, work: Awaitable[object]) -> None:
        """Wait for something that may fail."""
        try:
            await work
        except BackstayError as exc:
            self._endure(exc)


async def say(client: Client, session: Session) -> None:
    """One turn, with something going on beside it."""
    client.said += 1
    name = f"in-{client.said}"
    async with anyio.create_task_group() as tasks:
        for meddle, probability in MEDDLING:
            if client.universe.dice("client").random() < probability:
                tasks.start_soon(_meddle, client, session, meddle)
        await client.say(session, name, f"say {client.said}")
        tasks.cancel_scope.cancel()


async def rewind(client: Client, session: Session) -> None:
    """Go back to some turn of any path."""
    if session.turns:
        turn = client.universe.dice("client").choice(session.turns).turn
        ends = client.universe.dice("client").random() < 0.5
        await client.bear(session.rewind(to=turn) if ends else session.rewind(before=turn))


async def fork(client: Client, session: Session) -> None:
    """Copy the session, from some turn, and perhaps go on in the copy."""
    dice = client.universe.dice("client")
    at = dice.choice(session.turns).turn if session.turns and dice.random() < 0.5 else ""
    copy = ""

    async def copied() -> None:
        nonlocal copy
        copy = await session.fork(at=at)

    await client.bear(copied())
    if copy and dice.random() < 0.5:
        client.move_to(copy)
        await session.close("moved to the fork")


async def inject(client: Client, session: Session) -> None:
    """Put words in somebody's mouth."""
    roles: tuple[Literal["user", "assistant", "system"], ...] = ("user", "assistant", "system")
    await client.bear(session.inject(client.universe.dice("client").choice(roles), "it was said"))


async def clear(client: Client, session: Session) -> None:
    """Start the conversation over."""
    await client.bear(session.clear_history())


async def compact(client: Client, session: Session) -> None:
    """Make the conversation shorter."""
    await client.bear(session.compact("what was paid"))


async def undo(client: Client, session: Session) -> None:
    """Have the conversation as it was before it was made shorter."""
    await client.bear(session.undo_compaction())


async def switch(client: Client, session: Session) -> None:
    """Let another model answer from now on."""
    await client.bear(session.set_model(client.universe.dice("client").choice(("simulated:model", OTHER))))


async def tidy(client: Client, session: Session) -> None:
    """Change what is not the conversation."""
    await client.bear(session.rename(f"name {client.said}"))
    await client.bear(session.clear_approvals())
    await client.bear(session.write_slot("simulation", "1", str(client.said)))
    await client.bear(session.add_entry("note", {"said": client.said}))


async def leave(client: Client, session: Session) -> None:
    """Close the session and come back."""


async def interrupt(client: Client, session: Session) -> None:
    """Stop the turn."""
    await session.abort("enough")


async def steer(client: Client, session: Session) -> None:
    """Say something into the turn."""
    await session.steer("and this")


async def queue(client: Client, session: Session) -> None:
    """Say something for later, without waiting for the answer."""
    await anext(session.send("later"))


async def drop(client: Client, session: Session) -> None:
    """Take back what waits."""
    await session.drop_queued()


async def change_mode(client: Client, session: Session) -> None:
    """Be stricter or laxer from now on."""
    await session.set_permission_mode(client.universe.dice("client").choice(MODES))


ACTIONS: Final[tuple[tuple[Action, float], ...]] = (
    (say, 14.0),
    (rewind, 1.5),
    (fork, 1.0),
    (inject, 0.5),
    (clear, 0.2),
    (compact, 0.5),
    (undo, 0.4),
    (switch, 0.3),
    (tidy, 0.3),
    (leave, 1.5),
)
MEDDLING: Final[tuple[tuple[Action, float], ...]] = (
    (interrupt, 0.15),
    (interrupt, 0.03),
    (steer, 0.2),
    (steer, 0.05),
    (queue, 0.1),
    (drop, 0.03),
    (change_mode, 0.05),
    (switch, 0.03),
)


async def _meddle(client: Client, session: Session, meddle: Action) -> None:
    await client.universe.dawdle("meddling", 4.0)
    client.universe.note(f"{session.id}: {_name(meddle)}")
    await client.bear(meddle(client, session))


def _name(action: Action) -> str:
    return str(getattr(action, "__name__", action))
