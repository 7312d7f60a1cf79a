"""What the loop asks of whoever keeps files: to keep them in time, and to put them back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct, field

from backstay.checkpoints.points import Point, RestoreReport
from backstay.hooks.spec import CommandHook
from backstay.runtime.barrier import Fault
from backstay.vocab.event import Draft, Event, Recorded
from backstay.vocab.events import ChildStarted
from backstay.vocab.events.files import FileProblem, RestoreFinished
from backstay.vocab.events.tools import HookStarted
from backstay.vocab.specs import ToolSpec

if TYPE_CHECKING:
    from backstay.runtime.services import Outcome, Performer, Services


class Ready(Struct, kw_only=True):
    """A restore that only needs to be written down."""

    report: RestoreReport
    drafts: tuple[Draft, ...] = ()
    """Empty when every file is as it should be."""
    blobs: Mapping[str, bytes] = field(default_factory=dict)


class Files(Protocol):
    """Keeps what files hold before calls change them, and puts it back."""

    @property
    def roots(self) -> tuple[bytes, ...]:
        """The folders that are kept; none when nothing is."""

    @property
    def restoring(self) -> anyio.Lock:
        """Held by whoever puts files back."""

    async def before(self, spec: ToolSpec, call: str, places: Iterable[str], cause: str) -> None:
        """Keep what a call of a tool may change."""

    async def keep_trees(self, call: str, cause: str) -> None:
        """Keep everything, once a turn."""

    async def ready(self, records: Sequence[Recorded], point: Point, *, with_conversation: bool) -> Ready:
        """Look at the files and say what has to be done so that they are as they were at `point`."""

    def restore(self, record: Recorded) -> "Performer":
        """What carries a restore out."""

    def written(self, blobs: Iterable[str]) -> None:
        """Know that these are in the store."""

    def forget(self) -> None:
        """Rely on nothing that was kept so far."""


class CaptureFirst:
    """A performer whose child session or programs may change any file: the folders are kept before it begins."""

    def __init__(self, inner: "Performer", record: Recorded, services: "Services") -> None:
        self._inner, self._record, self._services = inner, record, services

    async def run(self) -> "Outcome":
        """Keep, then do it."""
        event = self._record.event
        if self._services.files is not None and self._runs_programs(event):
            subject = event.call if isinstance(event, ChildStarted) else ""
            await self._services.files.keep_trees(subject, self._record.id)
        return await self._inner.run()

    def _runs_programs(self, event: Event) -> bool:
        if self._services.state.progress.turn is None:  # files are put back to the turns that changed them
            return False
        if not isinstance(event, HookStarted):
            return True
        heard = (spec for spec in self._services.policy().hooks if spec.id in event.handlers)
        return any(isinstance(spec.handler, CommandHook) for spec in heard)

    def stopped(self) -> "Outcome":
        """As the performer says."""
        return self._inner.stopped()

    def failed(self, fault: Fault) -> "Outcome":
        """As the performer says."""
        return self._inner.failed(fault)


class RestorePerformer:
    """Performs `RestoreStarted`: whoever keeps the files puts them back."""

    def __init__(self, record: Recorded, services: "Services") -> None:
        self._inner = services.files.restore(record) if services.files is not None else None
        self._id = record.id

    async def run(self) -> "Outcome":
        """Put the files back."""
        return await self._inner.run() if self._inner is not None else self._nobody()

    def stopped(self) -> "Outcome":
        """As whoever does it says."""
        return self._inner.stopped() if self._inner is not None else self._nobody()

    def failed(self, fault: Fault) -> "Outcome":
        """As whoever does it says."""
        return self._inner.failed(fault) if self._inner is not None else self._nobody()

    def _nobody(self) -> "Outcome":
        from backstay.runtime.services import Outcome  # noqa: PLC0415 - it knows this module

        problem = FileProblem(path="", problem="this session keeps no files")
        return Outcome((Draft(event=RestoreFinished(problems=(problem,)), cause=self._id),))
