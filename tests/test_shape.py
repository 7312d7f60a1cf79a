"""The tail stays short: no long file or function, swallowed error, loose task, import cycle, drawer of leftovers or unclear name."""

import ast
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

import pytest

from tests.source_tree import SOURCE, Module, imports, parse_tree, read_tree

MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 60
BARRIER = "runtime/barrier.py"
"""The one file that may swallow a broad exception, once: it records what it caught."""
TASK_OWNERS = ("tui/",)
"""Folders that may start a task outside a task group, because their toolkit does."""
DRAWERS = frozenset(("common", "core", "helper", "helpers", "util", "utils"))
SHARED_CLASS_NAMES: Final = tuple(
    """
    Command CommandResult Commands Effect Finding Judged Line Loaded Names Part Row Script Step
    _Listing _Object _Reader _Stream _Typed
    """.split()
)
"""Names that several classes have: a list that only gets shorter. A new class has a name of its own."""
NOUNS_IN_ING = frozenset(("encoding", "matching", "paging", "pricing", "testing"))
"""What modules may be called although it ends so: nouns of the field. Others say that something goes on, and not what is there."""
IRREGULAR_PARTICIPLES: Final = frozenset(
    """
    begun born broken brought built caught chosen done drawn driven fallen forgotten found given gone grown heard held
    hidden kept known laid led left lent lost made meant met paid said seen sent shown sold spent spoken stolen stood
    struck sung sunk sworn taken taught thought thrown told torn undone understood won worn wound written
    """.split()
)
"""Participles that do not end in `-ed`, but for those that are also the plain verb (`put`, `read`, `run`, `set`)."""
VERBS_IN_ED: Final = frozenset("bleed breed embed exceed feed heed need proceed seed shed speed succeed weed".split())
PARTICIPLES_LEFT: Final = dict(
    line.split()
    for line in """
    testing 4
    """.split("\n\n")
)
"""How many functions of a folder are still named by a participle: numbers that only get smaller, until the line goes."""

Check = Callable[[Sequence[Module]], Iterator[str]]


def long_files(modules: Sequence[Module]) -> Iterator[str]:
    """Find files with more lines than a reader takes in at one sitting."""
    for module in modules:
        lines = len(module.text.splitlines())
        if lines > MAX_FILE_LINES:
            yield f"{module.path}: {lines} lines, at most {MAX_FILE_LINES}; a concept wants its own module"


def long_functions(modules: Sequence[Module]) -> Iterator[str]:
    """Find functions with too many lines, docstring included and decorators not."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    yield f"{module.path}:{node.lineno}: {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"


def swallowed_errors(modules: Sequence[Module]) -> Iterator[str]:
    """Find broad handlers that do not raise again, except the first one of the barrier."""
    for module in modules:
        lines = sorted(filter(None, map(_swallowed_at, module.nodes)))
        allowed = 1 if module.path == BARRIER else 0
        for line in lines[allowed:]:
            yield f"{module.path}:{line}: a broad exception is swallowed; only {BARRIER} may do that, once"


def loose_tasks(modules: Sequence[Module]) -> Iterator[str]:
    """Find tasks that no task group owns."""
    for module in modules:
        if module.path.startswith(TASK_OWNERS):
            continue
        for node in module.nodes:
            if isinstance(node, ast.Call) and _last_name(node.func) in ("create_task", "ensure_future"):
                yield f"{module.path}:{node.lineno}: start it in a task group that someone can name"


def import_cycles(modules: Sequence[Module]) -> Iterator[str]:
    """Find modules that reach themselves through imports, also those inside functions and for types."""
    known = {module.name for module in modules}
    graph = {module.name: _imported(module, known) for module in modules}
    told: set[str] = set()
    for name in sorted(graph):
        path = _way_back(name, graph)
        if path and not told.intersection(path):
            told.update(path)
            yield "import cycle: " + " -> ".join((name, *path))


def drawers(modules: Sequence[Module]) -> Iterator[str]:
    """Find files and folders whose name says nothing about what is inside."""
    for module in modules:
        for part in PurePosixPath(module.path).with_suffix("").parts:
            if part.strip("_") in DRAWERS:
                yield f"{module.path}: {part!r} says nothing; name it by its noun"


def gerunds(modules: Sequence[Module]) -> Iterator[str]:
    """Find files and folders that are named by what somebody does."""
    for module in modules:
        for part in PurePosixPath(module.path).with_suffix("").parts:
            if part.endswith("ing") and part.strip("_") not in NOUNS_IN_ING:
                yield f"{module.path}: {part!r} is no noun; name what is there, not what goes on"


def shared_class_names(modules: Sequence[Module]) -> Iterator[str]:
    """Find classes that have the name of another one, but for those of `SHARED_CLASS_NAMES`."""
    for name, paths in sorted(class_names(modules).items()):
        if len(paths) > 1 and name not in SHARED_CLASS_NAMES:
            yield f"{paths[-1]}: {name} is also a class of {', '.join(paths[:-1])}; give it a name of its own"


def class_names(modules: Sequence[Module]) -> dict[str, list[str]]:
    """The names of all classes, each with the files that define one."""
    found: dict[str, list[str]] = {}
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module.path)
    return found


def participles(modules: Sequence[Module]) -> Iterator[str]:
    """Find functions that are named by a participle in folders that have more of them than `PARTICIPLES_LEFT` says."""
    for folder, names in sorted(participle_names(modules).items()):
        if len(names) > int(PARTICIPLES_LEFT.get(folder, "0")):
            yield f"{folder}: functions are verbs; {len(names)} are named by a participle: {', '.join(names)}"


def participle_names(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Return the functions named by a participle, by the first part of their path; properties may be adjectives."""
    found: dict[str, list[str]] = {}
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_participle(node):
                names = found.setdefault(PurePosixPath(module.path).parts[0], [])
                names.append(f"{node.name} ({module.path}:{node.lineno})")
    return found


