"""Imports point one way: a module knows only its own layer and the layers above it in the map."""

import functools
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

import pytest

from backstay.catalog.load import PURE, is_pure
from tests.source_tree import SOURCE, Import, Module, imports, parse_tree, read_tree

LAYERS: Final = (
    ("version.py", 1),
    ("vocab/*", 1),
    ("ports.py", 3),
    ("system/*", 3),
    ("wire/*", 3),
    ("stores/*", 4),
    ("providers/*", 4),
    ("tools/*", 4),
    ("sandbox/*", 4),
    ("mcp/config/*", 6),
    ("mcp/*", 4),
    ("runtime/*", 5),
    ("hooks/dispatch.py", 6),
    ("hooks/decorator.py", 6),
    ("hooks/*", 5),
    ("config/*", 6),
    ("skills/*", 6),
    ("plugins/*", 6),
    ("instructions/*", 6),
    ("commands/*", 6),
    ("memory/*", 6),
    ("checkpoints/*", 6),
    ("session/*", 6),
    ("catalog/*", 6),
    ("secrets/*", 6),
    ("workflows/*", 6),
    ("export/*", 7),
    ("headless/*", 7),
    ("cli/*", 7),
    ("demo/*", 7),
    ("__main__.py", 7),
    ("__init__.py", 7),
    ("testing/permission_cases.py", 7),  # cases and recordings that two commands read, too
    ("testing/recorded_answers.py", 7),
    ("testing/*", 8),
)
"""Files of the package and their layers; the first that fits counts. What `is_pure` names is layer 2, but for `vocab`."""

ADAPTERS: Final = 4
"""The layer whose folders never import each other."""

IMPURE: Final = frozenset(
    ("anyio", "asyncio", "httpx", "os", "pathlib", "random", "socket", "sqlite3", "subprocess", "time"),
)
"""What pure modules must not import: they compute from their arguments alone."""


def test_every_import_points_to_the_same_layer_or_above() -> None:
    assert list(violations(read_tree(SOURCE))) == []


@pytest.mark.parametrize("pattern", [*PURE, *(pattern for pattern, _ in LAYERS)])
def test_every_pattern_of_the_map_fits_a_file(pattern: str) -> None:
    assert any(fnmatchcase(module.path, pattern) for module in read_tree(SOURCE))


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        (
            "vocab/ids.py",
            "import backstay.logic.state.transcript",
            "vocab/ids.py (1) imports logic/state/transcript.py (2)",
        ),
        ("logic/state/transcript.py", "from backstay.ports import Model", "(2) imports ports.py (3)"),
        ("logic/turns.py", "from ..ports import Model", "(2) imports ports.py (3)"),
        ("logic/turns.py", "from backstay import ports", "(2) imports ports.py (3)"),
        ("logic/turns.py", "from .. import ports", "(2) imports ports.py (3)"),
        ("logic/deep/turns.py", "from ...runtime import bus", "(2) imports runtime/bus.py (5)"),
        ("hooks/gates.py", "from backstay.hooks.run import run_hooks", "hooks/gates.py (2) imports hooks/run.py (5)"),
        (
            "runtime/bus.py",
            "def late():\n    from backstay.session import session",
            "(5) imports session/session.py (6)",
        ),
        ("runtime/bus.py", "if TYPE_CHECKING:\n    from backstay.cli import main", "(5) imports cli/__init__.py (7)"),
        ("stores/memory.py", "from backstay.providers import catalog", "stores and providers are both adapters"),
        ("tools/define.py", "from backstay.sandbox.plan import resolve", "tools and sandbox are both adapters"),
        ("session/session.py", "from backstay import open_session", "(6) imports __init__.py (7)"),
        ("session/session.py", "import backstay", "(6) imports __init__.py (7)"),
        ("demo/play.py", "from backstay.testing import crash", "(7) imports testing/crash/__init__.py (8)"),
        ("__main__.py", "from backstay.testing import crash", "(7) imports testing/crash/__init__.py (8)"),
        ("warehouse/shelf.py", "", "is not in the map"),
        ("warehouse.py", "", "is not in the map"),
        ("logic/turns.py", "import time", "is pure and imports time"),
        ("permissions/judge.py", "from os.path import join", "is pure and imports os"),
        ("checkpoints/tree.py", "def f():\n    import sqlite3 as db", "is pure and imports sqlite3"),
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
        "logic/state/transcript.py": "from backstay.vocab.ids import SessionId\nfrom . import branches\nimport osmosis",
        "stores/sqlite/store.py": "import pathlib\nfrom backstay.ports import EventStore\nfrom ..memory import MemoryStore",
        "session/open.py": "from backstay.config import layers\nfrom backstay.stores.sqlite.store import SqliteStore",
        "cli/root.py": "from backstay import open_session\nfrom backstay.headless import run\nfrom ..session import open",
        "testing/clock.py": "from backstay import query\nfrom backstay.cli import main",
    }

    assert list(violations(parse_tree(sources))) == []


def violations(modules: Sequence[Module]) -> Iterator[str]:
    """Say every import that points the wrong way, and every file outside the map."""
    for module in modules:
        layer = layer_of(module.path)
        if layer is None:
            yield f"{module.path} is not in the map of tests/test_layers.py; give it a layer"
            continue
        for found in imports(module):
            complaint = _judge(module.path, layer, found)
            if complaint:
                yield f"{module.path}:{found.line}: {complaint}"


def layer_of(path: str) -> int | None:
    """Give the layer of a file; None when the map has none."""
    if is_pure(path) and not path.startswith("vocab/"):
        return 2
    return next((layer for pattern, layer in LAYERS if fnmatchcase(path, pattern)), None)


def _judge(path: str, layer: int, found: Import) -> str | None:
    if found.target.partition(".")[0] != "backstay":
        package = found.target.partition(".")[0]
        return f"{path} is pure and imports {package}" if layer == 2 and package in IMPURE else None
    other = _file_of(found.target)
    below = layer_of(other)
    if path in ("__init__.py", other) or below is None:
        return None
    unit, home = path.partition("/")[0], other.partition("/")[0]
    if layer == below == ADAPTERS and unit != home:
        return f"{unit} and {home} are both adapters and must not know each other"
    return f"{path} ({layer}) imports {other} ({below})" if layer < below else None


def _file_of(target: str) -> str:
    """Give the file of the module that a name is, or is in."""
    known = _files()
    while target not in known:
        target = target.rpartition(".")[0]
    return known[target]


@functools.cache
def _files() -> dict[str, str]:
    return {module.name: module.path for module in read_tree(SOURCE)}
