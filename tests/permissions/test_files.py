"""File tools: which path, under which rule, in which mode."""

import unicodedata
from typing import Any

import pytest

from tests.permissions.desk import weighed

EDITS: dict[str, Any] = {"mode": "acceptEdits"}  # Any: keyword arguments of the desk

READS = [
    # in the workspace
    ("src/a.py", {}, "allow"),
    ("/repo/src/a.py", {}, "allow"),
    ("/repo/src/../README.md", {}, "allow"),
    ("./a", {}, "allow"),
    ("/repo//src//a.py", {}, "allow"),
    ("..hidden/a", {}, "allow"),
    ("~notes", {}, "ask"),
    # outside
    ("/etc/passwd", {}, "ask"),
    ("../other/a", {}, "ask"),
    ("/repo/../etc/passwd", {}, "ask"),
    ("/repo-evil/a", {}, "ask"),
    ("/repository", {}, "ask"),
    ("/", {}, "ask"),
    ("~/notes.txt", {}, "ask"),
    ("$HOME/notes.txt", {}, "ask"),
    ("${HOME}/notes.txt", {}, "ask"),
    ("~u/notes.txt", {}, "ask"),
    ("~root/notes.txt", {}, "ask"),
    ("/etc/hosts", {"allow": ["Read(//etc/hosts)"]}, "allow"),
    ("/etc/hosts", {"allow": ["Read(//etc/**)"]}, "allow"),
    ("/etc/hosts", {"allow": ["Read(/etc/**)"]}, "ask"),
    ("/etc/hosts", {"allow": ["Read"]}, "ask"),
    ("/etc/hosts", {"allow": ["Read(**)"]}, "ask"),
    ("/etc/../etc/hosts", {"allow": ["Read(//etc/*)"]}, "allow"),
    ("/etc/x/../../root/a", {"allow": ["Read(//etc/**)"]}, "ask"),
    ("/srv/lib/a", {"roots": ("/repo", "/srv/lib")}, "allow"),
    ("/srv/library/a", {"roots": ("/repo", "/srv/lib")}, "ask"),
    ("/etc/hosts", {"scope": "full"}, "allow"),
    ("~/.ssh/config", {"scope": "full"}, "ask"),
    ("/etc/hosts", {"mode": "dontAsk"}, "deny"),
    ("/etc/hosts", {"mode": "bypassPermissions"}, "allow"),
    # names that the system hands out
    ("/proc/self/root/etc/hosts", {"allow": ["Read(//proc/**)"]}, "ask"),
    ("/proc/self/cwd/src/a.py", {}, "ask"),
    ("/proc/1/environ", {"scope": "full"}, "ask"),
    ("/dev/fd/3", {}, "ask"),
    ("/dev/fd/../null", {}, "allow"),
    ("/proc/self/root/etc/shadow", {"deny": ["Read(//etc/shadow)"]}, "deny"),
    ("/proc/self/cwd/.env", {"deny": ["Read(/.env)"]}, "deny"),
    ("/proc/thread-self/root/repo/.env", {"deny": ["Read(.env)"]}, "deny"),
    ("src/a.py\x00.txt", {}, "deny"),
    ("src/a.py\x00.txt", {"mode": "bypassPermissions"}, "deny"),
    # denied
    (".env", {"deny": ["Read(.env)"]}, "deny"),
    ("sub/deep/.env", {"deny": ["Read(.env)"]}, "deny"),
    ("/other/.env", {"deny": ["Read(.env)"]}, "deny"),
    (".env.example", {"deny": ["Read(.env)"]}, "allow"),
    ("./sub/../.env", {"deny": ["Read(.env)"]}, "deny"),
    ("secrets/a/b", {"deny": ["Read(secrets)"]}, "deny"),
    ("secrets/a/b", {"deny": ["Read(secrets/)"]}, "deny"),
    ("secrets/a/b", {"deny": ["Read(secrets/**)"]}, "deny"),
    ("secrets", {"deny": ["Read(secrets/**)"]}, "deny"),
    ("pkg/secrets/k", {"deny": ["Read(secrets/**)"]}, "deny"),
    ("pkg/secrets/k", {"deny": ["Read(./secrets/**)"]}, "allow"),
    ("pkg/secrets/k", {"deny": ["Read(/secrets/**)"]}, "allow"),
    ("secretsauce/k", {"deny": ["Read(secrets/**)"]}, "allow"),
    ("a/b/c.log", {"deny": ["Read(*.log)"]}, "deny"),
    ("a/b/c.logs", {"deny": ["Read(*.log)"]}, "allow"),
    ("a/b/c", {"deny": ["Read(a/*)"]}, "deny"),
    ("a/x/b", {"deny": ["Read(a/**/b)"]}, "deny"),
    ("a/b", {"deny": ["Read(a/**/b)"]}, "deny"),
    ("ab/b", {"deny": ["Read(a/**/b)"]}, "allow"),
    ("file1", {"deny": ["Read(file?)"]}, "deny"),
    ("file12", {"deny": ["Read(file?)"]}, "allow"),
    ("file1", {"deny": ["Read(file[0-9])"]}, "deny"),
    ("filex", {"deny": ["Read(file[!0-9])"]}, "deny"),
    ("file[1", {"deny": ["Read(file[1)"]}, "deny"),
    ("/etc/passwd", {"deny": ["Read(/etc/**)"]}, "deny"),
    ("/etc/passwd", {"deny": ["Read(//etc/**)"]}, "deny"),
    ("../../etc/passwd", {"deny": ["Read(//etc/**)"]}, "deny"),
    ("~/.ssh/id_rsa", {"deny": ["Read(~/.ssh/**)"]}, "deny"),
    ("/home/u/.ssh", {"deny": ["Read(~/.ssh/**)"]}, "deny"),
    ("src/a.py", {"deny": ["Read"]}, "deny"),
    ("src/a.py", {"deny": ["Read(*)"]}, "deny"),
    ("src/a.py", {"deny": ["read"]}, "deny"),
    ("src/a.py", {"deny": ["R*"]}, "deny"),
    ("src/a.py", {"deny": ["*"]}, "deny"),
    ("src/a.py", {"deny": ["Edit(src/**)"]}, "allow"),
    ("src/a.py", {"ask": ["Read(src/**)"]}, "ask"),
    ("src/a.py", {"ask": ["Read(src/**)"], "allow": ["Read(src/a.py)"]}, "ask"),
    ("src/a.py", {"deny": ["Read(src/**)"], "allow": ["Read(src/a.py)"]}, "deny"),
    ("src/a.py", {"ask": ["Read(src/**)"], "mode": "bypassPermissions"}, "ask"),
    ("/data/repo/keys/a", {"deny": ["Read(/keys/**)"], "roots": ("/data/repo",)}, "deny"),
    (
        "keys/a",
        {"deny": ["Read(./keys/**)"], "roots": ("/data/repo",), "files": {"/repo": "symlink:/data/repo"}},
        "deny",
    ),
    ("src/a.py", {"deny": ["Read(/src/**)"], "root": "/elsewhere"}, "allow"),
    ("/elsewhere/src/a", {"deny": ["Read(/src/**)"], "root": "/elsewhere"}, "deny"),
    # sensitive
    (".env", {}, "ask"),
    (".env.production", {}, "ask"),
    (".env.example", {}, "allow"),
    ("deploy/server.pem", {}, "ask"),
    ("id_ed25519", {}, "ask"),
    ("id_ed25519.pub", {}, "allow"),
    ("environment.py", {}, "allow"),
    ("src/env/a.py", {}, "allow"),
    (".env", {"allow": ["Read"]}, "ask"),
    (".env", {"allow": ["Read(**)"]}, "ask"),
    (".env", {"allow": ["Read(.env)"]}, "allow"),
    (".env", {"allow": ["Read(.env)"], "source": "project"}, "ask"),
    (".env", {"mode": "bypassPermissions"}, "allow"),
    ("~/.aws/credentials", {"allow": ["Read(~/**)"]}, "ask"),
    ("~/.aws/credentials", {"allow": ["Read(~/.aws/**)"]}, "allow"),
    ("a.py", {"cwd": "/root/work"}, "allow"),
    ("a.py", {"cwd": "/home/u/.codex/worktrees/x"}, "allow"),
    ("id_rsa", {"cwd": "/home/u/.ssh"}, "ask"),
    # hidden text
    ("src/a\u200b.py", {}, "ask"),
    ("src/\u202etxt.py", {}, "ask"),
    ("src/\x1b[2Ka.py", {}, "ask"),
]


