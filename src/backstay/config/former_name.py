"""What is left of Holdfast, the former name of Backstay: find it, say what to do about it, move it. No other module knows that name.

A move is a rename within one file system, and elsewhere a whole copy that is on the disk before the original goes. Nothing is
written over. After a crash the next run goes on.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from backstay.config.former_keys import holds_key, move_key
from backstay.config.json_document import LARGEST, read_regular
from backstay.config.locations import MANAGED, claude_dir, config_dir, data_folder, home_dir
from backstay.config.move_folder import Blocked, holds_sessions, move_folder, was_moved
from backstay.config.person import require_person
from backstay.sandbox.folders import project_root
from backstay.stores.sqlite.cipher import SERVICE
from backstay.vocab.errors import UserError

FORMER: Final = "holdfast"
_VARIABLE: Final = f"{FORMER.upper()}_"
_OURS: Final = "BACKSTAY_"
_COMMAND: Final = f"backstay doctor --move-from {FORMER}"
_WORD: Final = re.compile(rf"[\w.$~/:-]*{FORMER}[\w./:-]*", re.IGNORECASE)
_STORE: Final = "sessions.db"
_SETTINGS: Final = ("settings.json", "settings.local.json")
_DATA: Final = "DATA_DIR"
_CONFIG: Final = "CONFIG_DIR"
_ONCE_MORE: Final = "Grants and pins hold for the paths that they name. What was trusted in it must be trusted once more: backstay trust"
Kind = Literal["data", "configuration", "project", "managed", "keyring", "variable", "setting"]


class FormerItem(Struct, frozen=True, kw_only=True):
    """Something that is found under the former name, and what to do about it."""

    kind: Kind
    what: str
    todo: str
    into: str = ""
    """Where a move brings it; empty for what only a person can change."""


class MoveReport(Struct, frozen=True, kw_only=True):
    """What a move did, and what it left."""

    moved: tuple[FormerItem, ...]
    left: tuple[FormerItem, ...]
    blocked: tuple[str, ...]
    """What stood in the way, in words."""


def find_former(
    cwd: Path, environment: Mapping[str, str] = os.environ, *, store: Path | None = None
) -> tuple[FormerItem, ...]:
    """Return everything that is found under the former name, for a person who works in `cwd` and may have named a `store`."""
    return (*_found(cwd, environment), *_keys(environment, store))


def move_former(cwd: Path, environment: Mapping[str, str] = os.environ, *, store: Path | None = None) -> MoveReport:
    """Move folders and keyring entries to the name of today. Raise `UserError` for a program of a session."""
    require_person("move data and settings")
    moved: list[FormerItem] = []
    left: list[FormerItem] = []
    blocked: list[str] = []
    for item in _folders(cwd, environment):
        try:
            complete = move_folder(Path(item.what), Path(item.into), blocked)
        except Blocked as exc:
            blocked.append(str(exc))
        else:
            moved += [item] if complete else []
    try:
        for item in _keys(environment, store):  # after the stores: an entry names a store by its path
            words = move_key(_entry(item.what), _entry(item.into))
            blocked += [words] if words else []
            (left if words else moved).append(item)
    except UserError as exc:
        blocked.append(str(exc))
    return MoveReport(moved=tuple(moved), left=(*_found(cwd, environment), *left), blocked=tuple(blocked))


def warn_former(root: Path, environment: Mapping[str, str], *, bare: bool = False) -> Iterator[str]:
    """Say what of the former name a run in the project `root` would leave out, though nothing of today stands in its place."""
    pairs = [(each / name, today / name) for each, today in _settings_folders(root, environment) for name in _SETTINGS]
    found = [] if bare else [str(old) for old, new in pairs if old.is_file() and not new.exists()]
    if not bare:
        found += [item.what for item in _variables(environment)]
    if item := next(_managed(), None):
        found.append(item.what)
    if found:
        yield f"{', '.join(found)}: of the former name, so they do not count. Type: backstay doctor"
    if words := warn_former_store(environment):
        yield words


def former_keys(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the variables that held keys under the former name: they open nothing, and are still secrets."""
    beginnings = tuple(_VARIABLE + name for name in ("STORE_KEY", "API_KEY_"))
    return frozenset(name for name in environment if name.startswith(beginnings))


def warn_former_store(environment: Mapping[str, str] = os.environ) -> str:
    """Say that the sessions are still in the store of the former name; empty when they are not."""
    today = data_folder(environment)
    for folder in _data_folders(environment):
        if holds_sessions(folder / _STORE) and not holds_sessions(today / _STORE):
            return f"The sessions in {str(folder / _STORE)!r} are of the former name, so they do not count here. Type: {_COMMAND}"
    return ""


