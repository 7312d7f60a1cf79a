"""Whether the person trusts what a workspace brings along: recorded by its folder, and by the content that was shown.

A workspace that brings nothing along that would run or loosen anything is as good as trusted. Any other is untrusted until somebody
says so, and again when anything that it would run has changed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from backstay.config.private_file import Book, writable_name
from backstay.config.trust.contents import ABSENT
from backstay.config.trust.inventory import OWN, WorkspaceInventory
from backstay.vocab.errors import UserError

TrustState = Literal["trusted", "untrusted", "changed"]
_SCRIPT: Final = "script:"
"""Scripts are found from the working folder too, so those of another working folder stay in the record."""
_MAY_GO: Final = (_SCRIPT, "git:", "modules:", OWN)
"""What may go without a word: then less would run."""


class WorkspaceTrust(Struct, frozen=True, kw_only=True):
    """How far a workspace is trusted, and why."""

    state: TrustState
    survey: WorkspaceInventory
    changed: tuple[str, ...] = ()
    """The names of what is not as it was when the workspace was trusted."""
    since: int = 0
    """When it was trusted, in microseconds since 1970; 0 when that is recorded nowhere."""
    for_run: bool = False
    """Whether the person said so for this run."""
    before: WorkspaceInventory | None = None
    """What it brought along when it was trusted in this session, if that has changed while the session was open."""

    @property
    def trusted(self) -> bool:
        """Whether what it brings along may run and allow."""
        return self.state == "trusted"

    @property
    def vouched(self) -> WorkspaceInventory:
        """What somebody's word was about: whatever runs is compared with this."""
        return self.before or self.survey

    @property
    def held_hooks(self) -> Mapping[str, str]:
        """The hooks and servers that run what cannot be followed, and why: a record is no word about them, only trust for this run is."""
        return self.vouched.unfollowed if self.trusted and self.since else {}

    @property
    def root(self) -> str:
        """The project's root, without links."""
        return self.survey.root


class TrustStore:
    """The workspaces that the person trusts, in one file of the data folder."""

    def __init__(self, data: Path) -> None:
        self._book = Book(
            data / "trust.json", _Book, "trust your workspaces", person="change which workspaces are trusted"
        )

    @property
    def path(self) -> Path:
        """Where the record is."""
        return self._book.path

    def look_up(self, survey: WorkspaceInventory, *, bare: bool = False) -> WorkspaceTrust:
        """How far the workspace of `survey` is trusted. Raise `UserError` when the book cannot be believed."""
        if survey.problem:
            return WorkspaceTrust(state="untrusted", survey=survey)
        if not survey.claims:
            return WorkspaceTrust(state="trusted", survey=survey)
        entry = self._book.read().workspaces.get(writable_name(survey.root))
        if entry is None:
            return WorkspaceTrust(state="untrusted", survey=survey)
        changed = changes(entry.seen, survey.seen, bare=bare)
        state: TrustState = "changed" if changed else "trusted"
        return WorkspaceTrust(state=state, survey=survey, changed=changed, since=entry.at)

    def record(self, survey: WorkspaceInventory, at: int) -> WorkspaceTrust:
        """Trust the workspace with exactly the content of `survey`. Raise `UserError` when that cannot be recorded."""
        if survey.problem:
            raise UserError(
                f"{survey.root!r} cannot be trusted: {survey.problem}. Move what is too much out of the way."
            )
        with self._book.changing() as book:
            root, entries = writable_name(survey.root), book.workspaces
            before = entries[root].seen if root in entries else {}
            scripts = {name: digest for name, digest in before.items() if name.startswith((_SCRIPT, OWN))}
            entries[root] = _Entry(digest=survey.digest, at=at, seen={**scripts, **survey.seen})
        return WorkspaceTrust(state="trusted", survey=survey, since=at)

    def revoke(self, root: str) -> bool:
        """Trust the workspace at `root` no longer; say whether it was."""
        if writable_name(root) not in self._book.read().workspaces:
            return False
        with self._book.changing() as book:
            return book.workspaces.pop(writable_name(root), None) is not None

    def renew(self, trust: WorkspaceTrust, now: WorkspaceInventory, *, only: str, at: int) -> None:
        """Go on trusting a workspace after we ourselves changed its file `only`, at the person's word. Anything else stays changed."""
        if not trust.since or not trust.trusted:
            return
        name = f"settings:{only}"
        if all(each == name for each in changes(trust.survey.seen, now.seen, bare=False)):
            self.record(now, at)


def changes(before: Mapping[str, str], now: Mapping[str, str], *, bare: bool) -> tuple[str, ...]:
    """The names of what is new, other or gone; with `bare`, what is gone was only not looked for."""
    other = {name for name, digest in now.items() if before.get(name, ABSENT) != digest}
    gone = {name for name in before if name not in now and not bare and not name.startswith(_MAY_GO)}
    return tuple(sorted(other | gone))


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    at: int
    seen: dict[str, str]


class _Book(msgspec.Struct, frozen=True, kw_only=True):
    version: Literal[1] = 1
    workspaces: dict[str, _Entry] = {}
