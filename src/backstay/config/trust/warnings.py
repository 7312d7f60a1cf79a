"""Warnings about settings and workspaces that others could have written, and words for what an untrusted workspace does not get."""

import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from backstay.config.layer_file import LayerFile
from backstay.config.trust.inventory import ClaimKind
from backstay.config.trust.trust_store import WorkspaceTrust
from backstay.hooks.events import EVENTS

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


def exposed(file: LayerFile) -> Iterator[str]:
    """Say when somebody else could change a file that is not a workspace's."""
    text = file.text
    if text is None or file.place.of_project:
        return
    others = text.mode & stat.S_IWOTH or (text.mode & stat.S_IWGRP and text.group != text.owner)
    if others or text.owner not in (os.geteuid(), 0):
        yield f"Other users of this machine can change {file.path!r}. Make it your own: chown and chmod 600."


def odd_root(root: Path, home: Path) -> Iterator[str]:
    """Say when a project's root is a folder that is everybody's, or holds everything."""
    real = Path(os.path.realpath(home))
    if root == real:
        yield f"The project here is your whole home folder, {str(root)!r}. Work in a folder of its own."
    elif root == Path(root.anchor):
        yield "The project here is the whole machine, '/'. Work in a folder of its own."
    elif root in {Path(os.path.realpath(each)) for each in ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())}:
        yield f"The project here is a temporary folder, {str(root)!r}, where others can put files. Work in a folder of its own."
    elif (owner := _owner(root)) not in (None, os.geteuid(), 0):
        yield f"The project's folder {str(root)!r} belongs to another user (number {owner})."


def held_words(trust: WorkspaceTrust) -> str:
    """One line about the hooks that wait for trust for this run; empty when none does."""
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


def left_out_words(trust: WorkspaceTrust) -> str:
    """One line about what an untrusted workspace wants and does not get; empty when that is nothing."""
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
        names = changed_names(trust)
        more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
        why = f"This workspace has changed since it was trusted ({', '.join(names[:_SOME])}{more})"
    effects = [f"{_listed(parts)} left out; what it denies holds"] if parts else []
    if "git" in counted:
        effects.append("git commands need a yes, since its git configuration names programs")
    return f"{why}: {'; '.join(effects)}. See: backstay trust. For this run alone: --trust."


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def changed_names(trust: WorkspaceTrust) -> tuple[str, ...]:
    """The files that are not as they were when the workspace was trusted."""
    return tuple(dict.fromkeys(name.partition(":")[2] for name in trust.changed))


def _owner(root: Path) -> int | None:
    try:
        return root.stat().st_uid
    except OSError:
        return None
