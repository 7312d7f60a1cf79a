"""One run of a session without a person: deliver its input, print what happens, and turn the end into an exit code."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from backstay.config.model_finder import Finder
from backstay.headless import result as codes
from backstay.headless.approvals import ApprovalQueue
from backstay.headless.formats import (
    FormatName,
    NativeStream,
    OutputFormat,
    ResultObjects,
    Scrubbed,
    TextFormat,
    with_store,
)
from backstay.headless.input import (
    CommandOutcome,
    InputOrder,
    PreparedInput,
    is_command,
    is_local_command,
    prepare_input,
    prompt_text,
)
from backstay.headless.messages import event_note, first_notes, how_to_go_on, one_line_note, rule_notes, unknown_models
from backstay.headless.result import (
    EndedTurn,
    FinishedCommand,
    SessionSummary,
    TurnTotals,
    denial_in_words,
    exit_code,
    records_of_turn,
)
from backstay.headless.signals import StopSignals, Warn
from backstay.headless.stdio import InputLines, OutputWriter
from backstay.headless.stream_json_input import (
    AnswerLine,
    IgnoredLine,
    InitializeLine,
    InputLine,
    InterruptLine,
    RefusedLine,
    SetModeLine,
    UserLine,
    parse,
)
from backstay.headless.stream_json_output import StreamJson
from backstay.logic.state.results import TurnResult
from backstay.logic.text import show_invisible
from backstay.providers.recorded import PREFIX
from backstay.providers.registry import full_name
from backstay.runtime.bus import Item, follow
from backstay.runtime.services import fetch_text
from backstay.session.options import Options
from backstay.session.session import Prompt, Session
from backstay.vocab import events
from backstay.vocab.deltas import Lagged
from backstay.vocab.errors import BackstayError, InputConflict, TurnError, TurnPaused, UserError
from backstay.vocab.event import Recorded, TurnOutcome
from backstay.vocab.messages import ToolCall

DRAIN_S: Final = 10.0
"""Seconds that a turn may go on after the process was told to end."""


class Job(Struct, frozen=True, kw_only=True):
    """The task of one headless run."""

    options: Options
    """`resume` may be a name here."""
    newest: bool = False
    """Resume the newest session of the project."""
    prompt: str | None = None
    output: FormatName = "text"
    lines: bool = False
    """Whether prompts, answers and interrupts come in as lines."""
    finish: bool = False
    """Add no prompt; finish the turn that was open."""
    input_id: str | None = None
    partial: bool = False
    drain_s: float = DRAIN_S


def model_name(options: Options) -> str:
    """Return the model of the options as the log would hold it; empty when they name none."""
    if options.model is None or isinstance(options.model, str):
        return full_name(options.model or "", Path(options.cwd).expanduser().absolute())
    return options.model.name


def check_model(options: Options, recorded: str = "") -> None:
    """Raise `UserError` when neither the options nor the log name a model that can be found."""
    if options.model is None or isinstance(options.model, str):
        find = options.find or Finder(None, options.clock).find
        name = model_name(options) or recorded
        if not name.startswith(PREFIX):  # a recording is in the store, and is looked for when that is open
            find(name)


async def describe_session(session: Session, options: Options) -> SessionSummary:
    """Describe a session: its folder, model and tools, and the commands, skills, agents, plugins and servers that it has."""
    summary = SessionSummary(
        cwd=(await session.store.meta(session.id)).cwd,
        tools=session.tools,
        model=model_name(options) or session.model,
        mode=options.permission_mode or session.permission_mode,
        seq=session.seq,
    )
    project = session.project
    if project is None:
        return summary
    return replace(
        summary,
        commands=tuple(spec.name for spec in session.list_commands()),
        skills=tuple(each.name for each in project.found.skills),
        agents=tuple(each.name for each in project.found.usable_agents),
        plugins=tuple((each.name, str(each.folder)) for each in project.plugins),
        servers=tuple(
            (name, status.state, str(status.server.get("scope", "")))
            for name, status in project.server_status().items()
        ),
    )


class HeadlessRun:
    """One run of a session, from its first input to its close."""

    def __init__(
        self, job: Job, session: Session, output: OutputWriter, warn: Warn, approvals: ApprovalQueue | None
    ) -> None:
        self._job = job
        self._session = session
        self._output = output
        self._warn = warn
        self._approvals = approvals
        self._format = self._make_format()
        self._subscription = session.subscribe()
        self._codes: list[int] = []
        """The exit code of each input, in the order in which they were sent."""
        self._failure_code = codes.DONE
        self._input_problem = ""
        """Why the input was not read to its end."""
        self._is_read = not job.lines
        """Whether the input was read to its end."""
        self._ignored_types: set[str] = set()
        self._shown_seq = session.seq
        self._all_shown = False
        self._progress = anyio.Event()
        """Set and replaced whenever an event was printed."""
        self._order = InputOrder()
        self._input = anyio.CancelScope()
        """Cancelled when no more input is taken."""
        self._stop = anyio.Event()
        """Set when turns and commands must stop at once."""
        self._current = TurnTotals()
        self._totals: dict[str, TurnTotals] = {}
        self._notes_told: list[str] = []
        self._warnings_told = 0

    def check_model(self) -> None:
        """Raise `UserError` when a model is needed and none can be found."""
        if not self._needs_model():
            return
        try:
            check_model(self._job.options, self._session.model)
        except UserError as exc:
            if self._job.options.model is not None or not self._session.model or "--model" in str(exc):
                raise
            raise UserError(f"{exc} To go on with another model: --model.") from exc

    async def print_opening(self) -> None:
        """Print the first lines of the output, and warn of what is open, unknown or wrong in the session."""
        session = self._session
        report = session.report
        if report is not None and (report.open_turn or session.open_skill or report.absent or report.drifted):
            self._warn(
                report.words() if not session.is_paused else "A turn is open and was paused: its budget was spent."
            )
        if self._needs_model():
            for words in unknown_models(session.model_facts):
                self._warn(words)
        self._warn_of_notes()
        summary = await describe_session(session, self._job.options)
        for words in rule_notes(self._job.options.rules, summary.tools):
            self._warn(words)
        await self._output.put(self._format.opening(summary))
        for item in session.opened:
            await self._print(item)

    async def run(self, stdin_fd: int, stop_signals: StopSignals) -> int:
        """Deliver the input, print what happens, close the session, and return the exit code."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._output.run)
            tasks.start_soon(self._stop_when_unread, stop_signals)
            async with anyio.create_task_group() as showing:
                showing.start_soon(self._show)
                stop_signals.attach(self._session)
                await self._deliver(stdin_fd, stop_signals)
                await self._close(showing)
            await self._output.flush()
            tasks.cancel_scope.cancel()
        output_code = self._output_code()
        stopped = stop_signals.interrupted and not (self._output.gone.is_set() and self._is_done)
        return self._exit_code() or (codes.INTERRUPTED if stopped else output_code)

    # --- input -------------------------------------------------------------------------------------------------------

    async def _deliver(self, stdin_fd: int, stop_signals: StopSignals) -> None:
        self._input, self._stop = stop_signals.input, stop_signals.now
        async with anyio.create_task_group() as turns:
            if self._job.finish:
                turns.start_soon(self._finish, stop_signals)
            elif self._job.prompt is not None:
                turns.start_soon(self._submit, self._job.prompt, self._job.input_id)
            if self._approvals is not None:
                with stop_signals.input:
                    await self._read_lines(stdin_fd, self._approvals, turns)
                    self._is_read = True
                self._approvals.close()
        if self._input_problem:
            await self._print_result(_no_turn(self._input_problem, "failed"))

    async def _read_lines(self, stdin_fd: int, approvals: ApprovalQueue, turns: TaskGroup) -> None:
        number, lines = 0, InputLines(stdin_fd)
        approvals.attach(lines.count_written)
        try:
            async for offset, line in lines.read():
                number += 1
                if line.strip():
                    await self._handle_line(parse(line), offset, approvals, turns)
        except BackstayError as exc:
            self._input_problem = f"Line {number} of the input: {exc} No more of it is read."
            self._warn(self._input_problem)
            self._failure_code = codes.USAGE if isinstance(exc, UserError) else codes.FAILED

    async def _handle_line(self, line: InputLine, offset: int, approvals: ApprovalQueue, turns: TaskGroup) -> None:
        match line:
            case UserLine() if self._job.finish:
                self._warn("--finish takes no prompt; what was said is not used.")
                self._failure_code = codes.USAGE
            case UserLine(delivery="steer") if self._session.is_running and not is_command(line.parts):
                await self._session.steer(line.parts)
            case UserLine():
                turns.start_soon(self._submit, line.parts, line.input_id)
            case AnswerLine():
                if problem := approvals.answer(line.call, line.answer, line.changed, offset=offset):
                    self._warn(problem)
            case InterruptLine():
                await self._session.abort("interrupted by the input")
                await self._reply(line.request)
            case SetModeLine():
                await self._session.set_permission_mode(line.mode)
                await self._reply(line.request)
            case InitializeLine():
                await self._reply(line.request)
            case RefusedLine():
                await self._reply(line.request, line.problem)
            case IgnoredLine() if line.kind not in self._ignored_types:
                self._ignored_types.add(line.kind)
                self._warn(f"Lines of the type {line.kind!r} mean nothing here; they are passed over.")
            case IgnoredLine():
                pass

    async def _reply(self, request: str, problem: str = "") -> None:
        if request:
            await self._output.put(self._format.control_reply(request, problem))

    async def _submit(self, prompt: Prompt, input_id: str | None) -> None:
        """Send one input, in its order, and print the result, or run the command that it is."""
        number = len(self._codes)
        self._codes.append(codes.DONE)
        async with self._order.turn(command=is_command(prompt)) as waited:
            if waited and self._input.cancel_called:
                self._warn(f"{one_line_note(prompt_text(prompt))!r} is not used: no more input is taken.")
                return
            began, cost = self._job.options.clock.now(), self._session.cost
            prepared = await prepare_input(self._stop, self._session, prompt, input_id=input_id)
            if isinstance(prepared, CommandOutcome):
                self._codes[number] = prepared.code
                await self._print_command(prepared, began, cost)
                return
            for words in prepared.notes:
                self._warn(one_line_note(words))
            self._codes[number] = await self._send(prepared, input_id)

    async def _send(self, prepared: PreparedInput, input_id: str | None) -> int:
        """Send one prompt and print the result of its turn, or the recorded one when it was answered before."""
        session, clock = self._session, self._job.options.clock
        name = input_id or f"{clock.nonce()}{clock.nonce()}"
        recorded = self._is_over(name)
        try:
            result = await session.result(prepared.prompt, input_id=name, display=prepared.typed, raw=prepared.raw)
        except TurnError as exc:
            result = self._incomplete_result(exc) or _no_turn(str(exc), "interrupted")
        except (InputConflict, UserError) as exc:
            await self._refuse(str(exc))
            return codes.USAGE
        except BackstayError as exc:
            result = _no_turn(str(exc), "failed")
        if recorded:
            await self._show_again(name, result.turn)
        await self._end(result)
        return exit_code(result)

    async def _refuse(self, problem: str) -> None:
        """Refuse an input. One that was sent as a line gets a result, as every other line does."""
        self._failure_code = codes.USAGE
        if self._job.lines:
            await self._end(_no_turn(problem, "failed"))
        else:
            self._warn(problem)

    async def _print_command(self, ran: CommandOutcome, began: int, cost: int) -> None:
        """Print the outcome of a command, after everything that happened because of it."""
        session, clock = self._session, self._job.options.clock
        await self._wait_for_output(session.seq)
        ended = FinishedCommand(
            name=ran.name,
            message=ran.result.message,
            success=ran.result.success,
            content=ran.result.data,
            key=f"{clock.nonce()}{clock.nonce()}",
            seq=session.seq,
            took_us=max(0, clock.now() - began),
            cost=session.cost - cost,
        )
        await self._output.put(self._format.command(ended))
        if not ended.success:
            self._warn(show_invisible(ended.message))
        self._warn_of_notes()
        if ran.ends_input:
            self._input.cancel()

    async def _finish(self, stop_signals: StopSignals) -> None:
        """Finish what was open and print the result; no more input is needed then."""
        session = self._session
        skill = session.open_skill
        try:
            result = await session.finish()
        except TurnError as exc:
            result = self._incomplete_result(exc)
        except BackstayError as exc:
            result = _no_turn(str(exc), "failed")
        if result is None or result.outcome == "abandoned":
            nothing = f"The skill {skill!r} is over: its session has what came of it." if skill else "Nothing was open."
            self._warn(nothing if result is None else "The open turn was given up, as asked.")
            result = _no_turn("", "completed")
        self._codes.append(exit_code(result))
        await self._end(result)
        stop_signals.input.cancel()

    def _incomplete_result(self, problem: TurnError) -> TurnResult | None:
        """Return the result of a turn that did not complete; for a paused one, say what to type to go on."""
        session = self._session
        found = next((turn for turn in reversed(session.turns) if turn.turn == problem.turn), None)
        if not isinstance(problem, TurnPaused):
            return found
        limit = session.budget or 0
        how = how_to_go_on(session.id, max(session.cost, limit) + limit)
        words = f"{problem} {how if session.store.url != 'memory:' else 'Nothing of it is kept.'}"
        if found is None:  # the turn before it is paused, and this input waits
            return _no_turn(f"{words} The prompt is queued and comes after that.", None)
        return replace(found, message=words)

    async def _close(self, showing: TaskGroup) -> None:
        try:
            await self._session.close("done")
        except BackstayError as exc:
            self._warn(f"The session could not be closed properly: {exc}")
            self._failure_code = codes.FAILED
            showing.cancel_scope.cancel()

    # --- output ------------------------------------------------------------------------------------------------------

    def _make_format(self) -> OutputFormat:
        session, job = self._session, self._job
        if job.output == "text":
            return TextFormat()
        made: dict[str, OutputFormat] = {
            "json": ResultObjects(session.id),
            "events": NativeStream(session.id),
            "stream-json": StreamJson(
                session.store, session.id, self._find_call, partial=job.partial, answerable=job.lines
            ),
        }
        return Scrubbed(made[job.output], session.redactor)

    async def _show(self) -> None:
        """Print everything until the session is closed."""
        async for item in follow(self._subscription, self._session.store, self._session.id, self._show_lagged):
            await self._print(item)
        self._all_shown = True
        self._progress.set()

    async def _show_lagged(self, lagged: Lagged) -> None:
        await self._output.put(await self._format.show(lagged))

    async def _print(self, item: Item) -> None:
        await self._output.put(await self._format.show(item))
        if isinstance(item, Recorded):
            if words := event_note(item, text=self._job.output == "text", answerable=self._job.lines):
                self._warn(words)
            if isinstance(item.event, events.TurnStarted):
                self._current = self._totals[item.id] = TurnTotals()
            self._current.apply(item)
            self._shown_seq = item.seq
            self._progress.set()
            self._progress = anyio.Event()

    async def _show_again(self, name: str, turn: str) -> None:
        """Print the events of a turn that ended in an earlier run, from its input to its end."""
        log = await self._session.events()
        ended = records_of_turn(log, turn)
        first = next((r.seq for r in log if isinstance(r.event, events.InputReceived) and r.event.input == name), 0)
        if ended:
            for record in log[first - 1 : ended[-1].seq]:
                await self._output.put(await self._format.show(record))

    async def _end(self, result: TurnResult) -> None:
        """Print the result of a turn after all of its events, and warn the person of what went wrong."""
        await self._wait_for_output(self._session.seq)
        result = replace(result, message=with_store(result.message, self._session.store.url))
        await self._print_result(result)
        for words in filter(None, (*self._denials(result), result.message)):
            self._warn(words)
        self._warn_of_notes()

    def _warn_of_notes(self) -> None:
        """Tell the person once what the session warns of, and what is wrong with files of the project."""
        for words in self._session.warnings[self._warnings_told :]:
            self._warn(words)
        self._warnings_told = len(self._session.warnings)
        notes = self._session.project.notices if self._session.project is not None else ()
        news = [words for words in notes if words not in self._notes_told]
        self._notes_told += news
        for words in first_notes(news, trusted=self._job.options.trust is not False):
            self._warn(words)

    async def _print_result(self, result: TurnResult) -> None:
        totals = self._totals.pop(result.turn, None)
        if totals is None:
            totals = TurnTotals(records_of_turn(await self._session.events(), result.turn) if result.turn else ())
        text = await fetch_text(totals.reply, self._session.store.blob)
        key = result.turn or self._job.options.clock.nonce()
        ended = EndedTurn(result=result, key=key, totals=totals, text=text, facts=self._session.model_facts)
        await self._output.put(self._format.result(ended))

    def _denials(self, result: TurnResult) -> Iterable[str]:
        """Yield the warnings about calls that were not run. A program finds the calls that were decided in the output."""
        for denial in result.denials:
            if denial.halted or self._job.output == "text":
                yield denial_in_words(denial, answerable=self._job.lines)

    async def _wait_for_output(self, seq: int) -> None:
        while self._shown_seq < seq and not self._all_shown:
            await self._progress.wait()

    async def _stop_when_unread(self, stop_signals: StopSignals) -> None:
        await self._output.gone.wait()
        await stop_signals.interrupt("nobody reads the output any more")

    def _output_code(self) -> int:
        """Warn and return an error code when not everything could be printed."""
        if not self._output.problem:
            return codes.DONE
        kept = f" `backstay sessions show {self._session.id}` has it." if self._session.store.url != "memory:" else ""
        self._warn(f"Standard output could not be written: {self._output.problem}.{kept}")
        return codes.COULD_NOT_START

    # --- state -------------------------------------------------------------------------------------------------------

    def _exit_code(self) -> int:
        """Return the code of the last input; if that is 0, the code of a failure, or of a turn that was halted before."""
        last = self._codes[-1] if self._codes else codes.DONE
        return last or self._failure_code or (codes.HALTED if codes.HALTED in self._codes else codes.DONE)

    @property
    def _is_done(self) -> bool:
        """Whether all input was dealt with: then it is no failure that the reader of the output is gone."""
        return self._is_read and bool(self._codes)

    def _is_over(self, name: str) -> bool:
        result = self._session.input_result(name)
        return result is not None and result.outcome is not None

    def _needs_model(self) -> bool:
        if self._job.finish:
            report = self._session.report
            open_turn = report is not None and report.open_turn
            return bool(self._session.pending_inputs or open_turn or self._session.open_skill)
        if self._job.prompt is not None and not self._job.lines and is_local_command(self._session, self._job.prompt):
            return False
        return self._job.input_id is None or not self._is_over(self._job.input_id)

    def _find_call(self, call: str) -> ToolCall | None:
        for message in reversed(self._session.history):
            for part in message.content:
                if isinstance(part, ToolCall) and part.id == call:
                    return part
        return None


def _no_turn(message: str, outcome: TurnOutcome | None) -> TurnResult:
    """Return the result of an input that has no turn."""
    return TurnResult(turn="", number=0, started=0, outcome=outcome, message=message)