@pytest.mark.parametrize(("path", "given", "decision"), READS)
def test_read(path: str, given: dict[str, Any], decision: str) -> None:
    verdict = weighed("Read", path, **given)

    assert verdict.decision == decision, verdict.detail


LINKED: dict[str, object] = {
    "key": "symlink:/home/u/.ssh/id_rsa",
    "out": "symlink:/srv/data",
    "dir": "symlink:../elsewhere",
    "env": "symlink:.env",
    "round": "symlink:about",
    "about": "symlink:round",
    "src/a.py": "x = 1",
    "alias": "symlink:src",
    "git": "symlink:.git",
    "gone": "symlink:/nowhere/at/all",
}
LINKS = [
    ("Read", "key", {"deny": ["Read(~/.ssh/**)"]}, "deny"),
    ("Read", "key", {}, "ask"),
    ("Read", "key", {"allow": ["Read(/key)"]}, "ask"),
    ("Read", "key", {"allow": ["Read(/key)", "Read(~/.ssh/**)"]}, "allow"),
    ("Read", "out/a", {}, "ask"),
    ("Read", "out/a", {"allow": ["Read(/out/**)"]}, "ask"),
    ("Read", "out/a", {"allow": ["Read(/out/**)", "Read(//srv/data/**)"]}, "allow"),
    ("Read", "out/a", {"allow": ["Read(//srv/data/**)"]}, "ask"),
    ("Read", "dir/x", {}, "ask"),
    ("Read", "dir/../src/a.py", {}, "ask"),
    ("Read", "env", {"deny": ["Read(.env)"]}, "deny"),
    ("Read", "env", {"deny": ["Read(env)"]}, "deny"),
    ("Read", "env", {}, "ask"),
    ("Read", "round", {}, "ask"),
    ("Read", "alias/a.py", {}, "allow"),
    ("Edit", "alias/a.py", EDITS, "allow"),
    ("Edit", "alias/a.py", {"allow": ["Edit(/src/**)"]}, "ask"),
    ("Edit", "alias/a.py", {**EDITS, "deny": ["Edit(/src/**)"]}, "deny"),
    ("Edit", "git/config", EDITS, "ask"),
    ("Write", "gone", EDITS, "ask"),
    ("Write", "out/new", EDITS, "ask"),
]


