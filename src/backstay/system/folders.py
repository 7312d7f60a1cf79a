"""Find the project root and Backstay's data folder."""

import os
import re
import stat
from pathlib import Path
from typing import Final


def project_root(cwd: Path) -> Path:
    """Return the git root above `cwd`, else `cwd` itself."""
    for folder in (cwd, *cwd.parents):
        if (folder / ".git").exists():
            return folder
    return cwd


def data_dir() -> Path:
    """Return the folder of sessions: `BACKSTAY_DATA_DIR`, else one under the user's data folder."""
    if given := os.environ.get("BACKSTAY_DATA_DIR"):
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().absolute() / "backstay"


def bytecode_environment() -> dict[str, str]:
    """Return the variable with which Python keeps its bytecode in the data folder.

    Python runs what it finds in `__pycache__` instead of the source beside it, which is all that a person has seen and trusted.
    """
    return {"PYTHONPYCACHEPREFIX": str(data_dir() / "pycache")}


_HEAD: Final = re.compile(r"ref: refs/[^\s\x00-\x20]+|[0-9a-f]{40,64}")


def git_ref(root: Path) -> str | None:
    """Return the branch or commit that `root` is on, from git's own file; None outside a repository."""
    try:
        handle = os.open(root / ".git" / "HEAD", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:  # an untrusted repository may have anything there
        regular = stat.S_ISREG(os.fstat(handle).st_mode)
        head = os.read(handle, 4096).decode("utf-8", "replace").strip() if regular else ""
    except OSError:
        return None
    finally:
        os.close(handle)
    return head.removeprefix("ref: refs/heads/") if _HEAD.fullmatch(head) else None
