"""The MCP servers of one session: connect them in parallel, and offer all their tools, resources, prompts and instructions together.

    async with Servers(specs, means, pins=PinStore(data)) as servers:
        servers.tools, servers.resources, servers.prompts, servers.instructions, servers.status

No server makes opening fail, and none keeps it waiting longer than its own deadline. The official client is loaded only when there is a
server, beside the event loop.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct, field

from backstay.logic.text import frame_server_words
from backstay.mcp.catalog import Lists, Offer, Prompt, Resource, ToolOffer, pin, read_offer, why_unfit
from backstay.mcp.dependencies import Dependencies, Pins
from backstay.mcp.spec import ServerSpec
from backstay.permissions.server_tools import server_names
from backstay.ports import ToolContext, ToolOutput
from backstay.system.installation import hint_extra
from backstay.vocab.errors import UserError
from backstay.vocab.specs import ToolSpec

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from backstay.mcp.connection import Connection

SLOW_S: Final = 2.0
"""Seconds after which slow servers are reported."""
CLOSE_S: Final = 10.0
"""Seconds that all servers together may take to end."""


Run = Callable[[ToolOffer, dict[str, object], ToolContext], Awaitable[ToolOutput]]
Now = Callable[[str], ToolSpec | None]
"""Returns the current definition of a tool; None when it is not offered."""


class ServerTool:
    """One tool of a server, as it was when the session began."""

    def __init__(self, server: str, offer: ToolOffer, now: Now, run: Run) -> None:
        self._server = server
        self._offer = offer
        self._pin = pin(offer.spec)
        self._now = now
        self._run = run

    @property
    def spec(self) -> ToolSpec:
        """The specification for the model and the policy."""
        return self._offer.spec

    def problem(self, args: dict[str, object]) -> str:
        """Return why these arguments cannot be used; empty when they may be."""
        wrong = why_unfit(args, self.spec.schema)
        return f"The arguments do not fit: {wrong}." if wrong else ""

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Call the tool, unless the server has changed its definition since."""
        now = self._now(self.spec.name)
        if now is None or pin(now) != self._pin:
            what = "does not offer this tool any more" if now is None else "has changed what this tool is"
            text = f"The server {self._server!r} {what}. It was not called; the person must approve it as it is now."
            return ToolOutput(text=text, failed=True, code="changed")
        return await self._run(self._offer, args, context)

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Return None: a server cannot be asked whether a call happened."""
        return None


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The status of one server, for people and for `--json`."""

    state: Literal["starting", "connected", "failed", "closed"]
    why: str = ""
    tools: int = 0
    """Tools that are offered to the model."""
    held: tuple[str, ...] = ()
    """Tools that are not approved as they are now: new and changed ones."""
    problems: tuple[str, ...] = ()
    """Entries of its lists that were left out, and why."""
    server: dict[str, object] = {}
    """Its entry, without secrets."""


class ServerWords(msgspec.Struct, frozen=True, kw_only=True):
    """A server's own description, framed as untrusted words."""

    server: str
    text: str