@pytest.mark.parametrize(("tool", "path", "given", "decision"), LINKS)
def test_links_allow_nothing_and_hide_nothing(tool: str, path: str, given: dict[str, Any], decision: str) -> None:
    verdict = weighed(tool, path, files=LINKED, **given)

    assert verdict.decision == decision, verdict.detail


WRITES = [
    ("src/a.py", {}, "ask"),
    ("src/a.py", EDITS, "allow"),
    ("src/a.py", {"allow": ["Edit"]}, "allow"),
    ("src/a.py", {"allow": ["Edit(src/**)"]}, "allow"),
    ("src/a.py", {"allow": ["Edit(/src/**)"]}, "allow"),
    ("src/a.py", {"allow": ["Edit(//src/**)"]}, "ask"),
    ("src/a.py", {"allow": ["Edit(a.py)"]}, "allow"),
    ("src/a.py", {"allow": ["Edit(src)"]}, "ask"),
    ("src/a.py", {"allow": ["Edit(src/)"]}, "allow"),
    ("src/a.py", {"allow": ["Edit(src/*)"]}, "allow"),
    ("src/b/a.py", {"allow": ["Edit(src/*)"]}, "ask"),
    ("pkg/src/a.py", {"allow": ["Edit(src/**)"]}, "ask"),
    ("src/a.py", {"allow": ["Edit(/src/**)"], "root": "/home/u/.config/backstay"}, "ask"),
    ("src/../../etc/x", {"allow": ["Edit(src/**)"]}, "ask"),
    ("src/../.git/config", {"allow": ["Edit(src/**)"]}, "ask"),
    ("src/a.py", {"allow": ["Write(src/**)"]}, "ask"),
    ("src/a.py", {"allow": ["NotebookEdit(src/**)"]}, "ask"),
    ("src/a.py", {"allow": ["Read(src/**)"]}, "ask"),
    ("src/a.py", {"allow": ["Write"]}, "allow"),
    ("src/a.py", {"allow": ["edit"]}, "ask"),
    ("src/a.py", {"mode": "plan"}, "deny"),
    ("src/a.py", {"mode": "plan", "allow": ["Edit"]}, "deny"),
    ("src/a.py", {"mode": "dontAsk"}, "deny"),
    ("src/a.py", {"mode": "dontAsk", "allow": ["Edit(src/**)"]}, "allow"),
    ("src/a.py", {"mode": "bypassPermissions"}, "allow"),
    ("/etc/cron.d/x", EDITS, "ask"),
    ("/etc/cron.d/x", {"allow": ["Edit"]}, "ask"),
    ("/tmp/x", {**EDITS, "allow": ["Edit(//tmp/**)"]}, "allow"),
    ("/tmp/x", {**EDITS, "scope": "full"}, "ask"),
    ("src/a.py", {**EDITS, "deny": ["Edit(src/**)"]}, "deny"),
    ("src/a.py", {**EDITS, "deny": ["Write(src/**)"]}, "deny"),
    ("src/a.py", {**EDITS, "deny": ["NotebookEdit(/src/**)"]}, "deny"),
    ("src/a.py", {**EDITS, "deny": ["Edit"]}, "deny"),
    ("src/a.py", {**EDITS, "ask": ["Edit(src/**)"]}, "ask"),
    (".env", {**EDITS, "deny": ["Read(.env)"]}, "deny"),
    (".env", EDITS, "ask"),
    (".env.example", EDITS, "allow"),
    # protected
    *(
        (path, EDITS, "ask")
        for path in (".git/config", ".git/hooks/pre-commit", "sub/.git/config", ".gitmodules", ".vscode/tasks.json")
    ),
    *(
        (path, EDITS, "ask")
        for path in (".idea/x.xml", ".husky/pre-push", ".claude/settings.json", ".backstay/settings.json", ".envrc")
    ),
    *(
        (path, EDITS, "ask")
        for path in (
            ".mcp.json",
            ".npmrc",
            ".yarnrc.yml",
            "pyrightconfig.json",
            ".pre-commit-config.yaml",
            "lefthook.yml",
        )
    ),
    *(
        (path, EDITS, "ask")
        for path in (".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", "Makefile", "tests/conftest.py")
    ),
    *(
        (path, EDITS, "ask")
        for path in (".bashrc", "dotfiles/.zshrc", "gradle/wrapper/gradle-wrapper.properties", ".cargo/config.toml")
    ),
    (".claude/settings.json", {"allow": ["Edit"]}, "ask"),
    (".claude/settings.json", {"allow": ["Edit(.claude/**)"]}, "ask"),
    (".claude/settings.json", {"mode": "bypassPermissions"}, "allow"),
    (".claude/worktrees/one/src/a.py", EDITS, "allow"),
    (".claude/worktrees/one/.git/config", EDITS, "ask"),
    (".claude/worktrees/../settings.json", EDITS, "ask"),
    *(
        (path, EDITS, "allow")
        for path in (
            ".gitignore",
            ".gitattributes",
            ".github/ISSUE_TEMPLATE.md",
            "make.py",
            "Makefile.md",
            "package.json",
        )
    ),
    *(
        (path, EDITS, "allow")
        for path in ("src/git/config", "claude/settings.json", "conftest.txt", "docs/.keep", "README.md")
    ),
    (".GIT/config", {**EDITS, "os": "darwin"}, "ask"),
    (".GIT/config", EDITS, "ask"),
    (".g\u200cit/config", {**EDITS, "os": "darwin"}, "ask"),
    ("a", {**EDITS, "roots": ("/data/repo",), "files": {"/repo": "symlink:/data/repo"}}, "allow"),
]


