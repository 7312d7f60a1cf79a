"""Imports point one way: a module knows only its own layer and the layers above it in the map."""

from collections.abc import Iterator, Sequence

import pytest

from tests.source_tree import SOURCE, Import, Module, imports, parse_tree, read_tree

LAYERS: dict[str, int] = {
    "vocab": 1,
    "logic": 2,
    "ports": 3,
    "programs": 3,
    "files": 3,
    "handles": 3,
    "this_machine": 3,
    "wire": 3,
    "yaml12": 3,
    "stores": 4,
    "providers": 4,
    "tools": 4,
    "workspaces": 4,
    "mcp": 4,
    "runtime": 5,
    "config": 6,
    "extensions": 6,
    "instructions": 6,
    "commands": 6,
    "memory": 6,
    "checkpoints": 6,
    "kit": 6,
    "commanding": 6,
    "offspring": 6,
    "living": 6,
    "reloading": 6,
    "version": 1,
    "options": 6,
    "hooks": 6,
    "listening": 6,
    "hands": 6,
    "surroundings": 6,
    "ceilings": 6,
    "models": 6,
    "opening": 6,
    "session": 6,
    "transports": 6,
    "assemble": 6,
    "selfhosting": 6,
    "secrets": 6,
    "shelf": 6,
    "storing": 6,
    "holding": 6,
    "moving": 6,
    "pruning": 6,
    "pages": 6,
    "replay": 6,
    "view": 7,
    "export": 7,
    "headless": 7,
    "terminal_prompt": 7,
    "server": 7,
    "acp": 7,
    "mcp_server": 7,
    "tui": 7,
    "cli": 7,
    "demo": 7,
    "__main__": 7,
    "__init__": 7,
    "testing": 8,
}
"""Each folder or file directly below the package and its layer. `testing` sees everything and is seen by nothing."""

ADAPTERS = 4
"""The layer whose folders never import each other."""

IMPURE = frozenset(
    ("anyio", "asyncio", "httpx", "os", "pathlib", "random", "socket", "sqlite3", "subprocess", "time"),
)
"""What `logic` must not import: it computes from its arguments alone."""


def test_every_import_points_to_the_same_layer_or_above() -> None:
    assert list(violations(read_tree(SOURCE))) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("vocab/ids.py", "import backstay.logic.state.turns", "vocab (1) imports logic (2)"),
        ("logic/turns.py", "from backstay.ports import Model", "logic (2) imports ports (3)"),
        ("logic/turns.py", "from ..ports import Model", "logic (2) imports ports (3)"),
        ("logic/turns.py", "from backstay import ports", "logic (2) imports ports (3)"),
        ("logic/turns.py", "from .. import ports", "logic (2) imports ports (3)"),
        ("logic/deep/turns.py", "from ...runtime import bus", "logic (2) imports runtime (5)"),
        (
            "runtime/bus.py",
            "def late():\n    from backstay.session.session import Session",
            "runtime (5) imports session (6)",
        ),
        ("runtime/bus.py", "if TYPE_CHECKING:\n    from backstay.cli import main", "runtime (5) imports cli (7)"),
        ("stores/sqlite.py", "from backstay.providers import catalog", "stores and providers are both adapters"),
        ("tools/shell.py", "from backstay.workspaces.paths import resolve", "tools and workspaces are both adapters"),
        ("session.py", "from backstay import open_session", "session (6) imports __init__ (7)"),
        ("session.py", "import backstay", "session (6) imports __init__ (7)"),
        ("demo/play.py", "from backstay.testing import crash", "demo (7) imports testing (8)"),
        ("__main__.py", "from backstay.testing import crash", "__main__ (7) imports testing (8)"),
        ("stores/sqlite.py", "import backstay.warehouse", "'warehouse' is not in the map"),
        ("warehouse/shelf.py", "", "'warehouse' is not in the map"),
        ("warehouse.py", "", "'warehouse' is not in the map"),
        ("logic/turns.py", "import time", "logic is pure and imports time"),
        ("logic/turns.py", "from os.path import join", "logic is pure and imports os"),
        ("logic/turns.py", "def f():\n    import sqlite3 as db", "logic is pure and imports sqlite3"),
    ],
)
def test_a_wrong_import_is_found(path: str, source: str, complaint: str) -> None:
    found = list(violations(parse_tree({path: source})))

    assert len(found) == 1
    assert found[0].startswith(path)
    assert complaint in found[0]


def test_right_imports_pass() -> None:
    sources = {
        "__init__.py": "from backstay.session.session import Session\nfrom backstay.testing import crash",
        "vocab/ids.py": "import os\nimport msgspec",
        "logic/turns.py": "from backstay.vocab.ids import SessionId\nfrom . import tokens\nimport osmosis",
        "stores/sqlite.py": "import pathlib\nfrom backstay.ports import EventStore\nfrom .memory import MemoryStore",
        "session.py": "from backstay.config import load\nfrom backstay.stores.sqlite.store import SqliteStore",
        "cli/main.py": "from backstay import open_session\nfrom backstay.tui import app\nfrom ..session import Session",
        "testing/crash.py": "from backstay import query\nfrom backstay.cli import main",
    }

    assert list(violations(parse_tree(sources))) == []


def violations(modules: Sequence[Module]) -> Iterator[str]:
    """Say every import that points the wrong way, and every file outside the map."""
    for module in modules:
        unit = module.path.removesuffix(".py").partition("/")[0]
        if unit not in LAYERS:
            yield f"{module.path}: {unit!r} is not in the map of tests/test_layers.py; give it a layer"
            continue
        for found in imports(module):
            complaint = _judge(unit, found)
            if complaint:
                yield f"{module.path}:{found.line}: {complaint}"


def _judge(unit: str, found: Import) -> str | None:
    package, _, rest = found.target.partition(".")
    if package != "backstay":
        return f"logic is pure and imports {package}" if unit == "logic" and package in IMPURE else None
    other = rest.partition(".")[0]
    if found.base == "backstay" and other not in LAYERS:
        other = "__init__"  # a public name such as open_session, not a module
    if unit in ("__init__", other):
        return None
    if other not in LAYERS:
        return f"{other!r} is not in the map of tests/test_layers.py"
    if LAYERS[unit] == LAYERS[other] == ADAPTERS:
        return f"{unit} and {other} are both adapters and must not know each other"
    if LAYERS[unit] < LAYERS[other]:
        return f"{unit} ({LAYERS[unit]}) imports {other} ({LAYERS[other]})"
    return None
