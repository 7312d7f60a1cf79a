"""Find and move what is left of Holdfast, the former name of Backstay. No other module knows that name.

A move is a rename within one file system, and elsewhere a whole copy that is on the disk before the original goes. Nothing is
written over. After a crash the next run goes on.
"""

import errno
import fcntl
import filecmp
import importlib
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from backstay.config.json_document import LARGEST
from backstay.config.locations import MANAGED, claude_dir, config_dir, data_folder, home_dir
from backstay.config.person import require_person
from backstay.stores.sqlite.cipher import SERVICE
from backstay.system.files import make_folder, open_regular, read_regular, sync_folder
from backstay.system.folders import project_root
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
    """A file, folder or variable under the former name, and what to do about it."""

    kind: Kind
    what: str
    todo: str
    into: str = ""
    """Where a move brings it; empty for what only a person can change."""


class MoveReport(Struct, frozen=True, kw_only=True):
    """The files that a move moved, and those that it left."""

    moved: tuple[FormerItem, ...]
    left: tuple[FormerItem, ...]
    blocked: tuple[str, ...]
    """What stood in the way, in words."""


def find_former(
    cwd: Path, environment: Mapping[str, str] = os.environ, *, store: Path | None = None
) -> tuple[FormerItem, ...]:
    """Return everything that is found under the former name, for a person who works in `cwd` and may have named a `store`."""
    return (*_find_items(cwd, environment), *_keys(environment, store))


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
    return MoveReport(moved=tuple(moved), left=(*_find_items(cwd, environment), *left), blocked=tuple(blocked))


def warn_former(root: Path, environment: Mapping[str, str], *, bare: bool = False) -> Iterator[str]:
    """Say what of the former name a run in the project `root` would leave out, though nothing of today stands in its place."""
    pairs = [(each / name, today / name) for each, today in _settings_folders(root, environment) for name in _SETTINGS]
    found = [] if bare else [str(old) for old, new in pairs if old.is_file() and not new.exists()]
    if not bare:
        found += [item.what for item in _variables(environment)]
    if item := next(_find_managed(), None):
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


def _find_items(cwd: Path, environment: Mapping[str, str]) -> Iterator[FormerItem]:
    """Yield everything but keys: the keyring may ask a person."""
    yield from _folders(cwd, environment)
    yield from _find_managed()
    yield from _variables(environment)
    yield from _mentions(cwd, environment)


# --- what there may be ------------------------------------------------------------------------------------------------------------


def _folders(cwd: Path, environment: Mapping[str, str]) -> Iterator[FormerItem]:
    """Yield the folders of the person and of the project that can be moved."""
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
    """Yield the usual folder, and the one that a variable names, unless the new variable leaves that one in use."""
    yield usual.expanduser().absolute() / FORMER
    given = environment.get(_VARIABLE + name)
    if given and environment.get(_OURS + name) and Path(given).expanduser().absolute() != today:
        yield Path(given).expanduser().absolute()


def _find_managed() -> Iterator[FormerItem]:
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
    """Yield the keyring entries of encrypted stores: each names a store by its path, which may have moved since."""
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
    """Yield the lines of settings files that have the former name."""
    root = project_root(cwd)
    folders = [each for pair in _settings_folders(root, environment) for each in pair]
    for path in (
        folder / name for folder in (*folders, root / ".claude", claude_dir(environment)) for name in _SETTINGS
    ):
        try:
            lines = read_regular(path, LARGEST)[0].decode("utf-8", "replace").splitlines()
        except OSError:  # not there; the reader of the settings says what is wrong with it
            continue
        for number, line in enumerate(lines, 1):
            if words := _WORD.findall(line):
                todo = f"It says {', '.join(words)}: look whether it is still meant so."
                yield FormerItem(kind="setting", what=f"{path}:{number}", todo=todo)


