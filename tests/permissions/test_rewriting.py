"""What may not be edited is not changed by a program either that puts something else in its place, or takes all of a folder away."""

from typing import Any

import pytest

from backstay.vocab.specs import Mode
from tests.permissions.desk import weighed

FILES = {"kept.py": "a", "sub/kept.py": "b", "sub/x.py": "c", "other/y.py": "d", "Makefile": "e", "fix.patch": "f"}
KEPT: dict[str, Any] = {"allow": ["Bash"], "deny": ["Edit(kept.py)"], "files": FILES}
SUB: dict[str, Any] = {"allow": ["Bash"], "deny": ["Edit(sub/**)"], "files": FILES}

CHANGED = [
    "git rm kept.py",
    "git rm -f -- kept.py",
    "git -C . rm kept.py",
    "git mv kept.py other.py",
    "git mv other/y.py kept.py",
    "git checkout kept.py",
    "git checkout -- kept.py",
    "git checkout HEAD~1 -- kept.py",
    "git restore kept.py",
    "git restore --staged --worktree kept.py",
    "cd sub && git restore --source HEAD~1 kept.py",
    "black kept.py",
    "uv run black kept.py",
    "npx prettier --write kept.py",
    "python -m isort kept.py",
    "ruff format kept.py",
    "ruff check --fix kept.py",
    "gofmt -w kept.py",
    "clang-format -i kept.py",
    "eslint --fix kept.py",
    "yq -i . kept.py",
    """python3 -c 'open("kept.py", "w")'""",
    """node -e 'fs.unlinkSync("kept.py")'""",
    """node -e 'require("fs").rmSync("kept.py")'""",
    "git restore --staged -W kept.py",
    "git restore -SW kept.py",
    "git checkout kept.py --",
    "git checkout HEAD kept.py",
    "prettier --write --check kept.py",
    "npx prettier@3 --write kept.py",
    "uvx black@24.1.0 kept.py",
    "python -I -m black kept.py",
    "autopep8 -aai kept.py",
    "phpcbf kept.py",
    "black --config pyproject.toml kept.py",
]
NOT_CHANGED = [
    "git rm --cached kept.py",
    "git restore --staged kept.py",
    "git checkout main",
    "git checkout -b feature/kept",
    "git restore other",
    "git apply --check fix.patch",
    "git clean -n",
    "git diff kept.py",
    "black other",
    "black --check kept.py",
    "prettier --check kept.py",
    "ruff check kept.py",
    "ruff format --diff kept.py",
    "gofmt -l kept.py",
    "patch --dry-run -p1 < fix.patch",
    "cat kept.py",
    """python3 -c 'print(open("kept.py").read())'""",
    """python3 -c 'print(open("kept.py", "rb").read())'""",
    """python3 -c 'import json; print(json.dumps(json.load(open("kept.py"))))'""",
    """node -e 'process.stdout.write(require("fs").readFileSync("kept.py", "utf8"))'""",
    """node -p 'require("./kept.py").version.replace("v", "")'""",
    "git restore -S kept.py",
    "git restore -S .",
    "git rm -n kept.py",
    "git clean -nfd",
    "git clean -fd other",
    "git apply --help",
    "patch --version",
    "patch -d other -p1 < fix.patch",
    "git -C other checkout .",
    "git checkout -b kept.py",
    "black --config kept.py src",
    "black . --exclude kept.py",
    "eslint --fix . --ignore-pattern kept.py",
    "cargo run -- format kept.py",
    "isort -c kept.py",
    "rustfmt --emit stdout kept.py",
    "docformatter kept.py",
    "terraform fmt -write=false kept.py",
]
REACHED = [
    "rm -rf sub",
    "mv sub away",
    "rsync -a --delete other/ sub/",
    "find . -name kept.py -delete",
    "find sub -type f -delete",
    "find sub -name '*.txt' -o -name '*.py' -delete",
    "find sub ! -name x.py -delete",
    "git rm -r sub",
    "git restore .",
    "git checkout -- sub",
    "git checkout .",
    "git apply fix.patch",
    "git apply --stat --apply fix.patch",
    "git clean -fdx",
    "git clean -f sub",
    "patch -p1 < fix.patch",
    "patch -d sub -p1 < fix.patch",
    "git restore ':/'",
    "git restore '*.py'",
    "git -C sub restore .",
    "find sub -delete -name '*.txt'",
    "find . \\( -name '*.pyc' -o -name 'k*' \\) -delete",
    "tar xf a.tar",
    "tar xzf a.tgz -C sub",
    "curl -s https://a.test/b | tar xz",
    "unzip -o a.zip",
    "unzip -d sub a.zip",
    "cpio -idu < a.cpio",
]
NOT_REACHED = [
    "tar tf a.tar",
    "tar cf a.tar other",
    "tar xf a.tar -C other",
    "unzip -l a.zip",
    "unzip -d other a.zip",
    "cpio -itv < a.cpio",
    "rm -rf other",
    "rm sub/x.py",
    "mv other away",
    "find . -name '*.pyc' -delete",
    "find sub -name 'x.*' -delete",
    "git rm -r other",
    "cd other && patch -p1 < ../fix.patch",
    "rm -rf node_modules",
    "rmdir sub",
    "rm -f sub",
    "find . -name '*.pyc' -o -name '*.pyo' -delete",
    "find . \\( -name '*.pyc' -o -name '*.pyo' \\) -delete",
    "find . -name '*.pyc' -not -path './.venv/*' -delete",
    "find . -type d -empty -delete",
    "find . -path './node_modules/*' -delete",
]
EVERYDAY = [
    "rm a.txt",
    "rm -rf build",
    "rm *.log",
    "rm -f *.pyc",
    "mv a.txt b.txt",
    "mv *.log docs/",
    "git checkout main",
    "git checkout -b docs/fix-typo",
    "git checkout docs/fix-typo",
    "git checkout release/1.2",
    "git checkout -- src/a.py",
    "git checkout -- *.log",
    "git restore src/*.py",
    "git rm *.log",
    "git clean -fd",
    "git apply fix.patch",
    "git stash pop",
    "patch -p1 < fix.patch",
    "find . -name '*.pyc' -delete",
    "rm 'app/(auth)/page.tsx'",
    'for f in *.log; do rm "$f"; done',
    "black .",
    "npm run build",
]


