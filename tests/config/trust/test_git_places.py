"""A repository that leads out of the workspace shows what lies there: git needs trust then."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.config.world import World


def git(world: World, *words: str, cwd: Path | None = None) -> str:
    names = {f"GIT_{who}_{what}": "x@x.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **world.environment, **names, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(
        command, cwd=cwd or world.project, check=True, capture_output=True, text=True, env=environment
    ).stdout


def make(world: World, folder: Path) -> Path:
    """Make a repository with a commit, and return its git folder."""
    folder.mkdir(parents=True, exist_ok=True)
    git(world, "init", "-q", cwd=folder)
    (folder / "plan.txt").write_text(folder.name, encoding="utf-8")
    git(world, "add", ".", cwd=folder)
    git(world, "commit", "-qm", "1", cwd=folder)
    return folder / ".git"


def linked(*parts: str) -> Callable[[World, Path], None]:
    def ship(world: World, private: Path) -> None:
        part = (world.project / ".git").joinpath(*parts)
        subprocess.run(["rm", "-rf", str(part)], check=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        part.symlink_to(private.joinpath(*parts))

    return ship


def written(name: str, words: str) -> Callable[[World, Path], None]:
    def ship(world: World, private: Path) -> None:
        near = os.path.relpath(private, world.project / ".git/objects")
        world.write(f".git/{name}", words.format(private=private, near=near))

    return ship


def pointer(world: World, private: Path) -> None:
    subprocess.run(["rm", "-rf", str(world.project / ".git")], check=True)
    world.write(".git", f"gitdir: {private}\n")


def whole_link(world: World, private: Path) -> None:
    subprocess.run(["rm", "-rf", str(world.project / ".git")], check=True)
    (world.project / ".git").symlink_to(private)


def no_repository(world: World, private: Path) -> None:
    """Leave nothing of a repository, so that git takes the one above."""
    subprocess.run(["rm", "-rf", str(world.project / ".git")], check=True)
    private.rename(world.project.parent / ".git")
    (world.project / ".git").mkdir()


def another_tree(world: World, private: Path) -> None:
    """Take a linked work tree of another folder for one's own."""
    git(world, "worktree", "add", "-q", str(world.home / "other"), cwd=private.parent)
    pointer(world, private / "worktrees/other")


def forged_tree(world: World, private: Path) -> None:
    """Forge a linked work tree beside the workspace, with the common folder of another repository."""
    kept = world.project.parent / "forged/worktrees/w"
    world.write(kept / "gitdir", f"{world.project}/.git\n")
    world.write(kept / "commondir", f"{private}\n")
    world.write(kept / "HEAD", "ref: refs/heads/main\n")
    pointer(world, kept)


def two_links(world: World, private: Path) -> None:
    """Lead to a folder of the workspace first, and from there out of it."""
    (world.project / "kept").mkdir()
    (world.project / "kept/heads").symlink_to(private / "refs/heads")
    subprocess.run(["rm", "-rf", str(world.project / ".git/refs")], check=True)
    (world.project / ".git/refs").symlink_to("../kept")


def two_alternates(world: World, private: Path) -> None:
    world.write("kept/info/alternates", f"{private}/objects\n")
    world.write(".git/objects/info/alternates", "../../kept\n")


def submodule(world: World, private: Path) -> None:
    make(world, world.project / "sub")
    git(world, "add", "sub")
    subprocess.run(["rm", "-rf", str(world.project / "sub/.git")], check=True)
    world.write("sub/.git", f"gitdir: {private}\n")


LEADING: Mapping[str, Callable[[World, Path], None]] = {
    "a pointer": pointer,
    "a link": whole_link,
    "none at all": no_repository,
    "another work tree": another_tree,
    "a forged work tree": forged_tree,
    "a common folder": written("commondir", "{private}\n"),
    "alternates": written("objects/info/alternates", "{private}/objects\n"),
    "alternates nearby": written("objects/info/alternates", "# no\n\n{near}/objects\n"),
    "alternates in quotes": written("objects/info/alternates", '"{private}/objec\\164s"\n'),
    "alternates of alternates": two_alternates,
    "a link of a link": two_links,
    "a submodule": submodule,
    **{
        "/".join(parts): linked(*parts)
        for parts in (
            *(("objects",), ("objects", "pack"), ("objects", "ab"), ("objects", "info", "alternates"), ("refs",)),
            *(
                ("refs", "heads"),
                ("packed-refs",),
                ("HEAD",),
                ("index",),
                ("shallow",),
                ("logs", "HEAD"),
                ("commondir",),
            ),
            *(("info", "grafts"), ("info", "exclude"), ("BISECT_START",), ("rebase-merge", "git-rebase-todo")),
            *(("worktrees", "x", "locked"), ("MERGE_HEAD",)),
        )
    },
}


