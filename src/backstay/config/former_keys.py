"""Keys of encrypted stores in the system's keyring, found and moved from one entry to another."""

import importlib
from pathlib import Path
from typing import Any, Final

from backstay.stores.disk_errors import open_regular
from backstay.vocab.errors import UserError

_PLAIN: Final = b"SQLite format 3\0"


def holds_key(store: Path, service: str, user: str) -> bool:
    """Whether the keyring has an entry for the store at `store`. It is asked only where it is installed and the store is encrypted."""
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
