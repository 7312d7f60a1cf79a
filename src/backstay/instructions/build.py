"""Build the instructions of a session, with what the repository says about itself in its files. No program is run."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field

from backstay.instructions.base_prompt import (
    BASE,
    FOLLOW,
    LANGUAGE,
    LISTS,
    MEMORY,
    MODES,
    NOTES,
    PERSON,
    SCOPED,
    STRANGERS,
)
from backstay.instructions.inputs import InstructionInputs
from backstay.instructions.markdown import sections
from backstay.instructions.notes import Notes, agent_notes, person_notes, project_notes
from backstay.instructions.parts import (
    KIND,
    KINDS,
    TOTAL_LIMIT,
    Fitted,
    Part,
    PartKind,
    clip_bytes,
    fit_files,
    fit_text,
    listing,
    listing_limit,
)
from backstay.instructions.safe_reader import FileReading, TextFile
from backstay.instructions.tasks import find_tasks, frame_tasks, sort_tasks
from backstay.logic.stored_content import digest
from backstay.logic.text import attribute, defuse, frame, one_line
from backstay.system.files import Stamp, has_changed, read_regular
from backstay.vocab import events

LIMIT: Final = 4_096
"""Bytes of all such sections together."""
_HEADINGS: Final = ("compact instructions", "compact instruction", "compaction instructions")


def compact_instructions(files: Iterable[TextFile]) -> str:
    """Return what summaries are to keep, as the notes say it; empty when they say nothing."""
    found = [words for file in files for words in sections(file.text, _HEADINGS) if words]
    return clip_bytes("\n\n".join(dict.fromkeys(found)), LIMIT)


Why = Literal["start", "changed", "compacted", "resumed", "asked"]

_SEPARATOR: Final = "\n\n"
_OF_FILES: Final = ("agent-instructions", "project-notes", "person")
_TOLD_WHEN_CUT: Final = ("base", *_OF_FILES, "memory", "append")
_LEAST: Final = 100
"""Bytes of a part that are worth having."""
_LANGUAGE: Final = re.compile(r"[\w-]{1,24}(?: [\w()-]{1,24}){0,3}")
_MOST_TOLD: Final = 20
"""Problems that an event names."""


class Instructions(Struct, frozen=True, kw_only=True, dict=True):
    """The instructions of a session: its parts, and what was wrong with their sources."""

    parts: tuple[Part, ...]
    """In the order in which the model sees them; none is empty."""
    compact_instructions: str = ""
    """What summaries are to keep, as the notes say it."""
    files: Mapping[str, Stamp] = field(default_factory=dict)
    """Every file and folder that was read, with its stamp; None when it did not exist."""
    problems: tuple[str, ...] = ()
    """What was skipped, with file and line, for the person."""

    @cached_property
    def text(self) -> str:
        """The whole text, as it is sent. The same files give the same bytes."""
        return _SEPARATOR.join(part.whole for part in self.parts)

    @cached_property
    def sha256(self) -> str:
        """Of the whole, in UTF-8: the name of its blob."""
        return digest(self.text.encode())

    def part(self, name: str) -> str:
        """Return the text of a part; empty when there is none."""
        return next((part.text for part in self.parts if part.name == name), "")

    def stale(self) -> bool:
        """Return whether any of the files changed. Then gather again, and compare `sha256`."""
        return has_changed(self.files)

    def event(self, why: Why) -> events.InstructionsRead:
        """Return the event that records them; `text` goes with it as a blob."""
        return events.InstructionsRead(
            sha256=self.sha256,
            parts=tuple(part.record(digest(part.text.encode())) for part in self.parts),
            why=why,
            problems=self.problems[:_MOST_TOLD],
        )


def gather(inputs: InstructionInputs) -> Instructions:
    """Gather the instructions of a session. It reads files and never fails: what cannot be used is among the problems.

    Call it in a thread. For the same place and files it gives the same bytes.
    """
    reading = FileReading(inputs)
    fitted = {
        "base": Fitted(text=(BASE if inputs.system_prompt is None else inputs.system_prompt).strip()),
        "append": Fitted(text=inputs.append.strip()),
    }
    summaries = ""
    if inputs.system_prompt is None:
        branch = branch_of(inputs.paths.repository) if inputs.paths.repository else ""
        fitted["permission-mode"] = Fitted(text=MODES[inputs.mode])
        fitted["working-directory"] = Fitted(text="\n".join(_where(inputs, branch)))
        if not inputs.bare:
            summaries = _from_files(reading, fitted, branch)
            fitted |= _lists(inputs)
    parts = tuple(_bound(fitted, inputs))
    for part in parts:
        if part.cut and part.name in _TOLD_WHEN_CUT:
            reading.add_problem(
                f"{part.name}: There is more than the {part.limit:,} bytes of this part; the rest is cut."
            )
    return Instructions(
        parts=parts, compact_instructions=summaries, files=reading.stamps, problems=tuple(reading.problems)
    )


def _from_files(reading: FileReading, fitted: dict[str, Fitted], branch: str) -> str:
    """Add the parts that come from files; return what the notes say about summaries."""
    inputs = reading.inputs
    own = person_notes(reading)  # first: a file that is both the person's and the project's is the person's
    agents, notes = agent_notes(reading), project_notes(reading)
    untrusted = not inputs.trusted
    limit = inputs.part_limit
    fitted["person"] = _files(own, limit, PERSON, untrusted=False)
    fitted["agent-instructions"] = _files(agents, limit, FOLLOW, untrusted=untrusted)
    fitted["project-notes"] = _files(notes, limit, NOTES, untrusted=untrusted)
    fitted["memory"] = _memory(inputs)
    fitted["tasks"] = _tasks(reading, branch)
    fitted["project"] = Fitted(text="\n".join(_project(reading)))
    fitted["language"] = Fitted(text=_language(reading))
    return compact_instructions((*(() if untrusted else (*agents.files, *notes.files)), *own.files))


def _files(notes: Notes, limit: int, ahead: str, *, untrusted: bool) -> Fitted:
    files = [file for file in notes.files if file.text.strip()]
    if not files and not notes.scoped:
        return Fitted()
    listed = "\n".join(f"- {_shorten(file)}: {_shorten(patterns)}" for file, patterns in notes.scoped)
    scoped = fit_text(listed, limit // 4).text
    if not scoped:
        after = ""
    elif untrusted:
        after = frame("strangers-file", f"Rules for some files only:\n{scoped}")
    else:
        after = f"{SCOPED}\n{scoped}"
    return fit_files(files, limit, untrusted=untrusted, ahead=STRANGERS if untrusted else ahead, after=after)


def _memory(inputs: InstructionInputs) -> Fitted:
    if not inputs.memory.strip():
        return Fitted()
    words = MEMORY if inputs.trusted else STRANGERS
    kept = fit_text(defuse(inputs.memory.strip()), KIND["memory"].limit - len(words.encode()) - 100)
    text = f"{words}\n{frame('project-memory', kept.text)}"
    return Fitted(text=text, cut=kept.cut, sources=(inputs.memory_source,) if inputs.memory_source else ())


def _tasks(reading: FileReading, branch: str) -> Fitted:
    inputs = reading.inputs
    if not inputs.task_context or not inputs.task_folder:
        return Fitted()
    folder = Path(os.path.normpath(inputs.paths.root / inputs.task_folder))
    if not reading.is_inside(os.path.realpath(folder), (inputs.paths.root,)):
        reading.add_problem(f"{inputs.task_folder!r} leads outside of the project; no tasks are read from there.")
        return Fitted()
    tasks = sort_tasks(find_tasks(reading, folder), branch) if reading.stat(folder) is not None else ()
    if not tasks:
        return Fitted()
    text, cut = frame_tasks(tasks, branch, KIND["tasks"].limit - len(STRANGERS) - 1)
    if not inputs.trusted:
        text = f"{STRANGERS}\n{text}"
    return Fitted(text=text, cut=cut, sources=(str(inputs.paths.root / inputs.task_folder),))


def _where(inputs: InstructionInputs, branch: str) -> Iterator[str]:
    yield f"Working folder: {_shorten(str(inputs.paths.cwd))}"
    if inputs.paths.repository is None:
        yield "It belongs to no repository."
    else:
        where = f", branch {_shorten(branch)} when this was written" if branch else ""
        yield f"Repository: {_shorten(str(inputs.paths.repository))}{where}"
    if inputs.folders:
        yield f"Other folders that you may work in: {', '.join(_shorten(str(each)) for each in inputs.folders[:20])}"
    about = (("System", inputs.system), ("Date", inputs.date), ("Model", inputs.model))
    yield from (f"{name}: {_shorten(value)}" for name, value in about if value)


def _project(reading: FileReading) -> Iterator[str]:
    found = detect(reading)
    if not found:
        return
    first = found[0]
    values = (
        ("Name", defuse(first.name)),
        ("Type", first.type),
        ("Language", first.language),
        ("Package manager", first.package_manager),
        ("Also here", ", ".join(each.type for each in found[1:])),
    )
    yield from (f"{name}: {value}" for name, value in values if value)


def _language(reading: FileReading) -> str:
    """Return the language as a few plain words: a project's settings may name one, and nothing else."""
    words = " ".join(reading.inputs.language.split())
    if not words:
        return ""
    if not _LANGUAGE.fullmatch(words):
        reading.add_problem(f"language: {words[:60]!r} is left out: it does not look like a language.")
        return ""
    return LANGUAGE.format(words)


