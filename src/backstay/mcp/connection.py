"""Keep one server connected while a session is open: connect, list, call, and reconnect when it breaks.

A call that was under way when the server broke is never made again: it may have happened, and the model is told so.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, Protocol

import anyio
import mcp_types as types
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from backstay.logic.secrets.redact import Redactor
from backstay.logic.text import one_line
from backstay.mcp.catalog import Lists
from backstay.mcp.client import FAILURES, Link, Listed, describe_error, leaf_errors, open_link
from backstay.mcp.dependencies import Dependencies, Noise
from backstay.mcp.results import ImageType, Shorten, call_output, nonsense, prompt_output, resource_output
from backstay.mcp.spec import ServerSpec
from backstay.ports import ToolContext, ToolOutput

State = Literal["starting", "connected", "failed", "closed"]
BACKOFF_S: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds to wait before each attempt to reach a server again that was connected before."""
STEADY_S: Final = 60.0
"""Seconds of connection after which the attempts are counted anew."""
CLOSE_S: Final = 2.0
PAUSE_S: Final = 1.0
"""Between two readings of the lists of a server that says they change."""
MOST_PROGRESS: Final = 1_000
"""Words of progress that are shown of one call."""


class ReadAnswer(Protocol):
    """Makes a result of an answer as it came."""

    async def __call__(self, raw: Mapping[str, object], *, shorten: Shorten, image_type: ImageType) -> ToolOutput:
        """Read it."""


class Status(Struct, frozen=True, kw_only=True):
    """The status of a connection."""

    state: State
    why: str = ""
    """What went wrong, if anything."""
    attempts: int = 0
    """The number of reconnections."""


