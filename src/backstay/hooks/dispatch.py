"""Perform `HookStarted`: run the handlers that the intent names with the facts of the event, and return their verdict."""

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread
import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from backstay.config.trust.inventory import WorkspaceInventory, find_drift
from backstay.config.trust.own_runs import OwnRuns
from backstay.config.trust.run_files import command_text
from backstay.hooks.gates import frame_hook_text
from backstay.hooks.merge import HookAnswer, finish_unanswered, merge_answers
from backstay.hooks.payload import hook_input
from backstay.hooks.run import run_each
from backstay.hooks.run_context import PythonFunction, RunContext
from backstay.hooks.spec import AgentHook, CommandHook, HookSpec, HttpHook, PromptHook
from backstay.logic.state.calls import EndedCall
from backstay.ports import ModelRequest
from backstay.runtime.ask_model import stream_model
from backstay.runtime.barrier import Fault
from backstay.runtime.services import Outcome, Performer, Services, fetch_text
from backstay.vocab import events
from backstay.vocab.env_keys import Keys
from backstay.vocab.event import Draft
from backstay.vocab.messages import Message, Text, TextRef, ToolCall, ToolResult, text_of

if TYPE_CHECKING:
    import httpx

Facts = dict[str, object]


async def hook_facts(started: events.HookStarted, services: Services) -> Facts:
    """Return the facts of one event, under the names that hook scripts know."""
    return {**_common_facts(services), **await _event_facts(started, services)}


def _common_facts(services: Services) -> Facts:
    state = services.state
    facts: Facts = {
        "session_id": services.session,
        "transcript_path": "",
        "cwd": services.cwd,
        "permission_mode": services.mode,
    }
    if state.meta.parent:
        facts |= {"agent_id": services.session, "agent_type": services.policy.agent or "general-purpose"}
    return facts


async def _event_facts(started: events.HookStarted, services: Services) -> Mapping[str, object]:
    state, subject = services.state, started.subject
    match started.event:
        case "PreToolUse" | "PermissionRequest" | "PermissionDenied":
            return _facts_of_call(started, services)
        case "PostToolUse" | "PostToolUseFailure":
            ended = next(call for call in state.progress.ended if call.id == subject)
            return await _facts_of_result(started.event, ended, services)
        case "PostToolBatch":
            calls = [await _facts_of_result("PostToolUse", call, services) for call in state.progress.ended]
            kept = ("tool_name", "tool_input", "tool_use_id", "tool_response")
            return {"tool_calls": [{name: call[name] for name in kept} for call in calls]}
        case "UserPromptSubmit":
            if raw := state.results.inputs.raw.get(subject):
                return {"prompt": raw, "source": "user"}
            parts = state.results.inputs.parts.get(subject, ())
            texts = tuple(part for part in parts if isinstance(part, Text | TextRef))
            return {"prompt": await fetch_text(texts, services.store.blob), "source": "user"}
        case "SessionStart":
            return {"source": state.progress.hooks.source, "model": state.progress.model}
        case "SessionEnd":
            return {"reason": services.in_force.end_reason}
        case "Stop" | "StopFailure":
            return _facts_of_end(started, services)
        case "PreCompact" | "PostCompact":
            return {"trigger": "manual" if state.progress.turn is None else "auto"}
        case "SubagentStart" | "SubagentStop":
            return {"agent_id": subject, "agent_type": "general-purpose"}
        case "PreModelSwitch" | "PostModelSwitch":
            return {"from_model": state.progress.model, "to_model": subject}
        case "Notification":
            return {"message": "A call waits for a decision.", "notification_type": "permission_prompt"}
        case _:
            return {}


def _facts_of_call(started: events.HookStarted, services: Services) -> Facts:
    subject = started.subject.partition("~")[0]
    call = next((call for call in services.state.progress.calls if call.id == subject), None)
    if call is None and subject in services.include_calls:
        return _call_facts(subject, *services.include_calls[subject])
    if call is None:  # a refused call has its result in the same step
        facts = _past_call_facts(subject, services)
        return {**facts, "reason": "denied"} if started.event == "PermissionDenied" else facts
    facts = _call_facts(call.id, call.name, call.args)
    if started.event == "PermissionRequest":
        del facts["tool_use_id"]
        facts["permission_suggestions"] = [{"rule": offer} for offer in call.offers]
    return facts


