"""The servers of a session: connected side by side, and what they offer put together.

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
from backstay.mcp.catalog import Lists, Offer, Prompt, Resource, ToolOffer, read_offer
from backstay.mcp.dependencies import Dependencies, Pins
from backstay.mcp.spec import ServerSpec, server_names
from backstay.mcp.tool import Run, ServerTool
from backstay.ports import ToolContext, ToolOutput
from backstay.system.installation import hint_extra
from backstay.vocab.errors import UserError
from backstay.vocab.specs import ToolSpec

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from backstay.mcp.connection import Connection

SLOW_S: Final = 2.0
"""After this long whoever waits is told for whom."""
CLOSE_S: Final = 10.0
"""How long all servers together may take to end, before the rest of it is cut short."""


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it stands with one server, for people and for `--json`."""

    state: Literal["starting", "connected", "failed", "closed"]
    why: str = ""
    tools: int = 0
    """Tools that are offered to the model."""
    held: tuple[str, ...] = ()
    """Tools that nobody has approved as they are now: new ones, and changed ones."""
    problems: tuple[str, ...] = ()
    """What was left out of the server's lists, and why."""
    server: dict[str, object] = {}
    """Where it comes from, without secrets."""


class ServerWords(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about itself, marked as a stranger's words."""

    server: str
    text: str


class Servers:
    """The servers of one session. Enter it once; everything may be asked at any time while it is open."""

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        means: Dependencies,
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
        self._means = means
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
            await self._ended()
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
        """The tools that may be offered to a model now: those of every server that was ever connected, approved as they are."""
        return tuple(
            ServerTool(server.spec.name, offer, server.tool_now, self._runs(server))
            for server in self._servers.values()
            for offer in server.approved
        )

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What can be read, as far as servers list it."""
        return tuple(each for server in self._servers.values() for each in server.offer.resources)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The commands that servers bring."""
        return tuple(each for server in self._servers.values() for each in server.offer.prompts)

    @property
    def instructions(self) -> tuple[ServerWords, ...]:
        """What servers say about themselves, bounded and framed."""
        return tuple(
            ServerWords(server=server.spec.name, text=frame_server_words(server.part, server.offer.instructions))
            for server in self._servers.values()
            if server.offer.instructions
        )

    @property
    def status(self) -> Mapping[str, ServerStatus]:
        """How it stands with each server, by name."""
        return {name: server.status() for name, server in self._servers.items()}

    def find_mention(self, text: str) -> tuple[str, str] | None:
        """The server and the address that `@server:uri` means; None when it names no server."""
        for name in sorted(self._servers, key=len, reverse=True):
            if text.startswith(f"@{name}:") and len(text) > len(name) + 2:
                return name, text[len(name) + 2 :]
        return None

    # --- what can be done ------------------------------------------------------------------------------------------------------------

    async def read(self, server: str, uri: str) -> ToolOutput:
        """Read a resource. A stranger's words: the session has met something untrusted by it."""
        found = self._servers.get(server)
        if found is None or found.connection is None:
            return ToolOutput(text=self._unknown(server), failed=True, code="unknown_server")
        return await found.connection.read(uri)

    async def prompt(self, command: str, arguments: Sequence[str] | Mapping[str, str] = ()) -> ToolOutput:
        """Have a prompt written. Words given in order are its arguments in order, and the last takes what is left."""
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
        found = self._known(server)
        specs = [offer.spec for offer in found.offer.tools]
        if self._pins is not None:
            await anyio.to_thread.run_sync(self._pins.approve, found.spec.identity, specs)
        held, found.held, found.doubt = found.held, (), ""
        self._tell(server)
        return held

    # --- inside ----------------------------------------------------------------------------------------------------------------------

    async def _connect(self, servers: Sequence["_Server"]) -> None:
        assert self._tasks is not None
        try:
            make = await anyio.to_thread.run_sync(_load)
        except ImportError as exc:
            for server in servers:
                server.trouble = f"the package for MCP is missing ({exc}). Type: {hint_extra('mcp')}"
            return
        connections = [make(server.spec, self._means, self._takes(server)) for server in servers]
        for server, connection in zip(servers, connections, strict=True):
            server.connection = connection
            self._tasks.start_soon(connection.run)
        if self._on_wait is not None:
            self._tasks.start_soon(self._tell_who_is_slow, servers, self._on_wait)
        for connection in connections:
            await connection.settled()

    async def _tell_who_is_slow(self, servers: Sequence["_Server"], tell: Callable[[str], None]) -> None:
        await self._means.sleep(SLOW_S)
        slow = [server.spec for server in servers if server.status().state == "starting"]
        if slow:
            names = ", ".join(repr(spec.name) for spec in slow)
            most = max(spec.start_s for spec in slow)
            tell(f"Waiting for MCP servers: {names}, for {most:g} s at most.")

    async def _ended(self) -> None:
        for server in self._servers.values():
            while server.connection is not None and server.connection.status.state in ("starting", "connected"):
                await server.connection.moved()

    def _takes(self, server: "_Server") -> Callable[[Lists], Awaitable[None]]:
        async def take(lists: Lists) -> None:
            offer = read_offer(server.spec.name, server.part, lists, vouched=server.spec.vouched)
            held, doubt = await anyio.to_thread.run_sync(self._unapproved, server, [each.spec for each in offer.tools])
            server.offer, server.held, server.doubt = offer, held, doubt
            self._tell(server.spec.name)

        return take

    def _unapproved(self, server: "_Server", specs: Sequence[ToolSpec]) -> tuple[tuple[str, ...], str]:
        """The tools that are held back, and what is wrong with the book of them.

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

    def _runs(self, server: "_Server") -> Run:
        async def run(offer: ToolOffer, args: dict[str, object], context: ToolContext) -> ToolOutput:
            assert server.connection is not None  # it listed the tool
            server.called = True
            return await server.connection.call(offer.item, args, context)

        return run

    def _tell(self, server: str) -> None:
        if self._on_change is not None:
            self._on_change(server)

    def _known(self, server: str) -> "_Server":
        if server not in self._servers:
            raise UserError(self._unknown(server))
        return self._servers[server]

    def _unknown(self, server: str) -> str:
        return f"There is no server {server!r}. The servers are: {', '.join(self._servers) or 'none'}."


class _Server(Struct):
    """One server and what is known of it."""

    spec: ServerSpec
    part: str
    connection: "Connection | None" = None
    offer: Offer = field(default_factory=Offer)
    held: tuple[str, ...] = ()
    trouble: str = ""
    """Why it could not even be tried."""
    new: bool = False
    """Whether nobody had seen it before this session."""
    called: bool = False
    doubt: str = ""
    """What is wrong with the book of approved tools."""

    @property
    def approved(self) -> tuple[ToolOffer, ...]:
        return tuple(offer for offer in self.offer.tools if offer.spec.name not in self.held)

    def tool_now(self, name: str) -> ToolSpec | None:
        return next((offer.spec for offer in self.approved if offer.spec.name == name), None)

    def status(self) -> ServerStatus:
        now = None if self.connection is None else self.connection.status
        return ServerStatus(
            state=now.state if now is not None else "failed" if self.trouble else "starting",
            why=now.why if now is not None else self.trouble,
            tools=len(self.approved),
            held=self.held,
            problems=tuple(filter(None, (self.doubt, *self.offer.problems))),
            server=self.spec.listing(),
        )


def _load() -> "type[Connection]":
    """Import the official client; it takes a while. What it logs goes nowhere unless the program that uses us asks for it."""
    from backstay.mcp.connection import Connection  # noqa: PLC0415 - here, because it is large

    for name in ("mcp", "client"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    return Connection