class Connection:
    """A server, reached by `run` in a task of its own."""

    def __init__(
        self, spec: ServerSpec, dependencies: Dependencies, changed: Callable[[Lists], Awaitable[None]]
    ) -> None:
        self.spec = spec
        self._dependencies = dependencies
        self._changed = changed
        self._link: Link | None = None
        self._wake = anyio.Event()
        self._stale = self._closing = False
        self._listed = -math.inf
        self._scope: anyio.CancelScope | None = None
        """The scope of what a close need not wait for."""
        self._reading: anyio.CancelScope | None = None
        """The scope of a new reading of the lists, for which it need not wait either."""
        self._status_changed = anyio.Event()
        self._status = Status(state="starting")
        self._redactor = Redactor(exact=spec.secrets)
        """Keeps the values that the server was given out of the log."""

    @property
    def _name(self) -> str:
        return f"The server {self.spec.name!r}"

    @property
    def status(self) -> Status:
        """The current status."""
        return self._status

    async def wait_until_ready(self) -> Status:
        """Wait until it is connected or has failed."""
        while self._status.state == "starting":
            await self._status_changed.wait()
        return self._status

    async def run(self) -> None:
        """Stay connected until `close`, or until it makes no sense any more. Errors become the status."""
        try:
            if fault := await self._dependencies.guard(self._run):
                self._link = None
                self._set_status(Status(state="failed", why=self._redact(fault)))
        finally:
            if self._status.state in ("starting", "connected"):  # it was cancelled: nothing must wait for it any more
                self._set_status(Status(state="closed"))

    async def _run(self) -> None:
        status = Status(state="starting")
        while status.state == "starting":
            since = anyio.current_time()
            why, was_there = await self._run_once(status.attempts)
            attempts = 0 if was_there and anyio.current_time() - since > STEADY_S else status.attempts
            if attempts == len(BACKOFF_S) or not (was_there or attempts):
                status = Status(state="failed", why=why, attempts=attempts)
            else:
                status = Status(state="starting", why=why, attempts=attempts + 1)
                self._set_status(status)
                await self._pause(BACKOFF_S[attempts])
            if self._closing:
                status = Status(state="closed")
        self._set_status(status)

    async def _pause(self, seconds: float) -> None:
        with anyio.CancelScope() as self._scope:
            if not self._closing:
                await self._dependencies.sleep(seconds)

    def close(self) -> None:
        """Let `run` come to its end."""
        self._closing = True
        self._wake.set()
        if self._link is None and self._scope is not None:
            self._scope.cancel()
        if self._reading is not None:
            self._reading.cancel()

    async def wait_for_change(self) -> None:
        """Wait until the status changes."""
        await self._status_changed.wait()

    # --- requests --------------------------------------------------------------------------------------------------------------------

    async def call(self, item: str, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Call a tool, once."""
        shown = 0

        async def show(progress: float, total: float | None, message: str | None) -> None:
            nonlocal shown
            shown += 1
            if shown <= MOST_PROGRESS:
                context.show(self._redactor.mask_known(_progress_words(progress, total, message)))

        request = types.CallToolRequest(params=types.CallToolRequestParams(name=item, arguments=args))
        return await self._ask(request, call_output, seconds=self.spec.call_s, on_progress=show)

    async def read(self, uri: str) -> ToolOutput:
        """Read a resource."""
        request = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri))
        return await self._ask(request, resource_output, seconds=self.spec.call_s or self.spec.start_s)

    async def prompt(self, item: str, arguments: dict[str, str]) -> ToolOutput:
        """Have a prompt written."""
        params = types.GetPromptRequestParams(name=item, arguments=arguments or None)
        request = types.GetPromptRequest(params=params)
        return await self._ask(request, prompt_output, seconds=self.spec.call_s or self.spec.start_s)

    async def _ask(
        self,
        request: "types.Request[Any, Any]",
        read: ReadAnswer,
        *,
        seconds: float | None,
        on_progress: ProgressFnT | None = None,
    ) -> ToolOutput:
        """Send one request and read its answer; any error becomes a failed result."""
        link = await self._available()
        if link is None:
            why = self._status.why or "it is not there"
            return _fail("not_connected", f"{self._name} is not connected, so nothing was sent: {why}.")
        try:
            raw = await link.ask(request, seconds=seconds, on_progress=on_progress)
        except MCPError as exc:
            return self._explain_refusal(exc, link, seconds)
        except FAILURES as exc:
            return nonsense(self._redactor.mask_known(describe_error(exc)))
        return await read(raw, shorten=self._shorten, image_type=self._dependencies.image_type)

    async def _shorten(self, text: str) -> str:
        return await self._dependencies.shorten(self._redactor.mask_known(text))  # before the whole of it is put away

    async def _available(self) -> Link | None:
        """Return the link; wait a while for one that is being opened."""
        with anyio.move_on_after(self.spec.start_s):
            while self._status.state in ("starting", "connected"):
                if self._link is not None and self._status.state == "connected" and not self._link.ended.is_set():
                    return self._link
                await self._status_changed.wait()
        return None

    def _explain_refusal(self, exc: MCPError, link: Link, seconds: float | None) -> ToolOutput:
        """Explain a request without a result. The codes are also servers' own, so the client's are known by its words."""
        if exc.code == types.REQUEST_TIMEOUT and exc.message.endswith("timed out") and seconds is not None:
            text = (
                f"{self._name} did not answer within {seconds:g} s and was told to stop. It may have partly happened."
            )
            return _fail("timeout", text)
        if exc.code == types.INVALID_REQUEST and exc.message == "Session terminated":
            self._give_up(link)
            return _fail("refused", f"{self._name} has forgotten this conversation and did nothing. Try again.")
        if exc.code == types.CONNECTION_CLOSED and exc.message.startswith(("Connection closed", "SSE stream")):
            self._give_up(link)
            text = (
                f"Outcome unknown: the connection to {self.spec.name!r} broke while this ran. "
                "It may have happened, in part or whole; it was not tried again."
            )
            return _fail("unknown", text)
        return _fail("refused", f"{self._name} refused: {self._redactor.mask_known(one_line(exc.message, 2_000))}")

    def _give_up(self, link: Link) -> None:
        link.ended.set()
        self._wake.set()

    # --- life ------------------------------------------------------------------------------------------------------------------------

    async def _run_once(self, attempts: int) -> tuple[str, bool]:
        """Connect, stay connected, and return why it ended, and whether it could be used before."""
        noise, was_there = Noise(), False
        scope = self._scope = anyio.CancelScope(deadline=anyio.current_time() + self.spec.start_s)
        why = ""
        try:
            with scope:
                async with open_link(self.spec, self._dependencies, noise, self._note_change) as link:
                    await link.greet()
                    self._stale = False
                    lists = await link.lists(self.spec.start_s)
                    scope.deadline = math.inf
                    was_there = True
                    await self._enter(link, lists, attempts)
                    try:
                        await self._stay(link)
                    finally:  # a call that comes now waits for the next connection
                        self._set_status(Status(state="starting", why="its connection broke", attempts=attempts))
                    scope.deadline = anyio.current_time() + CLOSE_S
                why = "it ended"
        except ExceptionGroup as exc:
            if not all(isinstance(each, FAILURES) for each in leaf_errors(exc)):
                raise
            why = describe_error(exc)
        except FAILURES as exc:
            why = describe_error(exc)
        finally:
            self._link = None
        if scope.cancelled_caught and not was_there:
            why = f"it was not ready within {self.spec.start_s:g} s"
        return self._redact(why, noise.words), was_there

    def _redact(self, *parts: str) -> str:
        """Join the reasons, without the server's secrets."""
        return self._redactor.text("; ".join(filter(None, parts)))

    async def _stay(self, link: Link) -> None:
        """Read the lists again when they change, until the link ends or is to be closed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._wake_at_end, link)
            while not self._is_over(link):
                await self._wake.wait()
                self._wake = anyio.Event()
                if self._stale and not self._is_over(link):
                    self._stale = False
                    with anyio.CancelScope() as self._reading:
                        await self._read_lists_again(link)
            tasks.cancel_scope.cancel()

    def _is_over(self, link: Link) -> bool:
        return self._closing or link.ended.is_set()

    async def _wake_at_end(self, link: Link) -> None:
        await link.ended.wait()
        self._wake.set()

    async def _read_lists_again(self, link: Link) -> None:
        if (early := self._listed + PAUSE_S - anyio.current_time()) > 0:
            await self._dependencies.sleep(early)
        self._listed = anyio.current_time()
        try:
            lists = await link.lists(self.spec.start_s)
        except MCPError:
            return  # it broke, which is noticed elsewhere
        await self._changed(lists)

    async def _enter(self, link: Link, lists: Lists, attempts: int) -> None:
        self._link = link
        await self._changed(lists)
        self._set_status(Status(state="connected", attempts=attempts))

    def _note_change(self, word: Listed) -> None:
        self._stale = True
        self._wake.set()

    def _set_status(self, status: Status) -> None:
        self._status = status
        changed_event, self._status_changed = self._status_changed, anyio.Event()
        changed_event.set()


def _fail(code: str, text: str) -> ToolOutput:
    return ToolOutput(text=text, failed=True, code=code)


def _progress_words(progress: float, total: float | None, message: str | None) -> str:
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    return f"[{share}] {one_line(message)}\n" if message else f"[{share}]\n"
