"""How child sessions are opened, and how a person runs a skill in one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from msgspec import Struct, field

from backstay.logic.state.entries import skill_entry
from backstay.logic.state.session_state import State
from backstay.logic.stored_content import to_stored_text
from backstay.runtime.bus import follow
from backstay.runtime.runner import Runner
from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.ids import child_session_id
from backstay.vocab.messages import Text, TextRef
from backstay.vocab.rules import Rule
from backstay.vocab.specs import ToolSpec

if TYPE_CHECKING:
    from backstay.session.project.project_context import ProjectContext
    from backstay.skills.skill import Skill


SHOWN: Final = 2_000
"""Characters of what a person typed that an event keeps."""
_OF_THE_KIT: Final = ("Skill", "backstay_command_", "mcp__")
"""Tools that come of what a session finds around it: a child looks at nothing."""


class SubagentPlan(Struct, frozen=True, kw_only=True):
    """How a child is to be opened."""

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
        usable = (spec.name for spec in specs if not spec.child and not spec.name.startswith(_OF_THE_KIT))
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
        finished = await _run(runner, started, blobs)
    if finished.outcome != "completed":
        raise UserError(f"The skill {skill.name!r} did not finish: {finished.text}")
    return finished.text


async def _run(runner: Runner, started: events.ChildStarted, blobs: dict[str, bytes]) -> events.ChildFinished:
    """Have a skill run, and return how it ended. Cancelling this stops the skill."""
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
