"""Fetch one commit of an untrusted repository: without a shell, hooks, submodules, filters, helpers or questions."""

import os
import resource
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio

from backstay.plugins.install.sources import GitSource
from backstay.plugins.tree import TreeLimits
from backstay.sandbox.git import git_environment
from backstay.system.programs import run_program
from backstay.vocab.env_keys import without_keys, without_loading
from backstay.vocab.errors import UserError

DEADLINE_S: Final = 120.0
"""Seconds that one git command may take."""
MOST_BYTES: Final = 512 * 1024 * 1024
"""Bytes that one file that git writes may have."""
CHECKOUT: Final = TreeLimits(files=100_000, total=2 * 1024**3)
"""Limits of one commit: more than those of a marketplace, since a plugin may be one folder of many."""
_MOST_WORDS: Final = 64 * 1024
_KEPT: Final = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH")
"""Variables of git that set certificates, and run nothing."""


async def fetch_commit(
    source: GitSource,
    target: Path,
    *,
    local: bool = True,
    deadline_s: float = DEADLINE_S,
    limits: TreeLimits = CHECKOUT,
) -> str:
    """Fetch the files of a repository into the new folder `target`; return their commit.

    `local`: a repository of this machine is meant, or may be. Raise `UserError` when it cannot be fetched, is not the commit that was
    pinned, or would be more files and bytes than `limits` allow.
    """
    await anyio.Path(target).mkdir(mode=0o700)
    protocols = "https:http:ssh:file" if local else "https:http:ssh"
    await _git(["init", "--quiet", "--template=", "."], target, protocols, deadline_s)
    wanted = source.sha or source.ref or "HEAD"
    flags = ["--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"]
    await _git(["fetch", *flags, "--", source.url, wanted], target, protocols, deadline_s)
    listing = _Listing(source.url, limits)
    await _git(["ls-tree", "-r", "-l", "-z", "FETCH_HEAD"], target, protocols, deadline_s, listing=listing)
    await _git(
        ["checkout", "--quiet", "--detach", "--no-recurse-submodules", "FETCH_HEAD"], target, protocols, deadline_s
    )
    commit = (await _git(["rev-parse", "--verify", "HEAD"], target, protocols, deadline_s)).strip()
    if source.sha and commit != source.sha:
        raise UserError(f"{source.url!r} has {commit} where {source.sha} is pinned. It is refused.")
    return commit


class _Listing:
    """Counts what git lists of a commit: a repository of some kilobytes can be an endless checkout."""

    def __init__(self, url: str, limits: TreeLimits) -> None:
        self._url, self._limits = url, limits
        self._rest = b""
        self._files = self._size = 0

    def take(self, piece: bytes) -> bool:
        """Take the next piece of the list; return whether it is within the limits."""
        *lines, self._rest = (self._rest + piece).split(b"\0")
        for line in lines:
            size = line.partition(b"\t")[0].split(b" ")[-1]
            self._files += 1
            self._size += int(size) if size.isdigit() else 0
        return not self.problem

    @property
    def problem(self) -> str:
        """Why the commit is too large; empty while it is not."""
        most = self._limits
        if self._files <= most.files and self._size <= most.total and len(self._rest) <= _MOST_WORDS:
            return ""
        words = f"{most.files:,} files or {most.total // 1024**2:,} MiB"
        return f"{self._url!r} has more than {words} in this commit. It is refused."


async def _git(
    arguments: list[str], folder: Path, protocols: str, deadline_s: float, *, listing: _Listing | None = None
) -> str:
    command = [_program(), "--no-pager", "-c", "core.symlinks=true", *arguments]
    try:
        ran = await run_program(
            command,
            cwd=folder,
            env=_environment(folder, protocols),
            most=_MOST_WORDS,
            deadline_s=deadline_s,
            limits={resource.RLIMIT_FSIZE: MOST_BYTES},
            take=listing.take if listing is not None else None,
        )
    except TimeoutError:
        raise UserError(
            f"git {arguments[0]} took longer than {deadline_s:g} s. {_repository_hint(arguments)}"
        ) from None
    except OSError as exc:
        raise UserError(f"git cannot be started: {exc}.") from exc
    if listing is not None and listing.problem:
        raise UserError(listing.problem)
    if ran.code:
        words = ran.err.decode("utf-8", "replace").strip().splitlines()
        raise UserError(
            f"git {arguments[0]} failed: {words[-1] if words else f'exit code {ran.code}'}. {_repository_hint(arguments)}"
        )
    return ran.out.decode("utf-8", "replace")


def _environment(folder: Path, protocols: str) -> dict[str, str]:
    own = {
        name: value
        for name, value in without_loading(without_keys(os.environ)).items()
        if not name.startswith("GIT_") or name in _KEPT
    }
    return {
        **own,
        **git_environment(),
        "GIT_ALLOW_PROTOCOL": protocols,
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    }


def _program() -> str:
    """Return the path of git: the system's own first, since a workspace may be on PATH."""
    found = shutil.which("git", path="/usr/bin:/bin:/usr/local/bin") or shutil.which("git")
    if found is None or not os.path.isabs(found):
        raise UserError("There is no git on this machine. Install it, then try again.")
    return found


def _repository_hint(arguments: list[str]) -> str:
    """Name the repository that was asked, if one was."""
    if "--" not in arguments:
        return ""
    url = arguments[arguments.index("--") + 1]
    hint = " A private repository is reached over ssh." if urlsplit(url).scheme in ("http", "https") else ""
    return f"The repository is {url!r}.{hint}"
