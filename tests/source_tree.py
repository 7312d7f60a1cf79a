"""Read a Python tree as modules and the imports between them, without importing any of it."""

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

SOURCE = Path(__file__).parents[1] / "src" / "backstay"


@dataclass(frozen=True)
class Module:
    """One parsed file."""

    path: str
    """Relative to the package, with slashes: `vocab/events.py`."""
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The dotted name: `backstay.vocab.events`."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        return ".".join(("backstay", *parts)).removesuffix(".__init__")

    @functools.cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree."""
        return tuple(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Import:
    """One imported name: `base` is the module of the statement, `target` the full dotted name."""

    base: str
    target: str
    line: int


@functools.cache
def read_tree(root: Path) -> tuple[Module, ...]:
    """Parse every Python file below `root`, once in a process."""
    return parse_tree({p.relative_to(root).as_posix(): p.read_text(encoding="utf-8") for p in root.rglob("*.py")})


def parse_tree(sources: Mapping[str, str]) -> tuple[Module, ...]:
    """Parse files given as relative path and text."""
    return tuple(Module(path, text, ast.parse(text, filename=path)) for path, text in sorted(sources.items()))


def imports(module: Module) -> Iterator[Import]:
    """Find all imports, also those inside functions and under TYPE_CHECKING."""
    for node in module.nodes:
        yield from _imports_of(node, module)


def _imports_of(node: ast.AST, module: Module) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield Import(alias.name, alias.name, node.lineno)
        case ast.ImportFrom(module=source, names=names, level=level):
            base = _absolute(source, level, module.package)
            for alias in names:
                yield Import(base, base if alias.name == "*" else f"{base}.{alias.name}", node.lineno)


def _absolute(source: str | None, level: int, package: str) -> str:
    if level == 0:
        return source or ""
    above = package.split(".")
    parents = above[: len(above) - level + 1]
    return ".".join([*parents, source] if source else parents)