@pytest.mark.parametrize("command", CHANGED)
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_a_file_that_may_not_be_edited_is_not_given_to_a_program_that_changes_it(command: str, mode: Mode) -> None:
    assert weighed("Bash", command, **KEPT, mode=mode).decision == "deny"


@pytest.mark.parametrize("command", NOT_CHANGED)
def test_a_program_may_look_at_a_file_that_may_not_be_edited(command: str) -> None:
    assert weighed("Bash", command, **KEPT).decision == "allow"


@pytest.mark.parametrize("command", REACHED)
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_a_folder_with_a_file_that_may_not_be_edited_is_not_taken_away_unasked(command: str, mode: Mode) -> None:
    verdict = weighed("Bash", command, **KEPT, mode=mode)

    assert verdict.decision == "ask"
    assert "Edit(kept.py)" in verdict.detail


@pytest.mark.parametrize("command", NOT_REACHED)
def test_a_folder_without_such_a_file_may_be_taken_away(command: str) -> None:
    assert weighed("Bash", command, **KEPT).decision == "allow"


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("black sub", "deny"),
        ("ruff format sub", "deny"),
        ("git rm -r sub", "deny"),
        ("find . -name '*.py' -delete", "ask"),
        ("find other -name '*.py' -delete", "allow"),
        ("make -C sub", "allow"),
    ],
)
def test_a_rule_about_a_folder_holds_for_what_is_below_it(command: str, decision: str) -> None:
    assert weighed("Bash", command, **SUB).decision == decision


def test_a_rule_about_reading_does_not_keep_a_folder_from_being_removed() -> None:
    """Nobody reads what `rm` takes away."""
    held: dict[str, Any] = {"allow": ["Bash"], "deny": ["Read(*.pem)"], "files": {"build/a.pem": "x"}}

    assert weighed("Bash", "rm -rf build", **held).decision == "allow"


