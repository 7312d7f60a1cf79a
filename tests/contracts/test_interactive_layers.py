"""Who may know whom, beyond the layers: doors use the library, the library names no provider, a transport sees what everybody sees."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import backstay
from backstay import Tool, make_bash, make_glob, make_grep, open_session
from backstay.tools.web.fetch import make_web_fetch
from backstay.tools.web.search import make_web_search
from tests.contracts.kit import calls, scripted
from tests.source_tree import SOURCE, Module, imports, parse_tree, read_tree

LIBRARY = ("session", "catalog", "runtime", "config")
LOOP = ("session/session.py", "runtime/")
TRANSPORT = "headless/lines_transport.py"
SEAM = ("registry", "catalog", "wrapper", "format", "recorded", "scripted", "http", "local")
"""What the library may know of providers: how one is found and wrapped, and what is in the box. No provider's own format."""
ALLOWED = {
    ("cli/doctor.py", "backstay.tools.ripgrep"),  # it says whether the search program is there
}
PUBLIC = ("session", "ports", "vocab", "wire")
"""What a transport may know."""


def strangers(modules: Sequence[Module]) -> Iterator[str]:
    """Say every import that goes round the public ways."""
    for module in modules:
        unit = module.path.removesuffix(".py").partition("/")[0]
        for found in imports(module):
            package, _, rest = found.target.partition(".")
            part, _, inner = rest.partition(".")
            if package != "backstay" or (module.path, found.base) in ALLOWED:
                continue
            if unit == "cli" and (part == "tools" or found.base == "backstay.session.session"):
                yield f"{module.path}:{found.line}: the command line imports {found.base}"
            if unit in LIBRARY and part == "providers" and inner.partition(".")[0] not in SEAM:
                yield f"{module.path}:{found.line}: the library imports {found.base}"
            if module.path.startswith(LOOP) and part == "providers":
                yield f"{module.path}:{found.line}: a session imports {found.base}"
            if module.path == TRANSPORT and part not in PUBLIC:
                yield f"{module.path}:{found.line}: a transport imports {found.base}"


@pytest.mark.contract("RB-116")
def test_nobody_goes_round_the_public_ways() -> None:
    modules = [
        module
        for module in read_tree(SOURCE)
        if module.path.startswith(("cli/", *(f"{unit}/" for unit in LIBRARY), TRANSPORT))
    ]
    assert {"cli/root.py", "runtime/runner.py", "session/assemble.py", TRANSPORT} <= {each.path for each in modules}
    assert list(strangers(modules)) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("cli/root.py", "from backstay.session.session import Session"),
        ("cli/root.py", "def f():\n    import backstay.tools.files.read"),
        ("cli/root.py", "from backstay.tools.ripgrep import find_ripgrep"),
        ("session/assemble.py", "from backstay.providers.anthropic import encode"),
        ("config/model_finder.py", "from backstay.providers import google"),
        ("runtime/runner.py", "from backstay.providers.registry import PROVIDERS"),
        (TRANSPORT, "from backstay.runtime.runner import Runner"),
        (TRANSPORT, "from backstay.stores.open import open_store"),
    ],
)
def test_a_way_round_is_found(path: str, source: str) -> None:
    assert len(list(strangers(parse_tree({path: source})))) == 1


@pytest.mark.contract("RB-117")
async def test_the_tools_can_be_put_into_a_session_of_ones_own_choosing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("needle\n")
    chosen: list[Tool] = [
        backstay.read_file,
        backstay.write_file,
        backstay.edit_file,
        make_glob(),
        make_grep(),
        make_bash(),
    ]
    wanted = (
        ("Read", {"file_path": "a.txt"}),
        ("Write", {"file_path": "b.txt", "content": "b"}),
        ("Edit", {"file_path": "a.txt", "old_string": "needle", "new_string": "thread"}),
        ("Glob", {"pattern": "*.txt"}),
        ("Grep", {"pattern": "thread"}),
        ("Bash", {"command": "cat a.txt b.txt"}),
    )
    async with open_session(
        model=scripted(calls(*wanted), "done"),
        store=None,
        tools=chosen,
        only_tools=True,
        cwd=tmp_path,
        permission_mode="bypassPermissions",
    ) as session:
        assert session.tools == tuple(name for name, _ in wanted)
        result = await session.result("go")
    assert sorted((each.tool, each.outcome) for each in result.tools) == sorted((name, "ok") for name, _ in wanted)


@pytest.mark.contract("RB-117")
def test_every_public_name_is_there_and_they_are_few() -> None:
    assert all(getattr(backstay, name) is not None for name in backstay.__all__)
    assert len(backstay.__all__) <= 30
    assert (callable(make_web_fetch), callable(make_web_search)) == (True, True)  # where the docstring says they live
