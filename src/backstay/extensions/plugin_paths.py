"""Paths that a plugin or a marketplace names: always below its own folder, however they are written and wherever links lead."""

import os
from pathlib import Path, PurePosixPath

from backstay.vocab.errors import UserError


class PathRefused(UserError):
    """A path that leaves the folder it must stay in."""

    code = "Extensions.PathRefused"


def contained(folder: Path, written: str, what: str = "the plugin's folder") -> Path:
    """The path below `folder` that `written` means. Raise `PathRefused` when it leaves the folder, `UserError` when it is not there."""
    if not written or "\0" in written or "\\" in written:
        raise PathRefused(f"The path {written!r} cannot be used. Write it with '/', beginning with './'.")
    parts = PurePosixPath(written)
    if parts.is_absolute() or ".." in parts.parts or written.startswith("~"):
        raise PathRefused(f"The path {written!r} leaves {what} and is refused.")
    path = folder.joinpath(*parts.parts)
    if not is_inside(folder, path):
        raise PathRefused(f"The path {written!r} leads out of {what} by a link and is refused.")
    try:
        there = path.exists()
    except OSError as exc:  # a name that is too long, or a folder on the way that may not be entered
        raise UserError(f"The path {written[:200]!r} cannot be used: {exc.strerror}.") from None
    if not there:
        raise UserError(f"The path {written!r} is not in {what}.")
    return path


def is_inside(folder: Path, path: Path) -> bool:
    """Whether `path` is `folder` or below it when every link is followed."""
    top, real = os.path.realpath(folder), os.path.realpath(path)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)
