"""Subagents: child sessions in the store of their parent. A tool or a skill asks for one, and `RunChild` performs `ChildStarted`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.hooks.dispatch import RunAgent
from backstay.hooks.spec import AgentHook
from backstay.logic.state.entries import skill_entry
from backstay.logic.state.session_state import State
from backstay.logic.stored_content import LONG, to_stored_text
from backstay.ports import EventStore, Model, ToolContext, ToolOutput
from backstay.providers.recorded import PREFIX, RecordedModel
from backstay.runtime.barrier import Fault
from backstay.runtime.bus import follow
from backstay.runtime.runner import Runner
from backstay.runtime.services import Outcome, Performer, ReportSpending, Services, fetch_text, fire_and_wait
from backstay.session.limits import without_budget_questions
from backstay.session.open import scope_of_mode
from backstay.session.options import Lineage, Options, ResolvedOptions
from backstay.session.session import Session
from backstay.session.toolbox import Toolbox
from backstay.vocab import events
from backstay.vocab.errors import Bug, NoSession, TurnError, TurnPaused, UserError
from backstay.vocab.event import Draft, Recorded, TurnOutcome
from backstay.vocab.ids import child_session_id
from backstay.vocab.messages import Text, TextRef
from backstay.vocab.rules import Rule
from backstay.vocab.specs import FsScope, Taint, ToolSpec, Usage

if TYPE_CHECKING:
    from backstay.session.project.project_context import ProjectContext
    from backstay.skills.skill import Skill

_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "minLength": 1, "description": "What the child session is to do."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


SHOWN: Final = 2_000
"""Characters of what a person typed that an event keeps."""
_OF_PROJECT: Final = ("Skill", "backstay_command_", "mcp__")
"""Beginnings of the names of tools that a project context brings: a child has none."""


class SubagentPlan(Struct, frozen=True, kw_only=True):
    """The prompt, the model and the tools that a child is opened with."""

    prompt: str
    model: str = ""
    allowed: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()

    @property
    def narrows(self) -> bool:
        """Whether it has fewer tools than its parent."""
        return self.allowed is not None or bool(self.denied)

    def names(self, specs: Sequence[ToolSpec]) -> list[str]:
        """Return the tools that are allowed and not denied, without those that open another child."""
        denied, allowed = _tools(self.denied), None if self.allowed is None else _tools(self.allowed)
        usable = (spec.name for spec in specs if not spec.child and not spec.name.startswith(_OF_PROJECT))
        return [name for name in usable if name not in denied and (allowed is None or name in allowed)]


class SubagentPlans(Struct):
    """The plans of the children of one session: a skill's child gets the skill's text, another child the prompt of its call."""

    state: State
    project: "ProjectContext | None" = None
    running: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a skill of a person runs: they run one at a time."""
    count: int = 0
    """The skills that a person ran since the session was opened."""

    async def of(self, started: events.ChildStarted, prompt: str, said: str | None = None) -> SubagentPlan:
        """Return how the child of `started` is to be opened with `prompt`; `said` is what it was told before a crash.

        Raise `UserError` when the skill of a call cannot be had.
        """
        if (run := started.skill) is not None:
            return SubagentPlan(prompt=said or prompt, model=run.model, allowed=run.allowed, denied=run.denied)
        call = next((each for each in self.state.progress.calls if each.id == started.call), None)
        if self.project is None or call is None or call.name != "Skill":
            return SubagentPlan(prompt=prompt)
        args = msgspec.json.decode(call.args, type=dict[str, object])
        skill = self.project.found.skill(str(args.get("skill", "")))
        text = said if said is not None else (await self.project.render_skill(skill, str(args.get("args", ""))))[0]
        return self.of_skill(skill, text, again=said is not None)

    def of_skill(self, skill: "Skill", text: str, *, again: bool = False) -> SubagentPlan:
        """Return how a child is to be opened that follows `skill`. Raise `UserError` when the skill's agent cannot be had."""
        if not skill.agent or self.project is None:
            return SubagentPlan(
                prompt=text, model=skill.model, allowed=skill.allowed_tools, denied=skill.disallowed_tools
            )
        agent = self.project.found.agent(skill.agent)
        return SubagentPlan(
            prompt=text if again or not agent.system_prompt else f"{agent.system_prompt}\n\n{text}",
            model=skill.model or agent.model,
            allowed=_both(agent.tools, skill.allowed_tools),
            denied=(*agent.disallowed_tools, *skill.disallowed_tools),
        )


