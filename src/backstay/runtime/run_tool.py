"""Run a tool once (performs `ToolStarted`), and inspect a proposed call (performs `CallProposed`)."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from backstay.logic.stored_content import make_durable, replace_surrogates
from backstay.logic.text import count_seconds
from backstay.ports import Sandbox, Tool, ToolOutput
from backstay.runtime.admit_items import as_stored
from backstay.runtime.barrier import Fault, run_guarded
from backstay.runtime.services import Outcome, Performer, Services, run_offloaded
from backstay.vocab import events
from backstay.vocab.deltas import ToolOutputDelta
from backstay.vocab.event import Draft, Event, Recorded, ToolOutcome
from backstay.vocab.messages import InFlightPart, MediaRef, Text, TextRef, ToolCall

NOTES_S = 2.0
"""How long the result of a tool waits for the notes of the folders that it went to."""
KEPT_OUTPUT = 64 * 1024
"""Characters of streamed output that are kept for a call that is stopped."""


_CHANGING: Final = ("edits", "runs", "web")
"""What calls touch that may change files: those of the web, when a server's program answers."""


class RunTool(Performer[events.ToolStarted]):
    """One run of a tool. It is also the `ToolContext` that the tool sees."""

    def __init__(self, record: Recorded, services: Services) -> None:
        super().__init__(record, services)
        self._shown: list[str] = []
        self._size = 0
        self._checking = False
        self._ended = False
        """Whether the tool has returned."""
        self._touched: list[str] = []
        """The files that the tool has read or written."""
        self._sandbox: Sandbox | None = None
        self._open = next(call for call in services.state.progress.calls if call.id == self._intent.call)

    # --- what the tool sees

    @property
    def call(self) -> str:
        """The id of the call."""
        return self._intent.call

    @property
    def key(self) -> str:
        """The idempotency key of the call."""
        return self._intent.key

    @property
    def cwd(self) -> str:
        """The working folder of the session."""
        return self._services.cwd

    @property
    def links(self) -> Mapping[str, str]:
        """Where the paths of the call led when it was judged."""
        call = self._open
        return call.facts.links if call.facts is not None else {}

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox that programs are started in."""
        return self._sandbox

    def version_of(self, path: str) -> str:
        """Return the version of a file when the session last read or wrote it."""
        return self._services.state.seen.get(path, "")

    def show(self, text: str) -> None:
        """Stream a piece of output."""
        if self._size < KEPT_OUTPUT:
            self._shown.append(text)
            self._size += len(text)
        self._services.stream(ToolOutputDelta(call=self.call, text=replace_surrogates(text)))

    def note(self, event: Event) -> None:
        """Write an event with the next commit."""
        if isinstance(event, events.FileSeen):
            self._touched.append(event.path)
        self._services.inbox.note(as_stored(Draft(event=event, cause=self._id)))

    async def emit(self, event: Event) -> None:
        """Write an event and return when it is durable."""
        await self._services.inbox.deliver(Draft(event=event, cause=self._id))

    # --- what the runner sees

    async def run(self) -> Outcome:
        """Run the tool; a lost run of a reconcilable tool is looked for first."""
        try:
            return await self._run()
        finally:
            self._ended = True

    async def _run(self) -> Outcome:
        tool = self._services.tools.get(self._intent.name)
        if tool is None:
            return self._end("invalid", f"There is no tool called {self._intent.name!r} any more.", code="unknown_tool")
        inspect = partial(self._services.tools.inspect, self._open.name, self._open.args)
        _, _, args = await run_offloaded(inspect, len(self._open.args))
        if self._services.files is not None and tool.spec.touches in _CHANGING:
            await self._services.files.before(tool.spec, self.call, await self._places(args), self._id)
        if tool.spec.touches == "runs":
            self._sandbox = await anyio.to_thread.run_sync(self._services.start_sandbox)
        patience = self._services.tool_timeout_s
        with anyio.move_on_after(patience) as limit:
            output = await self._output(tool, args)
        if limit.cancelled_caught and self._checking:
            return self._still_unknown(f"looking for it took more than {count_seconds(patience or 0)}")
        if limit.cancelled_caught:
            return self._end(
                "failed",
                self._partial(f"Given up: it ran for more than {count_seconds(patience or 0)}."),
                code="timeout",
            )
        parts: tuple[InFlightPart, ...] = (
            *self._describe_change(),
            Text(text=replace_surrogates(output.text)),
            *output.media,
        )
        if output.failed:
            return self._end("failed", parts, code=output.code)
        notes, shown = await self._notes()
        finished = self._end("ok", (*parts, *notes), code=output.code)
        return Outcome(  # in this order: a log cut between them shows the notes again
            (*finished.drafts, *self._finish(*shown).drafts), finished.blobs
        )

    def report_stop(self) -> Outcome:
        """Return what the tool had shown; it may not have ended yet."""
        why = "Stopped by the person." if self._ended else "Stopped by the person; it did not answer in time."
        return self._end("interrupted", self._partial(why), code="interrupted")

    def report_fault(self, fault: Fault) -> Outcome:
        """Return the failure of a tool that raised; the session goes on."""
        if self._checking:
            return self._still_unknown(f"looking for it failed with {fault.kind}: {fault.message}")
        return self._end("failed", f"{fault.kind}: {fault.message}", code="raised")

    async def _places(self, args: dict[str, object]) -> Iterable[str]:
        """Return where the paths of the call lead: those that it was judged by, which are all that a file tool goes to."""
        if self._open.facts is not None:
            return self._open.facts.links.values()
        facts = await self._services.in_force.resolve_paths(self._open.name, args)
        return facts.links.values() if facts is not None else ()

    async def _output(self, tool: Tool, args: dict[str, object]) -> ToolOutput:
        if self._intent.again and self._intent.effect == "reconcilable":
            self._checking = True
            found = await tool.check(args, self)
            self._checking = False
            if found is not None:
                return found
        return await tool.run(args, self)

    async def _notes(self) -> tuple[tuple[InFlightPart, ...], tuple[events.NotesShown, ...]]:
        """Read the notes of the folders that the tool went to. A failure here is not the tool's fault, and a stop does not end it."""
        find, places = self._services.read_folder_notes, tuple(dict.fromkeys(self._touched))
        if find is None or not places:
            return (), ()
        with anyio.move_on_after(NOTES_S, shield=True):
            found = await run_guarded("notes", lambda: find(places, self.call))
            if not isinstance(found, Fault):
                return ((Text(text=found[0]),) if found[0] else ()), found[1]
            self.note(events.FaultCaught(where="notes", kind=found.kind, message=found.trace[-2000:]))
        return (), ()

    def _describe_change(self) -> tuple[InFlightPart, ...]:
        """Return what the model must know when it was not its own arguments that ran."""
        if not self._open.changed or self._intent.name == "AskUserQuestion":
            return ()
        who = "The person" if self._open.changed == "user" else "A hook"
        return (Text(text=f"({who} changed the arguments. This ran: {replace_surrogates(self._open.args)})\n"),)

    def _still_unknown(self, why: str) -> Outcome:
        text = f"Outcome unknown: {self._intent.name} was started before the process died, and {why}. It was not run again."
        return self._end("unknown", text, code="restart")

    def _partial(self, why: str) -> str:
        doubt = "" if self._intent.effect == "pure" else " It may have partly happened."
        shown = "".join(self._shown)
        return f"{why}{doubt}" + (f" Its output so far:\n{shown}" if shown else "")

    def _end(self, outcome: ToolOutcome, content: str | tuple[InFlightPart, ...], *, code: str = "") -> Outcome:
        parts: tuple[InFlightPart, ...] = (
            (Text(text=replace_surrogates(content)),) if isinstance(content, str) else content
        )
        durable, blobs = make_durable(parts)
        kept = tuple(part for part in durable if isinstance(part, Text | TextRef | MediaRef))
        return self._finish(events.ToolFinished(call=self.call, outcome=outcome, content=kept, code=code), blobs=blobs)