@pytest.mark.parametrize("lead", LEADING.values(), ids=LEADING)
def test_git_that_reads_outside_of_the_workspace_needs_trust(world: World, lead: Callable[[World, Path], None]) -> None:
    private = make(world, world.home / "private")
    make(world, world.project)
    assert world.read().trust.survey.claims == ()

    lead(world, private)

    found = world.read().trust
    assert (found.state, {claim.kind for claim in found.survey.claims}) == ("untrusted", {"git"})
    world.trust()
    assert world.read().trust.trusted


def test_a_place_that_leads_elsewhere_later_ends_trust(world: World) -> None:
    private = make(world, world.home / "private")
    make(world, world.project)
    written("objects/info/alternates", "{private}/objects\n")(world, private)
    world.trust()

    world.write(".git/objects/info/alternates", f"{world.home}/other\n")

    assert len(world.read().trust.changed) == 1


def test_a_work_tree_that_the_repository_knows_needs_no_trust(world: World) -> None:
    main = make(world, world.home / "main").parent
    (world.project / ".git").rmdir()
    world.project.rmdir()
    git(world, "worktree", "add", "-q", str(world.project), cwd=main)

    assert world.read().trust.survey.claims == ()
    assert git(world, "log", "--format=%s") == "1\n"

    other = make(world, world.home / "private")
    (main / ".git/objects/info/alternates").write_text(f"{other}/objects\n", encoding="utf-8")
    assert world.read().trust.state == "untrusted"


def test_a_submodule_needs_no_trust_whether_opened_itself_or_below(world: World) -> None:
    make(world, world.home / "library")
    make(world, world.project)
    git(world, "submodule", "add", "-q", str(world.home / "library"), "sub")

    assert world.read().trust.survey.claims == ()
    assert world.read(cwd=world.project / "sub").trust.survey.claims == ()


def test_a_submodule_of_a_linked_work_tree_needs_no_trust(world: World) -> None:
    make(world, world.home / "library")
    main = make(world, world.home / "main").parent
    git(world, "submodule", "add", "-q", str(world.home / "library"), "sub", cwd=main)
    git(world, "commit", "-qm", "2", cwd=main)
    (world.project / ".git").rmdir()
    world.project.rmdir()
    git(world, "worktree", "add", "-q", str(world.project), cwd=main)
    git(world, "submodule", "update", "-q", "--init")

    assert world.read().trust.survey.claims == ()
    assert world.read(cwd=world.project / "sub").trust.survey.claims == ()

    git(world, "config", "core.worktree", str(world.home), cwd=main / "sub")
    assert world.read().trust.state == "untrusted"


@pytest.mark.parametrize("cwd", [".", "src"])
def test_a_repository_with_its_folder_elsewhere_needs_no_trust_where_that_names_it(world: World, cwd: str) -> None:
    (world.project / ".git").rmdir()
    git(world, "init", "-q", "--separate-git-dir", str(world.home / "kept"))
    git(world, "config", "core.worktree", str(world.project))
    (world.project / "src").mkdir()

    assert world.read(cwd=world.project / cwd).trust.survey.claims == ()


def test_a_repository_that_borrows_objects_of_another_may_be_trusted(world: World) -> None:
    make(world, world.home / "private")
    (world.project / ".git").rmdir()
    world.project.rmdir()
    git(
        world,
        "clone",
        "-q",
        "--reference",
        str(world.home / "private"),
        str(world.home / "private"),
        str(world.project),
        cwd=world.home,
    )

    assert [claim.file for claim in world.read().trust.survey.claims] == [".git/objects/info/alternates"]
    world.trust()
    assert world.read().trust.trusted


def test_a_repository_of_the_folder_above_is_the_workspace_of_a_folder_below(world: World) -> None:
    make(world, world.project)
    (world.project / "src/deep").mkdir(parents=True)

    assert world.read(cwd=world.project / "src/deep").trust.survey.claims == ()