CHECKS: tuple[Check, ...] = (
    *(long_files, long_functions, swallowed_errors, loose_tasks, import_cycles, drawers),
    *(gerunds, shared_class_names, participles),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
def test_the_source_passes(check: Check) -> None:
    assert list(check(read_tree(SOURCE))) == []


def test_the_list_of_shared_class_names_gets_shorter() -> None:
    shared = {name for name, paths in class_names(read_tree(SOURCE)).items() if len(paths) > 1}

    assert [name for name in SHARED_CLASS_NAMES if name not in shared] == [], (
        "these have their name alone: take them out"
    )
    assert list(SHARED_CLASS_NAMES) == sorted(set(SHARED_CLASS_NAMES))


def test_a_shared_class_name_is_found_once() -> None:
    modules = parse_tree({"a.py": "class Thing: ...", "b.py": "class Thing: ...", "c.py": "class Other: ..."})

    assert list(shared_class_names(modules)) == ["b.py: Thing is also a class of a.py; give it a name of its own"]


def test_the_numbers_of_participles_get_smaller() -> None:
    counted = {folder: str(len(names)) for folder, names in participle_names(read_tree(SOURCE)).items()}

    assert counted == PARTICIPLES_LEFT, "write the smaller numbers down, and take out the lines that are done"


def body_of(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


def handler(catch: str, body: str = "pass") -> str:
    return f"try:\n    f()\n{catch}:\n    {body}\n"


@pytest.mark.parametrize(
    ("check", "path", "source"),
    [
        (long_files, "a.py", "x = 1\n" * (MAX_FILE_LINES + 1)),
        (long_functions, "a.py", body_of(MAX_FUNCTION_LINES + 1)),
        (long_functions, "a.py", "async " + body_of(MAX_FUNCTION_LINES + 1)),
        (swallowed_errors, "a.py", handler("except")),
        (swallowed_errors, "a.py", handler("except Exception")),
        (swallowed_errors, "a.py", handler("except BaseException as exc", "print(exc)")),
        (swallowed_errors, "a.py", handler("except (OSError, Exception)")),
        (swallowed_errors, "a.py", handler("except builtins.Exception")),
        (swallowed_errors, "a.py", handler("except* Exception")),
        (swallowed_errors, "a.py", handler("except Exception", "def later(): raise ValueError")),
        (swallowed_errors, "a.py", "with contextlib.suppress(Exception):\n    f()\n"),
        (swallowed_errors, BARRIER, handler("except Exception") * 2),
        (loose_tasks, "a.py", "asyncio.create_task(pump())"),
        (loose_tasks, "a.py", "create_task(pump())"),
        (loose_tasks, "a.py", "loop.ensure_future(pump())"),
        (drawers, "utils.py", ""),
        (drawers, "stores/_helpers.py", ""),
        (drawers, "core/model.py", ""),
        (gerunds, "hooks/hearing.py", ""),
        (gerunds, "gathering/parts.py", ""),
        (gerunds, "_settling.py", ""),
        (participles, "a.py", "def settled(): ..."),
        (participles, "a.py", "async def _told_again(): ..."),
        (participles, "a.py", "class A:\n    def closed_by(self): ..."),
        (participles, "a.py", "@functools.cache\ndef kept(): ..."),
    ],
)
def test_a_bad_file_is_found(check: Check, path: str, source: str) -> None:
    found = list(check(parse_tree({path: source})))

    assert len(found) == 1
    assert found[0].startswith(path)


@pytest.mark.parametrize(
    ("check", "path", "source"),
    [
        (long_files, "a.py", "x = 1\n" * MAX_FILE_LINES),
        (long_functions, "a.py", body_of(MAX_FUNCTION_LINES)),
        (swallowed_errors, "a.py", handler("except OSError")),
        (swallowed_errors, "a.py", handler("except Exception as exc", "raise StoreError() from exc")),
        (swallowed_errors, "a.py", "with contextlib.suppress(OSError):\n    f()\n"),
        (swallowed_errors, BARRIER, handler("except Exception")),
        (loose_tasks, "a.py", "tasks.start_soon(pump)"),
        (loose_tasks, "tui/app.py", "asyncio.create_task(pump())"),
        (drawers, "scores.py", ""),
        (gerunds, "logic/pricing.py", ""),
        (gerunds, "hooks/settings.py", ""),
        (participles, "a.py", "def fold_opened(): ..."),
        (participles, "a.py", "def seed(): ..."),
        (participles, "a.py", "def is_closed(): ..."),
        (participles, "a.py", "class A:\n    @property\n    def closed(self): ..."),
        (participles, "a.py", "class A:\n    @functools.cached_property\n    def closed(self): ..."),
        (participles, "a.py", "class A:\n    @closed.setter\n    def closed(self, value): ..."),
    ],
)
def test_a_good_file_passes(check: Check, path: str, source: str) -> None:
    assert list(check(parse_tree({path: source}))) == []


@pytest.mark.parametrize(
    "sources",
    [
        {"a.py": "from backstay.b import x", "b.py": "import backstay.c", "c.py": "from . import a"},
        {"a.py": "try:\n    import backstay.b\nexcept ImportError:\n    pass", "b.py": "from .a import x"},
        {"p/__init__.py": "from backstay.p.one import x", "p/one.py": "from backstay.p import y"},
        {"a.py": "class A:\n    import backstay.b", "b.py": "from backstay.a import A"},
        {"a.py": "from backstay.b import x", "b.py": "def f():\n    import backstay.a"},
        {"a.py": "from backstay.b import x", "b.py": "if TYPE_CHECKING:\n    from backstay.a import A"},
    ],
)
def test_a_cycle_is_found_once(sources: dict[str, str]) -> None:
    assert len(list(import_cycles(parse_tree(sources)))) == 1


@pytest.mark.parametrize(
    "sources",
    [
        {"a.py": "from backstay.b import x\nfrom backstay.c import y", "b.py": "from backstay.c import y", "c.py": ""},
        {"p/__init__.py": "from backstay.p.one import x", "p/one.py": "from backstay.p import two", "p/two.py": ""},
    ],
)
def test_imports_that_close_no_circle_pass(sources: dict[str, str]) -> None:
    assert list(import_cycles(parse_tree(sources))) == []


def _is_participle(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the first word of a function's name is a participle; a property is no function."""
    if any(_last_name(each) in ("property", "cached_property", "setter") for each in node.decorator_list):
        return False
    word = node.name.strip("_").partition("_")[0]
    return word in IRREGULAR_PARTICIPLES or (len(word) > 3 and word.endswith("ed") and word not in VERBS_IN_ED)


def _swallowed_at(node: ast.AST) -> int | None:
    """The line of a handler or `suppress` that hides any error, or nothing."""
    match node:
        case ast.ExceptHandler(type=caught):
            swallows = (caught is None or _is_broad(caught)) and not _raises(node.body)
        case ast.Call(func=func, args=args):
            swallows = _last_name(func) == "suppress" and any(_is_broad(arg) for arg in args)
        case _:
            return None
    return node.lineno if swallows else None


def _is_broad(caught: ast.expr) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(_is_broad(each) for each in caught.elts)
    return _last_name(caught) in ("Exception", "BaseException")


def _raises(body: Sequence[ast.AST]) -> bool:
    """Whether a block raises by itself; a function that it defines does not count."""
    return any(
        isinstance(node, ast.Raise)
        or (
            not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            and _raises(list(ast.iter_child_nodes(node)))
        )
        for node in body
    )


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""


def _imported(module: Module, known: set[str]) -> set[str]:
    """The modules of the tree that a module imports: the named submodule, else the package that defines the name."""
    targets = (found.target if found.target in known else found.base for found in imports(module))
    return {target for target in targets if target in known and target != module.name}


def _way_back(start: str, graph: dict[str, set[str]]) -> tuple[str, ...]:
    """The shortest way along the graph from a module to itself, or nothing."""
    ways: deque[tuple[str, ...]] = deque((name,) for name in sorted(graph[start]))
    seen = set(graph[start])
    while ways:
        way = ways.popleft()
        if way[-1] == start:
            return way
        for name in sorted(graph[way[-1]] - seen):
            seen.add(name)
            ways.append((*way, name))
    return ()
