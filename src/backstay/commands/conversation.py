"""Commands about the conversation: what was said, making it shorter, going back, leaving."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from backstay.catalog.sessions import check_name
from backstay.checkpoints.points import LATEST, Checkpoint, Restore, RestoreReport, find_undone, restores_of
from backstay.commands.registry import CommandResult, command, usage
from backstay.logic.state.transcript import transcript_of
from backstay.logic.text import pluralise
from backstay.session.session import SessionCall
from backstay.vocab import events
from backstay.vocab.errors import BadId, UserError
from backstay.vocab.event import Recorded


@command("help", hint="[COMMAND]", safety="reads")
async def help_(call: SessionCall) -> CommandResult:
    """List the commands, or explain one."""
    wanted = call.args.strip().lstrip("/")
    specs = [spec for spec in call.project.commands.specs() if not wanted or spec.name == wanted]
    if not specs:
        return CommandResult(message=f"There is no command /{wanted}. /help lists them.", success=False)
    lines = [_help_line(f"/{spec.name} {spec.argument_hint}".rstrip(), spec.description) for spec in specs]
    return CommandResult(message="\n".join(lines), data={"commands": [spec.name for spec in specs]})


def _help_line(usage: str, description: str) -> str:
    """Format a command and its description, on two lines when the command is long."""
    return f"{usage:<28}{description}" if len(usage) < 27 else f"{usage}\n{'':<28}{description}"


@command("clear")
async def clear(call: SessionCall) -> CommandResult:
    """Start the conversation over. The log keeps what was said."""
    await call.session.clear_history()
    return CommandResult(message="The conversation starts over.", data={"cleared": True})


@command("compact", hint="[WHAT TO KEEP]")
async def compact(call: SessionCall) -> CommandResult:
    """Make the conversation shorter now; `/undo compact` brings it back."""
    try:
        done = await call.session.compact(call.args.strip())
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    state = call.session.context_state
    if done is None:
        return CommandResult(message="There is nothing that could be shortened.", data={"usedTokens": state.used})
    return CommandResult(
        message=f"The conversation is shorter: {state.used:,} tokens now.",
        data={"usedTokens": state.used, "trigger": done.trigger},
    )


@command("rename", hint="NAME")
async def rename(call: SessionCall) -> CommandResult:
    """Give the session a name."""
    name = call.args.strip()
    if not name:
        return usage(call, "NAME")
    try:
        await call.session.rename(check_name(name))
    except BadId as exc:
        return CommandResult(message=str(exc), success=False)
    return CommandResult(message=f"The session is called {name!r}.", data={"name": name})


@command("resume", hint="[SESSION]")
async def resume(call: SessionCall) -> CommandResult:
    """Go on with another session."""
    wanted = call.args.strip()
    return CommandResult(
        message=f"Going on with {wanted}." if wanted else "Choose a session.",
        data={"triggerResumePicker": not wanted, "session": wanted},
    )


@command("reset")
async def reset(call: SessionCall) -> CommandResult:
    """Ask the caller for a new session; this one stays as it is."""
    return CommandResult(message="A new session begins.", data={"resetRequested": True})


@command("exit")
async def exit_(call: SessionCall) -> CommandResult:
    """Close the session and leave."""
    return CommandResult(message="Goodbye.", data={"exitRequested": True})


REWIND_HINT: Final = "[list | TURN [conversation|files|both] | back [ID]]"


@command("rewind", hint=REWIND_HINT, subcommands=("list", "back"))
async def rewind(call: SessionCall) -> CommandResult:
    """Go back to the end of a turn: the conversation, the files, or both. `back` undoes it for the files, again and again."""
    words = call.words
    if not words or words[0] == "list":
        return await _checkpoints(call)
    if words[0] == "back" and len(words) <= 2:
        return await _back(call, *words[1:])
    what = words[1] if len(words) > 1 else "both"
    if what not in ("conversation", "files", "both") or len(words) > 2:
        return usage(call, REWIND_HINT)
    try:
        turn, begins = await _turn(call, words[0]), words[0] == "0"
        if what == "files":
            return _restore_result(
                await call.session.restore_files(to="" if begins else turn, before=turn if begins else "")
            )
        report = await call.session.rewind(
            to=None if begins else turn, before=turn if begins else None, files=what == "both"
        )
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    return _rewind_result(turn, report)


async def _back(call: SessionCall, restore: str = LATEST) -> CommandResult:
    """Put the files back as they were before a restore."""
    try:
        report = await call.session.restore_files(undo=restore)
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    return _restore_result(report, back=f"/rewind back {report.restore}" if restore == LATEST else "/rewind back")


@command("undo", hint="[compact]", subcommands=("compact",))
async def undo(call: SessionCall) -> CommandResult:
    """Take the newest turn back, with what it did to files; `/undo compact` takes the newest compaction back."""
    wanted = call.args.strip()
    if wanted not in ("", "compact"):
        return usage(call, "[compact]")
    try:
        if wanted == "compact":
            await call.session.undo_compaction()
            return CommandResult(message="The conversation is whole again.")
        log = await call.session.events()
        turns = _path(log)
        turn = turns[-1] if turns else ""
        skill = _skill_note(log, turn)
        if not turn:
            return CommandResult(message=f"There is no turn to take back.{skill}", success=False)
        kept = any(point.turn == turn for point in await call.session.checkpoints())
        report = await call.session.rewind(before=turn, files=kept)
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    done = _rewind_result(turn, report)
    return CommandResult(message=f"{done.message}{skill}", data=done.data)


def _path(log: Iterable[Recorded]) -> list[str]:
    """Return the turns of the conversation as it is now: one that was gone back from is not taken back again."""
    return [record.id for record in transcript_of(log).path() if isinstance(record.event, events.TurnStarted)]


def _skill_note(log: Iterable[Recorded], turn: str) -> str:
    """Return a sentence about the newest skill that a person let run in a session of its own after `turn`; empty when there is none."""
    words = ""
    for record in log:
        match record.event:
            case events.TurnStarted() if record.id == turn:
                words = ""
            case events.ChildStarted(skill=events.SkillRun(name=name), child=child):
                words = f" The skill {name!r} ran in session {child}: `backstay -r {child} -p /undo` takes back what it did."
            case _:
                pass
    return words


async def _checkpoints(call: SessionCall) -> CommandResult:
    points = await call.session.checkpoints()
    log = await call.session.events()
    path, restores = _path(log), restores_of(log)
    undone = find_undone(restores)
    lines = [line for each in points for line in _lines(each, path)]
    if lines:
        lines.insert(0, f"{'Turn':>4}  {'ID':<14}{'What changed':<20}  Prompt")
        here = "* is the newest" if path else "The conversation is at its beginning"
        lines.append(f"{here}; `/rewind 0` goes to before the first turn.")
    if restores:
        lines += ["Files were put back:", *(_restore_line(each, undone) for each in restores)]
        lines.append(
            "`/rewind back` undoes the newest that is not undone; `/rewind back ID` goes to before any of them."
        )
    return CommandResult(
        message="\n".join(lines) or "No turn yet, or nothing is kept of files.",
        data={
            "checkpoints": [_facts(each, path) for each in points],
            "restores": [_restore_facts(each, undone) for each in restores],
        },
    )


def _restore_line(restore: Restore, undone: Collection[str]) -> str:
    done = (
        f"{pluralise(restore.written, 'file')} written, {restore.removed} removed" if restore.over else "not finished"
    )
    left = f"  [undid {restore.undoes}]" if restore.undoes else "  [undone]" if restore.id in undone else ""
    return f"      {restore.id:<14}to {restore.point or 'an earlier point'}: {done}{left}"


def _restore_facts(restore: Restore, undone: Collection[str]) -> dict[str, object]:
    return {
        "restore": restore.id,
        "point": restore.point,
        "written": restore.written,
        "removed": restore.removed,
        "undoes": restore.undoes,
        "undone": restore.id in undone and not restore.undoes,
    }


def _lines(point: Checkpoint, path: Sequence[str]) -> Iterable[str]:
    files = [pluralise(len(point.files), "file")] if point.files or not point.programs else []
    changed = " + ".join([*files, *["programs"] * point.programs])
    left = "" if point.turn in path else "  [not in the conversation any more]"
    mark = "*" if point.turn in path[-1:] else " "
    yield f"{mark}{point.number:>3}  {point.turn:<14}{changed:<20}  {point.prompt}{left}"
    if point.why_not:
        where = "back to before it" if point.restorable else "back to it"
        yield f"      files cannot go {where}: {point.why_not}"


def _facts(point: Checkpoint, path: Sequence[str]) -> dict[str, object]:
    return {
        "turn": point.turn,
        "number": point.number,
        "prompt": point.prompt,
        "files": len(point.files),
        "programs": point.programs,
        "inConversation": point.turn in path,
        "newest": point.turn in path[-1:],
        "restorable": point.restorable,
        "whyNot": point.why_not,
    }


async def _turn(call: SessionCall, word: str) -> str:
    """Return the turn that a person means by its number or its id; `0` means the first one, whose start is gone to.

    A number that was used again means the turn of the conversation as it is now, and otherwise the newest.
    """
    points = await call.session.checkpoints()
    path = _path(await call.session.events())
    meant = [each.turn for each in points if word in (each.turn, str(each.number))]
    if word == "0":
        meant = [each.turn for each in points if each.number == 1]
    if not meant:
        raise UserError(f"There is no turn {word!r}. `/rewind list` shows them.")
    return next((turn for turn in reversed(meant) if turn in path), meant[-1])


def _rewind_result(turn: str, report: RestoreReport | None) -> CommandResult:
    files = "" if report is None else f" {_restore_result(report).message}"
    return CommandResult(message=f"The conversation goes on from there.{files}", data={"turn": turn})


def _restore_result(report: RestoreReport, *, back: str = "/rewind back") -> CommandResult:
    """Tell what a restore did. `back` undoes it: `/rewind back` alone goes on to the restore before one that was undone."""
    said = [f"{pluralise(report.written, 'file')} written, {report.removed} removed ({report.point})."]
    said += [f"`{back}` brings back what was removed."] if report.removed else []
    said += [f"Left as it is: {each.path}: {each.problem}" for each in report.problems]
    said += [f"Somebody else had changed {path}; `{back}` has that." for path in report.changed_by_others[:20]]
    return CommandResult(message="\n".join((*said, *report.warnings)), data={"restore": report.restore})


COMMANDS = (help_, clear, compact, rename, resume, reset, exit_, rewind, undo)
