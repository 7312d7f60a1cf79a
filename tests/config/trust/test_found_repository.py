"""Which repository git takes is for git to say: wherever a program of its configuration would run, the workspace needs trust."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from backstay.config.layers import read_layers
from tests.config.world import World

MARK = "PWNED"


def evil(world: World, kept: Path, tree: str = "", *, more: str = "", git: tuple[str, ...] = ()) -> Path:
    """Make a git folder whose configuration runs a program at `git status`, and return it."""
    subprocess.run(["git", *git, "init", "-q", str(world.home / "new")], check=True, env=clean(world))
    kept.parent.mkdir(parents=True, exist_ok=True)
    if kept == world.project / ".git":
        kept.rmdir()
    (world.home / "new/.git").rename(kept)
    world.write(kept / "config", config(world, tree, more))
    return kept


def config(world: World, tree: str = "", more: str = "") -> str:
    """A configuration with a monitor, and a program that compares, that leave a mark."""
    where = f"\tworktree = {tree}\n" if tree else ""
    more = f"[diff]\n\texternal = {monitor(world)}\n{more}"
    return f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n{where}\tfsmonitor = {monitor(world)}\n{more}"


def monitor(world: World) -> str:
    """The monitor, quoted."""
    return f'"touch {world.home / MARK}; false"'


def clean(world: World) -> dict[str, str]:
    """The environment of the person."""
    return {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", **world.environment}


def status(world: World, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
    """Start git as commands of a session without any guard would."""
    files = [str(world.write(world.home / name, name)) for name in "ab"]
    for words in (["git", "status"], ["git", "diff", "--no-index", *files]):
        subprocess.run(words, cwd=cwd, check=False, capture_output=True, env={**clean(world), **(environment or {})})


def bare_plain(world: World) -> Path:
    return evil(world, world.project / "app", tree=".")


def bare_with_common_folder(world: World) -> Path:
    app = bare_plain(world)
    (app / "x").mkdir()
    for name in ("objects", "refs", "config"):
        (app / name).rename(app / "x" / name)
    world.write(app / "commondir", "x\n")
    world.write(app / "x/config", config(world, tree=".."))
    return app


def bare_with_head_that_leads_nowhere(world: World) -> Path:
    app = bare_plain(world)
    (app / "HEAD").unlink()
    (app / "HEAD").symlink_to("refs/heads/main")
    return app


def bare_with_files_for_folders(world: World) -> Path:
    app = bare_plain(world)
    for name in ("objects", "refs"):
        shutil.rmtree(app / name)
        world.write(app / name, "", mode=0o755)
    return app


def bare_above_the_working_folder(world: World) -> Path:
    inner = bare_with_common_folder(world) / "package"
    inner.mkdir()
    return inner


def folder_with_common_folder(world: World) -> Path:
    git = evil(world, world.project / ".git")
    (git / "c").mkdir()
    for name in ("objects", "refs", "config"):
        (git / name).rename(git / "c" / name)
    world.write(git / "commondir", "c\n")
    return world.project


def pointer(name: str, words: str = "gitdir: {}\n") -> Callable[[World], Path]:
    def ship(world: World) -> Path:
        (world.project / ".git").rmdir()
        (world.project / "kept").mkdir()
        evil(world, world.project / name)
        world.write(".git", words.format(name))
        return world.project

    return ship


def common_folder(name: str, end: str) -> Callable[[World], Path]:
    def ship(world: World) -> Path:
        folder_with_common_folder(world)
        (world.project / ".git/c").rename(world.project / f".git/{name}")
        world.write(".git/commondir", f"{name}{end}")
        (world.project / f".git/{name.strip()}").mkdir(exist_ok=True)
        return world.project

    return ship


def below(*parts: str) -> Callable[[World], Path]:
    def ship(world: World) -> Path:
        evil(world, world.project / ".git")
        for part in parts:
            (world.project / "app/.git" / part).mkdir(parents=True)
        return world.project / "app"

    return ship


def link(world: World) -> Path:
    evil(world, world.home / "real")
    (world.project / ".git").rmdir()
    (world.project / ".git").symlink_to(world.home / "real")
    return world.project


def worktree_config(world: World) -> Path:
    git = evil(world, world.project / ".git")
    world.write(git / "config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n")
    world.write(git / "config.worktree", config(world))
    return world.project


def linked_worktree(world: World) -> Path:
    main = evil(world, world.home / "main/.git")
    kept = main / "worktrees/w"
    kept.mkdir(parents=True)
    for name, words in (
        ("HEAD", "ref: refs/heads/w\n"),
        ("commondir", "../..\n"),
        ("gitdir", f"{world.project}/.git\n"),
    ):
        world.write(kept / name, words)
    (world.project / ".git").rmdir()
    world.write(".git", f"gitdir: {kept}\n")
    return world.project


def included(*files: tuple[str, str]) -> Callable[[World], Path]:
    def ship(world: World) -> Path:
        git = evil(world, world.project / ".git")
        for name, words in files:
            world.write(git / name, words.replace("HERE", str(git)).replace("MONITOR", monitor(world)))
        return world.project

    return ship


def spelled(words: str) -> Callable[[World], Path]:
    return included(("config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n" + words))


def other_tree(world: World) -> Path:
    evil(world, world.project / ".git", tree="../app")
    (world.project / "app").mkdir()
    return world.project / "app"


def sha256(world: World) -> Path:
    evil(world, world.project / ".git")
    more = "[extensions]\n\tobjectformat = sha256\n"
    world.write(".git/config", config(world, more=more).replace("version = 0", "version = 1"))
    return world.project


FORMS: Mapping[str, Callable[[World], Path]] = {
    "a bare repository": bare_plain,
    "bare, with a common folder": bare_with_common_folder,
    "bare, HEAD leads nowhere": bare_with_head_that_leads_nowhere,
    "bare, files for folders": bare_with_files_for_folders,
    "bare, above": bare_above_the_working_folder,
    "a folder with a common folder": folder_with_common_folder,
    "a pointer": pointer("kept/g"),
    "a pointer, blank at the end": pointer("kept/g "),
    "a pointer, blank at the beginning": pointer(" g"),
    "a pointer, no-break space": pointer("kept/g\u00a0"),
    "a pointer, two line ends": pointer("kept/g", "gitdir: {}\r\n\r\n"),
    "a pointer by a chain of folders": pointer("kept/g", "gitdir: kept/../kept/./g"),
    "a common folder, blank at the end": common_folder("c ", "\n"),
    "a common folder, carriage return": common_folder("c", "\r\n"),
    "an empty .git below": below(""),
    "a .git without HEAD below": below("objects", "refs"),
    "a link": link,
    "a configuration of the worktree": worktree_config,
    "a linked worktree": linked_worktree,
    "another work tree": other_tree,
    "sha256": sha256,
    "an include": included(("config", "[include]\npath = a\n"), ("a", "[core]\nfsmonitor = MONITOR\n")),
    "an include of an include": included(
        ("config", "[include]\npath = a\n"), ("a", "[include]\npath = b\n"), ("b", "[core]\nfsmonitor = MONITOR\n")
    ),
    "an include by its folder": included(
        ("config", '[includeIf "gitdir:HERE"]\npath = a\n'), ("a", "[core]\nfsmonitor = MONITOR\n")
    ),
    "capitals": spelled("[CORE]\nFSMonitor=MONITOR\n"),
    "one line": spelled("[core]fsmonitor=MONITOR"),
    "a line that goes on": spelled("[core]\nfsmonitor = \\\nMONITOR\n"),
    "carriage returns": spelled("[core]\r\n\tfsmonitor = MONITOR\r\n"),
    "another section first": spelled('[a "b]"]\nc = d\n[core]\n ; x\n fsmonitor = MONITOR # y\n'),
}


@pytest.mark.parametrize("ship", FORMS.values(), ids=FORMS)
def test_whatever_makes_git_run_a_program_needs_trust(world: World, ship: Callable[[World], Path]) -> None:
    cwd = ship(world)

    found = world.read(cwd=cwd).trust

    assert (found.state, {claim.kind for claim in found.survey.claims}) == ("untrusted", {"git"})
    assert not (world.home / MARK).exists()
    world.trust(cwd)
    assert world.read(cwd=cwd).trust.trusted
    status(world, cwd)
    assert (world.home / MARK).exists(), "and the test can fail: git itself runs it"


@pytest.mark.parametrize("by", ["environment", "settings"])
def test_a_repository_that_the_person_leads_git_to_needs_trust(world: World, by: str) -> None:
    led = {"GIT_DIR": "kept"}
    evil(world, world.project / "kept", tree="..")
    if by == "settings":
        world.write(world.config, {"env": led})

    environment = {**world.environment, **(led if by == "environment" else {})}
    found = read_layers(world.project, environment=environment, managed=world.managed).trust

    assert (found.state, str(world.project / "kept") in found.survey.running) == ("untrusted", True)
    status(world, world.project, led)
    assert (world.home / MARK).exists()


def test_a_change_two_includes_away_ends_trust(world: World) -> None:
    FORMS["an include of an include"](world)
    world.trust()
    assert world.read().trust.trusted

    world.write(".git/b", "[core]\n\tfsmonitor = other\n")

    assert world.read().trust.changed == ("git:.git/a include.path", "git:.git/b core.fsmonitor")


@pytest.mark.parametrize(
    "words", ["[core", "[core]\n\trepositoryformatversion = 99\n", "[extensions]\n\tunheard = 1\n"]
)
def test_an_answer_that_is_not_understood_needs_trust(world: World, words: str) -> None:
    evil(world, world.project / ".git")
    world.write(".git/config", words.replace("[ext", "[core]\n\trepositoryformatversion = 1\n[ext"))

    assert world.read().trust.state == "untrusted"


def test_a_configuration_without_end_is_not_read_to_its_end(world: World) -> None:
    evil(world, world.project / ".git")
    world.write(".git/config", "[core]\n\trepositoryformatversion = 0\n[a]\n" + "x\n" * 200_000)

    found = world.read().trust

    assert (found.state, any("more than" in each.text for each in found.survey.claims)) == ("untrusted", True)


def test_a_name_with_a_line_end_is_not_understood(world: World) -> None:
    pointer("kept/g\nh")(world)
    world.write("kept/g\nh/config", "")

    assert world.read().trust.state == "untrusted"


def test_a_repository_of_no_harm_has_nothing_to_trust(world: World) -> None:
    app = bare_plain(world)
    world.write(app / "config", "[core]\n\tbare = true\n")

    found = world.read(cwd=app).trust

    assert (found.state, found.survey.claims, found.survey.bare) == ("trusted", (), True)
    assert {str(app), str(app / "config")} <= set(found.survey.running)


@pytest.mark.parametrize(
    "ship", [folder_with_common_folder, below(), link, worktree_config], ids=["common", "below", "link", "worktree"]
)
def test_only_what_lies_around_a_folder_is_bare(world: World, ship: Callable[[World], Path]) -> None:
    assert not world.read(cwd=ship(world)).trust.survey.bare


def test_what_would_make_a_repository_around_the_working_folder_counts_as_run(world: World) -> None:
    inner = world.project / "mid/app"
    inner.mkdir(parents=True)
    world.write("mid/HEAD", "ref: refs/heads/main\n")

    running = world.read(cwd=inner).trust.survey.running

    names = ("HEAD", "mid/HEAD", "mid/objects", "mid/refs", "mid/config", "mid/commondir")
    assert {str(world.project / name) for name in names} <= set(running)
    assert str(world.project / "objects") not in running


def test_files_that_git_reads_under_other_names_count_as_run(world: World) -> None:
    evil(world, world.project / ".git", more="[include]\n\tpath = ../later\n")
    world.write(world.home / ".gitconfig", f"[include]\n\tpath = {world.project}/dotfiles/git\n")
    world.write("dotfiles/git", "[user]\n\tname = x\n")

    running = world.read().trust.survey.running

    assert {str(world.project / "dotfiles/git"), os.path.realpath(world.project / "later")} <= set(running)


def test_a_session_in_the_git_folder_itself_edits_none_of_it(world: World) -> None:
    git = evil(world, world.project / ".git")
    world.write(git / "config", "")

    assert str(git) in world.read(cwd=git).trust.survey.running
