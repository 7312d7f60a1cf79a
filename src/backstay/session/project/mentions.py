"""Resolve the `@` mentions of a prompt: put files of the workspace and resources of servers behind its text.

Only what the person typed is looked at, never what a mentioned file says. A word that is no file stays a word. What cannot be had is
noted and left out; the prompt goes on without it.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import anyio
import anyio.to_thread
from msgspec import Struct

from backstay.logic.stored_content import LONG
from backstay.logic.text import Mark, frame
from backstay.skills.includes import FileInclusion, Inclusion
from backstay.skills.render import Judged
from backstay.vocab.errors import UserError

if TYPE_CHECKING:
    from backstay.ports import ToolOutput
    from backstay.session.project.project_context import ProjectContext

MOST: Final = 8
"""Files and resources of one prompt."""
LARGEST: Final = 64 * 1024
"""Bytes of one of them."""
LARGEST_TOGETHER: Final = 256 * 1024
SECONDS: Final = 20.0
"""Time for one resource of a server."""
MOST_WORDS: Final = 200
"""Words with an `@` that are looked at; a pasted file full of decorators has more."""

_WORD: Final = re.compile(r"(?:^|(?<=[\s(\[{<]))@([^\s)\]}>\"'`]+)")
_ENDINGS: Final = ".,:;!?"
_MEANT: Final = ("./", "../", "/", "~/")
"""How a word begins that can only be meant as a path."""


class InclusionJudge(Protocol):
    """Judges what is to be put in as the policy judges a call, and reads it."""

    async def judge(self, inclusion: Inclusion) -> Judged:
        """Return the policy's verdict."""

    async def fetch(self, inclusion: Inclusion) -> str | None:
        """Return the text; None for a file that is not there. Raise `UserError` when it cannot be read."""


class Resources(Protocol):
    """The servers whose resources can be mentioned."""

    def find_mention(self, text: str) -> tuple[str, str] | None:
        """Return the server and the address that `@server:uri` means."""

    async def read(self, server: str, uri: str) -> "ToolOutput":
        """Read a resource."""


class Mentions(Struct, frozen=True, kw_only=True):
    """The mentions of a prompt, resolved."""

    block: str = ""
    """What goes to the model behind the prompt; empty when there is nothing to add."""
    notes: tuple[str, ...] = ()
    """What the person should know: what could not be had, and why."""
    servers: tuple[str, ...] = ()
    """Those whose words are in the block."""


async def read_mentions(project: "ProjectContext", text: str) -> Mentions:
    """Read what `text` mentions, for the session of `project`: judged as its policy judges a call of Read."""
    services = project._bound().services
    roots = services.policy.call_site.roots or (services.cwd,)
    found = await read_mentioned(text, project.inclusions, project.servers, cwd=services.cwd, roots=roots)
    if found.servers:
        await project.record_untrusted_input(", ".join(found.servers))
    return found


async def read_mentioned(
    text: str, inclusions: InclusionJudge | None, resources: Resources | None, *, cwd: str, roots: tuple[str, ...]
) -> Mentions:
    """Read what `text` mentions, within the bounds. Raises nothing for what cannot be had.

    Without `inclusions` no file is read. A file must lie below one of `roots`, links followed.
    """
    if "@" not in text:
        return Mentions()
    words = tuple(dict.fromkeys(_words(text)))
    if not words:
        return Mentions()
    if len(text) > LONG:
        return Mentions(notes=(f"A prompt of more than {LONG:,} characters is sent as it is: no @file of it is read.",))
    found = _MentionReader()
    for word in words:
        server = resources.find_mention(f"@{word}") if resources is not None else None
        if server is not None and resources is not None:
            await found.take_resource(word, *server, resources)
        elif inclusions is not None:
            await found.take_file(word, inclusions, Path(cwd), roots)
    return found.result()


def _words(text: str) -> Iterator[str]:
    for number, found in enumerate(_WORD.finditer(text)):
        word = found[1].rstrip(_ENDINGS)
        if number == MOST_WORDS:
            return
        if word and "\0" not in word:
            yield word