@pytest.mark.parametrize("command", EVERYDAY)
@pytest.mark.parametrize("deny", ["Edit(.env)", "Edit(*.lock)", "Edit(dist/**)", "Edit(src/**/*.gen.ts)"])
@pytest.mark.parametrize("files", [None, {}, {"a.txt": "x", "b.log": "y", "src/a.py": "z"}])
def test_what_nobody_denied_is_not_asked_about(command: str, deny: str, files: dict[str, str] | None) -> None:
    assert weighed("Bash", command, allow=["Bash"], deny=[deny], files=files).decision == "allow"


@pytest.mark.parametrize("rule", ["Edit(docs/**)", "Edit(release/**)", "Edit(**)"])
@pytest.mark.parametrize(
    "command", ["git checkout docs/fix-typo", "git checkout release/1.2", "git checkout -b docs/x"]
)
def test_a_branch_is_no_file(command: str, rule: str) -> None:
    assert weighed("Bash", command, allow=["Bash"], deny=[rule], files=FILES).decision == "allow"


def test_a_file_beside_a_folder_is_not_below_it() -> None:
    held: dict[str, Any] = {
        "allow": ["Bash"],
        "files": {"sub/a.py": "x", "subway/kept.py": "y", "p/a/package.json": "z", "p/b/c": ""},
    }

    assert weighed("Bash", "rm -rf sub", deny=["Edit(kept.py)"], **held).decision == "allow"
    assert weighed("Bash", "rm -rf p/b", deny=["Edit(p/*/package.json)"], **held).decision == "allow"
    assert weighed("Bash", "rm -rf p", deny=["Edit(p/*/package.json)"], **held).decision == "ask"


def test_what_is_taken_away_is_asked_about_although_its_place_is_protected_too() -> None:
    held: dict[str, Any] = {
        "deny": ["Edit(ci.yml)"],
        "files": {".github/workflows/ci.yml": "x"},
        "mode": "bypassPermissions",
    }

    assert weighed("Bash", "rm -rf .github/workflows", **held).decision == "ask"


def test_many_operands_and_rules_do_not_multiply() -> None:
    many = " ".join(f"f{number}.py" for number in range(400))
    deny = [f"Edit(k{number}.py)" for number in range(20)]

    assert weighed("Bash", f"git restore {many}", allow=["Bash"], deny=deny, files=FILES).decision == "allow"


@pytest.mark.parametrize("given", [["rm", "-rf", "/"], None, 7, {"a": 1}])
def test_a_command_that_is_no_text_is_asked_for_in_every_mode(given: object) -> None:
    assert weighed("Bash", {"command": given}, mode="bypassPermissions").decision == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "parallel rm -rf ::: /",
        "parallel -j 4 rm -rf ::: / x",
        "parallel rm -rf {} ::: / ::: y",
        "parallel 'rm -rf {}' ::: /",
        "parallel 'rm -rf {1}' ::: x /",
        'parallel "rm -rf" ::: /',
        "parallel -j 4 ::: 'rm -rf /'",
    ],
)
def test_parallel_gives_its_arguments_to_the_command(command: str) -> None:
    assert weighed("Bash", command, mode="bypassPermissions").decision == "deny"


def test_uv_tool_run_is_a_way_to_run_a_program() -> None:
    assert weighed("Bash", "uv tool run rm b", allow=["Bash"], deny=["Bash(rm *)"]).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        """python3 -c 'open("Makefile", "w").write("x")'""",
        """python3 -c 'import os; os.remove("Makefile")'""",
        """perl -e 'open(F, ">Makefile")'""",
        "node <<'EOF'\nrequire('fs').appendFileSync('Makefile', 'x')\nEOF",
    ],
)
def test_code_that_looks_like_writing_a_file_changes_it_by_a_name_without_an_ending_too(command: str) -> None:
    assert weighed("Bash", command, allow=["Bash"], files=FILES).decision == "ask"
    assert weighed("Bash", command.replace("Makefile", "Nothing"), allow=["Bash"], files=FILES).decision == "allow"


def test_code_that_removes_a_folder_without_a_slash_in_its_name_meets_the_rule_about_it() -> None:
    command = """python3 -c 'import shutil; shutil.rmtree("sub")'"""

    assert weighed("Bash", command, **SUB).decision == "deny"
