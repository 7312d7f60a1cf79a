"""Which files a command reaches that it does not name: below folders, through links and wildcards, in what git keeps."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from backstay.permissions import Call, judge_call, paths_to_resolve, spec_of
from backstay.permissions.call_site import CallSite
from backstay.permissions.unasked import trusting_programs
from backstay.sandbox.environment import program_folders, workspace_programs
from backstay.sandbox.resolve_paths import MATCHES, follow_links, match
from backstay.session.workspace import find_module_loaders
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Mode

SECRET = "KEY=x\n"


class World:
    """A workspace with a home and a folder outside, and what is decided there."""

    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        for folder in (self.work, root / "home", root / "outside"):
            folder.mkdir()
        self.add("src/a.py", "src/deep/c.py", "sub/x.txt", "README.md", "../outside/o.txt", "../home/.ssh/id_rsa")

    def add(self, *names: str, text: str = "x\n") -> None:
        """Make files."""
        for name in names:
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def link(self, name: str, target: str) -> None:
        """Make a link."""
        (self.work / name).parent.mkdir(parents=True, exist_ok=True)
        (self.work / name).symlink_to(target)

    def many(self, suffix: str) -> None:
        """Make more files in `big` than a pattern may match."""
        self.add(*(f"big/{number}{suffix}" for number in range(MATCHES + 5)))

    def commit(self, *names: str) -> None:
        """Commit files, or nothing but a message."""
        where = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        by = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (
            ("init", "-q", "-b", "main"),
            ("add", "-f", *names),
            (*by, "commit", "-qm", "m", "--allow-empty"),
        ):
            if words[-1] != "-f":
                subprocess.run(["git", *words], cwd=self.work, check=True, env=where)

    def decide(
        self,
        command: str,
        *deny: str,
        mode: Mode = "default",
        cwd: str = "",
        allow: Sequence[str] = (),
        **ground: Any,
    ) -> str:
        """What is decided about a command."""
        folder = str(self.work / cwd)
        rules = (*(Rule.parse("deny", text) for text in deny), *(Rule.parse("allow", text) for text in allow))
        call = Call(spec_of("Bash"), {"command": command})
        where: dict[str, Any] = {"cwd": folder, "roots": (str(self.work),), "home": str(self.work.parent / "home")}
        bare = CallSite(**where | ground)
        paths, globs = paths_to_resolve(call, bare, rules)
        return judge_call(call, replace(bare, links=follow_links(paths), globs=match(globs)), rules, mode=mode).decision


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "grep -r KEY c*",
        "egrep -rh KEY c*/",
        "diff c?",
        "git diff --no-index c?",
        "grep -r KEY $PWD/c*",
        "rg --hidden KEY c?",
    ],
)
def test_a_search_of_folders_by_a_wildcard_asks_about_secrets_in_them(world: World, command: str) -> None:
    world.add("c1/a.txt", "c2/a.txt")
    assert world.decide(command) == "allow"

    world.add("c1/.env", text=SECRET)
    assert world.decide(command) == "ask"


def test_a_search_of_folders_by_a_wildcard_asks_about_what_is_denied_in_them(world: World) -> None:
    assert world.decide("grep -r x s*", "Read(sub/y.txt)") == "allow"
    assert world.decide("grep -r x s*", "Read(sub/x.txt)") == "ask"
    assert world.decide("rm -r s*", "Edit(sub/y.txt)", mode="acceptEdits") == "allow"
    assert world.decide("rm -r s*", "Edit(sub/x.txt)", mode="acceptEdits") == "ask"


@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits"])
@pytest.mark.parametrize("command", ["cat big/*.txt", "tail -qn 1 big/*", "grep -h . big/*.txt", "ls big/*"])
def test_a_pattern_that_matches_too_much_asks(world: World, command: str, mode: Mode) -> None:
    world.add("big/1.txt")
    assert world.decide(command, mode=mode) == "allow"

    world.many(".txt")
    assert world.decide(command, mode=mode) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "mkdir new; cat new/.?/.en[v]",
        "mkdir new && grep -r KEY new/.*",
        "mkdir -p new/deep && cat new/deep/.*/.?/.[.]/outside/o.txt",
        "mkdir -p new/deep && ls new/*/.*/.*/.*",
    ],
)
def test_a_wildcard_reaches_above_folders_that_a_command_makes_itself(world: World, command: str) -> None:
    world.add(".env", text=SECRET)
    assert world.decide(command, mode="acceptEdits", shell="dash") == "ask"


@pytest.mark.parametrize("cwd", ["", "src"])
@pytest.mark.parametrize("command", ["touch HEAD", "echo 'ref: refs/heads/main' > HEAD", "mv a.txt ./HEAD"])
def test_what_would_make_the_folder_a_repository_without_a_tree_asks(world: World, command: str, cwd: str) -> None:
    assert world.decide(command, mode="acceptEdits", cwd=cwd) == "ask"


@pytest.mark.parametrize("command", ["cat a{*.txt", "cat a}*", "head ?{*"])
def test_a_pattern_that_shells_read_in_different_ways_asks(world: World, command: str) -> None:
    world.link("a{b.txt", "../home/.ssh/id_rsa")
    world.link("a}b.txt", "../home/.ssh/id_rsa")
    assert world.decide(command) == "ask"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("big/z.py", "../../outside/o.txt"),
        ("big/z.py", "../../home/.ssh/id_rsa"),
        ("big/.h/z.py", "../../../outside/o.txt"),
        ("big/.h/z.py", "../../src/denied.py"),
    ],
)
def test_of_many_files_that_find_names_the_links_are_looked_at(world: World, name: str, target: str) -> None:
    world.add("src/denied.py")
    world.many(".py")
    command, rule = "find big -name '*.py' -print0 | xargs -0 cat", "Read(src/denied.py)"
    assert world.decide(command, rule) == "allow"

    world.link(name, target)
    assert world.decide(command, rule) in ("ask", "deny")


def test_of_many_files_that_find_names_odd_names_are_looked_at(world: World) -> None:
    world.many(".py")
    assert world.decide("find big -name '*.py' | xargs cat") == "allow"

    world.add("big/a b.py")
    assert world.decide("find big -name '*.py' | xargs cat") == "ask"


def test_names_that_are_no_text_ask(world: World) -> None:
    path = os.fsencode(world.work / "src") + b"/\xff.py"
    try:
        with open(path, "w"):
            pass
    except OSError:
        pytest.skip("names are text here")
    found = match([f"{world.work}/src/*.py", f"{world.work}/src/**/*.py"])
    assert all("".join(paths).encode() for paths in found.values())
    assert world.decide("cat src/*.py") == "ask"
    assert world.decide("find src -name '*.py' | xargs cat") == "ask"


def test_many_files_that_find_names_are_not_removed_unasked(world: World) -> None:
    world.many(".py")
    assert world.decide("find big -name '*.py' | xargs rm", mode="acceptEdits") == "ask"


HIDDEN = [
    ("find . -name n.txt -print0 | xargs -0 cat", "Read(.priv/**)", "deny"),
    ("find . -name '*.txt' -print0 | xargs -0 cat", "Read(.x.txt)", "deny"),
    ("grep -rh . app", "Read(v.txt)", "ask"),
    ("grep -rh . app", "Read(*.note)", "ask"),
    ("grep -rh . app", "Read(app/**/v.txt)", "ask"),
    ("rm -r app", "Edit(**/v.txt)", "ask"),
    ("mv app q", "Edit(*.note)", "ask"),
    ("rm -r app", "Edit(.h/**)", "ask"),
]


@pytest.mark.parametrize(("command", "rule", "decision"), HIDDEN)
def test_a_denial_holds_for_hidden_names_below_a_folder(world: World, command: str, rule: str, decision: str) -> None:
    world.add("app/k.txt", "src/n.txt")
    assert world.decide(command, rule, mode="acceptEdits") == "allow"

    world.add(".priv/n.txt", ".x.txt", "app/.h/v.txt", "app/.n.note")
    assert world.decide(command, rule, mode="acceptEdits") == decision


@pytest.mark.parametrize(
    "rule", ["Read(**/vault/*.txt)", "Read(**/vault/**/v.txt)", "Read(**/app/vault/v.txt)", "Read(app//vault/./v.txt)"]
)
@pytest.mark.parametrize(
    "command", ["grep -rh . app/vault", "grep -r . app", "diff app/vault sub", "grep -r . app/va*"]
)
def test_a_denial_holds_below_a_folder_that_its_pattern_names(world: World, command: str, rule: str) -> None:
    world.add("app/vault/w.md")
    assert world.decide(command, rule) == "allow"

    world.add("app/vault/v.txt")
    assert world.decide(command, rule) == "ask"


@pytest.mark.parametrize(
    "rule", ["Read(src/**/b.py)", "Read(src//b.py)", "Read(src/./b.py)", "Read(sub/../src/b.py)", "Read(src/[ab].py)"]
)
@pytest.mark.parametrize("command", ["git diff", "git grep x", "git show HEAD", "git log -p"])
def test_git_shows_no_tracked_file_that_a_denial_means(world: World, command: str, rule: str) -> None:
    world.add("src/b.py")
    world.commit("src", "sub")
    assert world.decide(command) == "allow"
    assert world.decide(command, rule) == "ask"


def test_a_denial_of_what_is_not_tracked_leaves_git_free(world: World) -> None:
    world.commit("src", "sub")
    for command in ("git diff", "git grep x", "git show HEAD", "git show"):
        assert world.decide(command, "Read(src/**/b.py)", "Read(.env)") == "allow"


MOVED = [
    "mv pack link-dir && echo evil | tee src/pack/out/made",
    "mv pack link-dir && echo evil > src/pack/out/made",
    "mv pack link-dir && rm -rf src/pack/out/*",
    "mv pack link-dir/ && cat src/pack/out/o.txt",
    "mv pack self/p2 && cat p2/out/o.txt",
    "rm -r src && mv pack src && cat link-dir/out/o.txt",
    "rm -r src && mv pack src && cat link-dir/out/*.txt",
    "mv pack a && cat self/a/out/o.txt",
    "mv pack a && cd self && cat a/out/o.txt",
]


@pytest.mark.parametrize("command", MOVED)
def test_what_is_moved_through_a_link_is_not_opened_unasked(world: World, command: str) -> None:
    world.link("link-dir", "src")
    world.link("self", ".")
    world.link("pack/out", "../../outside")
    assert world.decide(command, mode="acceptEdits") == "ask"


def test_a_removal_of_all_behind_a_link_is_as_grave_as_where_that_leads(world: World) -> None:
    world.link("top", "../home")
    world.link("near", "src")
    assert world.decide("rm -rf top/*", mode="bypassPermissions") == "deny"
    assert world.decide("rm -rf near/*", mode="bypassPermissions") == "allow"


def test_a_name_that_reads_like_a_lookup_is_a_name(world: World) -> None:
    world.link("big/sub/<all 3>x", "../../../home/.ssh/id_rsa")
    assert world.decide("cat big/**/'<all 3>'*") == "ask"
    assert world.decide("cat big/**/*") == "ask"


def test_what_is_moved_and_not_opened_again_is_free(world: World) -> None:
    for command in (
        "mv src q && cat README.md",
        "mv src/a.py src/b.py && ls",
        "mv sub src/ && cat README.md sub/../README.md",
    ):
        assert world.decide(command, mode="acceptEdits") == "allow", command


LINKED = [
    ("grep -r x link-dir", "Read(src/deep/**)"),
    ("grep -r x self/src", "Read(src/deep/**)"),
    ("cd link-dir && grep -r x .", "Read(src/deep/**)"),
    ("diff self/src sub", "Read(src/deep/**)"),
    ("grep -rh . sub/up/../src", "Read(src/deep/**)"),
    ("rm -r self/src", "Edit(src/deep/**)"),
    ("rm -r link-dir/", "Edit(src/deep/**)"),
    ("mv self/src moved", "Edit(src/deep/**)"),
    ("cd link-dir && rm -r deep", "Edit(src/deep/c.py)"),
]


@pytest.mark.parametrize(("command", "rule"), LINKED)
def test_a_denial_holds_below_a_folder_that_is_named_through_a_link(world: World, command: str, rule: str) -> None:
    world.link("link-dir", "src")
    world.link("self", ".")
    world.link("sub/up", "../sub")
    assert world.decide(command, rule, mode="acceptEdits") == "ask"
    assert world.decide(command, rule.replace("deep", "none"), mode="acceptEdits") == "allow"


@pytest.mark.parametrize("rule", ["Read(src/deep/**)", "Read(//{work}/src/deep/**)"])
@pytest.mark.parametrize("command", ["grep -r x src", "git diff", "git grep x", "rg x"])
def test_a_denial_holds_where_the_working_folder_is_a_link(world: World, command: str, rule: str) -> None:
    world.commit("src")
    (world.work.parent / "wl").symlink_to("work")
    text = rule.format(work=str(world.work)[1:])
    assert world.decide(command, text, cwd="../wl") == "ask"
    assert world.decide(command, text.replace("deep", "none"), cwd="../wl") == "allow"


@pytest.mark.parametrize("command", ["diff -r tree sub", "diff -rN tree sub", "grep -R x tree"])
def test_what_follows_links_below_a_folder_is_looked_at_there(world: World, command: str) -> None:
    world.add("conf/a.txt", "tree/a.txt")
    world.link("tree/more", "../conf")
    allow = ("Bash(diff *)", "Bash(grep *)")
    assert world.decide(command, "Read(conf/n.txt)", allow=allow) == "allow"

    world.add("conf/n.txt")
    assert world.decide(command, "Read(conf/n.txt)", allow=allow) == "ask"
    world.add("conf/.env", text=SECRET)
    assert world.decide(command, allow=allow) == "ask"


def test_more_denied_files_than_are_named_are_not_removed_unasked(world: World) -> None:
    world.many(".txt")
    assert world.decide("rm -r big", "Edit(**/*.md)", mode="acceptEdits") == "allow"
    assert world.decide("rm -r big", "Edit(**/*.txt)", mode="acceptEdits") == "ask"


ELSEWHERE = [
    "git show topic",
    "git grep x topic",
    "git diff HEAD topic",
    "git diff topic",
    "git log -p --all",
    "git log -p --all HEAD",
    "git log -p --branches",
    "git stash show -p",
    "git show 'stash@{0}^3'",
    "git reflog -p",
    "git diff HEAD~1:src/deep topic:other",
]
OWN = [
    "git show",
    "git show HEAD~1",
    "git show 1234567",
    "git log -p -3",
    "git log -p HEAD~3..HEAD",
    "git diff main...HEAD",
    "git diff HEAD~1 HEAD",
    "git grep x HEAD~1",
    "git log --all --oneline",
    "git show topic --stat",
    "git diff HEAD topic -- src",
]


def test_git_asks_before_it_shows_what_lies_on_other_branches_where_it_may_be_denied(world: World) -> None:
    world.commit("src")
    asked = {command: world.decide(command, "Read(priv/**)") for command in ELSEWHERE}
    assert asked == dict.fromkeys(ELSEWHERE, "ask")


def test_other_branches_are_free_where_nothing_is_denied_but_what_was_never_tracked_is_not(world: World) -> None:
    world.commit("src")
    found = {command: world.decide(command) for command in (*ELSEWHERE, *OWN)}
    assert [command for command, decision in found.items() if decision != "allow"] == ["git show 'stash@{0}^3'"]


def test_git_asks_before_it_shows_the_past_of_what_is_denied(world: World) -> None:
    world.commit("src")
    for command in (
        "git log -p",
        "git show HEAD~1",
        "git grep x HEAD~1",
        "git log -1 -p HEAD~1",
        "git diff main...HEAD",
    ):
        assert world.decide(command, "Read(priv/**)") == "ask", command
        assert world.decide(command, "Read(//etc/**)") == "allow", command


def test_a_file_of_a_revision_is_taken_from_the_root_of_the_repository(world: World) -> None:
    world.add("vault/v.txt", "src/vault/v.txt", ".env", text=SECRET)
    world.commit("src", "vault")
    denied = f"Read(/{world.work}/vault/**)"
    for command in ("git show HEAD:vault/v.txt", "git cat-file -p HEAD:vault/v.txt", "git show :vault/v.txt"):
        assert world.decide(command, cwd="src") == "allow"
        assert world.decide(command, denied, cwd="src") == "deny"
        assert world.decide(command, cwd="src", roots=(str(world.work / "src"),)) == "ask"
    assert world.decide("git show HEAD:./vault/v.txt", denied, cwd="src") == "allow"
    assert world.decide("git show HEAD:.env", cwd="src") == "ask"


def test_a_program_in_a_folder_of_path_is_not_written_unasked(world: World) -> None:
    world.add("tools/bin/uptime", "tools/a.txt")
    own = program_folders([str(world.work)], f"/usr/bin:{world.work}/tools/bin", str(world.work))
    assert own == (f"{world.work}/tools/bin",)
    for command in (
        "cp src/a.py tools/bin/nproc && nproc",
        "mv src/a.py tools/bin",
        "echo x > tools/bin/new",
        "mv src tools/bin",
    ):
        assert world.decide(command, mode="acceptEdits", running=own) == "ask", command
    assert world.decide("mv sub tools2 && cp README.md tools/a", mode="acceptEdits", running=own) == "allow"
    assert world.decide("cat tools/bin/uptime && echo x > tools/a.txt", mode="acceptEdits", running=own) == "allow"


def test_what_programs_of_the_project_load_is_not_written_unasked(world: World) -> None:
    world.add("env1/pyvenv.cfg", "env1/lib/python3.13/x.py", "tools/bin/a.txt", "tools/lib/guard.js", "packages/a.js")
    (world.work / "tools/bin/guard").symlink_to("../lib/guard.js")
    own = program_folders([str(world.work)], f"/usr/bin:{world.work}/tools/bin", str(world.work))
    for command in (
        "cp src/a.py .venv/lib/python3.11/site-packages/pip/__init__.py",
        "cp src/a.py env1/lib/python3.13/x.py",
        "cp src/a.py tools/lib/guard.js",
        "cp src/a.py node_modules/eslint/bin/eslint.js",
        "mv packages node_modules/eslint",
        "cp -r packages node_modules",
    ):
        assert world.decide(command, mode="acceptEdits", running=own) == "ask", command
    for command in ("rm -rf node_modules/.cache", "rm -rf node_modules", "cp src/a.py packages/b.js"):
        assert world.decide(command, mode="acceptEdits", running=own) == "allow", command


def test_programs_of_the_project_are_asked_about_where_edits_are_free(world: World) -> None:
    world.add(".venv/bin/pip", ".venv/bin/ruff", "a/bin/ls")
    path = f"{world.work}/.venv/bin:/usr/bin:{world.work}/a/bin"
    own = workspace_programs([str(world.work)], path, str(world.work))
    assert (own & {"pip", "ruff", "ls"}, workspace_programs([str(world.work)], "/usr/bin", "/")) == (
        {"pip", "ruff"},
        frozenset(),
    )
    for command in ("pip list", "time pip list", "ruff --version", "ls && pip --version"):
        assert world.decide(command, mode="acceptEdits", own_programs=own) == "ask", command
        assert world.decide(command, mode="default", own_programs=own) == "allow", command
        assert world.decide(command, mode="acceptEdits") == "allow", command
    assert world.decide("ls", mode="acceptEdits", own_programs=own) == "allow"
    assert world.decide("touch src/sitecustomize/__init__.py", mode="acceptEdits") == "ask"


def test_programs_that_load_modules_of_the_workspace_are_asked_about_where_edits_are_free(world: World) -> None:
    world.add("src/a.py")
    outer = world.work.parent / "outer"
    (outer / "lib/python3.11/site-packages").mkdir(parents=True)
    (outer / "bin").mkdir()
    (outer / "bin/python3").touch(mode=0o755)
    site = CallSite(cwd=str(world.work), home=str(world.work.parent / "home"), roots=(str(world.work),))
    path = f"{outer}/bin"
    for name, value in (
        ("PYTHONPATH", "src"),
        ("PYTHONPATH", "later"),
        ("PYTHONPATH", ".."),
        ("PERL5LIB", "../lib"),
        ("NODE_OPTIONS", "--require ../x.js"),
        ("PERL5LIB", "/usr/lib:"),
        ("NODE_OPTIONS", "--require ./src/a.py"),
        ("GOFLAGS", f"-modfile={world.work}/later.mod"),
    ):
        assert "pip" in find_module_loaders({"PATH": path, name: value}, site), name
    assert (
        find_module_loaders({"PATH": path, "PYTHONPATH": "/usr/lib", "RUBYLIB": "", "PWD": site.cwd}, site)
        == frozenset()
    )
    functions = {"BASH_FUNC_ls%%": '() {  ./later "$@"\n}', "BASH_FUNC_which%%": "() {  /usr/bin/which -a\n}"}
    assert {"ls", "which"} & find_module_loaders({"PATH": path, **functions}, site) == {"ls"}
    packages = outer / "lib/python3.11/site-packages"
    (packages / "distutils.pth").write_text("import os; enabled = True\n", encoding="utf-8")
    assert find_module_loaders({"PATH": path}, site) == frozenset()
    finder = packages / "__editable___x_finder.py"
    finder.write_text(f"MAPPING = {{'x': '{world.work}/later'}}\n", encoding="utf-8")
    assert "pytest" in find_module_loaders({"PATH": path}, site)
    finder.unlink()
    managed = outer / "versions/3.13.1/lib/python3.13/site-packages"
    managed.mkdir(parents=True)
    (managed / "x.pth").write_text(f"{world.work}/later\n", encoding="utf-8")
    assert "pytest" in find_module_loaders({"PATH": path}, site)
    (managed / "x.pth").unlink()
    (packages / "__editable__.x.pth").write_text(f"{world.work}/src\n", encoding="utf-8")
    (outer / "bin/shasum").write_text("#!/usr/bin/perl\n", encoding="utf-8")
    (outer / "bin/egrep").write_text("#!/bin/sh\n", encoding="utf-8")
    for script in ("shasum", "egrep"):
        (outer / "bin" / script).chmod(0o755)
    led = find_module_loaders({"PATH": path}, site)
    assert {"pip", "shasum"} <= led
    assert not {"egrep", "git", "ls"} & led
    for command in ("pytest --version", "/usr/bin/jest --version", "timeout 5 tox --version"):
        assert (world.decide(command), world.decide(command, mode="acceptEdits")) == ("allow", "ask"), command
        assert world.decide(command, trust_given=False) == "ask", command
    for command in ("pip list", "pytest --version"):
        assert world.decide(command, mode="acceptEdits", own_programs=trusting_programs()) == "ask", command
    assert world.decide("ls -l && cat src/a.py", mode="acceptEdits", own_programs=trusting_programs()) == "allow"


def test_a_folder_that_only_looks_like_objects_of_git_is_searched(world: World) -> None:
    world.add("node/.git/objects/.env", text=SECRET)
    assert world.decide("grep -r KEY= node") == "ask"

    world.add("node/.git/HEAD")
    assert world.decide("grep -r KEY= node") == "ask"
