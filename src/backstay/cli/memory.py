"""`backstay memory`: show what a project remembers, add to it, and approve or reject what a model proposed."""

from pathlib import Path

import click

from backstay.cli import output
from backstay.cli.shared_options import as_json, with_folder
from backstay.config.person import who_runs
from backstay.logic.text import show_invisible
from backstay.memory.command import memory_command
from backstay.memory.memory import Memory
from backstay.system.folders import project_root
from backstay.system.machine import SystemClock
from backstay.vocab.event import By


@click.group("memory")
def command() -> None:
    """Show and change what this project remembers: .backstay/memory, plain files that you can read and edit.

    \b
    backstay memory add project/build "Run make check before a commit."
    backstay memory list
    backstay memory pending          what a model has proposed
    """


@command.command("list")
@as_json
@with_folder
def list_memories(cwd: Path, as_json: bool) -> int:
    """Show the index, newest first, and the names of the topics.

    \b
    backstay memory list --json
    """
    return _answer(cwd, "list", as_json=as_json)


@command.command()
@click.argument("topic")
@as_json
@with_folder
def show(cwd: Path, topic: str, as_json: bool) -> int:
    """Show one topic.

    \b
    backstay memory show build
    """
    return _answer(cwd, f"show {topic}", as_json=as_json)


@command.command()
@click.argument("words", nargs=-1, required=True, metavar="[TYPE/TOPIC] TEXT")
@as_json
@with_folder
def add(cwd: Path, words: tuple[str, ...], as_json: bool) -> int:
    """Remember one line. Types are user, feedback, project (unless said) and reference; the topic is general unless said.

    \b
    backstay memory add "The staging database is read-only."
    backstay memory add feedback/style "Short commit messages, please."

    Passwords, keys, card numbers and the like are refused: a memory goes into every later session.
    """
    return _answer(cwd, f"add {' '.join(words)}", as_json=as_json)


@command.command()
@as_json
@with_folder
def pending(cwd: Path, as_json: bool) -> int:
    """Show what was proposed and waits for you. Nothing of it is used before you approve it.

    \b
    backstay memory pending --json
    """
    return _answer(cwd, "pending", as_json=as_json)


@command.command()
@click.argument("memory", metavar="ID")
@as_json
@with_folder
def approve(cwd: Path, memory: str, as_json: bool) -> int:
    """Keep what was proposed.

    \b
    backstay memory approve mem_0123456789ab
    """
    return _answer(cwd, f"approve {memory}", as_json=as_json)


@command.command()
@click.argument("memory", metavar="ID")
@click.argument("why", nargs=-1)
@as_json
@with_folder
def reject(cwd: Path, memory: str, why: tuple[str, ...], as_json: bool) -> int:
    """Turn a proposal down. The same text is not proposed again.

    \b
    backstay memory reject mem_0123456789ab "That was only for today."
    """
    return _answer(cwd, f"reject {memory} {' '.join(why)}", as_json=as_json)


@command.command()
@as_json
@with_folder
def path(cwd: Path, as_json: bool) -> int:
    """Print the folder of this project's memory.

    \b
    cat "$(backstay memory path)/MEMORY.md"
    """
    folder = _memory(cwd, "user").path
    if as_json:
        output.print_json({"path": str(folder), "exists": folder.is_dir()})
    else:
        output.print_line(output.escape_line(str(folder)))
    return 0


def _answer(cwd: Path, args: str, *, as_json: bool) -> int:
    by = who_runs()
    answer = memory_command(_memory(cwd, by), args, by)
    if as_json:
        output.print_json({"success": answer.success, "message": answer.message, **answer.data})
    elif answer.success:
        output.print_line(show_invisible(answer.message))
    else:
        output.warn(output.escape_line(answer.message.replace(": /memory ", ": backstay memory ")))
    return 0 if answer.success else output.COULD_NOT


def _memory(cwd: Path, by: By) -> Memory:
    return Memory(project_root(cwd.absolute()), clock=SystemClock(), trusted=by == "user")
