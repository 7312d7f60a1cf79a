"""A store around a store: every call passes through one function, which may delay, refuse or forget it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar, cast

from backstay.ports import EventStore, FoldSnapshot, LogSlice, SearchHit, SessionQuery
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease, Owner, SessionMeta

T = TypeVar("T")

NO_BLOBS: Final[Mapping[str, bytes]] = MappingProxyType({})


class WrappedStore:
    """Passes everything on to `inner`. Override `through` to change what happens on the way."""

    def __init__(self, inner: EventStore) -> None:
        self.inner = inner

    async def through(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Do the call of that name."""
        return await call()

    @property
    def identity(self) -> str:
        """The identity of the wrapped store."""
        return self.inner.identity

    @property
    def url(self) -> str:
        """The URL of the wrapped store."""
        return self.inner.url

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Make records durable."""
        await self.through("append", lambda: self.inner.append(lease, expected_seq, records, blobs))

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        """Read a log."""
        return await self.through("read", lambda: self.inner.read(session, after, limit))

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        """Take a session."""
        return await self.through("lease", lambda: self.inner.lease(session, owner, ttl_s))

    async def heartbeat(self, owner: Owner, ttl_s: float = 15.0) -> None:
        """Say that an owner lives."""
        await self.through("heartbeat", lambda: self.inner.heartbeat(owner, ttl_s))

    async def release(self, lease: Lease) -> None:
        """Give a session back."""
        await self.through("release", lambda: self.inner.release(lease))

    async def holder(self, session: str) -> Lease | None:
        """Say who holds a session."""
        return await self.through("holder", lambda: self.inner.holder(session))

    async def meta(self, session: str) -> SessionMeta:
        """The metadata of a session."""
        return await self.through("meta", lambda: self.inner.meta(session))

    async def list(self, query: SessionQuery = SessionQuery()) -> tuple[SessionMeta, ...]:  # noqa: B008  # frozen
        """List sessions."""
        return await self.through("list", lambda: self.inner.list(query))

    async def search(self, text: str, limit: int = 20) -> tuple[SearchHit, ...]:
        """Search sessions."""
        return await self.through("search", lambda: self.inner.search(text, limit))

    async def delete(self, session: str) -> None:
        """Forget a session."""
        await self.through("delete", lambda: self.inner.delete(session))

    async def blob(self, sha256: str) -> bytes:
        """The bytes of a blob."""
        return await self.through("blob", lambda: self.inner.blob(sha256))

    async def snapshot(self, session: str, digest: str) -> FoldSnapshot | None:
        """The cached fold state of a session."""
        return await self.through("snapshot", lambda: self.inner.snapshot(session, digest))

    async def keep_snapshot(self, session: str, snapshot: FoldSnapshot) -> None:
        """Cache a fold state."""
        await self.through("keep_snapshot", lambda: self.inner.keep_snapshot(session, snapshot))

    async def verify(self, session: str) -> tuple[str, ...]:
        """Say what is wrong with a session."""
        return await self.through("verify", lambda: self.inner.verify(session))

    async def repair(self, session: str) -> str:
        """Mend a session."""
        return await self.through("repair", lambda: self.inner.repair(session))

    async def close(self) -> None:
        """Close the wrapped store."""
        await self.inner.close()


if TYPE_CHECKING:
    _: EventStore = WrappedStore(cast("EventStore", None))