def explain_former_store(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """Say where a store of the former name is today, when `url` names one that was moved; empty otherwise."""
    path = Path("/" + url.partition(":///")[2].partition("?")[0].lstrip("/"))
    for folder in _data_folders(environment):
        moved = data_folder(environment) / path.name
        if path.parent == folder and not path.exists() and moved.is_file():
            return f"{str(path)!r} was moved. It is sqlite:///{str(moved)[1:]} now, the store that is used when none is named."
    return ""


def _found(cwd: Path, environment: Mapping[str, str]) -> Iterator[FormerItem]:
    """Everything but keys: the keyring may ask a person."""
    yield from _folders(cwd, environment)
    yield from _managed()
    yield from _variables(environment)
    yield from _mentions(cwd, environment)


# --- what there may be ------------------------------------------------------------------------------------------------------------


def _folders(cwd: Path, environment: Mapping[str, str]) -> Iterator[FormerItem]:
    """The folders of the person and of the project that can be moved."""
    for folder in _data_folders(environment):
        yield from _folder("data", folder, data_folder(environment))
    for folder in _config_folders(environment):
        yield from _folder("configuration", folder, config_dir(environment))
    root = project_root(cwd)
    levels = [each for each in (cwd, *cwd.parents) if each.is_relative_to(root)]
    for level in dict.fromkeys((*levels, home_dir(environment))):
        yield from _folder("project", level / f".{FORMER}", level / ".backstay")


def _folder(kind: Kind, old: Path, today: Path) -> Iterator[FormerItem]:
    if os.path.lexists(old) or was_moved(old):
        todo = f"It does not count. Type: {_COMMAND}"
        yield FormerItem(
            kind=kind, what=str(old), todo=f"{todo}. {_ONCE_MORE}" if kind == "project" else todo, into=str(today)
        )


def _data_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    usual = Path(environment.get("XDG_DATA_HOME") or home_dir(environment) / ".local" / "share")
    yield from _places(environment, _DATA, usual, data_folder(environment))


def _config_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    usual = Path(environment.get("XDG_CONFIG_HOME") or home_dir(environment) / ".config")
    yield from _places(environment, _CONFIG, usual, config_dir(environment))


def _places(environment: Mapping[str, str], name: str, usual: Path, today: Path) -> Iterator[Path]:
    """The usual folder, and the one that a variable names. Who has not said where that one goes may keep it where it is."""
    yield usual.expanduser().absolute() / FORMER
    given = environment.get(_VARIABLE + name)
    if given and environment.get(_OURS + name) and Path(given).expanduser().absolute() != today:
        yield Path(given).expanduser().absolute()


def _managed() -> Iterator[FormerItem]:
    old = Path("/etc") / FORMER / MANAGED.name
    if old.is_file() and not MANAGED.exists():
        todo = f"It does not count. Whoever runs this machine types: mkdir -p {MANAGED.parent} && mv {old} {MANAGED}"
        yield FormerItem(kind="managed", what=str(old), todo=todo)


def _variables(environment: Mapping[str, str]) -> Iterator[FormerItem]:
    for name in sorted(environment):
        today = _OURS + name.removeprefix(_VARIABLE)
        if name.startswith(_VARIABLE) and today not in environment:
            yield FormerItem(
                kind="variable", what=name, todo=f"It does nothing. Where it is set, write {today} instead."
            )


def _keys(environment: Mapping[str, str], named: Path | None) -> Iterator[FormerItem]:
    """Entries of encrypted stores: each names a store by its path, which may have moved since."""
    former = tuple(_data_folders(environment))
    folders = dict.fromkeys((*former, data_folder(environment)))
    stores = (*(each for folder in folders for each in sorted(folder.glob("*.db"))), *((named,) if named else ()))
    for store in dict.fromkeys(stores):
        into = f"{SERVICE} {store}"
        before = (folder / store.name for folder in former if not (folder / store.name).exists())
        entries = (f"{service} {path}" for path in (store, *before) for service in (FORMER, SERVICE))
        for entry in entries:
            if entry != into and holds_key(store, *_entry(entry)):
                yield FormerItem(kind="keyring", what=entry, todo=f"Type: {_COMMAND}", into=into)


def _entry(text: str) -> tuple[str, str]:
    service, _, user = text.partition(" ")
    return service, user


def _mentions(cwd: Path, environment: Mapping[str, str]) -> Iterator[FormerItem]:
    """Lines of settings files that say the former name."""
    root = project_root(cwd)
    folders = [each for pair in _settings_folders(root, environment) for each in pair]
    for path in (
        folder / name for folder in (*folders, root / ".claude", claude_dir(environment)) for name in _SETTINGS
    ):
        try:
            lines = read_regular(path, LARGEST)[0].decode("utf-8", "replace").splitlines()
        except OSError:  # not there; whoever reads it for use says what is wrong with it
            continue
        for number, line in enumerate(lines, 1):
            if words := _WORD.findall(line):
                todo = f"It says {', '.join(words)}: look whether it is still meant so."
                yield FormerItem(kind="setting", what=f"{path}:{number}", todo=todo)


def _settings_folders(root: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Folders with settings files, of the former name and of today."""
    for folder in _config_folders(environment):
        yield folder, config_dir(environment)
    yield root / f".{FORMER}", root / ".backstay"
