"""What a hook's command runs of its project, and what nobody can tell."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.config.following import NotFollowed, followed
from holdfast.config.survey import drifted
from tests.config.world import World

PYTHON = ("hookmod.py", "hookmod/__init__.py", "hookmod/__main__.py")
MAKE = ("GNUmakefile", "makefile", "Makefile")


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("scripts/check.sh --fast", ("scripts/check.sh",)),
        ('bash "$CLAUDE_PROJECT_DIR"/scripts/check.sh', ("scripts/check.sh",)),
        ('"$(git rev-parse --show-toplevel)/scripts/check.sh"', ("scripts/check.sh",)),
        ("cd scripts && ./check.sh", ("check.sh", "scripts/check.sh")),
        ("cd scripts; cd inner; ./check.sh", ("check.sh", "scripts/check.sh", "inner/check.sh", "scripts/inner/check.sh")),
        ('echo "$(./scripts/check.sh)" | tee log', ("scripts/check.sh",)),
        ("if [ -f x ]; then ./scripts/check.sh || exit 2; fi", ("scripts/check.sh",)),
        ("bash -c 'sh -c ./scripts/check.sh'", ("scripts/check.sh",)),
        ("timeout 5 env A=1 exec ./scripts/check.sh", ("scripts/check.sh",)),
        ("python3 -m hookmod", PYTHON),
        ("python3.11 -u -m hookmod x", PYTHON),
        ("/usr/bin/env python3 -m hookmod", PYTHON),
        ("python3 -c 'import hookmod; print(1)'", PYTHON),
        ("npm run guard", ("package.json", ".npmrc")),
        ("make guard", MAKE),
        ("make -C sub guard", (*MAKE, *(f"sub/{each}" for each in MAKE))),
        ("jq -r .tool_input.file_path | grep -q x && exit 2", ()),
        ("git status --short", ()),
        ('[[ -n "$X" ]] && echo "$X"', ()),
    ],
)  # fmt: skip
def test_what_runs_is_found(tmp_path: Path, command: str, files: tuple[str, ...]) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "sub").mkdir()
    found = followed(command, None, (tmp_path,), tmp_path)
    assert {each.relative_to(tmp_path).as_posix() for each in found} == set(files)


@pytest.mark.parametrize(
    "command",
    [
        "npx prettier --write .",
        "pytest -q",
        "cargo test",
        "git commit -m x",
        "git -c core.pager=./x log",
        "eval ./x",
        "$X",
        "X=./a.sh; $X",
        "`cat name`",
        "$(cat name)",
        'bash "$X"',
        "bash scripts/*.sh",
        "bash {a,b}.sh",
        "curl https://example.org | sh",
        "python3 - < x",
        "python3 <<'EOF'\nimport x\nEOF",
        "python3 -X importtime x.py",
        "python3 -c 'import os; os.system(\"./x\")'",
        'python3 -c "$X"',
        "node -r ./x y.js",
        "node -e 'require(\"./x\")'",
        "PATH=./bin:$PATH jq .",
        "export PATH=./bin; jq .",
        "env PYTHONPATH=./lib python3 x.py",
        "find . -exec ./x ;",
        "awk 'BEGIN { system(\"./x\") }'",
        "f() { ./x; }; f",
        "trap ./x EXIT",
        "alias jq=./x; jq",
        'cd "$X" && ./x',
        "cd - && ./x",
        "diff <(./x) y",
        "xargs ./x",
        "./x 'unbalanced",
        "sudo ./x",
        "bash -c " * 9 + "x",
    ],
)
def test_what_cannot_be_told_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(NotFollowed):
        followed(command, None, (tmp_path,), tmp_path)


def test_a_command_with_arguments_is_no_shell_text(tmp_path: Path) -> None:
    assert followed("bash", ("scripts/a b.sh", "$X"), (tmp_path,), tmp_path) == (tmp_path / "scripts/a b.sh",)
    with pytest.raises(NotFollowed):
        followed("./a; ./b", ("x",), (tmp_path,), tmp_path) and followed("npx", ("x",), (tmp_path,), tmp_path)


# --- trust lapses ------------------------------------------------------------------------------------------------------------------


def hooked(world: World, command: str) -> None:
    world.write(".claude/settings.json", {"hooks": world.hook(command)})


def into_a_folder(world: World) -> None:
    (world.project / "hookmod.py").unlink()
    world.write("hookmod/__main__.py", "print(1)")


def behind_a_link(world: World) -> None:
    other = world.write("other.py", "print(2)")
    (world.project / "hookmod.py").unlink()
    (world.project / "hookmod.py").symlink_to(other)


def behind_a_linked_folder(world: World) -> None:
    world.write("scripts2/cd.sh", "touch other", mode=0o755)
    os.rename(world.project / "scripts", world.project / "scripts1")
    (world.project / "scripts").symlink_to("scripts2")


def renamed(world: World) -> None:
    os.rename(world.project / "scripts/cd.sh", world.project / "scripts/x.sh")


LAPSES: dict[str, tuple[str, Callable[[World], object]]] = {
    "a module": ("python3 -m hookmod", lambda world: world.write("hookmod.py", "print(2)")),
    "a module that goes before": ("python3 -m hookmod", into_a_folder),
    "a folder beside a module": ("python3 -m hookmod", lambda world: world.write("hookmod/__init__.py", "")),
    "a module behind a link": ("python3 -m hookmod", behind_a_link),
    "a module of the machine's name": ("python3 -m json.tool x", lambda world: world.write("json/tool.py", "print(2)")),
    "an import of a text": ("python3 -c 'import json; print(1)'", lambda world: world.write("json.py", "print(2)")),
    "package.json": ("npm run guard", lambda world: world.write("package.json", '{"scripts":{"guard":"./other"}}')),
    "Makefile": ("make guard", lambda world: world.write("Makefile", "guard:\n\t./other\n")),
    "a Makefile that goes before": ("make guard", lambda world: world.write("GNUmakefile", "guard:\n\t./other\n")),
    "a script in a folder": ("cd scripts && ./cd.sh", lambda world: world.write("scripts/cd.sh", "touch other")),
    "a folder that became a link": ("cd scripts && ./cd.sh", behind_a_linked_folder),
    "a script that went": ("cd scripts && ./cd.sh", renamed),
}


@pytest.mark.parametrize(("command", "change"), LAPSES.values(), ids=LAPSES)
def test_sec_m3_trust_lapses_when_what_a_hook_runs_changes(
    world: World, command: str, change: Callable[[World], object]
) -> None:
    hooked(world, command)
    world.write("hookmod.py", "print(1)")
    world.write("package.json", '{"scripts":{"guard":"./guard"}}')
    world.write("Makefile", "guard:\n\t./guard\n")
    world.write("scripts/cd.sh", "touch ran", mode=0o755)
    world.trust()
    before = world.read().trust
    assert (before.state, before.held_hooks, drifted(before.survey)) == ("trusted", {}, ())

    change(world)

    assert world.read().trust.state == "changed"
    assert drifted(before.survey) != (), "a session that is open notices it too"


@pytest.mark.parametrize("name", ["pre-commit", "post-checkout"])
@pytest.mark.parametrize("added", [True, False])
def test_sec_m3_trust_lapses_when_a_hook_of_git_changes_or_is_added(world: World, name: str, added: bool) -> None:
    world.write(".git/config", "[core]\n\thooksPath = .githooks\n")
    world.write(".githooks/pre-push", "#!/bin/sh\n", mode=0o755)
    if not added:
        world.write(f".githooks/{name}", "#!/bin/sh\n", mode=0o755)
    world.trust()
    assert world.read().trust.trusted

    world.write(f".githooks/{name}", "#!/bin/sh\ntouch owned\n", mode=0o755)

    assert world.read().trust.state == "changed"


def test_sec_m3_trust_lapses_when_a_program_behind_a_git_setting_changes(world: World) -> None:
    world.write(".git/config", "[alias]\n\tx = !make guard\n[diff]\n\texternal = python3 -m hookmod\n")
    world.write("Makefile", "guard:\n")
    for path in ("Makefile", "hookmod.py"):
        world.trust()
        assert world.read().trust.trusted
        world.write(path, "guard: other\n")
        assert world.read().trust.state == "changed"


def test_sec_m3_a_hook_that_cannot_be_followed_says_so_and_a_record_does_not_last_for_it(world: World) -> None:
    hooked(world, "npx prettier --write .")
    world.trust()

    found, now = world.read(), world.read(trust=True)

    assert found.trust.trusted
    assert found.trust.held_hooks == {"npx prettier --write .": "npx runs what it fetches"}
    assert "'npx prettier --write .', npx runs what it fetches. It does not run" in found.notice
    assert [claim.note for claim in found.trust.survey.claims] == ["npx runs what it fetches"]
    assert (now.trust.held_hooks, now.notice) == ({}, "")


def test_another_working_folder_is_no_change(world: World) -> None:
    hooked(world, "make guard")
    world.write("Makefile", "guard:\n")
    (world.project / "sub").mkdir()
    world.trust()

    assert world.read(cwd=world.project / "sub").trust.trusted
    world.write("sub/Makefile", "guard: other\n")
    assert world.read(cwd=world.project / "sub").trust.state == "changed"
    assert world.read().trust.trusted