def _lists(inputs: InstructionInputs) -> dict[str, Fitted]:
    limit = listing_limit(inputs.window)
    fitted = {}
    for name, entries in (("skills", inputs.skills), ("agents", inputs.agents), ("commands", inputs.commands)):
        text, cut = listing(entries, limit - len(LISTS[name]) - 1)
        fitted[name] = Fitted(text=f"{LISTS[name]}\n{text}" if text else "", cut=cut)
    return fitted


def _bound(fitted: Mapping[str, Fitted], inputs: InstructionInputs) -> Iterator[Part]:
    """Yield the parts in their order, each within its limit and all within theirs."""
    around = {kind.name: len(kind.title) + 6 + len(_SEPARATOR) for kind in KINDS}
    saved = min(TOTAL_LIMIT // 4, len(fitted["append"].text.encode()) + around["append"])
    left = TOTAL_LIMIT - saved
    for kind in KINDS:
        if kind.name == "append":  # the person's own words, at the end: what the others took does not make them shorter
            left += saved
        found, limit = fitted.get(kind.name, Fitted()), _limit(kind, inputs)
        room = min(limit, left - around[kind.name])
        if not found.text.strip() or room <= _LEAST:
            continue
        kept = fit_text(found.text, room)
        left -= len(kept.text.encode()) + around[kind.name]
        yield Part(
            name=kind.name,
            title=kind.title,
            text=kept.text,
            sources=found.sources,
            cut=found.cut or kept.cut,
            limit=limit,
        )


def _limit(kind: PartKind, inputs: InstructionInputs) -> int:
    if kind.name in LISTS:
        return listing_limit(inputs.window)
    return inputs.part_limit if kind.name in _OF_FILES else kind.limit


def _shorten(text: str, longest: int = 500) -> str:
    """Return a short text that stays on its line and within its tags."""
    return attribute(one_line(text, longest))


# --- what the repository says about itself -------------------------------------------------------------------------------------------

_MANIFEST_LIMIT: Final = 1024 * 1024
_HEAD: Final = re.compile(r"ref: refs/heads/([^\x00-\x20~^:?*\[\\\x7f]{1,250})\s*")
_COMMIT: Final = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\s*")
_SECTION: Final = re.compile(r"[ \t]*\[([^\[\]\n]{1,100})\]")
_NAME: Final = re.compile(r"""[ \t]*name[ \t]*=[ \t]*["']([^"'\n]{1,200})["']""")
_PACKAGE: Final = re.compile(r"[\w@][\w@./+~-]{0,99}")
_MODULE: Final = re.compile(r"^module[ \t]+(\S{1,200})", re.MULTILINE)
_NODE_LOCKS: Final = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
)
_PYTHON_LOCKS: Final = (
    ("uv.lock", "uv"),
    ("poetry.lock", "poetry"),
    ("pdm.lock", "pdm"),
    ("Pipfile.lock", "pipenv"),
)