@pytest.mark.parametrize(("path", "given", "decision"), WRITES)
def test_write(path: str, given: dict[str, Any], decision: str) -> None:
    verdict = weighed("Write", {"file_path": path, "content": "x"}, **given)

    assert verdict.decision == decision, verdict.detail


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "NotebookEdit"])
def test_every_tool_that_writes_is_judged_alike(tool: str) -> None:
    for path, given, decision in WRITES:
        if given.get("allow") != ["Write"]:
            assert weighed(tool, path, **given).decision == decision, (path, given)


OTHER_SYSTEMS = [
    ("Read", "/repo/.ENV", "darwin", "deny"),
    ("Read", "/repo/.ENV", "windows", "deny"),
    ("Read", "/repo/.env.", "windows", "deny"),
    ("Read", "/repo/.env ", "windows", "deny"),
    ("Read", "/repo/.env::$DATA", "windows", "deny"),
    ("Read", "\\repo\\.env", "windows", "deny"),
    ("Read", "\\\\server\\share\\a", "windows", "ask"),
    ("Read", "//server/share/a", "windows", "ask"),
    ("Read", "\\\\?\\C:\\repo\\a", "windows", "ask"),
    ("Read", "PROGRA~1/a", "windows", "ask"),
    ("Read", "src\\a.py", "windows", "allow"),
    ("Read", "src/a.py", "windows", "allow"),
    ("Read", "C:\\Users\\u\\a.txt", "windows", "ask"),
    ("Read", "/private/etc/hosts.deny", "darwin", "deny"),
    ("Read", "/System/Volumes/Data/etc/hosts.deny", "darwin", "deny"),
]


