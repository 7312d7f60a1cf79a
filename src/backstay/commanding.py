"""The commands of a session, and what it does with what it found around it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from backstay.commands.spec import CommandCall, CommandResult, CommandSpec, Submission
from backstay.kit.forking import Forks
from backstay.kit.kit import Kit
from backstay.logic.hooks.spec import HookSpec
from backstay.runtime.queueing import Queueing
from backstay.runtime.runner import Runner
from backstay.vocab.errors import UserError
from backstay.vocab.event import By, Draft
from backstay.vocab.event_limits import ChildPaused, ChildSpent
from backstay.vocab.events import ChildStarted
from backstay.vocab.ids import child_session_id
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Taint, Usage

if TYPE_CHECKING:
    from backstay.extensions.skills import Skill
    from backstay.session import Session


class Commanding(Queueing):
    """What a person can do with a slash."""

    def __init__(self, runner: Runner, variables: Mapping[str, str], kit: Kit | None, forks: Forks | None) -> None:
        super().__init__(runner, variables)
        self.kit = kit
        """What was found around the session; None when it looked at nothing."""
        self._forks = forks
        self._skills = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the person should know about what was found around the session: skipped, held back, wrong, or changed meanwhile."""
        return (*self.kit.of_settings, *self.kit.notes) if self.kit is not None else ()

    def list_commands(self) -> tuple[CommandSpec, ...]:
        """The commands that a person can use, by name."""
        return self.kit.commands.specs() if self.kit is not None else ()

    async def command(self, name: str, args: str = "", *, by: By = "user") -> CommandResult | None:
        """Run a command; None when there is none of that name. One that speaks to the model waits for the answer."""
        kit = self.kit
        return None if kit is None else await kit.commands.run(self._call(kit, name, args, by))

    async def interpret(self, text: str) -> Submission | CommandResult | None:
        """What a person means by a line that begins with a slash: something to say to the model, or a command's result.

        None when it names no command. Raise `UserError` when what it would say cannot be had.
        """
        if self.kit is None or not text.startswith("/"):
            return None
        name, _, args = text[1:].partition(" ")
        found = self.kit.commands.find(name)
        if found is None or not found.spec.user_invocable:
            return None
        call = self._call(self.kit, found.spec.name, args, "user")
        if found.expand is not None:
            return await found.expand(call)
        return await self.kit.commands.run(call)

    async def note(self, *drafts: Draft) -> None:
        """Write events that change nothing else."""
        if drafts:
            await self._deliver(*drafts, goes_on=False)

    async def fork_skill(self, skill: "Skill", prompt: str, display: str) -> str:
        """Let a child session follow a skill, on its own, and return what it reports. The conversation hears of it afterwards.

        Raise `UserError` when the child could not finish.
        """
        open_child = self._world.open_child
        if open_child is None or self._forks is None:
            raise UserError("This session cannot open child sessions.")
        self._skills += 1
        call = f"{self._runner.nonce}-skill-{self._skills}"
        child = child_session_id(self.id, call)
        purse = self._world.state.progress.purse
        share = purse.share(child)
        self._forks.given[child] = (skill, prompt)
        await self.note_skill(skill.name, display, mode="fork")
        spent: list[tuple[Usage, int, tuple[Taint, ...]]] = []
        budget: dict[str, object] = {} if share is None else {"limit": share, "on_exceed": purse.on_exceed}
        try:
            started = ChildStarted(call=call, child=child, prompt=prompt, budget=budget)
            finished = await open_child(started, lambda *told: spent.append(told))
        finally:
            used = (Draft(event=ChildSpent(child=child, spent=u, cost=c), by="child") for u, c, _ in spent)
            await self.note(*used)
        ended = not isinstance(finished, ChildPaused) and finished.outcome == "completed"
        await self.note_skill(skill.name, display, mode="fork", status="completed" if ended else "failed")
        if isinstance(finished, ChildPaused):
            raise UserError(f"The skill {skill.name!r} has spent its share; session {child} waits.")
        if not ended:
            raise UserError(f"The skill {skill.name!r} did not finish: {finished.text}")
        await self.inject(
            "user", f"[The skill {skill.name!r} ran in a session of its own, {child}. It reports:]\n{finished.text}"
        )
        return finished.text

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that calls are judged by."""
        return self._runner.policy.rules

    @property
    def hooks(self) -> tuple[HookSpec, ...]:
        """The hooks that are heard."""
        return self._runner.policy.hooks

    def _call(self, kit: Kit, name: str, args: str, by: By) -> CommandCall:
        session: Session = self  # type: ignore[assignment]  # the only class above this one
        return CommandCall(session=session, kit=kit, name=name, args=args, by=by)