def _past_call_facts(call: str, services: Services) -> Facts:
    """Return the facts of a call as the model wrote it, from the conversation."""
    for message in reversed(services.state.transcript.messages):
        for part in message.content:
            if isinstance(part, ToolCall) and part.id == call:
                return _call_facts(part.id, part.name, part.args)
    return {}


async def _facts_of_result(event: str, call: EndedCall, services: Services) -> Facts:
    facts = {**_call_facts(call.id, call.name, call.args), "duration_ms": call.took_ms}
    text = await _result_text(call.id, services)
    if event == "PostToolUseFailure":
        return {**facts, "error": text, "is_interrupt": call.outcome == "interrupted"}
    return {**facts, "tool_response": text}


def _call_facts(id: str, name: str, args: str) -> Facts:
    return {"tool_name": name, "tool_input": msgspec.json.decode(args), "tool_use_id": id}


async def _result_text(call: str, services: Services) -> str:
    for message in reversed(services.state.transcript.messages):
        part = message.content[0]
        if isinstance(part, ToolResult) and part.call == call:
            texts = tuple(each for each in part.content if isinstance(each, Text | TextRef))
            return await fetch_text(texts, services.store.blob)
    return ""


def _facts_of_end(started: events.HookStarted, services: Services) -> Facts:
    state = services.state
    turn = state.progress.turn
    result = state.results.turns.get(turn.id if turn is not None else started.subject)
    reply = result.text if result is not None else ""
    held = turn is not None and turn.held > 0
    if started.event == "Stop":
        return {"stop_hook_active": held, "last_assistant_message": reply}
    code = result.code if result is not None else ""
    return {"error": code or "unknown", "last_assistant_message": reply}


_PLUGIN_FOLDER: Final = re.compile(r"\$\{?(?:CLAUDE|BACKSTAY)_PLUGIN_ROOT(?:\}|\b)")
RunAgent = Callable[[str, AgentHook], Awaitable[str]]


class HookDispatcher(Struct, frozen=True, kw_only=True):
    """Dispatches the hooks of a session."""

    specs: Sequence[HookSpec]
    functions: Mapping[str, PythonFunction]
    project: str
    environment: Mapping[str, str] = field(default_factory=dict)
    keys: Keys = field(default_factory=Keys)
    survey: WorkspaceInventory | None = None
    """The inventory of the workspace when it was trusted."""
    held: Mapping[str, str] = field(default_factory=dict)
    """The commands of the workspace's hooks that wait for trust for this run, with the reason."""
    own: OwnRuns | None = None
    """Judges the hooks that are not the workspace's: they are started in it."""
    run_agent: RunAgent | None = None

    async def dispatch(self, started: events.HookStarted, services: Services) -> events.HookFinished:
        """Run the handlers that `started` names, and merge their answers."""
        known = {spec.id: spec for spec in self.specs}
        chosen: Sequence[HookSpec] = [known[each] for each in started.handlers if each in known]
        chosen, against = await judge_hooks(chosen, survey=self.survey, held=self.held, own=self.own)
        if against:
            return finish_unanswered(started, against, self.specs)
        payload = hook_input(started.event, await hook_facts(started, services))
        runs = await run_each(chosen, payload, self._context(services, started, chosen))
        for run in runs:
            traced = {"event": started.event, "hook": run.spec.label, "seconds": round(run.seconds, 3)}
            services.tap("hook", {**traced, "exit": run.outcome.exit_code, "output": run.outcome.stdout[:10_000]})
        verdict = merge_answers([run.answer for run in runs])
        gone = tuple(f"The hook {each!r} is not there any more." for each in started.handlers if each not in known)
        if gone and ((lost := finish_unanswered(started, gone[0], self.specs)).blocked or verdict.decision == "allow"):
            return lost
        verdict = replace(verdict, notes=(*verdict.notes, *gone))
        return events.HookFinished(event=started.event, subject=started.subject, agent=started.agent, **asdict(verdict))

    def _context(self, services: Services, started: events.HookStarted, chosen: Sequence[HookSpec]) -> RunContext:
        posts = any(isinstance(spec.handler, HttpHook) for spec in chosen)
        return RunContext(
            cwd=services.cwd,
            environment={**self.keys.without(os.environ), **self.environment},
            headers={**self.keys.for_headers(os.environ), **self.environment} if posts else {},
            project=self.project,
            run_prompt=lambda prompt, hook: _ask_once(prompt, hook, services),
            run_agent=self.run_agent,
            http_client=_make_client,
            python=self.functions,
            background=services.tasks,
            on_late=partial(_post_late_answer, services),
            mark=mark_of(services.session, started.event, started.subject),
        )


