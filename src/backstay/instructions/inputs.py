"""The inputs of the instructions of a session."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from backstay.config.locations import ProjectPaths
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Mode

if TYPE_CHECKING:
    pass

KIB: Final = 1024
PART_LIMIT: Final = 40 * KIB
"""Bytes of a part that is made of files, unless a place says otherwise."""
TASK_FOLDER: Final = ".agents/tasks"


class Listed(Struct, frozen=True, kw_only=True):
    """An entry that can be asked for by its name."""

    name: str
    description: str = ""


class InstructionInputs(Struct, frozen=True, kw_only=True, dict=True):
    """The inputs of the instructions, which are a function of them and of the files that they lead to."""

    paths: ProjectPaths
    trusted: bool = True
    """Whether the person trusts the workspace. The files of an untrusted one are marked as strangers' words."""
    folders: tuple[Path, ...] = ()
    """Folders besides the project's that imports may lead to."""
    excluded: tuple[str, ...] = ()
    """Patterns of files that are left out, compared with the whole path: `/srv/mono/other-team/**`."""
    denials: tuple[Rule, ...] = ()
    """Rules that deny reading: what may not be read, or only after a question, is left out."""
    bare: bool = False
    """Whether no file is read and nothing is listed."""
    system_prompt: str | None = None
    """Replaces everything but `append`."""
    append: str = ""
    """The person's addition at the end."""
    language: str = ""
    """The language that the person would like to read."""
    mode: Mode = "default"
    task_context: bool = True
    task_folder: str = TASK_FOLDER
    """Below the project's root."""
    memory: str = ""
    """The index of what was remembered about the project, within its caps."""
    memory_source: str = ""
    """The file of that index."""
    skills: tuple[Listed, ...] = ()
    """Those that the model may use, dearest first."""
    agents: tuple[Listed, ...] = ()
    commands: tuple[Listed, ...] = ()
    model: str = ""
    date: str = ""
    """The day, as `2026-01-31`."""
    system: str = sys.platform
    window: int = 200_000
    """Tokens that the model's context holds: the lists take a share of it."""
    part_limit: int = PART_LIMIT

    @cached_property
    def walk(self) -> tuple[Path, ...]:
        """The folders whose notes hold here, outermost first, the working folder last.

        From the project's root on. Outside of any project, from just below the home folder on; elsewhere the working folder alone,
        for who knows who can write above it.
        """
        above = (self.paths.cwd, *self.paths.cwd.parents)
        if self.paths.repository in above:
            return above[: above.index(self.paths.repository) + 1][::-1]
        if self.paths.repository is None and self.paths.home in above[1:]:
            return above[: above.index(self.paths.home)][::-1]
        return (self.paths.cwd,)

    def display(self, path: Path | str) -> str:
        """Return a path as people write it here: below the project's root, below the home folder, or whole."""
        text = os.fspath(path).encode("utf-8", "replace").decode()
        for folder, prefix in ((self.paths.root, ""), (self.paths.home, "~/")):
            if text.startswith(f"{folder}{os.sep}"):
                return prefix + text[len(str(folder)) + 1 :]
        return text


def find_inputs(
    cwd: str | Path | ProjectPaths,
    *,
    trusted: bool,
    folders: Sequence[str | Path] = (),
    environment: Mapping[str, str] = os.environ,
    **known: Any,  # Any: the other fields of `Place`, checked by its constructor
) -> InstructionInputs:
    """Find the place of a session that works in `cwd`. `known` are further fields of `Place`, such as `mode` and `skills`."""
    return InstructionInputs(
        paths=cwd if isinstance(cwd, ProjectPaths) else ProjectPaths.of(cwd, environment),
        trusted=trusted,
        folders=tuple(Path(each).expanduser().absolute() for each in folders),
        **known,
    )


def denials_of(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules that deny files, or ask before, since no question is asked for a note. A rule about a whole tool is left out."""
    return tuple(replace(rule, decision="deny") for rule in rules if rule.decision != "allow" and rule.pattern)
