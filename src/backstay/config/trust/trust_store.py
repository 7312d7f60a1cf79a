"""Record whether the person trusts a workspace: by its folder, and by the content that was shown.

A workspace that brings nothing along that would run or loosen anything is as good as trusted. Any other is untrusted until a person
says so, and again when anything that it would run has changed.
"""

import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.config.layer_file import LayerFile
from backstay.config.private_file import Book, writable_name
from backstay.config.trust.digests import ABSENT, OWN
from backstay.config.trust.inventory import ClaimKind, WorkspaceInventory
from backstay.hooks.events import EVENTS
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule

TrustState = Literal["trusted", "untrusted", "changed"]
_SCRIPT: Final = "script:"
"""Scripts are found from the working folder too, so those of another working folder stay in the record."""
_MAY_GO: Final = (_SCRIPT, "git:", "modules:", OWN)
"""What may go without a word: then less would run."""


class WorkspaceTrust(Struct, frozen=True, kw_only=True):
    """The state of a workspace's trust, and the reason."""

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
        """True when what it brings along may run and allow."""
        return self.state == "trusted"

    @property
    def given(self) -> bool:
        """True when a person said that it is trusted; otherwise there is only nothing in it that asks for trust."""
        return self.trusted and bool(self.since or self.for_run)

    @property
    def vouched(self) -> WorkspaceInventory:
        """The inventory that the person's word was about: what runs is compared with this."""
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
        """Return how far the workspace of `survey` is trusted. Raise `UserError` when the book cannot be believed."""
        if survey.problem:
            return WorkspaceTrust(state="untrusted", survey=survey)
        nothing = WorkspaceTrust(state="untrusted" if survey.claims else "trusted", survey=survey)
        try:
            entry = self._book.read().workspaces.get(writable_name(survey.root))
        except UserError:
            if survey.claims:
                raise
            return nothing
        changed = () if entry is None else changes(entry.seen, survey.seen, bare=bare)
        if entry is None or (changed and not survey.claims):  # nothing is left of what a person said yes to
            return nothing
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
    """Return the names of what is new, other or gone; with `bare`, what is gone was only not looked for."""
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


EVERYWHERE: Final = "*"
"""The place of a grant that holds in every project."""


class GrantStore:
    """The rules that were granted by project, and everywhere."""

    def __init__(self, data: Path) -> None:
        action = "change what is allowed for longer than a session"
        self._book = Book(data / "grants.json", dict[str, tuple[str, ...]], "grant", person=action)

    def rules(self, project: str) -> tuple[Rule, ...]:
        """Return what is allowed in a project, wherever it was granted. Raise `UserError` when the book cannot be believed."""
        texts = [text for rules in self.here(project).values() for text in rules]
        return tuple(replace(Rule.parse("allow", text), source="grant", root=project) for text in dict.fromkeys(texts))

    def here(self, project: str) -> Mapping[str, tuple[str, ...]]:
        """Return the grants that hold in a project, by their place. Raise `UserError` when the book cannot be believed."""
        book = self._book.read()
        return {place: book[place] for place in (writable_name(project), EVERYWHERE) if place in book}

    def add(self, place: str, rules: Sequence[str]) -> None:
        """Remember rules for a project, or for `EVERYWHERE`. Raise `UserError` when that cannot be done."""
        with self._book.changing() as book:
            name = place if place == EVERYWHERE else writable_name(place)
            book[name] = tuple(dict.fromkeys((*book.get(name, ()), *rules)))

    def remove(self, rule: str, places: Sequence[str]) -> int:
        """Forget a rule that was granted for these places; say at how many that was."""
        with self._book.changing() as book:
            places = [place for place in map(writable_name, places) if rule in book.get(place, ())]
            for place in places:
                book[place] = tuple(each for each in book[place] if each != rule)
                if not book[place]:
                    del book[place]
        return len(places)


