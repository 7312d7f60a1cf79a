"""One run of a session without a person: input is delivered, what happens is printed, and the end becomes an exit code."""

from collections.abc import Iterable

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from backstay.headless import result as codes
from backstay.headless.approvals import ApprovalQueue
from backstay.headless.formats import NativeStream, OutputFormat, ResultObjects, TextFormat, with_store
from backstay.headless.input import InputOrder, PreparedInput, is_command, take_unless, text_of
from backstay.headless.job import Complain, Job, about_session, check_model
from backstay.headless.messages import aside, first_notes, how_to_go_on, one_line_note, rule_notes, unknown_models
from backstay.headless.result import Account, Answered, EndedTurn, denial_in_words, exit_code, records_of_turn
from backstay.headless.scrubbed_stream import Scrubbed
from backstay.headless.signals import Stopping
from backstay.headless.slash import CommandOutcome, is_local_command
from backstay.headless.stdio import InputLines, Outlet
from backstay.headless.stream_json_input import (
    ControlRefused,
    Decide,
    Greet,
    Ignored,
    Say,
    SetMode,
    Spoken,
    Stop,
    parse,
)
from backstay.headless.stream_json_output import StreamJson
from backstay.logic.state.results import TurnResult
from backstay.logic.text import show_invisible
from backstay.runtime.bus import Item, follow
from backstay.runtime.services import whole_text
from backstay.session.session import Prompt, Session
from backstay.vocab.deltas import Lagged
from backstay.vocab.errors import BackstayError, InputConflict, TurnError, TurnPaused, UserError
from backstay.vocab.event import Recorded, TurnOutcome
from backstay.vocab.events import InputReceived, TurnStarted
from backstay.vocab.messages import ToolCall


