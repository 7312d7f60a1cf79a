"""Print figures of a source tree: `python scripts/measure/figures.py PACKAGE_FOLDER`.

A module is a file besides `__init__.py`. Importers are counted with imports inside functions and those for types; so are cycles.
"""

import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

SHORT: Final = 60


def main(root: Path) -> None:
    """Measure the package below `root` and print a line for each figure."""
    files = sorted(root.rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    modules = [path for path in files if path.name != "__init__.py"]
    lines = {path: len(texts[path].splitlines()) for path in files}
    importers = _importers(root, texts)
    folders = Counter(path.parent.relative_to(root).as_posix() for path in modules)
    print(f"files {len(files)}, modules {len(modules)}, lines {sum(lines.values())}")
    print(f"lines a module, mean {sum(map(lines.get, modules)) / len(modules):.0f}, longest {max(lines.values())}")  # type: ignore[arg-type]  # every module has lines
    print(f"modules under {SHORT} lines {sum(lines[path] < SHORT for path in modules)}")
    print(f"modules with one importer {sum(len(importers[_name(root, path)]) == 1 for path in modules)}")
    print(f"files at the root {folders['.'] + 1}; largest folder {folders.most_common(1)[0]}")
    for size, cycle in sorted(((len(each), each) for each in _cycles(importers)), reverse=True):
        print(f"cycle of {size}, with imports for types: {' '.join(sorted(cycle))}")


def _name(root: Path, path: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _importers(root: Path, texts: dict[Path, str]) -> dict[str, set[str]]:
    names = {_name(root, path) for path in texts}
    found: dict[str, set[str]] = defaultdict(set)
    for path, text in texts.items():
        own = _name(root, path)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found[whole if whole in names else node.module].add(own)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.name].add(own)
    return {name: found[name] - {name} for name in names}


def _cycles(importers: dict[str, set[str]]) -> list[set[str]]:
    """Find the groups of modules that reach each other, by Tarjan's algorithm without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[set[str]] = []
    for start in sorted(importers):
        if start in index:
            continue
        work = [(start, iter(sorted(importers[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(importers.get(other, ())))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    group = set(stack[cut:])
                    del stack[cut:]
                    if len(group) > 1:
                        groups.append(group)
    return groups


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