class _Place(NamedTuple):
    """The place that a mention leads to."""

    real: str
    size: int
    why: str
    """Why it cannot be put in; empty when it can."""


class _MentionReader:
    """Collects what the mentions of one prompt bring, in order and within limits."""

    def __init__(self) -> None:
        self._elements: list[str] = []
        self._notes: list[str] = []
        self._seen: set[str] = set()
        self._bytes = 0
        self._servers: dict[str, None] = {}

    def result(self) -> Mentions:
        """Return everything that was found."""
        block = "\n".join(("<file-references>", *self._elements, "</file-references>")) if self._elements else ""
        return Mentions(block=block, notes=tuple(self._notes), servers=tuple(self._servers))

    async def take_file(self, word: str, inclusions: InclusionJudge, cwd: Path, roots: tuple[str, ...]) -> None:
        """Put a file in, if the word is one."""
        place = await anyio.to_thread.run_sync(_resolve, word, cwd, roots)
        if place is None:
            if word.startswith(_MEANT):
                self._note(word, "there is no such file")
            return
        if place.real in self._seen:
            return
        self._seen.add(place.real)
        if why := place.why or self._full(place.size):
            self._note(word, why)
            return
        inclusion = FileInclusion(path=word, line=1)
        judged = await inclusions.judge(inclusion)
        if judged.decision != "allow":
            self._note(word, f"reading it is not allowed without asking: {judged.reason}".rstrip("."))
            return
        try:
            content = await inclusions.fetch(inclusion)
        except UserError as exc:
            self._note(word, str(exc).rstrip("."))
            return
        if content is not None:
            self._add("file", {"path": word}, word, content)

    async def take_resource(self, word: str, server: str, uri: str, resources: Resources) -> None:
        """Put a resource of a server in."""
        if why := self._full(0):
            self._note(word, why)
            return
        output = None
        with anyio.move_on_after(SECONDS):
            output = await resources.read(server, uri)
        if output is None:
            self._note(word, f"the server {server!r} did not answer within {SECONDS:g} seconds")
        elif output.failed:
            self._note(word, f"the server {server!r} does not give it: {output.text[:200]}")
        else:
            self._servers[server] = None
            self._add("resource", {"server": server, "uri": uri}, word, output.text)

    def _add(self, kind: Mark, names: dict[str, str], word: str, content: str) -> None:
        size = len(content.encode("utf-8", "replace"))
        why = "it is no text" if "\0" in content[:8192] else self._too_large(size)
        if why:
            self._note(word, why)
            return
        self._bytes += size
        facts = {**names, "bytes": str(size)}
        self._elements.append(frame(kind, content.removesuffix("\n"), facts))

    def _full(self, size: int) -> str:
        if len(self._elements) >= MOST:
            return f"a prompt may bring {MOST} files along"
        return self._too_large(size)

    def _too_large(self, size: int) -> str:
        if size > LARGEST:
            return f"it has {size:,} bytes, and {LARGEST:,} may be; the model can read it in parts"
        if self._bytes + size > LARGEST_TOGETHER:
            return f"the files of a prompt may have {LARGEST_TOGETHER:,} bytes together"
        return ""

    def _note(self, word: str, why: str) -> None:
        self._notes.append(f"@{word} is sent as it is written: {why}.")


def _resolve(word: str, cwd: Path, roots: tuple[str, ...]) -> "_Place | None":
    """Return where a word leads, links followed; None when nothing is there."""
    try:
        real = os.path.realpath(cwd / Path(word).expanduser())
        found = os.stat(real)
    except (OSError, RuntimeError, ValueError):  # an unknown home folder, or a name that no file can have
        return None
    inside = any(os.path.commonpath((real, root)) == root for root in map(os.path.realpath, roots))
    if stat.S_ISDIR(found.st_mode):
        why = "it is a folder"
    elif not stat.S_ISREG(found.st_mode):
        why = "it is no regular file"
    else:
        why = "" if inside else "it lies outside the workspace"
    return _Place(real, found.st_size, why)