async def judge_hooks(
    specs: Sequence[HookSpec], *, survey: WorkspaceInventory | None, held: Mapping[str, str], own: OwnRuns | None
) -> tuple[Sequence[HookSpec], str]:
    """Return the hooks as they are to be run, or why one of them may not run.

    `survey` is the inventory of the workspace when it was trusted, `held` the commands of its hooks that wait for trust for this run,
    `own` judges the hooks that are not the workspace's.
    """
    of_workspace = any(spec.source in ("project", "local") for spec in specs)
    changed = await anyio.to_thread.run_sync(find_drift, survey) if survey is not None and of_workspace else ()
    if changed:
        return (), f"{changed[0]} is not what it was when the workspace was trusted"
    for spec in specs:
        if spec.source not in ("project", "local") or not isinstance(spec.handler, CommandHook):
            continue
        if why := held.get(command_text(spec.handler.command, spec.handler.args)):
            return (), f"the hook {spec.label!r} waits for --trust: {why}"
    return await _judge_own_hooks(specs, own)


async def _judge_own_hooks(specs: Sequence[HookSpec], own: OwnRuns | None) -> tuple[Sequence[HookSpec], str]:
    """Return the hooks as they are to be run, or why one that is not the workspace's may not run."""
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
    """Return a word of a plugin's hook with the plugin's folder filled in."""
    return _PLUGIN_FOLDER.sub(lambda _: spec.root, text) if spec.source == "plugin" else text


def _post_late_answer(services: Services, spec: HookSpec, answer: HookAnswer) -> None:
    """Post what a background hook added, so that the model gets it at the next safe point or is woken."""
    services.tap("hook", {"event": spec.event, "hook": spec.label, "late": True, "notes": answer.notes})
    if answer.context:
        name = f"late-{spec.id}-{services.clock.nonce()}"
        message = events.InputReceived(
            input=name, parts=(Text(text=frame_hook_text(spec.event, answer.context)),), delivery="steer"
        )
        services.inbox.post(Draft(event=message, by="hook"))


async def _ask_once(prompt: str, hook: PromptHook, services: Services) -> str:
    model = await services.resolve_model(hook.model or services.state.progress.model)
    request = ModelRequest(
        model=model.name,
        messages=(Message(role="user", parts=(Text(text=prompt),)),),
        position=services.state.progress.replies,
        purpose="summary",
    )
    reply = await stream_model(model, request, idle_s=services.idle_timeout_s, show=lambda delta: None)
    return text_of(reply.parts)


def _make_client(spec: HookSpec) -> "httpx.AsyncClient":
    from backstay.hooks.http import make_client  # noqa: PLC0415 - it loads the HTTP client

    return make_client(spec)


def mark_of(session: str, event: str, subject: str) -> str:
    """Return the mark of the programs of one round of handlers."""
    return f"{session}.{event}.{subject}"


class RunHook(Performer[events.HookStarted]):
    """Performs one `HookStarted`."""

    by = "hook"

    async def run(self) -> Outcome:
        """Dispatch the handlers. In a turn, programs among them may change any file, so the folders are kept before they begin."""
        if self._services.files is not None and self._runs_programs():
            await self._services.files.keep_trees("", self._id)
        dispatch = self._services.in_force.dispatch_hooks
        if dispatch is None:
            return self._finish_unanswered("hooks could not be run: nobody runs hooks here")
        return self._finish(await dispatch(self._intent, self._services))

    def report_stop(self) -> Outcome:
        """Return the verdict of handlers that were stopped."""
        return self._finish_unanswered("stopped before they had answered")

    def report_fault(self, fault: Fault) -> Outcome:
        """Return the verdict of handlers that could not be run."""
        return self._finish_unanswered(f"hooks could not be run: {fault.kind}: {fault.message}")

    def _finish_unanswered(self, why: str) -> Outcome:
        return self._finish(finish_unanswered(self._intent, why, self._services.policy.hooks))

    def _runs_programs(self) -> bool:
        hooks = (spec for spec in self._services.policy.hooks if spec.id in self._intent.handlers)
        within_turn = self._services.state.progress.turn is not None
        return within_turn and any(isinstance(spec.handler, CommandHook) for spec in hooks)