class HeadlessRun:
    """One run of a session, from its first input to its close."""

    def __init__(
        self, job: Job, session: Session, outlet: Outlet, complain: Complain, desk: ApprovalQueue | None
    ) -> None:
        self._job = job
        self._session = session
        self._outlet = outlet
        self._complain = complain
        self._desk = desk
        self._format = self._make_format()
        self._subscription = session.subscribe()
        self._codes: list[int] = []
        """What came of each input, in the order in which they were sent."""
        self._trouble = codes.DONE
        self._spoilt = ""
        """Why the input was not read to its end."""
        self._whole = not job.lines
        """Whether the input was read to its end."""
        self._passed_over: set[str] = set()
        self._shown = session.seq
        self._all_shown = False
        self._moved = anyio.Event()
        self._order = InputOrder()
        self._input = anyio.CancelScope()
        """Cancelled when no more input is to be taken."""
        self._stop = anyio.Event()
        """Set when whatever goes on is to stop at once."""
        self._current = Account()
        self._accounts: dict[str, Account] = {}
        self._noted: list[str] = []

    async def open(self) -> None:
        """Say what was found, and make sure that there is a model for what is to come."""
        session, options = self._session, self._job.options
        report = session.report
        if report is not None and (report.open_turn or report.absent or report.drifted):
            self._complain(
                report.words() if not session.is_paused else "A turn is open and was paused: its budget was spent."
            )
        if self._needs_model():
            check_model(options, session.model)
            for words in unknown_models(session.model_facts):
                self._complain(words)
        for words in session.warnings:
            self._complain(words)
        self._tell_notes()
        about = await about_session(session, options)
        for words in rule_notes(options.rules, about.tools):
            self._complain(words)
        await self._outlet.put(self._format.opening(about))
        for item in session.opened:
            await self._print(item)
        if options.name and session.name != options.name:
            await session.rename(options.name)

    async def run(self, descriptor: int, stopping: Stopping) -> int:
        """Deliver the input, print what happens, close the session, and return the exit code."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._outlet.run)
            tasks.start_soon(self._stop_when_unread, stopping)
            async with anyio.create_task_group() as showing:
                showing.start_soon(self._show)
                stopping.attach(self._session)
                await self._converse(descriptor, stopping)
                await self._close(showing)
            await self._outlet.flush()
            tasks.cancel_scope.cancel()
        unwritten = self._unwritten()
        stopped = stopping.interrupted and not (self._outlet.gone.is_set() and self._answered)
        return self._exit_code() or (codes.INTERRUPTED if stopped else unwritten)

    # --- input -------------------------------------------------------------------------------------------------------

    async def _converse(self, descriptor: int, stopping: Stopping) -> None:
        self._input, self._stop = stopping.input, stopping.now
        async with anyio.create_task_group() as turns:
            if self._job.finish:
                turns.start_soon(self._finish, stopping)
            elif self._job.prompt is not None:
                turns.start_soon(self._say, self._job.prompt, self._job.input_id)
            if self._desk is not None:
                with stopping.input:
                    await self._read(descriptor, self._desk, turns)
                    self._whole = True
                self._desk.close()
        if self._spoilt:
            await self._print_result(_unanswered(self._spoilt, "failed"))

    async def _read(self, descriptor: int, desk: ApprovalQueue, turns: TaskGroup) -> None:
        number, lines = 0, InputLines(descriptor)
        desk.attach(lines.written)
        try:
            async for place, line in lines.read():
                number += 1
                if line.strip():
                    await self._hear(parse(line), place, desk, turns)
        except BackstayError as exc:
            self._spoilt = f"Line {number} of the input: {exc} No more of it is read."
            self._complain(self._spoilt)
            self._trouble = codes.USAGE if isinstance(exc, UserError) else codes.FAILED

    async def _hear(self, spoken: Spoken, place: int, desk: ApprovalQueue, turns: TaskGroup) -> None:
        match spoken:
            case Say() if self._job.finish:
                self._complain("--finish takes no prompt; what was said is not used.")
                self._trouble = codes.USAGE
            case Say(delivery="steer") if self._session.is_running and not is_command(spoken.parts):
                await self._session.steer(spoken.parts)
            case Say():
                turns.start_soon(self._say, spoken.parts, spoken.input_id)
            case Decide():
                if problem := desk.answer(spoken.call, spoken.answer, spoken.changed, place=place):
                    self._complain(problem)
            case Stop():
                await self._session.abort("interrupted by the input")
                await self._reply(spoken.request)
            case SetMode():
                await self._session.set_permission_mode(spoken.mode)
                await self._reply(spoken.request)
            case Greet():
                await self._reply(spoken.request)
            case ControlRefused():
                await self._reply(spoken.request, spoken.problem)
            case Ignored() if spoken.kind not in self._passed_over:
                self._passed_over.add(spoken.kind)
                self._complain(f"Lines of the type {spoken.kind!r} mean nothing here; they are passed over.")
            case Ignored():
                pass

    async def _reply(self, request: str, problem: str = "") -> None:
        if request:
            await self._outlet.put(self._format.answered(request, problem))

    async def _say(self, prompt: Prompt, input_id: str | None) -> None:
        """Deal with one input, in its turn: send it and print the result, or carry out the command that it is."""
        place = len(self._codes)
        self._codes.append(codes.DONE)
        async with self._order.turn(command=is_command(prompt)) as waited:
            if waited and self._input.cancel_called:
                self._complain(f"{one_line_note(text_of(prompt))!r} is not used: no more input is taken.")
                return
            began, cost = self._job.options.clock.now(), self._session.cost
            taken = await take_unless(self._stop, self._session, prompt, input_id=input_id)
            if isinstance(taken, CommandOutcome):
                self._codes[place] = taken.code
                await self._answer(taken, began, cost)
                return
            for words in taken.notes:
                self._complain(one_line_note(words))
            self._codes[place] = await self._send(taken, input_id)

    async def _send(self, taken: PreparedInput, input_id: str | None) -> int:
        """Send one prompt and print the result of its turn, or the recorded one when it was answered before."""
        session, clock = self._session, self._job.options.clock
        name = input_id or f"{clock.nonce()}{clock.nonce()}"
        recorded = self._is_over(name)
        try:
            result = await session.result(taken.prompt, input_id=name, display=taken.typed, raw=taken.raw)
        except TurnError as exc:
            result = self._unfinished(exc) or _unanswered(str(exc), "interrupted")
        except (InputConflict, UserError) as exc:
            await self._refuse(str(exc))
            return codes.USAGE
        except BackstayError as exc:
            result = _unanswered(str(exc), "failed")
        if recorded:
            await self._show_again(name, result.turn)
        await self._end(result)
        return exit_code(result)

    async def _refuse(self, problem: str) -> None:
        """Say that an input cannot be taken; whoever sent it as a line gets a result, as for every other line."""
        self._trouble = codes.USAGE
        if self._job.lines:
            await self._end(_unanswered(problem, "failed"))
        else:
            self._complain(problem)

    async def _answer(self, ran: CommandOutcome, began: int, cost: int) -> None:
        """Print what came of a command, after everything that happened because of it."""
        session, clock = self._session, self._job.options.clock
        await self._caught_up(session.seq)
        answered = Answered(
            name=ran.name,
            message=ran.result.message,
            success=ran.result.success,
            content=ran.result.data,
            key=f"{clock.nonce()}{clock.nonce()}",
            seq=session.seq,
            took_us=max(0, clock.now() - began),
            cost=session.cost - cost,
        )
        await self._outlet.put(self._format.command(answered))
        if not answered.success:
            self._complain(show_invisible(answered.message))
        if ran.leaves:
            self._input.cancel()

    async def _finish(self, stopping: Stopping) -> None:
        """Finish what was open and print the result; no more input is needed then."""
        session = self._session
        try:
            result = await session.finish()
        except TurnError as exc:
            result = self._unfinished(exc)
        except BackstayError as exc:
            result = _unanswered(str(exc), "failed")
        if result is None or result.outcome == "abandoned":
            self._complain("Nothing was open." if result is None else "The open turn was given up, as asked.")
            result = _unanswered("", "completed")
        self._codes.append(exit_code(result))
        await self._end(result)
        stopping.input.cancel()

    def _unfinished(self, problem: TurnError) -> TurnResult | None:
        """The result of a turn that did not complete; of one that is paused, with what to do about it."""
        session = self._session
        found = next((turn for turn in reversed(session.turns) if turn.turn == problem.turn), None)
        if not isinstance(problem, TurnPaused):
            return found
        limit = session.budget or 0
        how = how_to_go_on(session.id, max(session.cost, limit) + limit)
        words = f"{problem} {how if session.store.url != 'memory:' else 'Nothing of it is kept.'}"
        if found is None:  # the turn before it is paused, and this input waits
            return _unanswered(f"{words} The prompt is queued and comes after that.", None)
        return replace(found, message=words)

    async def _close(self, showing: TaskGroup) -> None:
        try:
            await self._session.close("done")
        except BackstayError as exc:
            self._complain(f"The session could not be closed properly: {exc}")
            self._trouble = codes.FAILED
            showing.cancel_scope.cancel()

    # --- output ------------------------------------------------------------------------------------------------------

    def _make_format(self) -> OutputFormat:
        session, job = self._session, self._job
        if job.output == "text":
            return TextFormat()
        made: dict[str, OutputFormat] = {
            "json": ResultObjects(session.id),
            "events": NativeStream(session.id),
            "stream-json": StreamJson(session.store, session.id, self._call, partial=job.partial, answerable=job.lines),
        }
        return Scrubbed(made[job.output], session.redactor)

    async def _show(self) -> None:
        """Print everything until the session is closed."""
        async for item in follow(self._subscription, self._session.store, self._session.id, self._tell_lagged):
            await self._print(item)
        self._all_shown = True
        self._moved.set()

    async def _tell_lagged(self, lagged: Lagged) -> None:
        await self._outlet.put(await self._format.show(lagged))

    async def _print(self, item: Item) -> None:
        await self._outlet.put(await self._format.show(item))
        if isinstance(item, Recorded):
            if words := aside(item, text=self._job.output == "text", answerable=self._job.lines):
                self._complain(words)
            if isinstance(item.event, TurnStarted):
                self._current = self._accounts[item.id] = Account()
            self._current.apply(item)
            self._shown = item.seq
            self._moved.set()
            self._moved = anyio.Event()

    async def _show_again(self, name: str, turn: str) -> None:
        """Print the events of a turn that was over before: from its input to its end."""
        log = await self._session.events()
        ended = records_of_turn(log, turn)
        first = next((r.seq for r in log if isinstance(r.event, InputReceived) and r.event.input == name), 0)
        if ended:
            for record in log[first - 1 : ended[-1].seq]:
                await self._outlet.put(await self._format.show(record))

    async def _end(self, result: TurnResult) -> None:
        """Print what came of a turn, after everything that happened in it, and tell a person what went wrong."""
        await self._caught_up(self._session.seq)
        result = replace(result, message=with_store(result.message, self._session.store.url))
        await self._print_result(result)
        for words in filter(None, (*self._denials(result), result.message)):
            self._complain(words)
        self._tell_notes()

    def _tell_notes(self) -> None:
        """Tell the person what was found around the session, once."""
        notes = self._session.kit.notes if self._session.kit is not None else ()
        news = [words for words in notes if words not in self._noted]
        self._noted += news
        for words in first_notes(news, trusted=self._job.options.trust is not False):
            self._complain(words)

    async def _print_result(self, result: TurnResult) -> None:
        account = self._accounts.pop(result.turn, None)
        if account is None:
            account = Account(records_of_turn(await self._session.events(), result.turn) if result.turn else ())
        text = await whole_text(account.reply, self._session.store.blob)
        key = result.turn or self._job.options.clock.nonce()
        ended = EndedTurn(result=result, key=key, account=account, text=text, facts=self._session.model_facts)
        await self._outlet.put(self._format.result(ended))

    def _denials(self, result: TurnResult) -> Iterable[str]:
        """What a person is told of calls that were not run. Programs find those that were decided in the output."""
        for denial in result.denials:
            if denial.halted or self._job.output == "text":
                yield denial_in_words(denial, answerable=self._job.lines)

    async def _caught_up(self, seq: int) -> None:
        while self._shown < seq and not self._all_shown:
            await self._moved.wait()

    async def _stop_when_unread(self, stopping: Stopping) -> None:
        await self._outlet.gone.wait()
        await stopping.interrupt("nobody reads the output any more")

    def _unwritten(self) -> int:
        """Complain when not everything could be printed."""
        if not self._outlet.problem:
            return codes.DONE
        kept = f" `backstay sessions show {self._session.id}` has it." if self._session.store.url != "memory:" else ""
        self._complain(f"Standard output could not be written: {self._outlet.problem}.{kept}")
        return codes.COULD_NOT_START

    # --- what is known -----------------------------------------------------------------------------------------------

    def _exit_code(self) -> int:
        """The last input decides, but a good end does not hide that something was halted before."""
        last = self._codes[-1] if self._codes else codes.DONE
        return last or self._trouble or (codes.HALTED if codes.HALTED in self._codes else codes.DONE)

    @property
    def _answered(self) -> bool:
        """Whether everything that was to be done is done: then nobody minds that the reader is gone."""
        return self._whole and bool(self._codes)

    def _is_over(self, name: str) -> bool:
        result = self._session.input_result(name)
        return result is not None and result.outcome is not None

    def _needs_model(self) -> bool:
        if self._job.finish:
            report = self._session.report
            return bool(self._session.pending_inputs or (report is not None and report.open_turn))
        if self._job.prompt is not None and not self._job.lines and is_local_command(self._session, self._job.prompt):
            return False
        return self._job.input_id is None or not self._is_over(self._job.input_id)

    def _call(self, call: str) -> ToolCall | None:
        for message in reversed(self._session.history):
            for part in message.content:
                if isinstance(part, ToolCall) and part.id == call:
                    return part
        return None


def _unanswered(message: str, outcome: TurnOutcome | None) -> TurnResult:
    """The result of an input that has no turn."""
    return TurnResult(turn="", number=0, started=0, outcome=outcome, message=message)
