"""What the tests of the shell reader ask of a script."""

import posixpath

from holdfast.logic.acts import Ground, Script
from holdfast.logic.shell import read_command

GROUND = Ground(cwd="/repo", home="/home/u", roots=("/repo",))


def is_free(text: str, ground: Ground = GROUND) -> bool:
    """Whether a command only reads, in the workspace, for certain: what a policy may allow without a rule."""
    script = read_command(text, ground)
    if script.problem:
        return False
    for command in script.commands:
        if command.does != "reads" or command.steers or command.opaque or command.network:
            return False
        for access in command.accesses:
            path = posixpath.normpath(access.path) if access.known else ""
            if path == "/dev/null":
                continue
            if access.kind in ("write", "remove") or not (path == "/repo" or path.startswith("/repo/")):
                return False
    return True


def programs(script: Script) -> set[str]:
    """The base names of every program at any layer."""
    heads = (layer.words[0] for command in script.commands for layer in command.layers if layer.words)
    return {head.rpartition("/")[2] for head in heads if head is not None}


def is_sure(script: Script) -> bool:
    """Whether nothing about a script is said to be uncertain."""
    return not script.problem and not any(command.opaque or command.steers for command in script.commands)