_WORDS: Final[Mapping[ClaimKind, tuple[str, str]]] = {
    "hook": ("hook", "hooks"),
    "server": ("MCP server", "MCP servers"),
    "allow": ("allow rule", "allow rules"),
    "folder": ("further folder", "further folders"),
    "mode": ("permission mode", "permission modes"),
    "env": ("environment variable", "environment variables"),
    "setting": ("other setting", "other settings"),
    "extension": ("extension file", "extension files"),
    "own": ("program of your own that would run its files", "programs of your own that would run its files"),
}
_SOME: Final = 3


def warn_if_exposed(file: LayerFile) -> Iterator[str]:
    """Warn when another user could change a file that is not a workspace's."""
    text = file.text
    if text is None or file.place.of_project:
        return
    others = text.mode & stat.S_IWOTH or (text.mode & stat.S_IWGRP and text.group != text.owner)
    if others or text.owner not in (os.geteuid(), 0):
        yield f"Other users of this machine can change {file.path!r}. Make it your own: chown and chmod 600."


def warn_of_odd_root(root: Path, home: Path) -> Iterator[str]:
    """Warn when a project's root is a folder that is everybody's, or holds everything."""
    real = Path(os.path.realpath(home))
    if root == real:
        yield f"The project here is your whole home folder, {str(root)!r}. Work in a folder of its own."
    elif root == Path(root.anchor):
        yield "The project here is the whole machine, '/'. Work in a folder of its own."
    elif root in {Path(os.path.realpath(each)) for each in ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())}:
        yield f"The project here is a temporary folder, {str(root)!r}, where others can put files. Work in a folder of its own."
    elif (owner := _owner(root)) not in (None, os.geteuid(), 0):
        yield f"The project's folder {str(root)!r} belongs to another user (number {owner})."


def describe_held(trust: WorkspaceTrust) -> str:
    """Return one line about the hooks that wait for trust for this run; empty when none does."""
    if not trust.held_hooks:
        return ""
    (command, why), *more = sorted(trust.held_hooks.items())
    others = f" (and {len(more)} more)" if more else ""
    return (
        "A hook or server of this workspace runs something that cannot be followed, so a recorded trust does not last for it: "
        f"{command[:80]!r}, "
        f"{why}{others}. It does not run; {_HELD} For this run alone: --trust."
    )


_REFUSING: Final = ", ".join(event.name for event in EVENTS.values() if event.on_failure == "block")
_HELD: Final = (
    f"where such a hook decides ({_REFUSING}), the step is refused, and elsewhere it goes on without the hook."
)


def describe_left_out(trust: WorkspaceTrust) -> str:
    """Return one line about what an untrusted workspace wants and does not get; empty when that is nothing."""
    if trust.trusted or not (trust.survey.claims or trust.survey.problem):
        return ""
    if not trust.survey.claims:
        return (
            f"This workspace is not trusted, and trust for it cannot be recorded: {trust.survey.problem}. "
            "For this run alone: --trust."
        )
    counted = Counter(claim.kind for claim in trust.survey.claims)
    parts = [f"{number} {words[number > 1]}" for kind, words in _WORDS.items() if (number := counted[kind])]
    why = "This workspace is not trusted"
    if trust.state == "changed":
        names = list_changed(trust)
        more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
        why = f"This workspace has changed since it was trusted ({', '.join(names[:_SOME])}{more})"
    effects = [f"{_join_words(parts)} left out; what it denies holds"] if parts else []
    if "git" in counted:
        effects.append("git commands need a yes, since its repository names programs or leads elsewhere")
    return f"{why}: {'; '.join(effects)}. See: backstay trust. For this run alone: --trust."


def _join_words(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def list_changed(trust: WorkspaceTrust) -> tuple[str, ...]:
    """Return the files that are not as they were when the workspace was trusted."""
    return tuple(dict.fromkeys(name.partition(":")[2] for name in trust.changed))


def _owner(root: Path) -> int | None:
    try:
        return root.stat().st_uid
    except OSError:
        return None
