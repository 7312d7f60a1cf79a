"""Events of the files of a workspace: what was there before they were changed, and what was put back."""

from typing import Literal

import msgspec

from backstay.vocab.event import Event

EntryKind = Literal["file", "link", "folder", "absent"]


class FileKept(Event, frozen=True, kw_only=True):
    """What a path held before the first change of a turn. Durable before the change is made."""

    path: str
    """Absolute, every link on the way followed."""
    kind: EntryKind
    sha256: str = ""
    """Of a file's content, which is a blob; empty when the content could not be kept."""
    target: str = ""
    """Where a link leads."""
    mode: int = 0
    version: str = ""
    """Of a file, as `FileSeen` has it."""
    call: str = ""
    """The call that is about to change it; empty when files are about to be put back."""


class ContentsKept(Event, frozen=True, kw_only=True):
    """Contents of files became blobs. The tree that lists them follows; it can be larger than one commit should be."""

    blobs: tuple[str, ...]


class TreeKept(Event, frozen=True, kw_only=True):
    """What the whole workspace held, before programs that could change any of it, or before files were put back."""

    root: str
    tree: str = ""
    """Hash of the blob that lists the entries; empty when nothing was kept."""
    files: int = 0
    size: int = 0
    problem: str = ""
    """Why nothing was kept: then changes by programs cannot be undone."""
    call: str = ""


class RestoreStarted(Event, frozen=True, kw_only=True):
    """Intent: put files back as they were at an earlier point. Doing it again changes nothing more.

    What `TreeKept` and `FileKept` without a call say right before it is what the files held until then: the way back.
    """

    to: str
    """The id of the event after which the files were so; empty for the beginning of the log."""
    plan: str
    """Hash of the blob that lists what is written and removed."""
    files: int = 0
    undoes: str = ""
    """The id of the restore that `undo="latest"` takes back with it; empty for every other restore."""


class FileProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was left as it is."""

    path: str
    problem: str


class RestoreFinished(Event, frozen=True, kw_only=True):
    """The files are as the plan says, but for those with problems."""

    written: int = 0
    removed: int = 0
    problems: tuple[FileProblem, ...] = ()


class CheckpointsPurged(Event, frozen=True, kw_only=True):
    """What was kept up to here is given up: no file can be put back to a point before this."""
