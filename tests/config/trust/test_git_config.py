"""The git configuration of a repository: what in it runs a program."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from backstay.config.trust.git_config import program_keys
from backstay.sandbox.git_files import Unclear, git_keys

RUNS = (
    *(
        "core.fsmonitor=./x",
        "core.hooksPath=.husky",
        "core.pager=less",
        "core.editor=vi",
        "core.sshCommand=ssh",
        "core.askPass=x",
    ),
    *(
        "core.gitProxy=x",
        "core.alternateRefsCommand=x",
        "core.attributesFile=x",
        "core.worktree=/",
        "core.unheardOf=x",
    ),
    *(
        "diff.external=x",
        "diff.d.command=x",
        "diff.d.textconv=x",
        "merge.m.driver=x",
        "filter.f.clean=x",
        "filter.f.smudge=x",
    ),
    *(
        "filter.f.process=x",
        "filter.lfs.process=x",
        "alias.st=!sh",
        "alias.st=status",
        "include.path=x",
        "includeIf.gitdir:/.path=x",
    ),
    *(
        "credential.helper=!x",
        "credential.helper=./x",
        "credential.https://a.helper=x",
        "gpg.program=x",
        "gpg.ssh.program=x",
    ),
    *(
        "gpg.ssh.defaultKeyCommand=x",
        "interactive.diffFilter=x",
        "pager.log=x",
        "difftool.d.cmd=x",
        "difftool.d.path=x",
    ),
    *(
        "mergetool.m.cmd=x",
        "browser.b.cmd=x",
        "man.m.cmd=x",
        "uploadpack.packObjectsHook=x",
        "remote.o.uploadpack=x",
    ),
    *(
        "remote.o.receivepack=x",
        "remote.o.vcs=x",
        "remote.o.proxy=x",
        "remote.o.url=ext::sh",
        "remote.o.pushurl=ext::sh",
    ),
    *(
        "remote.o.url=--upload-pack=x",
        "url.ext::sh.insteadOf=https://a",
        "protocol.ext.allow=always",
        "protocol.allow=user",
    ),
    *(
        "submodule.s.update=!x",
        "trailer.t.command=x",
        "trailer.t.cmd=x",
        "web.browser=x",
        "guitool.g.cmd=x",
        "hook.h.command=x",
    ),
    *(
        "sequence.editor=x",
        "lfs.customtransfer.c.path=x",
        "lfs.extension.e.clean=x",
        "tar.t.command=x",
        "ssh.variant=x",
    ),
    *(
        "remote.origin.promisor=true",
        "remote.origin.partialCloneFilter=blob:none",
        "remote.--exec.fetch=y",
        "extensions.partialClone=origin",
        "promisor.acceptFromServer=all",
    ),
    *(
        "blame.ignoreRevsFile=.env",
        "mailmap.file=.env",
        "core.excludesFile=.env",
        "diff.orderFile=.env",
    ),
    *(
        "log.showSignature=true",
        "format.pretty=%h %G?",
        "pretty.mine=format:%+GK",
        "branch.sort=signature",
        "extensions.refStorage=files:///x",
    ),
    *(
        "diff.submodule=diff",
        "status.submoduleSummary=true",
        "status.submoduleSummary=5",
        "submodule.s.ignore=none",
        "submodule.s.ignore=untracked",
    ),
)
RUNS_NOTHING = (
    *(
        "core.repositoryFormatVersion=0",
        "core.bare=false",
        "core.fsmonitor=true",
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
    ),
    *(
        "core.pager=cat",
        "remote.origin.url=git@example.org:a/b.git",
        "remote.origin.url=ssh://git@[::1]/a",
        "remote.o.fetch=+x:y",
    ),
    *(
        "branch.main.merge=refs/heads/main",
        "branch.main.vscode-merge-base=x",
        "user.email=a@b",
        "submodule.s.url=https://a",
    ),
    *(
        "submodule.s.update=rebase",
        "diff.algorithm=patience",
        "diff.d.xfuncname=x",
        "merge.conflictStyle=zdiff3",
        "pager.log=false",
    ),
    *(
        "filter.lfs.required=true",
        "credential.helper=store",
        "url.git@a:.insteadOf=https://a/",
        "gc.auto=0",
        "protocol.version=2",
    ),
    *(
        "gpg.format=ssh",
        "commit.gpgSign=true",
        "http.https://a/.extraHeader=x",
        "lfs.https://a/info/lfs.access=basic",
    ),
    *(
        "extensions.worktreeConfig=true",
        "blame.date=iso",
        "protocol.ext.allow=never",
        "push.default=simple",
        "init.defaultBranch=main",
    ),
    *(
        "log.showSignature=no",
        "log.date=iso",
        "format.pretty=%h %s",
        "branch.sort=-committerdate",
        "branch.b.merge=refs/heads/signature",
        "extensions.refStorage=reftable",
    ),
    *(
        "diff.submodule=log",
        "status.submoduleSummary=false",
        "status.showUntrackedFiles=all",
        "submodule.s.ignore=dirty",
    ),
)


def written(key: str) -> str:
    """A key as git writes it."""
    name, _, value = key.partition("=")
    section, _, rest = name.partition(".")
    sub, _, last = rest.rpartition(".")
    header = f'[{section} "{sub}"]' if sub else f"[{section}]"
    return f'{header}\n\t{last} = "{value}"\n'


@pytest.mark.parametrize("key", RUNS)
def test_a_key_that_names_a_program_is_found_in_every_writing(key: str) -> None:
    content = written(key)

    for form in (
        content,
        content.upper().replace(key.partition("=")[2].upper(), key.partition("=")[2]),
        f"# a\n{content}",
    ):
        assert len(program_keys(form)) == 1, form


@pytest.mark.parametrize("key", RUNS_NOTHING)
def test_a_key_that_runs_nothing_is_passed_over(key: str) -> None:
    assert program_keys(written(key)) == ()


def test_what_git_lfs_writes_is_passed_over_as_it_writes_it_and_only_so() -> None:
    content = '[filter "lfs"]\n\tprocess = git-lfs filter-process\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n'

    assert program_keys(content) == ()
    assert len(program_keys(content.replace("%f", "%f \\\n&& sh"))) == 2


@pytest.mark.parametrize(
    "content",
    [
        "[core] fsmonitor = ./x",
        "[core]\n\tfsmonitor = \\\n ./x",
        '[core]\nfsmonitor="./x" # no',
        "[core]\r\nfsmonitor=./x\r\n",
        "\ufeff[core]\nfsmonitor=./x",
        "[user]\nname=x ; [core]\n[core]\nfsmonitor=./x",
        '[core]\nfsmonitor="./x\\\n"',
        "[CORE]FSMONITOR=./x",
    ],
)
def test_no_writing_hides_a_program(content: str) -> None:
    assert program_keys(content) == (("core.fsmonitor", "./x"),)


@pytest.mark.parametrize(
    "content", ["[core", "[core]\n=x", "x=1", '[core]\na="', "[core]\na=\\x", "[core]\n\0", "[a b]"]
)
def test_what_cannot_be_read_is_said_to_be_unclear(content: str) -> None:
    with pytest.raises(Unclear):
        program_keys(content)


def test_git_itself_reads_the_same_keys(tmp_path: Path) -> None:
    chance, path, agreed = random.Random(7), tmp_path / "config", 0
    for _ in range(150):
        text = "[s]\n" + "".join(chance.choices(_PIECES, k=chance.randrange(1, 8)))
        path.write_text(text, encoding="utf-8", newline="")
        told = subprocess.run(
            ["git", "config", "--file", str(path), "--list", "-z"],
            capture_output=True,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        if told.returncode:
            continue  # then git does nothing at all
        entries = [entry.partition("\n") for entry in told.stdout.decode().split("\0")[:-1]]
        theirs = [(key, " ".join(value.split()) if has else "true") for key, has, value in entries]
        assert [(key, " ".join(value.split())) for key, value in git_keys(text)] == theirs, text
        agreed += 1
    assert agreed > 20


_PIECES = (
    *(
        "[core]",
        '[core "a b"]',
        "[remote.x]",
        '[Alias "Q\\"z"]',
        "[a]k=v",
        "\n",
        "\n",
        "\n",
        "\r\n",
        " ",
        "\t",
        "a",
        "b1",
    ),
    *("x-y", "=", " = ", '"', '"v w"', "\\\n", "\\n", '\\"', "#c", ";d", "true", "!sh", "\\\\", "é"),
)