class Project(Struct, frozen=True, kw_only=True):
    """The kind of project in a folder."""

    type: str
    """`node`, `python`, `rust` or `go`."""
    language: str
    package_manager: str
    name: str = ""
    manifest: Path


def branch_of(root: Path) -> str:
    """Return the branch of a repository, or `detached at` a commit; empty when that cannot be told."""
    try:
        folder = root / ".git"
        if folder.is_file():
            content, _ = read_regular(folder, 4_096)
            folder = root / os.fsdecode(content.replace(b"\0", b"")).removeprefix("gitdir:").strip()
        content, _ = read_regular(folder / "HEAD", 4_096)
    except OSError:
        return ""
    head = content.decode("utf-8", "replace")
    if found := _HEAD.fullmatch(head):
        return found[1]
    commit = _COMMIT.fullmatch(head)
    return f"detached at {commit[1][:12]}" if commit else ""


def detect(reading: FileReading) -> tuple[Project, ...]:
    """Return the projects of the innermost folder that holds any, from the working folder up to the root."""
    for folder in reversed(reading.inputs.walk):
        found = tuple(_find_in(reading, folder))
        if found:
            return found
    return ()


def _find_in(reading: FileReading, folder: Path) -> Iterator[Project]:
    if reading.stat(manifest := folder / "package.json"):
        typed = reading.stat(folder / "tsconfig.json") is not None
        yield Project(
            type="node",
            language="typescript" if typed else "javascript",
            package_manager=_by_lock(reading, folder, _NODE_LOCKS, "npm"),
            name=_node_name(reading, manifest),
            manifest=manifest,
        )
    if reading.stat(manifest := folder / "pyproject.toml") or reading.stat(manifest := folder / "setup.py"):
        named = _toml_name(reading, manifest, ("project", "tool.poetry")) if manifest.suffix == ".toml" else ""
        manager = _by_lock(reading, folder, _PYTHON_LOCKS, "pip")
        yield Project(type="python", language="python", package_manager=manager, name=named, manifest=manifest)
    if reading.stat(manifest := folder / "Cargo.toml"):
        named = _toml_name(reading, manifest, ("package",))
        yield Project(type="rust", language="rust", package_manager="cargo", name=named, manifest=manifest)
    if reading.stat(manifest := folder / "go.mod"):
        module = _MODULE.search(_read_manifest(reading, manifest))
        named = _package_name(module[1]) if module else ""
        yield Project(type="go", language="go", package_manager="go modules", name=named, manifest=manifest)


