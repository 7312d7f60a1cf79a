"""Sessions whose files are kept, and what a folder holds, for the tests of checkpoints."""

import hashlib
import os
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from backstay.checkpoints.capture import FileCapture
from backstay.checkpoints.walk_tree import NEVER_ENTERED, WalkLimits
from backstay.providers.scripted import ScriptedModel
from backstay.session.assemble import open_session
from backstay.session.session import Session
from tests.contracts.kit import replace_services

Reply = Mapping[str, object]


def call(name: str, **args: object) -> Reply:
    """A tool call of a reply."""
    return {"name": name, "args": args}


def bash(command: str) -> Reply:
    """A call of `Bash`."""
    return call("Bash", command=command)


def turn(*calls: Reply) -> list[Reply]:
    """The replies of one turn that makes `calls`."""
    return [{"calls": [each]} for each in calls] + [{"text": "Done."}]


@asynccontextmanager
async def kept_session(
    folder: Path, replies: Sequence[Reply] = (), *, limits: WalkLimits | None = None, **more: Any
) -> AsyncIterator[Session]:
    """A session in `folder` that may do everything and whose files are kept."""
    known = {"permission_mode": "bypassPermissions", "cwd": folder, "store": "memory:"}
    async with open_session(**{"model": ScriptedModel.of(list(replies)), **known, **more}) as session:
        replace_services(session, files=FileCapture(session._services, (str(folder),), limits=limits or WalkLimits()))
        yield session


def tree_of(folder: Path) -> dict[str, str]:
    """Everything below `folder` that a restore answers for: contents, modes, links, empty folders."""
    found: dict[str, str] = {}
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name.encode() not in NEVER_ENTERED]
        for name in (*folders, *files):
            path = os.path.join(here, name)
            facts = os.lstat(path)
            shown = os.path.relpath(path, folder)
            if stat.S_ISLNK(facts.st_mode):
                found[shown] = f"link {os.readlink(path)}"
            elif stat.S_ISDIR(facts.st_mode):
                found[shown] = f"folder {facts.st_mode & 0o7777:o}"
            else:
                found[shown] = f"file {facts.st_mode & 0o7777:o} {hashlib.sha256(Path(path).read_bytes()).hexdigest()}"
    return found
