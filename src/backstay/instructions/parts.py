"""The parts that instructions are made of: their names, their order, their limits and where they come from."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from backstay.instructions.inputs import KIB, PART_LIMIT, Listed
from backstay.instructions.safe_reader import TextFile
from backstay.logic.text import Mark, attribute, defuse, one_line, opening_mark
from backstay.vocab import events

TOTAL_LIMIT: Final = 256 * KIB
"""Bytes of all parts together."""
LISTING_SHARE: Final = 0.01
"""Of the context window: what the list of skills may take; a list of agents or commands likewise."""
LEAST_LISTING: Final = 2_000
"""Bytes that a list may take however small the window is."""


class PartKind(Struct, frozen=True, kw_only=True):
    """One kind of part."""

    name: str
    title: str
    """Its heading; empty for the one that needs none."""
    limit: int
    """Bytes."""
    sources: str
    """Its origin, in words."""
    about: str


KINDS: Final[tuple[PartKind, ...]] = (
    PartKind(
        name="base",
        title="",
        limit=TOTAL_LIMIT,
        sources="Backstay, or `--system-prompt`, which replaces everything but `append`",
        about="How to work: read first, do what was asked, check it, say what was not done.",
    ),
    PartKind(
        name="agent-instructions",
        title="Agent instructions",
        limit=PART_LIMIT,
        sources="`AGENTS.md` of each folder from the project's root to the working folder; where there is one, "
        "`AGENTS.override.md` instead",
        about="What the project tells every agent.",
    ),
    PartKind(
        name="project-notes",
        title="Project notes",
        limit=PART_LIMIT,
        sources="`CLAUDE.md`, `.claude/CLAUDE.md`, `.claude/rules/**/*.md`, `CLAUDE.local.md` of the same folders",
        about="The project's notes. Rules with `paths` are named with their patterns, to be read when a file there is worked on.",
    ),
    PartKind(
        name="person",
        title="The person's own instructions",
        limit=PART_LIMIT,
        sources="`~/.config/backstay/AGENTS.md`, `~/.claude/CLAUDE.md`, `~/.claude/rules/**/*.md`",
        about="What the person tells every session.",
    ),
    PartKind(
        name="memory",
        title="Project memory",
        limit=28 * KIB,
        sources="the index of the project's memory, `.backstay/memory/MEMORY.md`",
        about="What was remembered, as data: it may be old or wrong.",
    ),
    PartKind(
        name="tasks",
        title="Active task context",
        limit=12 * KIB,
        sources="`.agents/tasks/*.md` (`taskContext.dir`), without README and what is completed",
        about="Tasks of the current branch first, then those in progress, to do, and unknown; at most five.",
    ),
    PartKind(
        name="working-directory",
        title="Working directory",
        limit=4 * KIB,
        sources="the session, `.git/HEAD`",
        about="The folder, the repository and its branch, the system, the date and the model.",
    ),
    PartKind(
        name="project",
        title="Current project",
        limit=2 * KIB,
        sources="`package.json`, `pyproject.toml`, `setup.py`, `Cargo.toml`, `go.mod` and lock files",
        about="Name, type, language and package manager of the innermost folder that has any.",
    ),
    PartKind(
        name="language",
        title="Response language",
        limit=KIB // 4,
        sources="the setting `language`",
        about="The language that the person would like to read.",
    ),
    PartKind(
        name="permission-mode",
        title="Permission mode",
        limit=KIB,
        sources="the session",
        about="What runs without a question, so that no call waits in vain.",
    ),
    PartKind(
        name="skills",
        title="Skills",
        limit=64 * KIB,
        sources="the skills that the model may use: name and description",
        about="1,536 characters each and 1 % of the context window in all; the rest is named only.",
    ),
    PartKind(
        name="agents",
        title="Agents",
        limit=64 * KIB,
        sources="the agents that the model may start: name and description",
        about="Within the same share as the skills.",
    ),
    PartKind(
        name="commands",
        title="Commands",
        limit=64 * KIB,
        sources="the commands that the model may use: name and description",
        about="Within the same share as the skills.",
    ),
    PartKind(
        name="append",
        title="",
        limit=TOTAL_LIMIT,
        sources="`--append-system-prompt`",
        about="What the person adds at the end.",
    ),
)
"""Every part there can be, in the order in which the model sees them. An empty one is left out."""

KIND: Final[Mapping[str, PartKind]] = {kind.name: kind for kind in KINDS}


class Part(Struct, frozen=True, kw_only=True):
    """A part as the model gets it."""

    name: str
    title: str
    text: str
    sources: tuple[str, ...] = ()
    """Its files."""
    cut: bool = False
    """Whether the limit cut it."""
    limit: int = 0

    @property
    def size(self) -> int:
        """Bytes of the text."""
        return len(self.text.encode())

    @property
    def whole(self) -> str:
        """The text under its heading."""
        return f"## {self.title}\n\n{self.text}" if self.title else self.text

    def record(self, sha256: str) -> events.InstructionPart:
        """Return the part as an event names it."""
        return events.InstructionPart(name=self.name, sources=self.sources, sha256=sha256, size=self.size, cut=self.cut)


LONGEST: Final = 1_536
"""Characters of a description."""
LONGEST_NAME: Final = 100
_BYTES_A_TOKEN: Final = 4
_REST: Final = "Also, by name only: "
_MORE: Final = " and {:,} more"


def listing_limit(window: int) -> int:
    """Return the bytes that a list may take in a context of `window` tokens."""
    return max(LEAST_LISTING, int(window * LISTING_SHARE * _BYTES_A_TOKEN))


def listing(entries: Sequence[Listed], limit: int) -> tuple[str, bool]:
    """Return a list of the entries within `limit` bytes, and whether anything was left out.

    Each entry has a line with its description, in order, while there is room; the names of the rest stand together behind them.
    """
    if not entries:
        return "", False
    names = [_line(entry.name, LONGEST_NAME) for entry in entries]
    sizes = [len(name.encode()) + 2 for name in names]
    room = limit - len(_REST) - len(_MORE) - 12
    rest, half = sum(sizes), room // 2
    kept: list[str] = []
    cut = False
    for entry, name, size in zip(entries, names, sizes, strict=True):
        line, shortened = _describe(name, entry)
        rest -= size
        room -= len(line.encode()) + 1
        if room < min(
            rest, half
        ):  # the names of the rest must fit too, but a long list of names leaves half to descriptions
            room += len(line.encode()) + 1
            break
        kept.append(line)
        cut = cut or shortened
    if len(kept) == len(entries):
        return "\n".join(kept), cut
    return "\n".join((*kept, _list_names(names[len(kept) :], room))), True


def _list_names(names: Sequence[str], room: int) -> str:
    shown = 0
    while shown < len(names) and (room := room - len(names[shown].encode()) - 2) >= 0:
        shown += 1
    more = _MORE.format(len(names) - shown) if shown < len(names) else ""
    return f"{_REST}{', '.join(names[:shown])}{more}."


def _describe(name: str, entry: Listed) -> tuple[str, bool]:
    about = _line(entry.description, LONGEST)
    return (f"- {name}: {about}" if about else f"- {name}"), about.endswith("…") and len(entry.description) > LONGEST


def _line(text: str, longest: int) -> str:
    """Return a text as one harmless line."""
    return defuse(one_line(text, longest))


_CUT: Final = "\n[cut here: {} bytes in all; read the file for the rest]"
_LONGEST_CUT: Final = len(_CUT) + 20
_LEAST_CUT: Final = 400
"""Bytes of a file that are worth showing."""
_NAMES: Final = 400
"""Bytes kept for the names of files for which there is no room."""


class Fitted(Struct, frozen=True, kw_only=True):
    """A text within its limit."""

    text: str = ""
    cut: bool = False
    sources: tuple[str, ...] = ()


def fit_files(files: Sequence[TextFile], limit: int, *, untrusted: bool, ahead: str = "", after: str = "") -> Fitted:
    """Join the texts of `files`, each between tags, between the words `ahead` and `after`, within `limit` bytes."""
    blocks = [_frame(file, untrusted=untrusted) for file in files]
    texts = [defuse(file.text.strip("\n")) for file in files]
    around = [_size(head) + _size(tail) + 2 + _LONGEST_CUT for head, tail in blocks]
    room = limit - _size(ahead) - _size(after) - 4 - _NAMES
    shown = len(files)
    while shown and room - sum(around[:shown]) < min(_LEAST_CUT * shown, sum(map(_size, texts[:shown]))):
        shown -= 1
    shares = fair_shares([_size(text) for text in texts[:shown]], max(0, room - sum(around[:shown])))
    pieces = [ahead] if ahead else []
    cut = shown < len(files)
    for index in range(shown):
        text = texts[index]
        if shares[index] < _size(text) or files[index].cut:
            cut = True
            text = clip_bytes(text, shares[index]) + _CUT.format(f"{files[index].size:,}")
        pieces.append(f"{blocks[index][0]}{text}{blocks[index][1]}")
    if shown < len(files):
        pieces.append(_names([file.shown for file in files[shown:]]))
    if after:
        pieces.append(after)
    return Fitted(text="\n\n".join(pieces), cut=cut, sources=tuple(str(file.path) for file in files[:shown]))


def fit_text(text: str, limit: int) -> Fitted:
    """Cut `text` to `limit` bytes."""
    if _size(text) <= limit:
        return Fitted(text=text)
    mark = "\n[cut here: there is more]"
    return Fitted(text=clip_bytes(text, max(0, limit - len(mark))) + mark, cut=True)


def fair_shares(sizes: Sequence[int], room: int) -> list[int]:
    """Divide `room`: each gets all it needs, while none with less gets less than it needs."""
    shares = [0] * len(sizes)
    waiting = sorted(range(len(sizes)), key=lambda index: (sizes[index], index))
    for done, index in enumerate(waiting):
        shares[index] = min(sizes[index], room // (len(sizes) - done))
        room -= shares[index]
    return shares


def clip_bytes(text: str, most: int) -> str:
    """Return the first `most` bytes of a text, up to the end of a line where one is near."""
    head = text.encode()[:most].decode("utf-8", "ignore")
    if len(head) == len(text):
        return text
    end = head.rfind("\n")
    return head[:end] if end > len(head) // 2 else head


def _frame(file: TextFile, *, untrusted: bool) -> tuple[str, str]:
    mark: Mark = "strangers-file" if untrusted else "file"
    by = {"imported-by": file.imported_by} if file.imported_by else {}
    return f"{opening_mark(mark, {'path': file.shown, **by})}\n", f"\n</{mark}>"


def _names(names: Sequence[str]) -> str:
    said = ", ".join(attribute(name) for name in names)
    more = f"[no room for {len(names)} more: {said}"
    return clip_bytes(more, _NAMES - 20) + (" ...]" if _size(more) > _NAMES - 20 else "]")


def _size(text: str) -> int:
    return len(text.encode())
