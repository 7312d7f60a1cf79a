"""Judge the person's own hooks and servers in one workspace: what they run there must be as it was when it was trusted."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from backstay.config.trust.digests import ABSENT, OWN, Digests
from backstay.config.trust.inventory import WorkspaceInventory
from backstay.config.trust.own_programs import is_foreign_module, own_program
from backstay.config.trust.run_files import command_text
from backstay.config.trust.trust_store import WorkspaceTrust

SAFE_PATH: Final[Mapping[str, str]] = {"PYTHONSAFEPATH": "1"}
"""Has Python look for no modules in the folder that it is started in."""
_TODO: Final = "Look at it: backstay trust. For this run alone: --trust"


class OwnRun(Struct, frozen=True, kw_only=True):
    """The way in which a program of the person's may be started."""

    why_not: str = ""
    """Why it may not."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it gets besides."""


class OwnRuns(Struct, frozen=True, kw_only=True):
    """Judges the person's own programs in one workspace."""

    survey: WorkspaceInventory
    """What the workspace brought along when the person last trusted it, or it was first looked at."""
    trusted: bool
    cwd: Path
    home: Path
    for_run: bool = False
    """Whether the person trusts it for this run: then a file that was not looked at before counts as it is when it is first started."""
    first: dict[str, str] = field(default_factory=dict)
    """The digests of such files."""

    def judge(self, command: str, args: Sequence[str] | None) -> OwnRun:
        """Look at the workspace as it is now. Blocks on files."""
        root = Path(self.survey.root)
        program = own_program(command, args, root, self.cwd, self.home)
        meant = self.trusted and any(
            self._digest_when_trusted(path) for path in program.modules if is_foreign_module(path)
        )
        looked_for = () if program.safe and not meant else program.modules
        surveyed = command_text(command, args) in self.survey.own
        for path in (*program.found, *looked_for):
            if why := self._against(path, surveyed=surveyed):
                return OwnRun(why_not=why)
        for path in program.named:
            before, now = self.survey.named.get(self._name(path)), self._digest(path)
            if before != now and (before is not None or surveyed):  # what was looked at was not there then
                return OwnRun(why_not=f"{self._name(path)} is not what it was when the session was opened")
        if program.doubt and not self.trusted:
            why = f"what it runs in this workspace, which is not trusted, cannot be told: {program.doubt}. {_TODO}"
            return OwnRun(why_not=why)
        return OwnRun(environment=SAFE_PATH if program.safe and not meant else {})

    def paths(self, command: str, args: Sequence[str] | None) -> tuple[Path, ...]:
        """Return the files of the workspace that it would run, there or not."""
        return own_program(command, args, Path(self.survey.root), self.cwd, self.home).paths

    def _digest_when_trusted(self, path: Path) -> str:
        return self.survey.seen.get(f"{OWN}{self._name(path)}", "")

    def _name(self, path: Path) -> str:
        return Digests(Path(self.survey.root)).name(path)

    def _digest(self, path: Path) -> str:
        return Digests(Path(self.survey.root)).of(path, follow=True)

    def _against(self, path: Path, *, surveyed: bool) -> str:
        """Return why a file is in the way; empty when it is not."""
        now, name = self._digest(path), self._name(path)
        known = self._digest_when_trusted(path) if self.trusted else ""
        if self.trusted and self.for_run and not surveyed:
            known = known or self.first.setdefault(name, now)
        if now == (known or ABSENT):
            return ""
        if not self.trusted:
            return f"it would run {name} of this workspace, which is not trusted. {_TODO}"
        if known or surveyed:
            return f"{name} is not what it was when the workspace was trusted. {_TODO}"
        return f"it would run {name} of this workspace, which trust does not tell of. For this run alone: --trust"


def own_runs(trust: WorkspaceTrust | None, cwd: str) -> OwnRuns | None:
    """Return the judge of programs in `cwd`; None where no workspace was looked at."""
    if trust is None:
        return None
    return OwnRuns(
        survey=trust.vouched,
        trusted=trust.trusted,
        for_run=trust.for_run,
        cwd=Path(os.path.realpath(cwd)),
        home=Path.home(),
    )
