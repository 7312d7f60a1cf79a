"""What is piped in beside a prompt: `git diff | backstay -p "Review this."`."""

import os
import select
import stat
import sys
from typing import Final

import click

from backstay.cli import telling
from backstay.view.taking import is_command

LONGEST_PROMPT: Final = 10 * 1024 * 1024
"""Bytes that are read from standard input as one prompt."""
PATIENCE_S: Final = 1.0
"""Seconds that a pipe may stay silent: many programs leave one open that nobody writes to."""


def whole_input(ctx: click.Context) -> str:
    """Standard input to its end, as text."""
    content = sys.stdin.buffer.read(LONGEST_PROMPT + 1)
    if len(content) > LONGEST_PROMPT:
        raise click.UsageError(f"The prompt has more than {LONGEST_PROMPT} bytes. Put it into a file.", ctx)
    return content.decode("utf-8", "replace")


def with_piped(ctx: click.Context, prompt: str) -> str:
    """`prompt` after what is piped in, with a blank line between them; a command takes it as its arguments."""
    try:
        text = whole_input(ctx).rstrip("\n") if _brings_something() else ""
    except OSError as exc:
        raise click.UsageError(
            f"Standard input cannot be read: {exc.strerror}. `< /dev/null` says that there is nothing.", ctx
        ) from exc
    if not text.strip():
        return prompt
    if is_command(prompt):
        return f"{prompt}{chr(10) * 2 if ' ' in prompt else ' '}{text}"
    return f"{text}\n\n{prompt}"


def _brings_something() -> bool:
    """Whether standard input is a file, or a pipe in which something is; a silent one is said."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):  # there is none
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):  # some programs make their pipes of sockets
        return stat.S_ISREG(mode)
    if select.select([descriptor], [], [], PATIENCE_S)[0]:
        return True
    telling.complain(
        f"Standard input is an open pipe, and nothing came for {PATIENCE_S:g} second: it is not read. "
        "`< /dev/null` says that there is nothing."
    )
    return False
