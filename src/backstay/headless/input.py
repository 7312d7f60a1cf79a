"""Turn what a person typed into what a session is sent: run slash commands, and add the files that a prompt mentions."""

import difflib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from backstay.commands.registry import CommandResult, Submission
from backstay.export.formats import export, format_of, write_pieces
from backstay.headless.result import DONE, FAILED, INTERRUPTED, USAGE
from backstay.logic.stored_content import LONG
from backstay.runtime.services import fetch_text
from backstay.session.project.mentions import read_mentions
from backstay.session.session import Prompt, Session
from backstay.vocab import events
from backstay.vocab.errors import BackstayError
from backstay.vocab.event import Draft
from backstay.vocab.messages import Text

_RESUMED: Final = (
    "Nobody is here to choose a session, and this run keeps its own. "
    "Go on with another by `backstay -r ID -p ...`; `backstay sessions list` lists them."
)
_RESET: Final = "This run keeps its session. A new one begins with the next `backstay -p` that has neither -c nor -r."
_DOCTOR: Final = "`backstay doctor` says more."


class PreparedInput(Struct, frozen=True, kw_only=True):
    """The input for the session, after commands and mentions were resolved."""

    prompt: Prompt
    typed: str = ""
    """What was typed, when something else is sent for it: histories show this, and hooks get it."""
    notes: tuple[str, ...] = ()

    @property
    def raw(self) -> str:
        """What hooks get: only the prompt when what was typed is too long to be kept beside it."""
        return self.typed if len(self.typed) <= LONG else ""


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a command that sent nothing to the model, or of a line that names no command."""

    name: str
    result: CommandResult
    code: int = DONE
    """The exit code, if nothing else comes."""
    ends_input: bool = False
    """Whether no more input is taken."""


class InputOrder:
    """Serialise slash commands with the prompts around them."""

    def __init__(self) -> None:
        self._open: list[anyio.Event] = []
        self._commands: list[anyio.Event] = []

    @asynccontextmanager
    async def turn(self, *, command: bool) -> AsyncIterator[bool]:
        """Hold the turn of one input: a command waits for every input before it, a prompt for the commands. Yield whether it waited."""
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


def prompt_text(prompt: Prompt) -> str:
    """Return the text of a prompt."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(part.text for part in prompt if isinstance(part, Text))


def is_command(prompt: Prompt) -> bool:
    """Return whether a prompt begins with a slash. A blank before the slash makes it a prompt for the model."""
    return (prompt if isinstance(prompt, str) else _first_text(prompt)).startswith("/")


async def prepare_input(
    stopped: anyio.Event, session: Session, prompt: Prompt, *, input_id: str | None
) -> PreparedInput | CommandOutcome:
    """Return what to send for `prompt`, or the outcome of the command that it is. Give up as soon as `stopped` is set.

    An input that was sent before under its id is sent as it was then: nothing is looked up or run a second time. An error is an outcome,
    too, and not raised.
    """
    prepared: PreparedInput | CommandOutcome = _failure("", "It was interrupted.", INTERRUPTED)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when, stopped, tasks.cancel_scope)
        try:
            prepared = await _prepare(session, prompt, input_id)
        except BackstayError as exc:
            prepared = _failure("", str(exc), FAILED)
        tasks.cancel_scope.cancel()
    return prepared


async def _cancel_when(stopped: anyio.Event, scope: anyio.CancelScope) -> None:
    await stopped.wait()
    scope.cancel()


async def _prepare(session: Session, prompt: Prompt, input_id: str | None) -> PreparedInput | CommandOutcome:
    typed = prompt_text(prompt)
    before = await _find_sent(session, input_id) if input_id is not None else None
    if before is not None:
        return await _repeat(session, prompt, typed, before)
    prepared = PreparedInput(prompt=prompt)
    if is_command(prompt):
        if input_id is not None and is_local_command(session, typed):
            words = f"--input-id is for what is said to a model, and {typed.split()[0]} is not. Leave it away."
            return _failure("", words, USAGE)
        meaning = await interpret(session, typed)
        if isinstance(meaning, CommandOutcome):
            return meaning
        if meaning is not None:
            prepared = PreparedInput(prompt=_replace_text(prompt, meaning.prompt), typed=typed)
    return await _add_mentions(session, prepared, typed)


async def _add_mentions(session: Session, prepared: PreparedInput, typed: str) -> PreparedInput:
    if session.project is None or "@" not in typed:
        return prepared
    found = await read_mentions(session.project, typed)
    if not found.block:
        return replace(prepared, notes=found.notes)
    prompt = prepared.prompt
    if prepared.typed or isinstance(prompt, str):
        whole = prompt if isinstance(prompt, str) else _first_text(prompt)
        sent = _replace_text(prompt, f"{whole}\n\n{found.block}")
    else:
        sent = (*prompt, Text(text=found.block))
    return PreparedInput(prompt=sent, typed=typed, notes=found.notes)


