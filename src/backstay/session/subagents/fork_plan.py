"""Skills that run in a session of their own: what such a child is told, which tools it has, and how a person starts one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from backstay.logic.state.content import shorten
from backstay.logic.state.entries import SkillStatus, skill_entry
from backstay.logic.state.session_state import State
from backstay.runtime.runner import Runner
from backstay.vocab.errors import UserError
from backstay.vocab.event import Draft
from backstay.vocab.events import ChildStarted, MessageInjected
from backstay.vocab.events.limits import ChildPaused, ChildSpent
from backstay.vocab.ids import child_session_id
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Taint, ToolSpec, Usage

if TYPE_CHECKING:
    from backstay.session.project.context import ProjectContext
    from backstay.skills.skill import Skill


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
        """The tools that are left: first what is denied goes, then only what is allowed stays; none opens another child."""
        denied, allowed = _tools(self.denied), None if self.allowed is None else _tools(self.allowed)
        usable = (spec.name for spec in specs if not spec.child and not spec.name.startswith(_OF_THE_KIT))
        return [name for name in usable if name not in denied and (allowed is None or name in allowed)]


class SubagentPlans(Struct):
    """The children of one session: those of skills are told what the skill says, the others what their call says."""

    state: State
    kit: "ProjectContext | None" = None
    given: "dict[str, tuple[Skill, str]]" = field(default_factory=dict)
    """Skills that a person started, with their text, by the child's id."""

    async def of(self, started: ChildStarted, said: str | None = None) -> SubagentPlan:
        """How the child of `started` is to be opened; `said` is what it was told before a crash.

        Raise `UserError` when its skill cannot be had.
        """
        if started.child in self.given:
            skill, text = self.given[started.child]
            return self._plan(skill, text)
        call = next((each for each in self.state.progress.calls if each.id == started.call), None)
        if self.kit is None or call is None or call.name != "Skill":
            return SubagentPlan(prompt=started.prompt)
        args = msgspec.json.decode(call.args, type=dict[str, object])
        skill = self.kit.found.skill(str(args.get("skill", "")))
        text = said if said is not None else (await self.kit.said_by(skill, str(args.get("args", ""))))[0]
        return self._plan(skill, text, again=said is not None)

    def _plan(self, skill: "Skill", text: str, *, again: bool = False) -> SubagentPlan:
        if not skill.agent or self.kit is None:
            return SubagentPlan(
                prompt=text, model=skill.model, allowed=skill.allowed_tools, denied=skill.disallowed_tools
            )
        agent = self.kit.found.agent(skill.agent)
        return SubagentPlan(
            prompt=text if again or not agent.system_prompt else f"{agent.system_prompt}\n\n{text}",
            model=skill.model or agent.model,
            allowed=_both(agent.tools, skill.allowed_tools),
            denied=(*agent.disallowed_tools, *skill.disallowed_tools),
        )


async def fork_skill(runner: Runner, plans: SubagentPlans, skill: "Skill", prompt: str, display: str) -> str:
    """Let a child session follow a skill that a person started, and return its report. `Session.fork_skill` says what it raises."""
    services = runner.services
    if services.open_child is None:
        raise UserError("This session cannot open child sessions.")
    call = f"{runner.nonce}-skill-{len(plans.given) + 1}"
    child = child_session_id(services.session, call)
    money = services.state.progress.budget
    share = money.share(child)
    plans.given[child] = (skill, prompt)
    await _note(runner, skill, display, "started")
    spent: list[tuple[Usage, int, tuple[Taint, ...]]] = []
    budget: dict[str, object] = {} if share is None else {"limit": share, "on_exceed": money.on_exceed}
    try:
        started = ChildStarted(call=call, child=child, prompt=prompt, budget=budget)
        finished = await services.open_child(started, lambda *told: spent.append(told))
    finally:
        used = [Draft(event=ChildSpent(child=child, spent=u, cost=c), by="child") for u, c, _ in spent]
        if used:
            await runner.deliver(*used, wakes=False)
    ended = not isinstance(finished, ChildPaused) and finished.outcome == "completed"
    await _note(runner, skill, display, "completed" if ended else "failed")
    if isinstance(finished, ChildPaused):
        raise UserError(f"The skill {skill.name!r} has spent its share; session {child} waits.")
    if not ended:
        raise UserError(f"The skill {skill.name!r} did not finish: {finished.text}")
    report = f"[The skill {skill.name!r} ran in a session of its own, {child}. It reports:]\n{finished.text}"
    part, blobs = shorten(report)
    message = MessageInjected(role="user", parts=(part,))
    await runner.deliver(Draft(event=message, by="user"), blobs=blobs, wakes=False)
    return finished.text


async def _note(runner: Runner, skill: "Skill", display: str, status: SkillStatus) -> None:
    entry = skill_entry(skill.name, display, mode="fork", by="user", status=status)
    await runner.deliver(Draft(event=entry, by="user"), wakes=False)


def _both(one: Sequence[str] | None, other: Sequence[str] | None) -> tuple[str, ...] | None:
    """What two lists allow together; one that was not given allows everything."""
    if one is None or other is None:
        given = one if other is None else other
        return None if given is None else tuple(given)
    allowed = _tools(other)
    return tuple(rule for rule in one if Rule.parse("ask", rule).tool in allowed)


def _tools(rules: Sequence[str]) -> frozenset[str]:
    """The tools that rules name: a fork has `Bash` when it is allowed `Bash(git *)`, and the policy judges each of its calls."""
    return frozenset(Rule.parse("ask", rule).tool for rule in rules)