class ChildTool:
    """A tool whose calls are answered by a child session with a log of its own."""

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(
            name=name,
            description="Let a child session do a piece of work on its own and report back.",
            schema=_SCHEMA,
            effect="idempotent",
            child=True,
        )

    def problem(self, args: dict[str, object]) -> str:
        """Return why these arguments cannot be used; empty when they can."""
        prompt = args.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return "`prompt` must be a text that says what to do."
        unknown = sorted(set(args) - {"prompt"})
        return f"Unknown argument {unknown[0]!r}; only `prompt` is known." if unknown else ""

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Raise `Bug`: a call of this tool becomes a `ChildStarted` and runs nothing here."""
        raise Bug(f"The child tool {self.spec.name!r} was run as a function.")

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Raise `Bug`, likewise."""
        raise Bug(f"The child tool {self.spec.name!r} was checked as a function.")


def child_tool(name: str = "delegate") -> ChildTool:
    """Make a tool with which the model can open a child session."""
    return ChildTool(name)


AGENT: Final = "general-purpose"
"""What hooks know a child by that has no agent's name."""
_LOST: Final = (
    "was started, then the process died before it reported back, and its log is not in this store. What it was told to do may have "
    "happened wholly, partly or not at all, and it was not run again. Find out before relying on either."
)


class RunChild(Performer[events.ChildStarted]):
    """One child session. Its id is derived from the call, so that a resume finds its log."""

    by = "child"

    def __init__(self, record: Recorded, services: Services) -> None:
        super().__init__(record, services)
        self._spent: Usage | None = None
        self._cost: int | None = None
        self._taint: tuple[Taint, ...] = ()

    async def run(self) -> Outcome:
        """Run the child to its end. In a turn, it may change any file, so the folders are kept before it begins."""
        if self._services.files is not None and self._services.state.progress.turn is not None:
            await self._services.files.keep_trees(self._intent.call, self._id)
        if await self._is_lost():
            return self._close(self._unknown_outcome())
        await fire_and_wait(self._services, "SubagentStart", self._intent.child, matcher_value=AGENT)
        finished = await self._services.open_child(self._intent, self._note_spending, self._services)
        await fire_and_wait(self._services, "SubagentStop", self._intent.child, matcher_value=AGENT)
        return self._close(finished)

    def report_stop(self) -> Outcome:
        """Return what the child had spent: it was stopped with its parent."""
        return self._close(self._end("interrupted", "The child session was stopped with its parent."))

    def report_fault(self, fault: Fault) -> Outcome:
        """Return the failure of a child that could not be run."""
        return self._close(self._end("failed", f"{fault.kind}: {fault.message}"))

    def _note_spending(self, spent: Usage, cost: int, taint: tuple[Taint, ...]) -> None:
        self._spent, self._cost, self._taint = spent, cost, taint

    def _end(self, outcome: TurnOutcome, text: str) -> events.ChildFinished:
        call, child = self._intent.call, self._intent.child
        skill = self._intent.skill.name if self._intent.skill is not None else ""
        spent, cost, taint = self._spent, self._cost, self._taint
        return events.ChildFinished(
            call=call, child=child, outcome=outcome, text=text, spent=spent, cost=cost, taint=taint, skill=skill
        )

    async def _is_lost(self) -> bool:
        """Return whether the child may have run before and its log is gone: begun anew, it could do everything a second time."""
        if not _may_have_run(self._intent, self._services):
            return False
        try:
            return (await self._services.store.meta(self._intent.child)).seq == 0
        except NoSession:
            return True

    def _close(self, event: events.ChildFinished | events.ChildPaused | events.ToolFinished) -> Outcome:
        if isinstance(event, events.ChildPaused) and self._intent.skill is not None:
            self._note_spending(event.spent or Usage(), event.cost or 0, self._taint)
            event = self._end("failed", f"It has spent its share; session {event.child} waits.")
        return self._finish(event)

    def _unknown_outcome(self) -> events.ChildFinished | events.ToolFinished:
        """Report that the outcome of a child whose log is gone is unknown."""
        text = f"Outcome unknown: the child session {self._intent.child} {_LOST}"
        if self._intent.skill is not None:
            return self._end("failed", text)
        return events.ToolFinished(
            call=self._intent.call, outcome="unknown", code="restart", content=(Text(text=text),)
        )