def _by_lock(reading: FileReading, folder: Path, locks: tuple[tuple[str, str], ...], otherwise: str) -> str:
    return next((manager for name, manager in locks if reading.stat(folder / name) is not None), otherwise)


def _read_manifest(reading: FileReading, path: Path) -> str:
    inputs: InstructionInputs = reading.inputs
    try:
        if not reading.is_inside(os.path.realpath(path), (inputs.paths.repository or path.parent, *inputs.folders)):
            return ""
        return read_regular(path, _MANIFEST_LIMIT)[0].decode("utf-8", "replace")
    except OSError as exc:
        reading.add_problem(f"{inputs.display(path)}: It cannot be read: {(exc.strerror or '').rstrip('.')}.")
        return ""


def _node_name(reading: FileReading, path: Path) -> str:
    text = _read_manifest(reading, path)
    try:
        found = json.loads(text) if text else {}
    except json.JSONDecodeError as exc:
        reading.add_problem(f"{reading.inputs.display(path)}:{exc.lineno}: This is not JSON: {exc.msg}.")
        return ""
    except (RecursionError, ValueError):
        reading.add_problem(f"{reading.inputs.display(path)}:1: This is not JSON that can be read.")
        return ""
    name = found.get("name") if isinstance(found, dict) else None
    return _package_name(name) if isinstance(name, str) else ""


def _toml_name(reading: FileReading, path: Path, sections: tuple[str, ...]) -> str:
    """Return the `name` of the first of these sections. Line by line: the rest of the file may be invalid."""
    within = ""
    for line in _read_manifest(reading, path).splitlines():
        if section := _SECTION.match(line):
            within = section[1].strip()
        elif within in sections and (found := _NAME.match(line)):
            return _package_name(found[1])
    return ""


def _package_name(name: str) -> str:
    """Return a name that is valid for a package; empty otherwise."""
    return name if _PACKAGE.fullmatch(name) else ""
