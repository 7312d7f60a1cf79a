"""Fire hooks from performers: around a compaction, around a subagent, and at the end of the session."""

from typing import Final

import anyio

from backstay.hooks.gates import hook_intent
from backstay.hooks.merge import finish_unanswered
from backstay.runtime.services import HookWaiter, Services
from backstay.vocab import events

PATIENCE_S: Final = 5.0
"""How long to wait for handlers beyond their own time: their processes may have to be killed."""


async def fire_and_wait(
    services: Services, event: str, subject: str, *, matcher_value: str = "", args: str = ""
) -> events.HookFinished | None:
    """Run the handlers of `event` and return their verdict; None when there are none. The log has it like any other.

    Handlers that do not answer in time, and those whose answer came too late to be taken, give the verdict of `finish_unanswered`.
    """
    draft = hook_intent(services.policy, event, subject, matcher_value=matcher_value, args=args)
    if draft is None:
        return None
    waiting = services.hook_waiters.setdefault((event, subject), HookWaiter())
    await services.inbox.deliver(draft)
    assert isinstance(draft.event, events.HookStarted)
    hooks = services.policy.hooks
    longest = max(hook.timeout for hook in hooks if hook.id in draft.event.handlers)
    with anyio.move_on_after(longest + PATIENCE_S):
        await waiting.done.wait()
    services.hook_waiters.pop((event, subject), None)
    return waiting.verdict or finish_unanswered(draft.event, "hooks did not answer in time", hooks)


async def wait_for_running_hooks(services: Services) -> None:
    """Wait for handlers that are still running, for a while."""
    with anyio.move_on_after(PATIENCE_S):
        while open_hooks := services.state.progress.hooks.open:
            first = open_hooks[0]
            await services.hook_waiters.setdefault((first.event, first.subject), HookWaiter()).done.wait()
            services.hook_waiters.pop((first.event, first.subject), None)


def fire(services: Services, event: str, subject: str, *, matcher_value: str = "") -> None:
    """Run the handlers of `event`, and do not wait for them."""
    draft = hook_intent(services.policy, event, subject, matcher_value=matcher_value)
    if draft is not None:
        services.inbox.post(draft)
