"""Run the inclusions of a skill's or command's text: each is judged by the policy like a call, and runs in the same sandbox."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.hooks.gates import hook_intent
from backstay.hooks.merge import HookVerdict
from backstay.permissions import Call, judge_call
from backstay.runtime.services import Services, fire_and_wait
from backstay.skills.includes import FileInclusion, Inclusion, ShellInclusion
from backstay.skills.render import Judged
from backstay.tools.files.target import Refused, find_target, reach
from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.event import Draft, Event
from backstay.vocab.rules import Rule, RuleSource
from backstay.vocab.specs import Taint

if TYPE_CHECKING:
    from backstay.ports import Sandbox, ToolContext

SECONDS: Final = 60.0
"""Time for one command of a text."""
LARGEST: Final = 256 * 1024
"""Bytes of a file that is put in."""


class InclusionRunner:
    """Judges the inclusions of texts by the policy, and runs those that are allowed, for one session."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._facts: dict[Inclusion, events.CallFacts | None] = {}
        self._taints: dict[Inclusion, tuple[Taint, ...]] = {}

    async def judge(
        self, inclusion: Inclusion, *, grants: Sequence[str] = (), source: RuleSource = "session"
    ) -> Judged:
        """Return what the policy says, after the hooks that decide about such calls.

        `grants` are the rules of what the text itself may use without asking, but for plan mode and for what an argument made of it;
        what denies or asks goes before them.
        They count as rules of `source`: those of a repository or a plugin open nothing that may hold secrets.
        """
        name, args = inclusion.call
        tool = self._services.tools.get(name)
        if tool is None:
            return Judged(decision="deny", reason=f"this session has no {name}")
        services, policy, progress = self._services, self._services.policy, self._services.progress
        hook = await self._ask_hooks(name, args)
        consented = [replace(Rule.parse("allow", text), source="session") for text in progress.grants.rules]
        own = isinstance(inclusion, FileInclusion) or inclusion.own
        given = grants if own and services.mode != "plan" else ()
        allowed = [replace(Rule.parse("allow", text), source=source) for text in given]
        facts = self._facts[inclusion] = await services.in_force.resolve_paths(name, args)
        call_site = (
            policy.call_site if facts is None else replace(policy.call_site, links=facts.links, globs=facts.globs)
        )
        verdict = judge_call(
            Call(tool=tool.spec, args=args),
            call_site,
            policy.rules,
            mode=services.mode,
            scope=progress.scope,
            granted=[*consented, *allowed],
            taint=progress.grants.taint,
            hook=hook,
        )
        self._taints[inclusion] = verdict.taints
        return Judged(decision=verdict.decision, reason=verdict.detail)

    async def _ask_hooks(self, name: str, args: Mapping[str, object]) -> HookVerdict | None:
        """Return the verdict of hooks. A hook that would change the call, or does not answer in time, refuses it."""
        services, text = self._services, msgspec.json.encode(args).decode()
        subject = f"inclusion-{services.clock.nonce()}"
        if hook_intent(services.policy, "PreToolUse", subject, matcher_value=name, args=text) is None:
            return None
        services.include_calls[subject] = (name, text)
        try:
            said = await fire_and_wait(services, "PreToolUse", subject, matcher_value=name, args=text)
        finally:
            del services.include_calls[subject]
        if said is None or said.args:
            return HookVerdict(decision="deny", reason="a hook did not answer, or would change it")
        return HookVerdict(decision=said.decision, reason=said.reason) if said.decision is not None else None

    async def fetch(self, inclusion: Inclusion) -> str | None:
        """Return what an inclusion that was judged stands for; None for a file that is not there."""
        await self._record_taint(inclusion)
        if isinstance(inclusion, FileInclusion):
            return await anyio.to_thread.run_sync(self._read, inclusion)
        return await self._run(inclusion)

    async def _record_taint(self, inclusion: Inclusion) -> None:
        """Record the taint of an inclusion before it enters the session."""
        met = self._taints.get(inclusion, ())
        if not set(met) <= self._services.state.progress.grants.taint:
            await self._services.inbox.deliver(
                Draft(event=events.TaintMet(taints=met, source=str(inclusion)[:200])), wakes=False
            )

    def _read(self, inclusion: FileInclusion) -> str | None:
        """Read the very file that was judged: nothing on the way to it may have become a link since."""
        try:
            target = find_target(self._context(inclusion, None), inclusion.path)
            with reach(target) as place, open(place.open(), "rb") as file:
                content = file.read(LARGEST + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except Refused as exc:
            raise UserError(str(exc)) from exc
        except OSError as exc:
            raise UserError(f"{inclusion.path!r} cannot be read: {exc.strerror or exc}.") from exc
        if len(content) > LARGEST:
            raise UserError(f"{inclusion.path!r} cannot be read: It has more than {LARGEST:,} bytes.")
        return content.decode("utf-8", "replace")

    def _context(self, inclusion: Inclusion, sandbox: "Sandbox | None") -> "_Context":
        facts = self._facts.get(inclusion)
        return _Context(self._services, facts.links if facts is not None else {}, sandbox)

    async def _run(self, inclusion: ShellInclusion) -> str:
        name, args = inclusion.call
        tool = self._services.tools.get(name)
        assert tool is not None  # it was judged
        if self._services.files is not None:
            await self._services.files.keep_trees("", "")
        sandbox = await anyio.to_thread.run_sync(self._services.start_sandbox)
        context: ToolContext = self._context(inclusion, sandbox)
        try:
            with anyio.fail_after(SECONDS):
                output = await tool.run(args, context)
        except TimeoutError:
            raise UserError(f"it did not end within {SECONDS:g} seconds.") from None
        if output.failed:
            raise UserError(output.text[-500:] or "it failed.")
        return output.text


class _Context(Struct, frozen=True):
    """What a tool sees that runs for a text and not for a call: nothing of it is in the log but what the text came to."""

    _services: Services
    links: Mapping[str, str]
    sandbox: "Sandbox | None"
    call: str = field(default="inclusion")

    @property
    def key(self) -> str:
        """A key of no call."""
        return f"{self._services.session}:{self.call}"

    @property
    def cwd(self) -> str:
        """The working folder of the session."""
        return self._services.cwd

    def version_of(self, path: str) -> str:
        """Return the version of a file when the session last read or wrote it."""
        return self._services.state.seen.get(path, "")

    def show(self, text: str) -> None:
        """Do nothing: an inclusion has no stream."""

    def note(self, event: Event) -> None:
        """Do nothing: there is no call that an event could be about."""

    async def emit(self, event: Event) -> None:
        """Do nothing, likewise."""
