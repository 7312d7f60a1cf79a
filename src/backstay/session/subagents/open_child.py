"""Child sessions: opened in the same store, with what their parent has, and nothing of their own to hand on."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.hooks.dispatch import RunAgent
from backstay.hooks.spec import AgentHook
from backstay.logic.state.content import LONG
from backstay.ports import EventStore, Model
from backstay.runtime.services import OpenChild, ReportSpending, Services, fetch_text
from backstay.session.limits import without_budget_questions
from backstay.session.model_pool import childs_model
from backstay.session.open import implied_scope
from backstay.session.options import Lineage, Options, ResolvedOptions
from backstay.session.session import Session
from backstay.session.subagents.fork_plan import SubagentPlan, SubagentPlans
from backstay.session.toolbox import Toolbox
from backstay.vocab.errors import TurnError, TurnPaused
from backstay.vocab.events import ChildFinished, ChildStarted, InputReceived
from backstay.vocab.events.limits import BudgetSet, ChildPaused
from backstay.vocab.messages import Text, TextRef
from backstay.vocab.specs import FsScope

Open = Callable[[Options], AbstractAsyncContextManager[Session]]


def agent_runner(options: ResolvedOptions, hands: Toolbox, services: Services, open_with: Open) -> RunAgent:
    """Lets a child that can only look around answer for a hook. It is kept nowhere."""

    async def answer(prompt: str, hook: AgentHook) -> str:
        inherited = replace(
            options,
            store=None,
            session_id=None,
            resume=None,
            fork=False,
            cwd=services.cwd,
            model=hook.model or services.progress.model,
            tools=hands.looking(),
            tool_names=None,
            only_tools=True,
            permission_mode="plan",
            fs_scope=services.progress.scope,
            parameters={},
            max_rounds=hook.max_turns,
            hooks=(),
            resolved=replace(options.resolved, hooks=()),
            lineage=_lineage(services),
            machine=None,
            owner=None,
            asker=None,
            prompt=None,
        )
        async with open_with(inherited) as child:
            return await child.run(prompt)

    return answer


def child_opener(options: ResolvedOptions, store: EventStore, forks: SubagentPlans, open_with: Open) -> OpenChild:
    """Opens child sessions in the same store, with the parent's model, mode, tools and person, and without children of their own."""

    async def open_child(
        started: ChildStarted, report: ReportSpending, services: Services
    ) -> ChildFinished | ChildPaused:
        prompt = started.prompt if started.whole is None else await fetch_text((started.whole,), store.blob)
        fork = await forks.of(started, prompt, await _asked_before(store, started))
        inherited = replace(
            options,
            store=store,
            session_id=started.child,
            resume=None,
            fork=False,
            name="",
            cwd=services.cwd,
            model=await childs_model(_model(fork, options, services), started, services),
            permission_mode=services.mode,
            rules=services.policy.rules,
            resolved=replace(
                options.resolved,
                strictest_mode=services.policy.strictest_mode,
                bypass_forbidden=services.policy.bypass_forbidden,
            ),
            lineage=_lineage(services),
            fs_scope=_scope(services),
            tools=[each for each in options.tools or () if not each.spec.child],
            tool_names=fork.names(services.tools.specs()) if fork.narrows or options.tool_names is not None else None,
            system_prompt=services.instructions,
            append_system_prompt="",
            machine=None,
            extensions=(),
            owner=None,
            **_share(started, options),
        )
        opened: list[Session] = []
        try:
            return await _run_child(msgspec.structs.replace(started, prompt=fork.prompt), inherited, opened, open_with)
        finally:
            for child in opened:  # closed by now: a call that was cut short is settled
                report(child.usage, child.cost, child.taint)

    return open_child


def _lineage(services: Services) -> Lineage:
    return Lineage(parent=services.session, taint=tuple(sorted(services.progress.grants.taint)))


def _scope(services: Services) -> FsScope | None:
    """The scope of a child: none where its mode implies what its parent's implied, so that it ends with the opening there too."""
    progress = services.progress
    return None if progress.scope_implied and progress.scope == implied_scope(services.mode) else progress.scope


def _model(fork: SubagentPlan, options: ResolvedOptions, services: Services) -> str | Model:
    """What answers in a child: what its skill or agent wants, else what answers its parent."""
    if not fork.model:
        return options.model or services.progress.model
    from backstay.skills.agents import resolve_model  # noqa: PLC0415 - few children name a model

    return resolve_model(fork.model, services.progress.model)


async def _asked_before(store: EventStore, started: ChildStarted) -> str | None:
    """What the child was told before a crash: nothing is rendered or run a second time for it."""
    if not await sessions.exists(store, started.child):
        return None
    for record in (await store.read(started.child)).records:
        if isinstance(record.event, InputReceived) and record.event.input == started.call:
            return await fetch_text(tuple(p for p in record.event.parts if isinstance(p, Text | TextRef)), store.blob)
    return None


def _share(started: ChildStarted, options: ResolvedOptions) -> dict[str, Any]:
    """What a child may spend. Nobody is asked for more in the middle of it: it waits, and its parent asks."""
    share = msgspec.convert(started.budget, BudgetSet) if started.budget else BudgetSet(limit=None)
    return {
        "budget_microcents": share.limit,
        "on_exceed": share.on_exceed,
        "allow_unpriced": True,
        "asker": without_budget_questions(options.asker or options.prompt),
    }


async def _run_child(
    started: ChildStarted, options: Options, opened: list[Session], open_with: Open
) -> ChildFinished | ChildPaused:
    async with open_with(options) as child:
        opened.append(child)
        text, outcome = "", "completed"
        try:
            text = await child.run(started.prompt, input_id=started.call)
        except TurnPaused:
            share = options.budget_microcents or 0
            return ChildPaused(call=started.call, child=started.child, share=share, spent=child.usage, cost=child.cost)
        except TurnError as exc:
            text, outcome = exc.text or str(exc), "failed"
        return ChildFinished(
            call=started.call,
            child=started.child,
            outcome="completed" if outcome == "completed" else "failed",
            text=_short(text, started.child),
            spent=child.usage,
            cost=child.cost,
            taint=child.taint,
            skill=started.skill.name if started.skill is not None else "",
        )


def _short(text: str, child: str) -> str:
    """A child's answer as its parent keeps it: an event stays small, and the child's own log has the whole."""
    return text if len(text) <= LONG else f"{text[:LONG]}\n(cut here; session {child} has the rest)"