def _replace_text(prompt: Prompt, text: str) -> Prompt:
    """Return `prompt` with other words and with the pictures that it has."""
    if isinstance(prompt, str):
        return text
    return (Text(text=text), *(part for part in prompt if not isinstance(part, Text)))


def _first_text(prompt: Prompt) -> str:
    first = prompt[0] if prompt else None
    return first.text if isinstance(first, Text) else ""


async def _find_sent(session: Session, input_id: str) -> events.InputReceived | None:
    if session.input_result(input_id) is None and input_id not in session.pending_inputs:
        return None
    facts = (record.event for record in await session.events())
    return next((each for each in facts if isinstance(each, events.InputReceived) and each.input == input_id), None)


async def _repeat(session: Session, prompt: Prompt, typed: str, before: events.InputReceived) -> PreparedInput:
    """Return the input as the log has it, so that it is the same input again."""
    if not before.raw or before.raw != typed:
        return PreparedInput(prompt=prompt)
    parts = before.parts
    if isinstance(prompt, str):
        return PreparedInput(prompt=await fetch_text(parts, session.store.blob), typed=typed)
    if len(parts) > len(prompt):
        rest = await fetch_text(parts[len(prompt) :], session.store.blob)
        return PreparedInput(prompt=(*prompt, Text(text=rest)), typed=typed)
    return PreparedInput(prompt=_replace_text(prompt, await fetch_text(parts[:1], session.store.blob)), typed=typed)


# --- slash commands --------------------------------------------------------------------------------------------------------------


def is_local_command(session: Session, text: str) -> bool:
    """Return whether a line is a command that sends nothing to the model of this session."""
    found = session.project.commands.find(_split(text)[0]) if session.project is not None else None
    return is_command(text) and found is not None and found.execute is not None


async def interpret(session: Session, text: str) -> Submission | CommandOutcome | None:
    """Run the command that a line names, or return what it sends to the model. None: the line is a prompt like any other.

    A word that is no command is a prompt when it looks like a path: it has a second slash, or there is such a file.
    """
    name, args = _split(text)
    try:
        meaning = await session.interpret(f"/{name} {args}".rstrip(" "))
    except BackstayError as exc:
        return _failure(name, str(exc), FAILED)
    if isinstance(meaning, Submission):
        return replace(meaning, display=text)
    if meaning is not None:
        return await _finish_locally(session, name, meaning)
    if "/" in name or await anyio.to_thread.run_sync(os.path.exists, f"/{name}"):
        return None
    return _failure(name, _unknown(session, name), USAGE)


def _split(text: str) -> tuple[str, str]:
    """Split a line into the name of a command and its arguments, which may have several lines."""
    words = text[1:].split(maxsplit=1)
    if not words or text[1:2].isspace():
        return "", text[1:].strip()
    return words[0], words[1] if len(words) > 1 else ""


def _unknown(session: Session, name: str) -> str:
    as_prompt = "To say it to the model, put a blank before the slash."
    if session.project is None:
        return f"There is no command /{name}: this session looks at nothing around it, and so has none. {as_prompt}"
    every = [spec.name for spec in session.list_commands()]
    near = [each for each in every if name and each.startswith(name)]
    near += difflib.get_close_matches(name, every, n=3, cutoff=0.5)
    names = ", ".join(f"/{each}" for each in dict.fromkeys(near[:5]))
    hint = f"Near it: {names}." if names else "/help lists those there are."
    return f"There is no command /{name}. {hint} {as_prompt}"


async def _finish_locally(session: Session, name: str, result: CommandResult) -> CommandOutcome:
    """Do what a command leaves to its caller, as far as that needs no person."""
    data = result.data
    if result.success:
        if target := data.get("exportRequested"):
            result = await _export(session, str(target), result)
        elif "triggerResumePicker" in data:
            result = replace(result, message=_RESUMED, success=False)
        elif data.get("resetRequested"):
            result = replace(result, message=_RESET, success=False)
        elif data.get("doctorRequested"):
            result = replace(result, message=f"{result.message}\n{_DOCTOR}")
    ends = result.success and bool(data.get("exitRequested"))
    return CommandOutcome(name=name, result=result, code=DONE if result.success else FAILED, ends_input=ends)


def _failure(name: str, message: str, code: int) -> CommandOutcome:
    return CommandOutcome(name=name, result=CommandResult(message=message, success=False), code=code)


async def _export(session: Session, target: str, result: CommandResult) -> CommandResult:
    """Write the session to the file `target`, note that in its log, and return `result` with the file and its size."""
    path = _resolve((await session.store.meta(session.id)).cwd, target)
    try:
        kind = format_of(path)
        made, size = await export(session.store, session.id, kind, partial(write_pieces, path), session.redactor)
        await session.note(Draft(event=made, by="user"))
    except BackstayError as exc:
        return replace(result, message=str(exc), success=False)
    written = {"file": str(path), "format": kind, "bytes": size}
    return replace(result, message=f"{path}: {size:,} bytes of {kind}", data={**result.data, **written})


def _resolve(folder: str, target: str) -> Path:
    return Path(folder, os.path.expanduser(target))
