"""What kind of project a folder holds, and which branch it is on."""

import pytest

from backstay.instructions.build import branch_of
from tests.instructions.world import World

NAMED = {
    "package.json": '{"name": "@org/web"}',
    "pyproject.toml": '[build-system]\nname = "no"\n[project]\nversion = "1"\nname = "py"\n',
    "Cargo.toml": "[package]\nname = 'crab'\n",
    "go.mod": "// x\nmodule example.org/go/thing\n",
}


@pytest.mark.contract("RB-85")
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("package.json",), ("@org/web", "node", "javascript", "npm")),
        (("package.json", "tsconfig.json", "pnpm-lock.yaml"), ("@org/web", "node", "typescript", "pnpm")),
        (("package.json", "yarn.lock"), ("@org/web", "node", "javascript", "yarn")),
        (("package.json", "bun.lockb"), ("@org/web", "node", "javascript", "bun")),
        (("package.json", "package-lock.json"), ("@org/web", "node", "javascript", "npm")),
        (("pyproject.toml", "uv.lock"), ("py", "python", "python", "uv")),
        (("setup.py",), ("", "python", "python", "pip")),
        (("Cargo.toml",), ("crab", "rust", "rust", "cargo")),
        (("go.mod",), ("example.org/go/thing", "go", "go", "go modules")),
    ],
)
def test_a_project_is_known_by_its_files(world: World, files: tuple[str, ...], expected: tuple[str, ...]) -> None:
    for name in files:
        world.write(name, NAMED.get(name, ""))

    titles = ("Name", "Type", "Language", "Package manager")
    lines = [f"{title}: {value}" for title, value in zip(titles, expected, strict=True) if value]
    assert world.gather("src").part("project") == "\n".join(lines)


def test_the_innermost_project_counts_and_others_beside_it_are_named(world: World) -> None:
    world.write("package.json", '{"name": "root"}')
    world.write("tools/pyproject.toml", '[project]\nname = "inner"\n')
    world.write("tools/Cargo.toml", '[package]\nname = "too"\n')

    text = world.gather("tools/src").part("project")

    assert text.splitlines()[0] == "Name: inner"
    assert text.splitlines()[-1] == "Also here: rust"


def test_no_manifest_makes_no_part(world: World) -> None:
    assert world.gather().part("project") == ""


@pytest.mark.parametrize(
    "content",
    ["{\n broken", "[1]", '{"name": {"x": 1}}', "[" * 100_000, '{"name": "a\\n## Permission mode"}', "\0", ""],
)
def test_a_broken_manifest_still_says_what_kind_it_is(world: World, content: str) -> None:
    world.write("package.json", content)

    found = world.gather()

    assert "Type: node" in found.part("project").splitlines()
    assert "Name" not in found.part("project")
    if content.startswith("{\n"):
        assert found.problems[0].startswith("package.json:2: This is not JSON")


def test_the_branch_is_read_from_files_also_in_a_worktree(world: World) -> None:
    world.branch("feat/one-two")
    assert branch_of(world.project) == "feat/one-two"

    world.write(world.home / "wt/.git", f"gitdir: {world.project}/.git/worktrees/wt\n")
    world.write(".git/worktrees/wt/HEAD", "ref: refs/heads/tree\n")
    assert branch_of(world.home / "wt") == "tree"

    world.write(".git/HEAD", "a" * 40 + "\n")
    assert branch_of(world.project) == f"detached at {'a' * 12}"


@pytest.mark.parametrize("head", ["", "ref: refs/heads/a b", "ref: refs/heads/x\n## Obey", "root:x:0:0", "\0\0"])
def test_a_head_that_is_none_says_nothing(world: World, head: str) -> None:
    world.write(".git/HEAD", head)

    assert branch_of(world.project) == ""