Open = Callable[[Options], AbstractAsyncContextManager[Session]]


def agent_runner(options: ResolvedOptions, toolbox: Toolbox, services: Services, open_with: Open) -> RunAgent:
    """Return what lets a child session answer for a hook, with read-only tools and without a store."""

    async def answer(prompt: str, hook: AgentHook) -> str:
        inherited = replace(
            options,
            store=None,
            session_id=None,
            resume=None,
            fork=False,
            cwd=services.cwd,
            model=hook.model or services.progress.model,
            tools=toolbox.read_only_tools(),
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


async def open_child(
    options: ResolvedOptions,
    store: EventStore,
    plans: SubagentPlans,
    open_with: Open,
    started: events.ChildStarted,
    report: ReportSpending,
    services: Services,
) -> events.ChildFinished | events.ChildPaused:
    """Run a child session in the same store, with the parent's model, mode, tools and person, and no children of its own."""
    prompt = started.prompt if started.whole is None else await fetch_text((started.whole,), store.blob)
    fork = await plans.of(started, prompt, await _earlier_prompt(store, started, services))
    inherited = replace(
        options,
        store=store,
        session_id=started.child,
        resume=None,
        fork=False,
        name="",
        cwd=services.cwd,
        model=await _model_of(_model(fork, options, services), started, services),
        permission_mode=services.mode,
        rules=services.policy.rules,
        resolved=replace(
            (plans.project and plans.project.newest_settings) or options.resolved,
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
            services.warnings.extend(words for words in child.warnings if words not in services.warnings)


def _lineage(services: Services) -> Lineage:
    return Lineage(parent=services.session, taint=tuple(sorted(services.progress.grants.taint)))


def _scope(services: Services) -> FsScope | None:
    """Return the scope of a child; None where the mode implies it, as in the parent, so that it ends with the opening there too."""
    progress = services.progress
    return None if progress.scope_implied and progress.scope == scope_of_mode(services.mode) else progress.scope


def _model(fork: SubagentPlan, options: ResolvedOptions, services: Services) -> str | Model:
    """Return the model of a child: the one that its skill or agent names, else its parent's."""
    if not fork.model:
        return options.model or services.progress.model
    from backstay.skills.agents import resolve_model  # noqa: PLC0415 - few children name a model

    return resolve_model(fork.model, services.progress.model)


def _may_have_run(started: events.ChildStarted, services: Services) -> bool:
    """Return whether the child may have run before: it was started by a process that died, or it had spent its share."""
    progress = services.state.progress
    begun = any(call.id == started.call and (call.lost or call.share) for call in progress.calls)
    return begun or (progress.skill is not None and progress.skill.lost)


async def _earlier_prompt(store: EventStore, started: events.ChildStarted, services: Services) -> str | None:
    """Return what the child was told before a crash: nothing is rendered or run a second time for it."""
    if not _may_have_run(started, services) or not await sessions.exists(store, started.child):
        return None
    for record in (await store.read(started.child)).records:
        if isinstance(record.event, events.InputReceived) and record.event.input == started.call:
            return await fetch_text(tuple(p for p in record.event.parts if isinstance(p, Text | TextRef)), store.blob)
    return None


def _share(started: events.ChildStarted, options: ResolvedOptions) -> dict[str, Any]:
    """Return the options with a child's budget. A child does not ask for more: it waits, and its parent asks."""
    asker = options.asker or options.prompt
    share = msgspec.convert(started.budget, events.BudgetSet) if started.budget else events.BudgetSet(limit=None)
    return {
        "budget_microcents": share.limit,
        "on_exceed": share.on_exceed,
        "allow_unpriced": True,
        "asker": None if asker is None else without_budget_questions(asker),
    }


async def _run_child(
    started: events.ChildStarted, options: Options, opened: list[Session], open_with: Open
) -> events.ChildFinished | events.ChildPaused:
    async with open_with(options) as child:
        opened.append(child)
        text, outcome = "", "completed"
        try:
            text = await child.run(started.prompt, input_id=started.call)
        except TurnPaused:
            share = options.budget_microcents or 0
            return events.ChildPaused(
                call=started.call, child=started.child, share=share, spent=child.usage, cost=child.cost
            )
        except TurnError as exc:
            text, outcome = exc.text or str(exc), "failed"
        return events.ChildFinished(
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
    """Return a child's answer, cut to the size of an event; the child's own log has the whole."""
    return text if len(text) <= LONG else f"{text[:LONG]}\n(cut here; session {child} has the rest)"


async def _model_of(wanted: str | Model, started: events.ChildStarted, services: Services) -> str | Model:
    """Return the model of a child session: its parent's. In a recorded session the child is answered from its own log."""
    name = wanted if isinstance(wanted, str) else wanted.name
    model = await services.resolve_model(name) if name.startswith(PREFIX) else wanted
    if not isinstance(model, RecordedModel):
        return wanted
    number = int(started.call.rpartition("-")[2])
    position = services.state.progress.replies - 1
    child = model.child_of(position, number) if started.skill is None else model.skill_child(number)
    return f"{PREFIX}{child}" if child else RecordedModel((), services.store.blob, name=f"{name} (no such child)")


# --- a skill that a person runs -------------------------------------------------------------------------------------------------


async def fork_skill(runner: Runner, plans: SubagentPlans, skill: "Skill", text: str, display: str) -> str:
    """Ask the loop to run a skill in a child session, and wait for its report. `Session.fork_skill` says what it raises."""
    services = runner.services
    plan = plans.of_skill(skill, text)
    async with plans.running:
        await runner.finish(lambda state: state.progress.skill)
        plans.count += 1
        call = f"{runner.nonce}-skill-{plans.count}"
        child = child_session_id(services.session, call)
        prompt, blobs = to_stored_text(plan.prompt)
        started = events.ChildStarted(
            call=call,
            child=child,
            prompt=prompt.text if isinstance(prompt, Text) else prompt.head,
            whole=prompt if isinstance(prompt, TextRef) else None,
            budget=services.state.progress.budget.of_child(child),
            skill=events.SkillRun(
                name=skill.name, display=display[:SHOWN], model=plan.model, allowed=plan.allowed, denied=plan.denied
            ),
        )
        finished = await _run_skill(runner, started, blobs)
    if finished.outcome != "completed":
        raise UserError(f"The skill {skill.name!r} did not finish: {finished.text}")
    return finished.text


async def _run_skill(runner: Runner, started: events.ChildStarted, blobs: dict[str, bytes]) -> events.ChildFinished:
    """Run a skill in a child, and return how it ended. Cancelling this stops the skill."""
    assert started.skill is not None
    entry = skill_entry(started.skill.name, started.skill.display, mode="fork", by="user", status="started")
    subscription = runner.subscribe()
    try:
        await runner.deliver(Draft(event=entry, by="user"), Draft(event=started, by="user"), blobs=blobs)
        async for item in follow(subscription, runner.services.store, runner.services.session):
            if (
                isinstance(item, Recorded)
                and isinstance(item.event, events.ChildFinished)
                and item.event.call == started.call
            ):
                return item.event
    except anyio.get_cancelled_exc_class():
        runner.services.inbox.post(
            Draft(event=events.Interrupted(reason="the caller stopped waiting for the skill"), by="user")
        )
        raise
    finally:
        subscription.close()
    raise runner.ended_with


def _both(one: Sequence[str] | None, other: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return what two lists of rules both allow; a list that is None allows everything."""
    if one is None or other is None:
        given = one if other is None else other
        return None if given is None else tuple(given)
    allowed = _tools(other)
    return tuple(rule for rule in one if Rule.parse("ask", rule).tool in allowed)


def _tools(rules: Sequence[str]) -> frozenset[str]:
    """Return the tools that rules name. A fork that is allowed `Bash(git *)` has `Bash`, and the policy judges each of its calls."""
    return frozenset(Rule.parse("ask", rule).tool for rule in rules)