MOST_CALLS: Final = 128
"""Calls of one reply that are inspected."""


class InspectCall(Performer[events.CallProposed]):
    """The inspection of a call whose facts did not come with its reply."""

    async def run(self) -> Outcome:
        """Inspect the call."""
        found = next(call for call in self._services.state.progress.calls if call.id == self._intent.call)
        call = ToolCall(id=found.id, name=found.name, args=found.args)
        return self._finish(await inspect_call(self._services, call))

    def report_fault(self, fault: Fault) -> Outcome:
        """Return a problem: a call that cannot be inspected cannot run."""
        problem = f"inspection_failed: {fault.kind}: {fault.message}"
        return self._finish(events.CallInspected(call=self._intent.call, problem=problem))


async def inspect_call(services: Services, call: ToolCall) -> events.CallInspected:
    """Return the facts about `call`: whether its arguments fit, and where its paths lead."""
    if int(call.id.rpartition("-")[2] or 0) >= MOST_CALLS:
        problem = f"too_many_calls: One reply may have {MOST_CALLS} calls. Make the rest in the next one."
        return events.CallInspected(call=call.id, problem=problem)
    inspect = partial(services.tools.inspect, call.name, call.args)
    code, message, args = await run_offloaded(inspect, len(call.args))
    if code:
        return events.CallInspected(call=call.id, problem=f"{code}: {message}")
    return events.CallInspected(call=call.id, facts=await services.in_force.resolve_paths(call.name, args))
