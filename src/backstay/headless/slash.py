"""What a line that begins with a slash means where nobody is there to choose, to be shown a menu, or to be asked."""

import difflib
import os
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from backstay.commands.spec import CommandResult, Submission
from backstay.export.files import Format, format_of, write_pieces
from backstay.export.formats import export
from backstay.headless.result import DONE, FAILED, USAGE
from backstay.session.session import Session
from backstay.vocab.errors import BackstayError
from backstay.vocab.event import Draft


async def write_out(session: Session, target: Path) -> tuple[Format, int]:
    """Write `session` to `target` and note it in its log; return what was written, and how many bytes.

    Raise `UserError` when the ending of the file says nothing, or it cannot be written.
    """
    kind = format_of(target)
    made, size = await export(session.store, session.id, kind, partial(write_pieces, target), session.redactor)
    await session.note(Draft(event=made, by="user"))
    return kind, size


_RESUMED: Final = (
    "Nobody is here to choose a session, and this run keeps its own. "
    "Go on with another by `backstay -r ID -p ...`; `backstay sessions list` lists them."
)
_RESET: Final = "This run keeps its session. A new one begins with the next `backstay -p` that has neither -c nor -r."
_DOCTOR: Final = "`backstay doctor` says more."


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """What came of a command that spoke to no model, or of one that is none."""

    name: str
    result: CommandResult
    code: int = DONE
    """How the run ends if nothing else comes."""
    leaves: bool = False
    """Whether no more input is to be taken."""


def is_slash(text: str) -> bool:
    """Whether a prompt begins as a command does. A blank before the slash makes it a prompt."""
    return text.startswith("/")


def is_local_command(session: Session, text: str) -> bool:
    """Whether a line is a command that sends nothing to the model of this session."""
    found = session.kit.commands.find(_split(text)[0]) if session.kit is not None else None
    return is_slash(text) and found is not None and found.execute is not None


async def interpret(session: Session, text: str) -> Submission | CommandOutcome | None:
    """Run the command that a line names, or say what it wants said to the model. None: the line is a prompt like any other.

    A word that is no command is a prompt when it looks like a path: it has a second slash, or there is such a file.
    """
    name, args = _split(text)
    try:
        meant = await session.interpret(f"/{name} {args}".rstrip(" "))
    except BackstayError as exc:
        return CommandOutcome(name=name, result=CommandResult(message=str(exc), success=False), code=FAILED)
    if isinstance(meant, Submission):
        return replace(meant, display=text)
    if meant is not None:
        return await _carried_out(session, name, meant)
    if "/" in name or await anyio.to_thread.run_sync(os.path.exists, f"/{name}"):
        return None
    return CommandOutcome(name=name, result=CommandResult(message=_unknown(session, name), success=False), code=USAGE)


def _split(text: str) -> tuple[str, str]:
    """The name of a command and what stands behind it, over several lines if it does."""
    words = text[1:].split(maxsplit=1)
    if not words or text[1:2].isspace():
        return "", text[1:].strip()
    return words[0], words[1] if len(words) > 1 else ""


def _unknown(session: Session, name: str) -> str:
    as_prompt = "To say it to the model, put a blank before the slash."
    if session.kit is None:
        return f"There is no command /{name}: this session looks at nothing around it, and so has none. {as_prompt}"
    every = [spec.name for spec in session.list_commands()]
    near = [each for each in every if name and each.startswith(name)]
    near += difflib.get_close_matches(name, every, n=3, cutoff=0.5)
    named = ", ".join(f"/{each}" for each in dict.fromkeys(near[:5]))
    hint = f"Near it: {named}." if named else "/help lists those there are."
    return f"There is no command /{name}. {hint} {as_prompt}"


async def _carried_out(session: Session, name: str, result: CommandResult) -> CommandOutcome:
    """Do what a command leaves to its caller, as far as it can be done without a person."""
    data = result.data
    if not result.success:
        return _ran(name, result)
    if target := data.get("exportRequested"):
        return _ran(name, await _written(session, str(target), result))
    if "triggerResumePicker" in data:
        return _ran(name, replace(result, message=_RESUMED, success=False))
    if data.get("resetRequested"):
        return _ran(name, replace(result, message=_RESET, success=False))
    if data.get("doctorRequested"):
        return _ran(name, replace(result, message=f"{result.message}\n{_DOCTOR}"))
    return _ran(name, result, leaves=bool(data.get("exitRequested")))


def _ran(name: str, result: CommandResult, *, leaves: bool = False) -> CommandOutcome:
    return CommandOutcome(name=name, result=result, code=DONE if result.success else FAILED, leaves=leaves)


async def _written(session: Session, target: str, result: CommandResult) -> CommandResult:
    folder = (await session.store.meta(session.id)).cwd
    path = _path(folder, target)
    try:
        kind, size = await write_out(session, path)
    except BackstayError as exc:
        return replace(result, message=str(exc), success=False)
    written = {"file": str(path), "format": kind, "bytes": size}
    return replace(result, message=f"{path}: {size:,} bytes of {kind}", data={**result.data, **written})


def _path(folder: str, target: str) -> Path:
    return Path(folder, os.path.expanduser(target))
