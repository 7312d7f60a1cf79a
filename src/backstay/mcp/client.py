"""One connection to a server by the official client: open, handshake, request. Its answers are not trusted here."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp.client.session import (
    ClientRequestContext,
    ClientSession,
    IncomingMessage,
    ListRootsFnT,
    LoggingFnT,
    MessageHandlerFnT,
)
from mcp.client.sse import sse_client
from mcp.client.streamable_http import StreamableHTTPError, streamable_http_client
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter

from backstay.logic.text import one_line
from backstay.mcp.catalog import MOST, Lists
from backstay.mcp.dependencies import Dependencies, Noise
from backstay.mcp.spec import ServerSpec
from backstay.mcp.stdio import LARGEST, open_pipes
from backstay.vocab.errors import BackstayError

Listed = Literal["tools", "resources", "prompts"]
OnListChanged = Callable[[Listed], None]
"""Takes the name of a list that a server reports as changed. Never waits."""

FAILURES: Final[tuple[type[Exception], ...]] = (
    MCPError,
    StreamableHTTPError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    BackstayError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
)
"""Errors that hostile bytes, or a network, can make the official client raise."""
MOST_PAGES: Final = 100
LARGEST_LIST: Final = 32 * 1024 * 1024
"""Bytes of all pages of a list."""
_CHANGES: Final[Mapping[type, Listed]] = {
    types.ToolListChangedNotification: "tools",
    types.ResourceListChangedNotification: "resources",
    types.PromptListChangedNotification: "prompts",
}
_OLDER: Final = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION, types.INVALID_REQUEST)
_ANYTHING: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, Any])  # a result as it came, read by `results` and `offers`


class Link:
    """An open connection to a server."""

    def __init__(self, session: ClientSession, dispatcher: "JSONRPCDispatcher[Any]", ended: anyio.Event) -> None:
        self._session = session
        self._dispatcher = dispatcher
        self.ended = ended
        """Set when the server sends nothing more."""

    async def greet(self) -> None:
        """Agree on a version of the protocol: the usual handshake, or its successor where the server knows no other."""
        try:
            await self._session.initialize()
        except MCPError as exc:
            if exc.code not in _OLDER:
                raise
            await self._session.discover()

    async def ask(
        self,
        request: "types.Request[Any, Any]",
        *,
        seconds: float | None = None,
        on_progress: ProgressFnT | None = None,
    ) -> dict[str, Any]:
        """Return the raw result of a request. Raise `MCPError`, or another of `FAILURES`.

        A cancelled wait tells the server so. The client's own reading of results is passed over where that can be: it
        gives up a whole list for one bad entry, and works through untrusted schemas.
        """
        if self._session.initialize_result is None:
            answer: dict[str, Any] = await self._session.send_request(request, _ANYTHING, seconds, None, on_progress)
            return answer
        members = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        options: CallOptions = {} if seconds is None else {"timeout": seconds}
        if on_progress is not None:
            options["on_progress"] = on_progress
        return await self._dispatcher.send_raw_request(members["method"], members.get("params"), options)

    async def lists(self, seconds: float) -> Lists:
        """Return everything that the server lists. A list that cannot be had is a problem, not the end."""
        can = self._session.server_capabilities or types.ServerCapabilities()
        problems: list[str] = []
        found = {
            word: await self._try_list(word, request, seconds, problems) if offered else None
            for word, request, offered in (
                ("tools", types.ListToolsRequest, can.tools is not None),
                ("resources", types.ListResourcesRequest, can.resources is not None),
                ("prompts", types.ListPromptsRequest, can.prompts is not None),
            )
        }
        words = self._session.instructions or ""
        return Lists(**found, instructions=words, problems=tuple(problems))

    async def _try_list(
        self, word: str, request: Callable[..., "types.Request[Any, Any]"], seconds: float, problems: list[str]
    ) -> Sequence[object] | None:
        try:
            return await self._pages(word, request, seconds)
        except MCPError as exc:
            if self.ended.is_set():
                raise
            problems.append(f"Its {word} cannot be listed: {one_line(exc.message)}.")
            return None

    async def _pages(
        self, word: str, request: Callable[..., "types.Request[Any, Any]"], seconds: float
    ) -> Sequence[object]:
        found: list[object] = []
        size = 0
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
            answer = await self.ask(request(params=params), seconds=seconds)
            page, cursor = answer.get(word), answer.get("nextCursor")
            size += _size_of(page)
            if size > LARGEST_LIST:
                raise MCPError(types.INVALID_REQUEST, f"they are more than {LARGEST_LIST // 1024**2} MiB")
            found += page if isinstance(page, list) else [page]
            if not isinstance(cursor, str) or cursor in seen or len(found) > MOST:
                break
            seen.add(cursor)
        return found


def _size_of(page: object) -> int:
    try:
        return len(msgspec.json.encode(page))
    except (TypeError, ValueError, RecursionError):  # then it cannot be taken anyway, and is left out with a reason
        return 0


@asynccontextmanager
async def open_link(
    spec: ServerSpec, dependencies: Dependencies, noise: Noise, on_changed: OnListChanged
) -> AsyncIterator[Link]:
    """Reach a server. Raise one of `FAILURES`, alone or in a group."""
    async with _transport(spec, dependencies, noise) as (incoming, outgoing):
        watched = _Watched(incoming)
        dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(watched, outgoing)
        session = ClientSession(
            dispatcher=dispatcher,
            list_roots_callback=_answer_roots_with(dependencies.roots),
            logging_callback=_log_with(spec.name, dependencies),
            message_handler=_handle_changes_for(on_changed),
            client_info=types.Implementation(name="backstay", version=dependencies.version),
        )
        async with session:
            yield Link(session, dispatcher, watched.ended)


def describe_error(exc: BaseException) -> str:
    """Describe an error in a clause."""
    match exc:
        case BaseExceptionGroup():
            return describe_error(exc.exceptions[0])
        case MCPError():
            return f"it refused: {one_line(exc.message)}"
        case FileNotFoundError():
            return f"there is no program {exc.filename!r}"
        case OSError() if exc.strerror:
            return one_line(exc.strerror)
        case httpx2.TransportError():
            return f"it could not be reached: {one_line(str(exc)) or type(exc).__name__}"
        case _:
            return one_line(f"{type(exc).__name__}: {exc}")


def leaf_errors(group: BaseException) -> Iterator[BaseException]:
    """Yield the single errors of a group of errors."""
    if isinstance(group, BaseExceptionGroup):
        for each in group.exceptions:
            yield from leaf_errors(each)
    else:
        yield group


@asynccontextmanager
async def _transport(
    spec: ServerSpec, dependencies: Dependencies, noise: Noise
) -> AsyncIterator[tuple[Any, Any]]:  # of either kind
    streams: AbstractAsyncContextManager[tuple[Any, Any]]
    if spec.kind == "stdio":
        process = dependencies.programs.start(
            spec.argv, cwd=dependencies.cwd, env={**dependencies.environment, **spec.env}
        )
        streams = open_pipes(process, dependencies.programs, noise)
    elif spec.kind == "sse":
        streams = sse_client(spec.url, httpx_client_factory=lambda *_, **__: dependencies.http(spec, noise))
    else:
        streams = _http_streams(spec, dependencies, noise)
    async with streams as (incoming, outgoing):
        yield incoming, outgoing


@asynccontextmanager
async def _http_streams(spec: ServerSpec, dependencies: Dependencies, noise: Noise) -> AsyncIterator[tuple[Any, Any]]:
    async with (
        dependencies.http(spec, noise) as client,
        streamable_http_client(spec.url, http_client=client, max_sse_event_size=LARGEST) as streams,
    ):
        yield streams


class _Watched:
    """A stream of messages that sets an event at its end."""

    def __init__(self, stream: Any) -> None:  # of one of two classes that share no name
        self._stream = stream
        self.ended = anyio.Event()

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._stream.receive()
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self.ended.set()
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _answer_roots_with(roots: Sequence[str]) -> ListRootsFnT:
    async def answer(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [{"uri": Path(root).as_uri()} for root in roots]})

    return answer


def _log_with(server: str, dependencies: Dependencies) -> LoggingFnT:
    async def log(params: types.LoggingMessageNotificationParams) -> None:
        if dependencies.log is not None:
            dependencies.log(server, one_line(f"{params.level}: {params.data}", 1_000))

    return log


def _handle_changes_for(on_changed: OnListChanged) -> MessageHandlerFnT:
    async def handle(message: IncomingMessage) -> None:
        if word := _CHANGES.get(type(message)):
            on_changed(word)

    return handle