class Servers:
    """The servers of one session. Enter it once; everything may be called at any time while it is open."""

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        dependencies: Dependencies,
        *,
        pins: Pins | None = None,
        on_change: Callable[[str], None] | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        """`pins` remembers approved tools; without it all are approved. `on_change` is told the name of a server whose offers changed,
        `on_wait` which servers are slow to answer.
        """
        parts = server_names((spec.name for spec in specs), {spec.name for spec in specs if spec.vouched})
        self._servers = {spec.name: _Server(spec, parts[spec.name]) for spec in specs}
        self._dependencies = dependencies
        self._pins = pins
        self._on_change = on_change
        self._on_wait = on_wait
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        """Connect to all servers, and return when each is connected or has failed."""
        if not self._servers:
            return self
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            await self._connect(tuple(self._servers.values()))
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect; programs of servers are ended with all of their descendants."""
        if self._tasks is None:
            return
        for server in self._servers.values():
            if server.connection is not None:
                server.connection.close()
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self._wait_until_closed()
        await self._leave()

    async def _leave(self) -> None:
        """Wait for the tasks, which have only their shielded ends before them. A scope around this would not be the innermost one."""
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        self._tasks.cancel_scope.shield = True
        await self._tasks.__aexit__(None, None, None)
        self._tasks = None

    # --- what there is ---------------------------------------------------------------------------------------------------------------

    @property
    def tools(self) -> tuple[ServerTool, ...]:
        """The approved tools of every server that was ever connected."""
        return tuple(
            ServerTool(server.spec.name, offer, server.tool_now, self._runner_of(server))
            for server in self._servers.values()
            for offer in server.approved
        )

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that servers list."""
        return tuple(each for server in self._servers.values() for each in server.offer.resources)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts of servers: commands for the person."""
        return tuple(each for server in self._servers.values() for each in server.offer.prompts)

    @property
    def instructions(self) -> tuple[ServerWords, ...]:
        """The instructions of servers, bounded and framed."""
        return tuple(
            ServerWords(server=server.spec.name, text=frame_server_words(server.part, server.offer.instructions))
            for server in self._servers.values()
            if server.offer.instructions
        )

    @property
    def status(self) -> Mapping[str, ServerStatus]:
        """The status of each server, by name."""
        return {name: server.status() for name, server in self._servers.items()}

    def find_mention(self, text: str) -> tuple[str, str] | None:
        """Return the server and the address that `@server:uri` means; None when it names no server."""
        for name in sorted(self._servers, key=len, reverse=True):
            if text.startswith(f"@{name}:") and len(text) > len(name) + 2:
                return name, text[len(name) + 2 :]
        return None

    # --- what can be done ------------------------------------------------------------------------------------------------------------

    async def read(self, server: str, uri: str) -> ToolOutput:
        """Read a resource. The session has then read untrusted words."""
        found = self._servers.get(server)
        if found is None or found.connection is None:
            return ToolOutput(text=self._unknown_server(server), failed=True, code="unknown_server")
        return await found.connection.read(uri)

    async def prompt(self, command: str, arguments: Sequence[str] | Mapping[str, str] = ()) -> ToolOutput:
        """Let a server write a prompt. Words given in order are its arguments in order, and the last takes what is left."""
        found = next((each for each in self.prompts if each.command == command.removeprefix("/")), None)
        connection = self._servers[found.server].connection if found is not None else None
        if found is None or connection is None:
            return ToolOutput(text=f"There is no prompt {command!r}.", failed=True, code="unknown_prompt")
        given = dict(arguments) if isinstance(arguments, Mapping) else found.in_order(arguments)
        if missing := [each.name for each in found.arguments if each.required and not given.get(each.name)]:
            text = f"/{found.command} needs {', '.join(missing)}. Write: {found.usage}"
            return ToolOutput(text=text, failed=True, code="bad_arguments")
        return await connection.prompt(found.item, given)

    async def approve(self, server: str) -> tuple[str, ...]:
        """Approve the tools of a server as they are now, at the person's word; return what was held until then. Raise `UserError`."""
        found = self._require(server)
        specs = [offer.spec for offer in found.offer.tools]
        if self._pins is not None:
            await anyio.to_thread.run_sync(self._pins.approve, found.spec.identity, specs)
        held, found.held, found.store_problem = found.held, (), ""
        self._report_change(server)
        return held

    # --- inside ----------------------------------------------------------------------------------------------------------------------

    async def _connect(self, servers: Sequence["_Server"]) -> None:
        assert self._tasks is not None
        try:
            make = await anyio.to_thread.run_sync(_load)
        except ImportError as exc:
            for server in servers:
                server.start_problem = f"the package for MCP is missing ({exc}). Type: {hint_extra('mcp')}"
            return
        connections = [make(server.spec, self._dependencies, self._take_lists_of(server)) for server in servers]
        for server, connection in zip(servers, connections, strict=True):
            server.connection = connection
            self._tasks.start_soon(connection.run)
        if self._on_wait is not None:
            self._tasks.start_soon(self._report_slow, servers, self._on_wait)
        for connection in connections:
            await connection.wait_until_ready()

    async def _report_slow(self, servers: Sequence["_Server"], tell: Callable[[str], None]) -> None:
        await self._dependencies.sleep(SLOW_S)
        slow = [server.spec for server in servers if server.status().state == "starting"]
        if slow:
            names = ", ".join(repr(spec.name) for spec in slow)
            most = max(spec.start_s for spec in slow)
            tell(f"Waiting for MCP servers: {names}, for {most:g} s at most.")

    async def _wait_until_closed(self) -> None:
        for server in self._servers.values():
            while server.connection is not None and server.connection.status.state in ("starting", "connected"):
                await server.connection.wait_for_change()

    def _take_lists_of(self, server: "_Server") -> Callable[[Lists], Awaitable[None]]:
        async def take(lists: Lists) -> None:
            offer = read_offer(server.spec.name, server.part, lists, vouched=server.spec.vouched)
            held, store_problem = await anyio.to_thread.run_sync(
                self._find_unapproved, server, [each.spec for each in offer.tools]
            )
            server.offer, server.held, server.store_problem = offer, held, store_problem
            self._report_change(server.spec.name)

        return take

    def _find_unapproved(self, server: "_Server", specs: Sequence[ToolSpec]) -> tuple[tuple[str, ...], str]:
        """Return the tools that are held back, and why the store of pins cannot be used.

        Whoever wrote the server down, or trusted the workspace that did, approved what it offers when it is first seen, until
        something of it is called: some servers complete their lists late. From then on nothing new and nothing changed is
        offered before the person says so.
        """
        if self._pins is None:
            return (), ""
        try:
            found = self._pins.drift(server.spec.identity, specs)
            server.new = server.new or (len(found.added) == len(specs) and not found.gone)
            if server.new and not server.called and not found.changed:
                self._pins.approve(server.spec.identity, specs)
                return (), ""
        except UserError as exc:
            return tuple(spec.name for spec in specs), f"None of its tools is offered: {exc}"
        return found.asks, ""

    def _runner_of(self, server: "_Server") -> Run:
        async def run(offer: ToolOffer, args: dict[str, object], context: ToolContext) -> ToolOutput:
            assert server.connection is not None  # it listed the tool
            server.called = True
            return await server.connection.call(offer.item, args, context)

        return run

    def _report_change(self, server: str) -> None:
        if self._on_change is not None:
            self._on_change(server)

    def _require(self, server: str) -> "_Server":
        if server not in self._servers:
            raise UserError(self._unknown_server(server))
        return self._servers[server]

    def _unknown_server(self, server: str) -> str:
        return f"There is no server {server!r}. The servers are: {', '.join(self._servers) or 'none'}."