@pytest.mark.parametrize(("tool", "path", "os", "decision"), OTHER_SYSTEMS)
def test_names_are_compared_as_the_system_compares_them(tool: str, path: str, os: Any, decision: str) -> None:
    verdict = weighed(tool, path, os=os, deny=["Read(.env)", "Read(//etc/hosts.deny)"])

    assert verdict.decision == decision, verdict.detail


def test_two_forms_of_one_name_are_one_name_where_the_system_says_so() -> None:
    written, ruled = (
        unicodedata.normalize("NFD", "/repo/caf\u00e9/x"),
        unicodedata.normalize("NFC", "Read(/caf\u00e9/**)"),
    )

    assert weighed("Read", written, deny=[ruled], os="darwin").decision == "deny"
    assert weighed("Read", written, deny=[ruled], os="linux").decision == "allow"


SEARCHES = [
    ("Grep", {"pattern": "x"}, {}, "allow"),
    ("Grep", {"pattern": "x", "path": "src"}, {}, "allow"),
    ("Grep", {"pattern": "x", "path": "/etc"}, {}, "ask"),
    ("Grep", {"pattern": "x", "path": ".."}, {}, "ask"),
    ("Grep", {"pattern": "x", "path": ".env"}, {}, "ask"),
    ("Grep", {"pattern": "x", "path": ".env"}, {"deny": ["Read(.env)"]}, "deny"),
    ("Grep", {"pattern": "x", "path": "secrets"}, {"deny": ["Read(secrets/**)"]}, "deny"),
    ("Grep", {"pattern": "x"}, {"deny": ["Read(.env)"]}, "allow"),
    ("Grep", {"pattern": "x", "glob": ".env"}, {"deny": ["Read(.env)"]}, "deny"),
    ("Grep", {"pattern": "x", "glob": "*.py"}, {"deny": ["Read(.env)"]}, "allow"),
    ("Grep", {"pattern": "x"}, {"deny": ["Grep"]}, "deny"),
    ("Grep", {"pattern": "x"}, {"deny": ["Read"]}, "deny"),
    ("Grep", {"pattern": "x", "path": 5}, {}, "ask"),
    ("Glob", {"pattern": "**/*.py"}, {}, "allow"),
    ("Glob", {"pattern": "/etc/**"}, {}, "ask"),
    ("Glob", {"pattern": "../**"}, {}, "ask"),
    ("Glob", {"pattern": "~/.ssh/*"}, {}, "ask"),
    ("Glob", {"pattern": "*", "path": "/home/u"}, {}, "ask"),
    ("Glob", {"pattern": "secrets/*"}, {"deny": ["Read(secrets/**)"]}, "deny"),
    ("Glob", {"pattern": ".env"}, {"deny": ["Read(.env)"]}, "deny"),
    ("Glob", {"pattern": "*", "path": "src"}, {"mode": "plan"}, "allow"),
    ("LS", {"path": "src"}, {}, "allow"),
    ("LS", {"path": "/"}, {}, "ask"),
    ("LS", {"path": "secrets"}, {"deny": ["Read(secrets)"]}, "deny"),
]


