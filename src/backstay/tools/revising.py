"""Changing a file by what it holds: read and replaced while it is held, so that no change of anybody is lost."""

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio.to_thread
from msgspec import Struct

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.files import Refused, Target, in_words, target_of
from backstay.tools.holding import Overtaken, hold
from backstay.vocab.event_tools import FileSeen

TRIES: Final = 5
"""How often a change is made again on the new content when a program that takes no lock was faster."""

HAD_CHANGED: Final = "The file had changed since you last saw it; the change was made to its present content."


class Rewritten(Struct, frozen=True):
    """The new content, and what to say of it."""

    content: bytes
    text: str


Rewrite = Callable[[Target, bytes], Rewritten]
"""Makes the new content from the present one; raises `Refused` when it cannot."""


async def revise(context: ToolContext, file_path: str, rewrite: Rewrite) -> ToolOutput:
    """Change an existing file with `rewrite` and tell the session which version it has now."""
    try:
        target = target_of(context, file_path)
        work = partial(_revise, target, context.seen(target.place), rewrite)
        text, version = await anyio.to_thread.run_sync(work)
    except Refused as refused:
        return refused.output
    context.note(FileSeen(path=target.place, version=version))
    return ToolOutput(text=text)


def _revise(target: Target, seen: str, rewrite: Rewrite) -> tuple[str, str]:
    for left in reversed(range(TRIES)):
        try:
            return _revise_once(target, seen, rewrite)
        except Overtaken:
            if not left:
                raise
        except OSError as exc:
            raise in_words(target.shown, exc) from exc
    raise AssertionError


def _revise_once(target: Target, seen: str, rewrite: Rewrite) -> tuple[str, str]:
    with hold(target) as held:
        changed = seen and held.version != seen
        rewritten = rewrite(target, held.read())
        held.replace(rewritten.content)
        text = f"{rewritten.text}\n{HAD_CHANGED}" if changed else rewritten.text
        return text, held.version