def _settings_folders(root: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Yield the folders with settings files, of the former name and of today."""
    for folder in _config_folders(environment):
        yield folder, config_dir(environment)
    yield root / f".{FORMER}", root / ".backstay"


_PLAIN: Final = b"SQLite format 3\0"


def holds_key(store: Path, service: str, user: str) -> bool:
    """Return whether the keyring has an entry for the store at `store`. Ask it only where it is installed and the store is encrypted."""
    try:
        with open_regular(store) as file:
            encrypted = file.read(len(_PLAIN)) not in (_PLAIN, b"")
    except OSError:
        return False
    ring = _keyring() if encrypted else None
    return ring is not None and _get(ring, service, user) is not None


def move_key(old: tuple[str, str], new: tuple[str, str]) -> str:
    """Move an entry, each a service and a user; return what stands in the way, or nothing."""
    ring = _keyring()
    key, there = _get(ring, *old), _get(ring, *new)
    if there not in (None, key):
        return (
            f"The keyring has another key under {' '.join(new)!r}, so that under {' '.join(old)!r} stays. Remove one."
        )
    try:
        ring.set_password(*new, key)
        if _get(ring, *new) != key:
            return f"The keyring did not keep the key under {' '.join(new)!r}, so it stays under {' '.join(old)!r}."
        ring.delete_password(*old)
    except (ring.errors.KeyringError, RuntimeError, OSError) as exc:
        raise UserError(f"The keyring cannot be changed: {exc}. Unlock it, and try again.") from exc
    return ""


def _get(ring: Any, service: str, user: str) -> object:  # Any: `keyring` is not always there to be typed
    try:
        return ring.get_password(service, user)
    except ring.errors.NoKeyringError:  # the package is there, and no keyring
        return None
    except (ring.errors.KeyringError, RuntimeError, OSError) as exc:
        raise UserError(f"The keyring cannot be read: {exc}. Unlock it, and try again.") from exc


def _keyring() -> Any:  # Any: as above
    try:
        importlib.import_module("keyring.errors")
        return importlib.import_module("keyring")
    except ModuleNotFoundError:
        return None


_MADE_ANEW: Final = ("confinement.json", "sandbox.json")
"""Files that only spare work: the next session writes them again."""
_GONE: Final = ".moved-away"
"""The end of the name of what was copied and is about to be removed."""
_SHARED: Final = (0x40000002, 510)
"""The bytes of a SQLite file that every open connection holds a lock on."""


class Blocked(Exception):
    """A folder cannot be moved now; the message says why and what to do."""


def move_folder(old: Path, new: Path, blocked: list[str]) -> bool:
    """Move `old` to `new` and say whether all of it went. What stands in the way of a part is added to `blocked`.

    Raise `Blocked` when nothing can be moved, as while another process has a store open.
    """
    count = len(blocked)
    try:
        _remove(_aside(old))
        if os.path.lexists(old):
            _remove_empty_stores(old, new)
            with ExitStack() as locks:
                if not old.is_symlink():
                    for store in sorted(old.glob("*.db")):
                        locks.enter_context(_lock_store(store))
                _move(old, new, blocked)
    except OSError as exc:
        where = exc.filename or old
        raise Blocked(
            f"{str(where)!r}: {exc.strerror}. What was moved until then is in {str(new)!r}; try again."
        ) from exc
    return len(blocked) == count


def was_moved(old: Path) -> bool:
    """Return whether a crash left what remains of `old` after its copy was complete."""
    return os.path.lexists(_aside(old))


def _aside(old: Path) -> Path:
    return old.with_name(f".{old.name}{_GONE}")


def _move(old: Path, new: Path, blocked: list[str]) -> None:
    if not os.path.lexists(new):
        _rename(old, new)
    elif _is_folder(old) and _is_folder(new):
        _clear(old, new)
        if os.path.lexists(new):
            _merge(old, new, blocked)
        else:
            _rename(old, new)
    elif _same(old, new) or old.name in _MADE_ANEW:
        _remove(old)
    else:
        blocked.append(f"{str(new)!r} is there already, so {str(old)!r} stays. Compare them, and remove one.")


def _remove_empty_stores(old: Path, new: Path) -> None:
    """Remove the stores of `old` without a session whose place is taken in `new`, as after all their sessions were moved one by one."""
    for store in sorted(old.glob("*.db")) if not old.is_symlink() else ():
        if os.path.lexists(new / store.name) and not holds_sessions(store):
            with _lock_store(store):
                for end in (
                    "-wal",
                    "-shm",
                    ".lock",
                    "",
                ):  # the store last: a crash before that leaves it to the next run
                    _remove(store.with_name(f"{store.name}{end}"))


def _clear(old: Path, new: Path) -> None:
    """Remove from `new` the stores without a session whose place a store of `old` takes, and the whole folder if nothing else is in it."""
    for store in (new / each.name for each in old.glob("*.db")):
        if store.is_file() and not holds_sessions(store):
            with _lock_store(store):
                for each in new.glob(f"{store.name}*"):
                    _remove(each)
    if all(name in _MADE_ANEW or name.endswith(".lock") for name in os.listdir(new)):
        shutil.rmtree(new)
        sync_folder(new.parent)


def holds_sessions(store: Path) -> bool:
    """Return whether there is a store at `store` with a session in it. An encrypted one counts as having one."""
    try:
        if not store.stat().st_size:
            return False
        with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute("SELECT EXISTS (SELECT 1 FROM sessions)").fetchone()[0])
    except FileNotFoundError:
        return False
    except sqlite3.DatabaseError:  # encrypted, damaged or no store at all: nothing to write over
        return True


def _merge(old: Path, new: Path, blocked: list[str]) -> None:
    """Move what `new` does not have. A store goes with the files beside it, or not at all."""
    for each in old.glob(f".*{_GONE}"):  # a crash left it, and its copy is whole
        _remove(each)
    kept = tuple(_block_stores(old, new, blocked))
    with os.scandir(old) as found:
        entries = sorted(
            found, key=lambda each: (each.name.endswith(".db"), each.name)
        )  # a store last: its files are there then
    for entry in entries:
        if not entry.name.startswith(kept or "\0"):
            _move(old / entry.name, new / entry.name, blocked)
    if not os.listdir(old):
        old.rmdir()
        sync_folder(old.parent)


def _block_stores(old: Path, new: Path, blocked: list[str]) -> Iterator[str]:
    """Yield the names of the stores that must stay."""
    for store in sorted(old.glob("*.db")):
        url = f"sqlite:///{str(store).lstrip('/')}"
        today = new / store.name
        log = store.with_name(f"{store.name}-wal")
        if today.exists() and not _same(store, today):
            yield store.name
            blocked.append(
                f"{str(today)!r} has sessions already, so {str(store)!r} stays. To see its sessions: backstay --store {url} "
                f"sessions list; to bring one over: backstay --store {url} sessions move ID sqlite:///{str(today).lstrip('/')}; when all "
                "are over, move again, and the empty store goes."
            )
        elif not today.exists() and log.exists() and log.stat().st_size:
            yield store.name
            blocked.append(
                f"{str(log)!r} holds sessions that are not in {str(store)!r} yet, as after a crash, so both stay. "
                f"To write them: backstay --store {url} sessions verify; then move again."
            )
        else:
            store.with_name(f"{store.name}-shm").unlink(missing_ok=True)


@contextmanager
def _lock_store(store: Path) -> Iterator[None]:
    """Hold the store at `store`, so that no process opens it while it moves. Raise `Blocked` when one has it open."""
    handle = os.open(store, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED[1], _SHARED[0])
    except OSError as exc:
        os.close(handle)
        if exc.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise Blocked(f"{str(store)!r} is open in another process. End it, and move again. Nothing was moved.") from exc
    try:
        yield
    finally:
        os.close(handle)


# --- one step at a time -----------------------------------------------------------------------------------------------------------


def _rename(old: Path, new: Path) -> None:
    make_folder(new.parent)
    try:
        os.rename(old, new)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        _copy(old, new)
        os.rename(old, _aside(old))
        sync_folder(old.parent)
        _remove(_aside(old))
    sync_folder(new.parent)
    sync_folder(old.parent)


def _copy(old: Path, new: Path) -> None:
    """Copy to another file system: what is at `new` in the end is whole and on the disk."""
    partial = new.with_name(f".{new.name}.moving")
    _remove(partial)
    if _is_folder(old):
        shutil.copytree(old, partial, symlinks=True)
    else:
        shutil.copy2(old, partial, follow_symlinks=False)
    for folder, _, names in os.walk(partial) if _is_folder(partial) else ():
        for name in names:
            _sync_file(Path(folder, name))
        sync_folder(Path(folder))
    _sync_file(partial)
    os.rename(partial, new)
    sync_folder(new.parent)


def _sync_file(path: Path) -> None:
    if stat.S_ISREG(path.lstat().st_mode):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _same(one: Path, other: Path) -> bool:
    """Return whether both are files with the same bytes, as a crash between a copy and the removal leaves them."""
    both = (one.lstat().st_mode, other.lstat().st_mode)
    return all(map(stat.S_ISREG, both)) and filecmp.cmp(one, other, shallow=False)
