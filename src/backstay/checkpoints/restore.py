"""Request a restore of an open session's files, and perform it as its plan says."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from backstay.checkpoints.capture import FileCapture
from backstay.checkpoints.plan_restore import Ready, plan_restore
from backstay.checkpoints.points import RESTORED, RestoreReport, point_of
from backstay.checkpoints.tree import FileChange, RestorePlan, unpack_plan
from backstay.checkpoints.write_back import NotPutBack, put_back, set_mode, version_at
from backstay.logic.text import pluralise
from backstay.runtime.barrier import Fault
from backstay.runtime.bus import follow
from backstay.runtime.runner import Runner
from backstay.runtime.services import Outcome, Performer, Services
from backstay.vocab import events
from backstay.vocab.errors import BlobMissing, IllegalTransition, LogDamaged, UserError
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.messages import Text


async def restore_files(
    runner: Runner, *, to: str = "", before: str = "", undo: str = "", along: tuple[Draft, ...] = ()
) -> RestoreReport:
    """Put the files of a session back to a point of its log. `Session.restore_files` says which points there are, and what it raises."""
    capture, session = runner.services.files, runner.services.session
    if not isinstance(capture, FileCapture) or not capture.roots:
        raise UserError(f"Nothing is kept of the files of session {session!r}: open it with checkpoints.")
    if sum(map(bool, (to, before, undo))) != 1:
        raise UserError("Say one of `to=TURN` (its end), `before=TURN` (its start) or `undo='latest'`.")
    async with capture.restoring:
        if runner.services.state.progress.turn is not None:
            raise IllegalTransition(
                f"A turn of session {session!r} is going on. Wait for it, abort it, or finish it first."
            )
        await finish_restore(runner)
        return await _restore_to(runner, capture, along, to=to, before=before, undo=undo)


async def finish_restore(runner: Runner) -> None:
    """Finish the restore that a dead process left open; nothing happens when there is none."""
    await runner.finish(lambda state: state.progress.restore)


async def _restore_to(
    runner: Runner, capture: FileCapture, along: tuple[Draft, ...], *, to: str, before: str, undo: str
) -> RestoreReport:
    begun = runner.services.state.progress.begun
    records = await runner.read_events()
    point = point_of(records, to=to, before=before, undo=undo)
    rewinds = any(isinstance(draft.event, events.Rewound) for draft in along)
    ready = await plan_restore(capture, records, point, with_conversation=rewinds)
    if runner.services.state.progress.begun != begun:
        session = runner.services.session
        raise IllegalTransition(f"A turn of session {session!r} began while its files were looked at. Try again.")
    if not ready.drafts:
        await runner.deliver(*along, wakes=False)
        return ready.report
    report = await _restore(runner, ready, along)
    capture.mark_stored(ready.blobs)
    return report


async def _restore(runner: Runner, ready: Ready, along: tuple[Draft, ...]) -> RestoreReport:
    subscription = runner.subscribe()
    restore = ""
    try:
        await runner.deliver(*ready.drafts, *along, blobs=dict(ready.blobs))
        async for item in follow(subscription, runner.services.store, runner.services.session):
            match item:
                case Recorded(event=events.RestoreStarted()):
                    restore = item.id
                case Recorded(event=events.RestoreFinished() as done, cause=cause) if cause == restore:
                    return replace(
                        ready.report,
                        restore=restore,
                        written=done.written,
                        removed=done.removed,
                        problems=done.problems,
                    )
                case _:
                    pass
    finally:
        subscription.close()
    raise runner.ended_with


TOGETHER: Final = 16 * 1024 * 1024
"""Bytes of contents that are fetched before they are written."""
FEW: Final = 32
"""Changes that are made durable one by one; more of them are made durable together, which is much faster."""
MOST_PROBLEMS: Final = 200
NO_FILES: Final = "this session keeps no files"
NAMED: Final = 20
"""Paths that the message to the model names."""


class RestoreFiles(Performer[events.RestoreStarted]):
    """One restore."""

    def __init__(self, record: Recorded, services: Services) -> None:
        super().__init__(record, services)
        kept = services.files.roots if services.files is not None else ()
        self._roots: Sequence[bytes] = kept or FileCapture(services, (services.cwd,)).roots
        """The session's folders as they are now: what the plan says of folders counts for nothing."""
        self._problems: dict[bytes, events.FileProblem] = {}
        """By path: of each the first."""
        self._sync = True

    async def run(self) -> Outcome:
        """Remove what was not there, then make folders, then write files and links, then give folders their modes."""
        if self._services.files is None:
            return self._finish(events.RestoreFinished(problems=(events.FileProblem(path="", problem=NO_FILES),)))
        with anyio.CancelScope(shield=True):
            if not self._intent.plan:
                raise LogDamaged(
                    "The plan of the restore is gone: it had a secret in it, which was erased. Start it again."
                )
            plan = unpack_plan(await self._services.store.blob(self._intent.plan))
            self._sync = len(plan.changes) <= FEW
            gone = [change for change in plan.changes if change.want.kind == "absent"]
            folders = [change for change in plan.changes if change.want.kind == "folder"]
            rest = [change for change in plan.changes if change.want.kind in ("file", "link")]
            await self._in_thread(partial(self._each, gone[::-1]))  # plans are in order: what is inside comes last
            await self._in_thread(partial(self._each, folders))
            for batch in _batches(rest):
                contents = [await self._content(change) for change in batch]
                await self._in_thread(partial(self._each, batch, contents))
            await self._in_thread(partial(self._set_modes, folders[::-1]))
            if not self._sync:
                await anyio.to_thread.run_sync(os.sync)
            seen = await anyio.to_thread.run_sync(_list_seen, plan.changes, self._problems)
        return self._report(plan, seen)

    def report_fault(self, fault: Fault) -> Outcome:
        """Return the fault as a problem: the plan cannot be read, or files may be partly put back."""
        return self._finish(
            events.RestoreFinished(problems=(events.FileProblem(path="", problem=f"{fault.kind}: {fault.message}"),))
        )

    async def _content(self, change: FileChange) -> bytes:
        if change.want.kind != "file":
            return b""
        try:
            return await self._services.store.blob(change.want.sha256.hex())
        except BlobMissing:
            return b"\0"  # of another hash: it is refused by name

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await anyio.to_thread.run_sync(work)

    def _each(self, changes: Sequence[FileChange], contents: Sequence[bytes] = ()) -> None:
        for place, change in enumerate(changes):
            try:
                content = contents[place] if contents else b""
                put_back(change.want, content, self._roots, self._intent.plan, now=change.now, sync=self._sync)
            except NotPutBack as exc:
                self._problem(change, exc)

    def _set_modes(self, folders: Sequence[FileChange]) -> None:
        for change in folders:
            try:
                set_mode(change.want, self._roots)
            except NotPutBack as exc:
                self._problem(change, exc)

    def _problem(self, change: FileChange, exc: NotPutBack) -> None:
        path = change.want.path
        self._problems.setdefault(path, events.FileProblem(path=path.decode("utf-8", "replace"), problem=str(exc)))

    def _report(self, plan: RestorePlan, seen: Sequence[events.FileSeen]) -> Outcome:
        done = [each for each in plan.changes if each.want.path not in self._problems]
        removed = sum(each.want.kind == "absent" for each in done)
        problems = (
            *(events.FileProblem(path=path, problem=why) for path, why in plan.problems),
            *self._problems.values(),
        )
        finished = events.RestoreFinished(written=len(done) - removed, removed=removed, problems=_some(problems))
        text = describe_restore(plan, done, problems)
        entry = {"restore": self._id, "point": plan.label, "written": finished.written, "removed": removed}
        return self._finish(
            finished,
            *seen,
            events.EntryAdded(kind=RESTORED, content=msgspec.json.encode(entry).decode()),
            events.MessageInjected(role="system", parts=(Text(text=text),)),
        )


