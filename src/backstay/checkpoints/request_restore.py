"""Requests a restore of an open session's files, and waits for its end. `restore.py` performs it."""

from msgspec.structs import replace

from backstay.checkpoints.points import RestoreReport, point_of
from backstay.runtime.bus import follow
from backstay.runtime.file_keeper import Files, Ready
from backstay.runtime.runner import Runner
from backstay.vocab.errors import IllegalTransition, UserError
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.events import Rewound
from backstay.vocab.events.files import RestoreFinished, RestoreStarted


async def restore_files(
    runner: Runner, *, to: str = "", before: str = "", undo: str = "", along: tuple[Draft, ...] = ()
) -> RestoreReport:
    """Put the files of a session back to a point of its log. `Session.restore_files` says which points there are, and what it raises."""
    keeping, session = runner.services.files, runner.services.session
    if keeping is None or not keeping.roots:
        raise UserError(f"Nothing is kept of the files of session {session!r}: open it with checkpoints.")
    if sum(map(bool, (to, before, undo))) != 1:
        raise UserError("Say one of `to=TURN` (its end), `before=TURN` (its start) or `undo='latest'`.")
    async with keeping.restoring:
        if runner.services.state.progress.turn is not None:
            raise IllegalTransition(
                f"A turn of session {session!r} is going on. Wait for it, abort it, or finish it first."
            )
        await finish_restore(runner)
        return await _restore_to(runner, keeping, along, to=to, before=before, undo=undo)


async def finish_restore(runner: Runner) -> None:
    """Finish the restore that a dead process left open; nothing happens when there is none."""
    state, subscription = runner.services.state, runner.subscribe()
    try:
        if state.progress.restore is not None:
            await runner.deliver()
        while state.progress.restore is not None:
            await anext(subscription)
    except StopAsyncIteration:
        raise runner.ended_with from None
    finally:
        subscription.close()


async def _restore_to(
    runner: Runner, keeping: Files, along: tuple[Draft, ...], *, to: str, before: str, undo: str
) -> RestoreReport:
    begun = runner.services.state.progress.begun
    records = await runner.events()
    point = point_of(records, to=to, before=before, undo=undo)
    rewinds = any(isinstance(draft.event, Rewound) for draft in along)
    ready = await keeping.ready(records, point, with_conversation=rewinds)
    if runner.services.state.progress.begun != begun:
        session = runner.services.session
        raise IllegalTransition(f"A turn of session {session!r} began while its files were looked at. Try again.")
    if not ready.drafts:
        await runner.deliver(*along, wakes=False)
        return ready.report
    report = await _restore(runner, ready, along)
    keeping.written(ready.blobs)
    return report


async def _restore(runner: Runner, ready: Ready, along: tuple[Draft, ...]) -> RestoreReport:
    subscription = runner.subscribe()
    restore = ""
    try:
        await runner.deliver(*ready.drafts, *along, blobs=dict(ready.blobs))
        async for item in follow(subscription, runner.services.store, runner.services.session):
            match item:
                case Recorded(event=RestoreStarted()):
                    restore = item.id
                case Recorded(event=RestoreFinished() as done, cause=cause) if cause == restore:
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
