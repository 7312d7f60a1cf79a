"""Skills that run in a session of their own: what such a child is told, and which tools it has."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from holdfast.logic.state import State
from holdfast.vocab.events import ChildStarted
from holdfast.vocab.rules import Rule
from holdfast.vocab.specs import ToolSpec

if TYPE_CHECKING:
    from holdfast.extensions.skills import Skill
    from holdfast.kit.kit import Kit


@dataclass(frozen=True, kw_only=True)
class ForkPlan:
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
        usable = (spec.name for spec in specs if not spec.child and spec.name != "Skill")
        return [name for name in usable if name not in denied and (allowed is None or name in allowed)]


@dataclass
class Forks:
    """The children of one session: those of skills are told what the skill says, the others what their call says."""

    state: State
    kit: "Kit | None" = None
    given: "dict[str, tuple[Skill, str]]" = field(default_factory=dict)
    """Skills that a person started, with their text, by the child's id."""

    async def of(self, started: ChildStarted) -> ForkPlan:
        """How the child of `started` is to be opened. Raise `UserError` when its skill cannot be had."""
        if started.child in self.given:
            return _plan(*self.given[started.child])
        call = next((each for each in self.state.progress.calls if each.id == started.call), None)
        if self.kit is None or call is None or call.name != "Skill":
            return ForkPlan(prompt=started.prompt)
        args = msgspec.json.decode(call.args, type=dict[str, object])
        skill = self.kit.found.skill(str(args.get("skill", "")))
        text, _ = await self.kit.said_by(skill, str(args.get("args", "")))
        return _plan(skill, text)


def _plan(skill: "Skill", text: str) -> ForkPlan:
    return ForkPlan(prompt=text, model=skill.model, allowed=skill.allowed_tools, denied=skill.disallowed_tools)


def _tools(rules: Sequence[str]) -> frozenset[str]:
    """The tools that rules name: a fork has `Bash` when it is allowed `Bash(git *)`, and the policy judges each of its calls."""
    return frozenset(Rule.parse("ask", rule).tool for rule in rules)
