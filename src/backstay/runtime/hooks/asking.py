"""Hooks that are questions to a model, or to a child session."""

from collections.abc import Awaitable, Callable

import msgspec

from backstay.logic.hooks.spec import AgentHook, PromptHook
from backstay.runtime.hooks.means import Means, Told
from backstay.runtime.hooks.outcome import Outcome

FORM = 'Answer with nothing but JSON: {"ok": true}, or {"ok": false, "reason": "why"}.'
"""What is asked for, after the hook's own words."""


async def ask_model(handler: PromptHook, told: Told, means: Means) -> Outcome:
    """Ask a model once."""
    ask = means.run_prompt
    if ask is None:
        return Outcome(failed="there is no model to ask")
    return await _answered(lambda: ask(question(handler.prompt, told), handler))


async def ask_agent(handler: AgentHook, told: Told, means: Means) -> Outcome:
    """Let a child session look around and answer."""
    ask = means.run_agent
    if ask is None:
        return Outcome(failed="there is nobody to run an agent")
    return await _answered(lambda: ask(question(handler.prompt, told), handler))


def question(prompt: str, told: Told) -> str:
    """The hook's prompt with the event in the place of `$ARGUMENTS`, or behind it when it has none."""
    event = msgspec.json.encode(told).decode()
    asked = prompt.replace("$ARGUMENTS", event) if "$ARGUMENTS" in prompt else f"{prompt}\n\n{event}".lstrip()
    return f"{asked}\n\n{FORM}"


async def _answered(ask: Callable[[], Awaitable[str]]) -> Outcome:
    return Outcome(answer=await ask())
