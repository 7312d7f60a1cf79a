"""Hears hooks for a session: finds the handlers that the log names, tells them what happened, and brings their verdict home."""

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.config.hook_commands import command_text
from holdfast.config.own_runs import OwnRuns
from holdfast.config.survey import Survey, drifted
from holdfast.logic.hooking import added_by_hook
from holdfast.logic.hooks.inputs import hook_input
from holdfast.logic.hooks.spec import AgentHook, CommandHook, HookSpec, PromptHook
from holdfast.logic.hooks.verdict import HookAnswer, together, unheard
from holdfast.ports import ModelRequest
from holdfast.runtime.hook_facts import hook_facts
from holdfast.runtime.hooks.means import Means, PythonFunction
from holdfast.runtime.hooks.run import run_each
from holdfast.runtime.stream_model import stream_model
from holdfast.runtime.world import World
from holdfast.vocab.event import Draft
from holdfast.vocab.event_tools import HookFinished, HookStarted
from holdfast.vocab.events import InputReceived
from holdfast.vocab.keys import Keys
from holdfast.vocab.messages import Message, Text, text_of

if TYPE_CHECKING:
    import httpx

_PLUGIN_FOLDER: Final = re.compile(r"\$\{?(?:CLAUDE|HOLDFAST)_PLUGIN_ROOT(?:\}|\b)")
RunAgent = Callable[[str, AgentHook], Awaitable[str]]


class Listening(Struct, frozen=True, kw_only=True):
    """The hooks of a session and what they are run with."""

    specs: Sequence[HookSpec]
    functions: Mapping[str, PythonFunction]
    project: str
    environment: Mapping[str, str] = field(default_factory=dict)
    keys: Keys = field(default_factory=Keys)
    survey: Survey | None = None
    """What the workspace brought along when it was trusted."""
    held: Mapping[str, str] = field(default_factory=dict)
    """The commands of the workspace's hooks that wait for trust for this run, and why."""
    own: OwnRuns | None = None
    """Who judges the hooks that are not the workspace's: they are started in it."""
    run_agent: RunAgent | None = None

    async def hear(self, started: HookStarted, world: World) -> HookFinished:
        """Run the handlers that `started` names, and put their answers together."""
        known = {spec.id: spec for spec in self.specs}
        chosen: Sequence[HookSpec] = [known[each] for each in started.handlers if each in known]
        if changed := await self._changed(chosen):
            return unheard(started, f"{changed} is not what it was when the workspace was trusted", self.specs)
        if held := self._held(chosen):
            return unheard(started, held, self.specs)
        chosen, against = await judged(chosen, self.own)
        if against:
            return unheard(started, against, self.specs)
        told = hook_input(started.event, await hook_facts(started, world))
        runs = await run_each(chosen, told, self._means(world, started))
        for run in runs:
            told_of = {"event": started.event, "hook": run.spec.label, "seconds": round(run.seconds, 3)}
            world.tap("hook", {**told_of, "exit": run.outcome.exit_code, "output": run.outcome.stdout[:10_000]})
        verdict = together([run.answer for run in runs])
        gone = tuple(f"The hook {each!r} is not there any more." for each in started.handlers if each not in known)
        if gone and ((lost := unheard(started, gone[0], self.specs)).blocked or verdict.decision == "allow"):
            return lost
        return HookFinished(
            event=started.event,
            subject=started.subject,
            decision=verdict.decision,
            blocked=verdict.blocked,
            reason=verdict.reason,
            args=verdict.args,
            context=verdict.context,
            output=verdict.output,
            notes=(*verdict.notes, *gone),
            stops=verdict.stops,
            agent=started.agent,
        )

    async def _changed(self, chosen: Sequence[HookSpec]) -> str:
        """A file that a hook of the workspace runs and that is no longer what was trusted."""
        if self.survey is None or not any(spec.source in ("project", "local") for spec in chosen):
            return ""
        changed = await anyio.to_thread.run_sync(drifted, self.survey)
        return changed[0] if changed else ""

    def _held(self, chosen: Sequence[HookSpec]) -> str:
        """Why a hook of the workspace waits, when one does."""
        for spec in chosen:
            if spec.source not in ("project", "local") or not isinstance(spec.handler, CommandHook):
                continue
            if why := self.held.get(command_text(spec.handler.command, spec.handler.args)):
                return f"the hook {spec.label!r} waits for --trust: {why}"
        return ""

    def _means(self, world: World, started: HookStarted) -> Means:
        return Means(
            cwd=world.cwd,
            environment={**self.keys.without(os.environ), **self.environment},
            headers={**self.keys.for_headers(os.environ), **self.environment},
            project=self.project,
            run_prompt=lambda prompt, hook: _ask_once(prompt, hook, world),
            run_agent=self.run_agent,
            http_client=_guarded,
            python=self.functions,
            background=world.tasks,
            on_late=partial(_heard_late, world),
            mark=mark_of(world.session, started.event, started.subject),
        )


async def judged(specs: Sequence[HookSpec], own: OwnRuns | None) -> tuple[Sequence[HookSpec], str]:
    """The hooks as they are to be run, and why one that is not the workspace's may not be."""
    found: list[HookSpec] = []
    for spec in specs:
        handler = spec.handler
        if own is None or spec.source in ("project", "local") or not isinstance(handler, CommandHook):
            found.append(spec)
            continue
        args = None if handler.args is None else [_in_full(each, spec) for each in handler.args]
        run = await anyio.to_thread.run_sync(own.judge, _in_full(handler.command, spec), args)
        if run.why_not:
            return (), f"the hook {spec.label!r} of your own is held: {run.why_not}"
        found.append(replace(spec, handler=replace(handler, env=(*run.environment.items(), *handler.env))))
    return found, ""


def _in_full(text: str, spec: HookSpec) -> str:
    """A word of a plugin's hook with the plugin's folder filled in."""
    return _PLUGIN_FOLDER.sub(lambda _: spec.root, text) if spec.source == "plugin" else text


def _heard_late(world: World, spec: HookSpec, answer: HookAnswer) -> None:
    """What a hook in the background said in the end: the model is told at the next safe point, or woken."""
    world.tap("hook", {"event": spec.event, "hook": spec.label, "late": True, "notes": answer.notes})
    if answer.context:
        name = f"late-{spec.id}-{world.clock.nonce()}"
        said = InputReceived(
            input=name, parts=(Text(text=added_by_hook(spec.event, answer.context)),), delivery="steer"
        )
        world.inbox.post(Draft(event=said, by="hook"))


async def _ask_once(prompt: str, hook: PromptHook, world: World) -> str:
    model = await world.model(hook.model or world.state.progress.model)
    request = ModelRequest(
        model=model.name,
        messages=(Message(role="user", parts=(Text(text=prompt),)),),
        position=world.state.progress.replies,
        purpose="summary",
    )
    reply = await stream_model(model, request, idle_s=world.idle_timeout_s, show=lambda delta: None)
    return text_of(reply.parts)


def _guarded(spec: HookSpec) -> "httpx.AsyncClient":
    from holdfast.runtime.hooks.clients import guarded_client  # noqa: PLC0415 - it loads the HTTP client

    return guarded_client(spec)


def mark_of(session: str, event: str, subject: str) -> str:
    """What tells the programs of one hearing from all others."""
    return f"{session}.{event}.{subject}"