@pytest.mark.parametrize(("tool", "args", "given", "decision"), SEARCHES)
def test_search(tool: str, args: dict[str, object], given: dict[str, Any], decision: str) -> None:
    verdict = weighed(tool, args, **given)

    assert verdict.decision == decision, verdict.detail


PATCHES = [
    ("*** Begin Patch\n*** Add File: src/n.py\n+x\n*** End Patch", EDITS, "allow"),
    ("*** Begin Patch\n*** Add File: src/n.py\n+x\n*** End Patch", {}, "ask"),
    ("*** Begin Patch\n*** Add File: src/n.py\n+x\n*** Add File: .git/hooks/x\n+x\n*** End Patch", EDITS, "ask"),
    ("*** Begin Patch\n*** Delete File: ../other/x\n*** End Patch", EDITS, "ask"),
    ("*** Begin Patch\n*** Update File: src/a.py\n*** Move to: /etc/x\n@@\n-a\n+b\n*** End Patch", EDITS, "ask"),
    ("*** Begin Patch\n*** Delete File: src/a.py\n*** End Patch", {**EDITS, "deny": ["Edit(src/**)"]}, "deny"),
    ("--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-a\n+b\n", EDITS, "ask"),
    ("not a patch", EDITS, "ask"),
]


@pytest.mark.parametrize(("patch", "given", "decision"), PATCHES)
def test_every_file_of_a_patch_is_judged(patch: str, given: dict[str, Any], decision: str) -> None:
    verdict = weighed("apply_patch", patch, **given)

    assert verdict.decision == decision, verdict.detail


@pytest.mark.parametrize("args", [{}, {"file_path": 3}, {"file_path": ""}, {"path": "a"}, {"file_path": ["a"]}])
def test_arguments_that_say_nothing_ask(args: dict[str, object]) -> None:
    assert weighed("Read", args).decision == "ask"
    assert weighed("Read", args).reason == "arguments"


def test_marks_that_texts_need_are_at_home_in_files_and_others_are_not() -> None:
    family, swapped = "\U0001f468\u200d\U0001f469", "a\u202eb"

    assert weighed("Write", {"file_path": "a.md", "content": family}, mode="acceptEdits").decision == "allow"
    assert weighed("Write", {"file_path": "a.md", "content": swapped}, mode="acceptEdits").decision == "ask"
