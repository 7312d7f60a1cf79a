"""From what a person typed to what a session is sent: commands are carried out, and what is mentioned is put behind the words."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct

from backstay.commands.spec import CommandResult
from backstay.headless.result import FAILED, INTERRUPTED, USAGE
from backstay.headless.slash import CommandOutcome, interpret, is_local_command, is_slash
from backstay.logic.state.content import LONG
from backstay.runtime.services import whole_text
from backstay.session.project.mentions import mentioned
from backstay.session.session import Prompt, Session
from backstay.vocab.errors import BackstayError
from backstay.vocab.events import InputReceived
from backstay.vocab.messages import Text


class PreparedInput(Struct, frozen=True, kw_only=True):
    """What is sent."""

    prompt: Prompt
    typed: str = ""
    """What was typed, when something else is sent for it: histories show this, and hooks hear it."""
    notes: tuple[str, ...] = ()

    @property
    def raw(self) -> str:
        """What hooks hear: nothing else than the prompt when what was typed is too long to be kept beside it."""
        return self.typed if len(self.typed) <= LONG else ""


class InputOrder:
    """Lets a command wait for all that was said before it, and what is said after a command wait for that."""

    def __init__(self) -> None:
        self._open: list[anyio.Event] = []
        self._commands: list[anyio.Event] = []

    @asynccontextmanager
    async def turn(self, *, command: bool) -> AsyncIterator[bool]:
        """The time in which one input is dealt with. Says whether it had to wait for another."""
        mine = anyio.Event()
        before = [*(self._open if command else self._commands)]
        self._open.append(mine)
        if command:
            self._commands.append(mine)
        try:
            for each in before:
                await each.wait()
            yield bool(before)
        finally:
            mine.set()
            self._open.remove(mine)
            if command:
                self._commands.remove(mine)


def text_of(prompt: Prompt) -> str:
    """The words of a prompt."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(part.text for part in prompt if isinstance(part, Text))


def is_command(prompt: Prompt) -> bool:
    """Whether a prompt begins as a command does."""
    return is_slash(prompt if isinstance(prompt, str) else _first(prompt))


async def prepare_input(session: Session, prompt: Prompt, *, input_id: str | None) -> PreparedInput | CommandOutcome:
    """What is to be sent for `prompt`, or what came of the command that it is.

    An input that was sent before under its id is sent as it was then: nothing is looked up or run a second time. Raises nothing for
    what goes wrong: that is what came of it.
    """
    try:
        return await _taken(session, prompt, input_id)
    except BackstayError as exc:
        return CommandOutcome(name="", result=CommandResult(message=str(exc), success=False), code=FAILED)


async def take_unless(
    stopped: anyio.Event, session: Session, prompt: Prompt, *, input_id: str | None
) -> PreparedInput | CommandOutcome:
    """Like `take`, but give up as soon as `stopped` is set: a command of its own is no turn that an interrupt would end."""
    taken: PreparedInput | CommandOutcome = CommandOutcome(
        name="", result=CommandResult(message="It was interrupted.", success=False), code=INTERRUPTED
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when, stopped, tasks.cancel_scope)
        taken = await prepare_input(session, prompt, input_id=input_id)
        tasks.cancel_scope.cancel()
    return taken


async def _cancel_when(stopped: anyio.Event, scope: anyio.CancelScope) -> None:
    await stopped.wait()
    scope.cancel()


async def _taken(session: Session, prompt: Prompt, input_id: str | None) -> PreparedInput | CommandOutcome:
    typed = text_of(prompt)
    before = await _sent_before(session, input_id) if input_id is not None else None
    if before is not None:
        return await _as_before(session, prompt, typed, before)
    added = PreparedInput(prompt=prompt)
    if is_command(prompt):
        if input_id is not None and is_local_command(session, typed):
            words = f"--input-id is for what is said to a model, and {typed.split()[0]} is not. Leave it away."
            return CommandOutcome(name="", result=CommandResult(message=words, success=False), code=USAGE)
        meant = await interpret(session, typed)
        if isinstance(meant, CommandOutcome):
            return meant
        if meant is not None:
            added = PreparedInput(prompt=_replaced(prompt, meant.prompt), typed=typed)
    return await _with_mentions(session, added, typed)


async def _with_mentions(session: Session, taken: PreparedInput, typed: str) -> PreparedInput:
    if session.kit is None:
        return taken
    found = await mentioned(session.kit, typed)
    if not found.block:
        return PreparedInput(prompt=taken.prompt, typed=taken.typed, notes=found.notes)
    prompt = taken.prompt
    if taken.typed or isinstance(prompt, str):
        whole = prompt if isinstance(prompt, str) else _first(prompt)
        sent = _replaced(prompt, f"{whole}\n\n{found.block}")
    else:
        sent = (*prompt, Text(text=found.block))
    return PreparedInput(prompt=sent, typed=typed, notes=found.notes)


def _replaced(prompt: Prompt, text: str) -> Prompt:
    """`prompt` with other words, and with the pictures that it has."""
    if isinstance(prompt, str):
        return text
    return (Text(text=text), *(part for part in prompt if not isinstance(part, Text)))


def _first(prompt: Prompt) -> str:
    first = prompt[0] if prompt else None
    return first.text if isinstance(first, Text) else ""


async def _sent_before(session: Session, input_id: str) -> InputReceived | None:
    if session.input_result(input_id) is None and input_id not in session.pending_inputs:
        return None
    events = (record.event for record in await session.events())
    return next((each for each in events if isinstance(each, InputReceived) and each.input == input_id), None)


async def _as_before(session: Session, prompt: Prompt, typed: str, before: InputReceived) -> PreparedInput:
    if not before.raw or before.raw != typed:
        return PreparedInput(prompt=prompt)
    parts = before.parts
    if isinstance(prompt, str):
        return PreparedInput(prompt=await whole_text(parts, session.store.blob), typed=typed)
    if len(parts) > len(prompt):
        rest = await whole_text(parts[len(prompt) :], session.store.blob)
        return PreparedInput(prompt=(*prompt, Text(text=rest)), typed=typed)
    return PreparedInput(prompt=_replaced(prompt, await whole_text(parts[:1], session.store.blob)), typed=typed)
