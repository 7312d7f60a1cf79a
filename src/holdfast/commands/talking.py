"""Commands about the conversation: what was said, making it shorter, going back, leaving."""

from holdfast.commands.spec import CommandCall, CommandResult, command, usage
from holdfast.logic.checkpoints import Checkpoint, RestoreReport
from holdfast.logic.transcript import transcript_of
from holdfast.logic.words import counted
from holdfast.vocab.errors import UserError
from holdfast.vocab.events import TurnStarted


@command("help", hint="[COMMAND]", safety="reads")
async def help_(call: CommandCall) -> CommandResult:
    """List the commands, or explain one."""
    wanted = call.args.strip().lstrip("/")
    specs = [spec for spec in call.kit.commands.specs() if not wanted or spec.name == wanted]
    if not specs:
        return CommandResult(message=f"There is no command /{wanted}. /help lists them.", success=False)
    lines = [f"/{spec.name} {spec.argument_hint}".rstrip().ljust(28) + spec.description for spec in specs]
    return CommandResult(message="\n".join(lines), data={"commands": [spec.name for spec in specs]})


@command("clear")
async def clear(call: CommandCall) -> CommandResult:
    """Start the conversation over. The log keeps what was said."""
    await call.session.clear_history()
    return CommandResult(message="The conversation starts over.", data={"cleared": True})


@command("compact", hint="[WHAT TO KEEP]")
async def compact(call: CommandCall) -> CommandResult:
    """Make the conversation shorter now; `/undo compact` brings it back."""
    try:
        done = await call.session.compact(call.args.strip())
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    state = call.session.context_state
    return CommandResult(
        message=f"The conversation is shorter: {state.used:,} tokens now.",
        data={"usedTokens": state.used, "trigger": done.trigger},
    )


@command("rename", hint="NAME")
async def rename(call: CommandCall) -> CommandResult:
    """Give the session a name."""
    name = call.args.strip()
    if not name:
        return usage(call, "NAME")
    await call.session.rename(name)
    return CommandResult(message=f"The session is called {name!r}.", data={"name": name})


@command("resume", hint="[SESSION]")
async def resume(call: CommandCall) -> CommandResult:
    """Go on with another session."""
    wanted = call.args.strip()
    return CommandResult(
        message=f"Going on with {wanted}." if wanted else "Choose a session.",
        data={"triggerResumePicker": not wanted, "session": wanted},
    )


@command("reset")
async def reset(call: CommandCall) -> CommandResult:
    """Ask the caller for a new session; this one stays as it is."""
    return CommandResult(message="A new session begins.", data={"resetRequested": True})


@command("exit")
async def exit_(call: CommandCall) -> CommandResult:
    """Close the session and leave."""
    return CommandResult(message="Goodbye.", data={"exitRequested": True})


@command("rewind", hint="[list | TURN [conversation|files|both] | back]", subcommands=("list", "back"))
async def rewind(call: CommandCall) -> CommandResult:
    """Go back to the end of a turn: the conversation, the files, or both. `back` undoes it for the files."""
    words = call.words
    if not words or words[0] == "list":
        return await _checkpoints(call)
    what = words[1] if len(words) > 1 else "both"
    if what not in ("conversation", "files", "both") or len(words) > 2:
        return usage(call, "[list | TURN [conversation|files|both] | back]")
    try:
        if words[0] == "back":
            return _restored(await call.session.restore_files(undo="latest"))
        turn = (await _turn(call, words[0])).turn
        if what == "files":
            return _restored(await call.session.restore_files(to=turn))
        report = await call.session.rewind(to=turn, files=what == "both")
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    return _gone_back(turn, report)


@command("undo", hint="[compact]", subcommands=("compact",))
async def undo(call: CommandCall) -> CommandResult:
    """Take the newest turn back, with what it did to files; `/undo compact` takes the newest compaction back."""
    wanted = call.args.strip()
    if wanted not in ("", "compact"):
        return usage(call, "[compact]")
    try:
        if wanted == "compact":
            await call.session.undo_compaction()
            return CommandResult(message="The conversation is whole again.")
        turn = await _newest(call)
        if not turn:
            return CommandResult(message="There is no turn to take back.", success=False)
        kept = any(point.turn == turn for point in await call.session.checkpoints())
        report = await call.session.rewind(before=turn, files=kept)
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    return _gone_back(turn, report)


async def _newest(call: CommandCall) -> str:
    """The newest turn of the conversation as it is now: one that was gone back from is not taken back again."""
    path = transcript_of(await call.session.events()).path()
    return next((record.id for record in reversed(path) if isinstance(record.event, TurnStarted)), "")


async def _checkpoints(call: CommandCall) -> CommandResult:
    points = await call.session.checkpoints()
    lines = [
        f"{each.number:>3}  {each.turn:<14}{len(each.files):>3} files{' + programs' if each.programs else ''}  {each.prompt}"
        for each in points
    ]
    return CommandResult(
        message="\n".join(lines) or "No turn yet, or nothing is kept of files.",
        data={"checkpoints": [{"turn": each.turn, "number": each.number, "prompt": each.prompt} for each in points]},
    )


async def _turn(call: CommandCall, word: str) -> Checkpoint:
    """The turn that a person means: its number or its id."""
    for point in reversed(await call.session.checkpoints()):  # a number that was used again means its newest turn
        if word in (point.turn, str(point.number)):
            return point
    raise UserError(f"There is no turn {word!r}. `/rewind list` shows them.")


def _gone_back(turn: str, report: RestoreReport | None) -> CommandResult:
    files = "" if report is None else f" {_restored(report).message}"
    return CommandResult(message=f"The conversation goes on from there.{files}", data={"turn": turn})


def _restored(report: RestoreReport) -> CommandResult:
    said = [f"{counted(report.written, 'file')} written, {report.removed} removed ({report.point})."]
    said += [f"Left as it is: {each.path}: {each.problem}" for each in report.problems]
    said += [f"Somebody else had changed {path}; `/rewind back` has that." for path in report.changed_by_others[:20]]
    return CommandResult(message="\n".join((*said, *report.warnings)), data={"restore": report.restore})


COMMANDS = (help_, clear, compact, rename, resume, reset, exit_, rewind, undo)