class _Server(Struct):
    """The state of one server."""

    spec: ServerSpec
    part: str
    connection: "Connection | None" = None
    offer: Offer = field(default_factory=Offer)
    held: tuple[str, ...] = ()
    start_problem: str = ""
    """Why no connection could be tried."""
    new: bool = False
    """Whether this session is the first to see it."""
    called: bool = False
    store_problem: str = ""
    """Why the store of pins cannot be used."""

    @property
    def approved(self) -> tuple[ToolOffer, ...]:
        return tuple(offer for offer in self.offer.tools if offer.spec.name not in self.held)

    def tool_now(self, name: str) -> ToolSpec | None:
        return next((offer.spec for offer in self.approved if offer.spec.name == name), None)

    def status(self) -> ServerStatus:
        now = None if self.connection is None else self.connection.status
        return ServerStatus(
            state=now.state if now is not None else "failed" if self.start_problem else "starting",
            why=now.why if now is not None else self.start_problem,
            tools=len(self.approved),
            held=self.held,
            problems=tuple(filter(None, (self.store_problem, *self.offer.problems))),
            server=self.spec.listing(),
        )


def _load() -> "type[Connection]":
    """Import the official client; it takes a while. What it logs goes nowhere unless the program that uses us asks for it."""
    from backstay.mcp.connection import Connection  # noqa: PLC0415 - here, because it is large

    for name in ("mcp", "client"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    return Connection