def describe_restore(plan: RestorePlan, done: Sequence[FileChange], problems: Sequence[events.FileProblem]) -> str:
    """Describe a restore for the model and the person."""
    removed = [each for each in done if each.want.kind == "absent"]
    names = [_plain(each.want.path.decode("utf-8", "replace")) for each in done[:NAMED]]
    more = f" and {len(done) - NAMED} more" if len(done) > NAMED else ""
    words = (
        f"The person put the files back to {plan.label}: {pluralise(len(done) - len(removed), 'path')} written, "
        f"{len(removed)} removed ({', '.join(names)}{more}). Read files again before you rely on what you knew of them."
    )
    if problems:
        left = "; ".join(f"{_plain(each.path)}: {each.problem}" for each in problems[:NAMED])
        words += f" Left as they are: {left}."
    return words


def _plain(path: str) -> str:
    """Return a path as it may stand in a sentence: its name is not ours, and may hold line ends and control characters."""
    return path if path.isprintable() else repr(path)


def _some(problems: tuple[events.FileProblem, ...]) -> tuple[events.FileProblem, ...]:
    """Return as many problems as an event should hold."""
    if len(problems) <= MOST_PROBLEMS:
        return problems
    more = events.FileProblem(path="", problem=f"and {len(problems) - MOST_PROBLEMS} more paths have problems")
    return (*problems[:MOST_PROBLEMS], more)


def _batches(changes: Sequence[FileChange]) -> Iterator[list[FileChange]]:
    batch: list[FileChange] = []
    size = 0
    for change in changes:
        batch.append(change)
        size += change.want.size + 4096
        if size >= TOGETHER:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _list_seen(changes: Sequence[FileChange], left: Collection[bytes]) -> list[events.FileSeen]:
    """Return what the session knows now of files that it had seen. Of those `left` as they are it knows nothing any more."""
    found: list[events.FileSeen] = []
    for change in changes:
        if change.seen:
            known = change.seen == "update" and change.want.path not in left
            version = version_at(change.want.path) if known else ""
            found.append(events.FileSeen(path=change.want.path.decode("utf-8", "replace"), version=version))
    return found
