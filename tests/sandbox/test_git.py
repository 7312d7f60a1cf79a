"""git in a repository whose configuration names programs: none of them runs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from backstay.sandbox.git import git_environment, run_git
from backstay.vocab.env_keys import without_keys
from backstay.vocab.errors import UserError

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")]

HOOKS = (
    *(
        "applypatch-msg",
        "pre-applypatch",
        "post-applypatch",
        "pre-commit",
        "pre-merge-commit",
        "prepare-commit-msg",
        "commit-msg",
    ),
    *(
        "post-commit",
        "pre-rebase",
        "post-checkout",
        "post-merge",
        "pre-push",
        "pre-auto-gc",
        "post-rewrite",
        "sendemail-validate",
    ),
    *("fsmonitor-watchman", "post-index-change", "reference-transaction", "push-to-checkout", "proc-receive", "update"),
)
LOOKING: tuple[tuple[str, ...], ...] = (
    ("status", "--porcelain=v2", "--branch"),
    ("status",),
    ("log", "-p", "-2"),
    ("log", "--format=%G? %s", "-1"),
    ("diff",),
    ("diff", "HEAD"),
    ("diff", "--", "a.txt"),
    ("diff", "--", "c.conv"),
    ("log", "-p", "--", "c.conv"),
    ("diff", "--submodule=diff"),
    ("show", "HEAD"),
    ("show", "HEAD:a.txt"),
    ("ls-files", "-s"),
    ("ls-files", "-m", "-o"),
    ("rev-parse", "HEAD"),
    ("stash", "create"),
    ("blame", "a.txt"),
    ("grep", "two"),
    ("branch", "-a"),
    ("cat-file", "--textconv", "HEAD:a.txt"),
    ("check-attr", "-a", "a.txt"),
    ("submodule", "status"),
    ("diff-index", "-p", "HEAD"),
    ("hash-object", "-w", "a.txt"),
)
ACTING: tuple[tuple[str, ...], ...] = (
    *LOOKING,
    ("add", "."),
    ("commit", "-q", "-m", "more"),
    ("commit", "-q", "--amend"),
    ("checkout", "-q", "-b", "other"),
    ("checkout", "-q", "HEAD~1", "--", "a.txt"),
    ("st",),
    ("fetch", "hostile"),
    ("fetch", "local"),
    ("fetch", "secure"),
    ("fetch", "proxied"),
    ("push", "local", "HEAD"),
    ("tag", "-a", "t", "-m", "t"),
    ("archive", "--format=evil", "-o", "x.evil", "HEAD"),
    ("merge", "-q", "side", "-m", "merge"),
    ("rebase", "-q", "HEAD~1"),
    ("gc", "--auto"),
    ("ls-remote", "ext::sh -c touch% ./marked"),
)


class Hostile:
    """A repository that would leave a mark for each program of its own that runs."""

    def __init__(self, folder: Path) -> None:
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.root = folder / "repository"
        self._clean("init", "-q", "-b", "main", str(self.root), cwd=folder)
        self._clean("config", "user.email", "a@example.org")
        self._clean("config", "user.name", "A")
        self._fill()
        self._poison()

    def program(self, name: str, then: str = "cat") -> str:
        """A command that leaves a mark."""
        return f"touch {self.marks / name}; {then}"

    @property
    def ran(self) -> list[str]:
        """The marks that were left."""
        return sorted(os.listdir(self.marks))

    def git(self, *args: str, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        """Run git as the model would."""
        base = {name: value for name, value in without_keys(os.environ).items() if not name.startswith("GIT_")}
        return subprocess.run(
            ["git", *args],
            cwd=self.root,
            env=base | environment,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    def _clean(self, *args: str, cwd: Path | None = None) -> None:
        subprocess.run(
            ["git", "-c", "commit.gpgSign=false", *args],
            cwd=cwd or self.root,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )

    def _fill(self) -> None:
        (self.root / "a.txt").write_text("one\n", encoding="utf-8")
        for name in ("b.dat", "c.conv"):
            (self.root / name).write_text("one\n", encoding="utf-8")
        attributes = "*.txt filter=evil diff=evil merge=evil\n*.dat filter=piped\n*.conv diff=conv\n"
        (self.root / ".gitattributes").write_text(attributes, encoding="utf-8")
        self._clean("add", ".")
        self._clean("commit", "-q", "-m", "one")
        self._clean("checkout", "-q", "-b", "side")
        (self.root / "a.txt").write_text("side\n", encoding="utf-8")
        self._clean("commit", "-q", "-am", "side")
        self._clean("checkout", "-q", "main")
        (self.root / "a.txt").write_text("two\n", encoding="utf-8")
        self._clean("commit", "-q", "-am", "two")
        self._submodule()
        for name in ("a.txt", "b.dat", "c.conv"):
            with (self.root / name).open("a", encoding="utf-8") as file:
                file.write("three\n")

    def _submodule(self) -> None:
        inner = self.root / "inner"
        inner.mkdir()
        self._clean("init", "-q", cwd=inner)
        (inner / "b.txt").write_text("b\n", encoding="utf-8")
        self._clean("add", ".", cwd=inner)
        self._clean("-c", "user.email=a@example.org", "-c", "user.name=A", "commit", "-q", "-m", "b", cwd=inner)
        self._clean("config", "core.fsmonitor", self.program("fsmonitor-of-submodule", "false"), cwd=inner)
        module = '[submodule "inner"]\n\tpath = inner\n\turl = ext::sh -c "touch marked"\n\tignore = none\n'
        (self.root / ".gitmodules").write_text(module, encoding="utf-8")
        self._clean("-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never", "add", ".gitmodules", "inner")
        self._clean("commit", "-q", "-m", "submodule")

    def _poison(self) -> None:
        settings = {
            "core.fsmonitor": self.program("fsmonitor", "false"),
            "core.pager": self.program("pager"),
            "pager.log": self.program("pager-of-log"),
            "pager.status": self.program("pager-of-status"),
            "core.editor": self.program("editor", "true"),
            "sequence.editor": self.program("sequence-editor", "true"),
            "core.sshCommand": self.program("ssh", "false"),
            "core.gitProxy": str(self._script("proxy")),
            "core.askPass": str(self._script("askpass")),
            "core.alternateRefsCommand": self.program("alternates", "true"),
            "credential.helper": f"!{self.program('helper')}",
            "credential.https://127.0.0.1.helper": f"!{self.program('helper-by-address')}",
            "diff.external": self.program("external-diff", "true"),
            "diff.evil.command": self.program("diff-driver", "true"),
            "diff.conv.textconv": self.program("textconv", "cat"),
            "filter.evil.clean": self.program("clean"),
            "filter.evil.smudge": self.program("smudge"),
            "filter.piped.process": self.program("process", "false"),
            "filter.evil.required": "true",
            "merge.evil.driver": self.program("merge-driver", "true"),
            "alias.st": f"!{self.program('alias', 'true')}",
            "gpg.program": str(self._script("gpg")),
            "commit.gpgSign": "true",
            "tag.gpgSign": "true",
            "log.showSignature": "true",
            "tar.evil.command": self.program("archive"),
            "hook.evil.command": self.program("configured-hook", "true"),
            "hook.evil.event": "pre-commit",
            "protocol.ext.allow": "always",
            "remote.hostile.url": f"ext::sh -c touch% {self.marks / 'ext'}",
            "remote.local.url": str(self.root),
            "remote.local.uploadpack": self.program("uploadpack", "false"),
            "remote.local.receivepack": self.program("receivepack", "false"),
            "remote.secure.url": "ssh://127.0.0.1:1/x",
            "remote.proxied.url": "git://127.0.0.1:1/x",
            "submodule.inner.update": f"!{self.program('submodule-update', 'true')}",
            "include.path": str(self._included()),
        }
        for key, value in settings.items():
            self._clean("-c", "core.fsmonitor=false", "config", key, value)
        for name in HOOKS:
            self._script(name, self.root / ".git" / "hooks" / name)

    def _script(self, name: str, path: Path | None = None) -> Path:
        path = path or self.root.parent / f"{name}.sh"
        path.write_text(f"#!/bin/sh\ntouch {self.marks / name}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def _included(self) -> Path:
        path = self.root.parent / "included"
        path.write_text(f'[diff "more"]\n\ttextconv = "{self.program("included-textconv")}"\n', encoding="utf-8")
        with (self.root / ".git/info/attributes").open("a", encoding="utf-8") as file:
            file.write(".gitattributes diff=more filter=evil\n")
        return path


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


def test_the_hostile_repository_is_hostile(hostile: Hostile) -> None:
    for args in ACTING:
        hostile.git(*args, environment={"GIT_EDITOR": "true"} if args[0] == "rebase" else {})

    programs = {
        "fsmonitor",
        "fsmonitor-of-submodule",
        "external-diff",
        "diff-driver",
        "textconv",
        "clean",
        "smudge",
        "process",
    }
    more = {
        "alias",
        "ext",
        "ssh",
        "proxy",
        "gpg",
        "uploadpack",
        "receivepack",
        "archive",
        "pre-commit",
        "post-index-change",
    }
    assert sorted((programs | more) - set(hostile.ran)) == []


@pytest.mark.contract("RV-B17")
async def test_git_of_our_own_runs_nothing_that_the_repository_names(hostile: Hostile) -> None:
    for args in LOOKING:
        await run_git(args, hostile.root)

    assert hostile.ran == []


@pytest.mark.contract("RV-B17")
async def test_git_of_our_own_is_not_told_what_to_load(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_DEBUG", "libs")  # whoever hears of it says so

    assert (await run_git(("status", "--porcelain"), hostile.root)).err == ""


async def test_git_of_our_own_says_what_is_true(hostile: Hostile) -> None:
    status = await run_git(("status", "--porcelain"), hostile.root)
    diff = await run_git(("diff", "-U0", "--", "a.txt"), hostile.root)
    log = await run_git(("log", "--format=%s"), hostile.root)
    stash = await run_git(("stash", "create"), hostile.root)

    assert status.text == " M a.txt\n M b.dat\n M c.conv\n"
    assert diff.text.endswith("@@ -1,0 +2 @@ two\n+three\n")
    assert log.text == "submodule\ntwo\none\n"
    assert (stash.code, len(stash.text.strip())) == (0, 40)


@pytest.mark.contract("RV-B17")
def test_git_that_a_model_runs_with_the_environment_runs_nothing_that_the_repository_names(hostile: Hostile) -> None:
    environment = git_environment(hostile.root)
    said = [hostile.git(*args, environment=environment) for args in ACTING]

    assert hostile.ran == []
    assert not (hostile.root / "marked").exists()
    assert sum(each.returncode == 0 for each in said) >= len(LOOKING)


def test_without_a_folder_everything_with_a_fixed_name_is_off(hostile: Hostile) -> None:
    for args in LOOKING:
        hostile.git(*args, environment=git_environment())

    assert not {"fsmonitor", "pager", "gpg", "ssh", "helper"} & set(hostile.ran)
    assert not set(HOOKS) & set(hostile.ran)


def test_a_file_with_an_external_diff_driver_is_still_compared(hostile: Hostile) -> None:
    said = hostile.git("diff", "--", "a.txt", environment=git_environment(hostile.root))

    assert said.stdout.splitlines()[-1] == b"+three"
    assert hostile.ran == []


def test_a_bare_repository_inside_the_tree_is_not_taken(hostile: Hostile) -> None:
    bare = hostile.root / "vendor"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    subprocess.run(
        ["git", "--git-dir", str(bare), "config", "core.fsmonitor", hostile.program("bare", "false")], check=True
    )
    subprocess.run(["git", "--git-dir", str(bare), "config", "core.bare", "false"], check=True)
    subprocess.run(["git", "--git-dir", str(bare), "config", "core.worktree", "."], check=True)
    base = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "status"], cwd=bare, env=base | git_environment(bare), check=False, capture_output=True)

    assert hostile.ran == []


async def test_a_work_tree_elsewhere_is_not_looked_at(tmp_path: Path, hostile: Hostile) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "diary.txt").touch()
    hostile.git("config", "core.worktree", str(elsewhere), environment={})

    status = await run_git(("status", "--porcelain"), hostile.root)

    assert status.text == " M a.txt\n M b.dat\n M c.conv\n"


async def test_a_common_folder_elsewhere_brings_no_programs(tmp_path: Path, hostile: Hostile) -> None:
    evil = tmp_path / "evil"
    shutil.copytree(hostile.root / ".git", evil)
    (hostile.root / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n", encoding="utf-8")
    (hostile.root / ".git/commondir").write_text(f"{evil}\n", encoding="utf-8")

    for args in LOOKING:
        await run_git(args, hostile.root)

    assert hostile.ran == []


async def test_no_repository_and_no_answer_in_time_are_named(tmp_path: Path, hostile: Hostile) -> None:
    with pytest.raises(UserError, match="in no git repository"):
        await run_git(("status",), "/")
    with pytest.raises(UserError, match="took longer than"):
        await run_git(("cat-file", "--batch-all-objects", "--batch"), hostile.root, deadline_s=0.0)


def test_the_persons_own_drivers_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> None:
    mine = tmp_path / "gitconfig"
    mine.write_text('[filter "mine"]\n\tclean = cat\n[alias]\n\tmine = status\n', encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))

    keys = {value for name, value in git_environment(hostile.root).items() if name.startswith("GIT_CONFIG_KEY_")}

    assert "filter.evil.clean" in keys
    assert not {"filter.mine.clean", "alias.mine"} & keys
