"""The ways to go on after a crash, and what must be true afterwards."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from backstay.catalog import load, sessions
from backstay.logic.state.session_state import state_of
from backstay.logic.stored_content import find_cited_blobs
from backstay.ports import EventStore, ModelRequest, SessionQuery
from backstay.session.session import Session
from backstay.testing.crash.invariants import (
    child_prompts,
    find_lost,
    inputs_are_taken_once,
    is_childs,
    log_is_whole,
    missing_results,
    requests_of,
    results_on_path,
    wrong_with,
)
from backstay.testing.crash.stage import SESSION, Stage, Trial
from backstay.vocab import events
from backstay.vocab.errors import NoSession, TurnError
from backstay.vocab.event import Recorded
from backstay.vocab.specs import SessionMeta

MESSAGE: Final = "Go on with this instead."
_EVERYTHING: Final = SessionQuery(include_children=True)


class Way(Struct, frozen=True, kw_only=True):
    """A way to go on after a crash."""

    name: str
    act: Callable[[Stage], Awaitable[None]]
    keeps_open_turn: bool = True
    """Whether results of the turn that was open stay in the conversation."""
    keeps_open_batch: bool = True
    """Whether results of a reply stay whose other calls were open."""


async def _resume(stage: Stage) -> None:
    async with stage.open(**await _reopen_options(stage)) as session:
        await _over(session.finish())
        await compare(stage, session)


async def _say_more(stage: Stage) -> None:
    async with stage.open(**await _reopen_options(stage)) as session:
        await _over(session.run(MESSAGE))
        await _over(session.finish())
        await compare(stage, session)


async def _fork(stage: Stage) -> None:
    async with stage.open(**await _reopen_options(stage, fork=True)) as session:
        await _over(session.run(MESSAGE))
        await compare(stage, session)


async def _abandon(stage: Stage) -> None:
    before = await log_of(stage.store, SESSION)
    async with stage.open(**await _reopen_options(stage, on_crash="abandon")) as session:
        await _over(session.finish())
        kept = _without_open_turn(before)
        earlier = state_of(SESSION, kept).transcript.messages
        given_up = {record.id for record in before[len(kept) :]}
        shorter = _compactions((await session.events(len(before)),))  # by what was queued and was answered now
        whole = bool(shorter) or list(session.history[: len(earlier)]) == earlier
        if not whole or given_up & {said.id for said in session.history}:
            stage.wrong.append("the abandoned turn left something in the conversation, or took something from it")
        await _over(session.run(MESSAGE))
        await compare(stage, session)


RESUME: Final = Way(name="resume", act=_resume)
MORE: Final = Way(name="message", act=_say_more)
FORK: Final = Way(name="fork", act=_fork, keeps_open_batch=False)
ABANDON: Final = Way(name="abandon", act=_abandon, keeps_open_turn=False)
WAYS: Final = (RESUME, MORE, FORK, ABANDON)
"""Every way there is."""


async def compare(stage: Stage, session: Session) -> None:
    """Note it when a session that is at rest is not what its log says."""
    seq, live = session.seq, session.plain_state()
    replayed = await load.replay(stage.store, session.id, at=seq)  # a hook may still be writing
    differing = [key for key in live if live[key] != replayed[key]]
    if differing:
        details = "; ".join(f"{key}: live {live[key]!r}, replayed {replayed[key]!r}" for key in differing)
        stage.wrong.append(f"live and replayed state differ: {details:.2000}")


async def judge(trial: Trial, before: Sequence[Recorded], recovery: Stage, way: Way) -> None:
    """Note every promise that was broken, after `recovery` went on from the log `before` in some way."""
    await _sweep(trial)
    logs = {meta.id: await log_of(trial.store, meta.id) for meta in await trial.store.list(_EVERYTHING)}
    prompts = child_prompts(record for log in logs.values() for record in log)
    results = results_on_path(before, whole_batches=not way.keeps_open_batch, open_turn=way.keeps_open_turn)
    if _compactions(logs.values()) > _compactions((before,)):
        results = []  # what was made shorter since then need not reach the model any more
    for request in (request for model in recovery.models for request in model.requests):
        if not is_childs(request, prompts) and request.purpose == "turn":
            trial.wrong += missing_results(request, results)
    asked = [request for stage in trial.stages for model in stage.models for request in model.requests]
    trial.wrong += await misleading_requests(trial.store, logs.values(), asked)
    trial.wrong += [f"happened twice: {call}" for call in trial.ledger.find_repeated(trial.once)]
    for session, log in logs.items():
        found = [*wrong_with(log), *find_lost(trial.ledger.acknowledged[session], log)]
        found += await sessions.verify(trial.store, session)
        trial.wrong += [f"session {session}: {wrong}" for wrong in found]


def _compactions(logs: Iterable[Sequence[Recorded]]) -> frozenset[str]:
    return frozenset(record.id for log in logs for record in log if isinstance(record.event, events.Compacted))


async def misleading_requests(
    store: EventStore, logs: Collection[Sequence[Recorded]], requests: Iterable[ModelRequest]
) -> tuple[str, ...]:
    """Return the requests that tell a model something else than any log says it was to be told."""
    said = (record.event for log in logs for record in log if not isinstance(record.event, events.ModelAsked))
    cited = {sha for event in said for sha in find_cited_blobs(event)}
    blobs = {sha: await store.blob(sha) for sha in sorted(cited)}
    right = {told for log in logs for told in requests_of(log, blobs.__getitem__)}
    turns = [request for request in requests if request.purpose == "turn"]
    wrong = [request for request in turns if (request.position, request.messages) not in right]
    return tuple(f"a request tells the model something else than the log: {each.messages!r:.1000}" for each in wrong)


async def judge_dead(trial: Trial) -> None:
    """Note what a crash itself broke, before the session goes on."""
    for session, acknowledged in trial.ledger.acknowledged.items():
        log = await log_of(trial.store, session)
        trial.wrong += [f"after the crash: {wrong}" for wrong in (*log_is_whole(log), *find_lost(acknowledged, log))]


async def log_of(store: EventStore, session: str) -> tuple[Recorded, ...]:
    """Return the whole log of a session; nothing when there is none."""
    try:
        return (await store.read(session)).records
    except NoSession:
        return ()


async def _sweep(trial: Trial) -> None:
    """Finish every other session that was left open: a fork, a child, the original of a fork."""
    left = [meta.id for meta in await trial.store.list(_EVERYTHING) if await _is_open(trial.store, meta)]

    async def finish_all(stage: Stage) -> None:
        for session_id in left:
            async with stage.open(resume=session_id) as session:
                await _over(session.finish())
                await compare(stage, session)

    if left:
        await trial.run(finish_all)


async def _is_open(store: EventStore, meta: SessionMeta) -> bool:
    """Return whether a turn is open in a session, or input waits."""
    return meta.open_turn or any(inputs_are_taken_once(await log_of(store, meta.id)))


async def _reopen_options(stage: Stage, **more: Any) -> dict[str, Any]:  # Any: fields of `Options`
    """Return the arguments that open the session again, or anew when its very first event was lost."""
    return {"resume": SESSION, **more} if await sessions.exists(stage.store, SESSION) else {}


async def _over(turn: Awaitable[object]) -> None:
    """Wait for the end of a turn, whichever it is."""
    try:
        await turn
    except TurnError:
        return


def _without_open_turn(log: Sequence[Recorded]) -> Sequence[Recorded]:
    for position in range(len(log), 0, -1):
        if isinstance(log[position - 1].event, events.TurnCompleted):
            return log
        if isinstance(log[position - 1].event, events.TurnStarted):
            return log[: position - 1]
    return log
