"""What git ignores below a folder: the only files, besides git's own, that a tree leaves out by choice."""

import os
from typing import Final

from backstay.vocab.errors import UserError
from backstay.workspaces.git import run_git

DEADLINE_S: Final = 10.0
"""How long git may think about it."""


async def ignored(folder: str) -> frozenset[bytes]:
    """Paths below `folder`, from it on, that git ignores; a folder stands for everything in it.

    Files that git tracks are not ignored, whatever the patterns say. Where there is no repository, no git or no answer, nothing is. The
    repository's own programs do not run (`run_git`), and a repository inside another one is asked nothing.
    """
    args = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", ".")
    try:
        found = await run_git(args, folder, deadline_s=DEADLINE_S)
    except UserError:
        return frozenset()
    if found.code:
        return frozenset()
    names = found.out.split(b"\0")[:-1]  # what follows the last NUL is nothing, or a name that was cut off
    return frozenset(_wholly(names))


def _wholly(names: list[bytes]) -> list[bytes]:
    """`names` without the folders of which only some files are ignored: git lists those right after the folder itself."""
    folders = {name for name in names if name.endswith(b"/")}
    partly = {above for name in names for above in _above(name) if above in folders}
    return [os.path.normpath(name) for name in names if name not in partly]


def _above(name: bytes) -> list[bytes]:
    parts = name.rstrip(b"/").split(b"/")[:-1]
    return [b"/".join(parts[:length]) + b"/" for length in range(1, len(parts) + 1)]
