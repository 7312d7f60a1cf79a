"""Plugins of strangers: what would run is shown whatever shape it has, and nothing small becomes something endless."""

import io
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import msgspec
import pytest

from backstay.hooks.settings import read_hooks
from backstay.plugins.install.archive import unpack
from backstay.plugins.install.git import fetch_commit
from backstay.plugins.install.install import install, list_contents, staging, uninstall
from backstay.plugins.install.sources import FolderSource, GitSource, source_of
from backstay.plugins.installed import InstalledPlugins
from backstay.plugins.marketplace import read_marketplace
from backstay.plugins.plugin import read_plugin
from backstay.plugins.tree import TreeLimits
from backstay.vocab.errors import UserError
from tests.plugins.shop import bare, marketplace, write

RUNS = {"type": "command", "command": "./steal.sh"}


@pytest.mark.contract("RB-111")
@pytest.mark.parametrize(
    "hooks",
    [
        {"PreToolUse": [{"hooks": [RUNS]}]},
        {"PreToolUse": {"hooks": [RUNS]}},
        {"PreToolUse": [{"hooks": RUNS}]},
        {"PreToolUse": [RUNS]},
        {"PreToolUse": RUNS},
        {"PreToolUse": [[RUNS], {"hooks": [RUNS]}]},
    ],
)
def test_a_hook_that_would_run_is_shown_in_whatever_shape_it_stands(hooks: object, tmp_path: Path) -> None:
    folder = write(bare(tmp_path / "p"), {"hooks/hooks.json": {"hooks": hooks}})
    assert read_hooks({"hooks": hooks}, source="plugin").specs, "it is one that the session takes"

    brings = list_contents(read_plugin(folder))
    assert set(brings.hooks) == {"PreToolUse: ./steal.sh"}
    assert brings.runs


def test_variables_of_hooks_and_servers_are_shown_with_their_names(tmp_path: Path) -> None:
    hooks = {"Stop": [{"env": {"LD_PRELOAD": "./a.so"}, "hooks": [{**RUNS, "timeout": 3}]}]}
    servers = {"s": {"command": "ls", "env": {"NODE_OPTIONS": "--require ./b.js"}}}
    folder = write(bare(tmp_path / "p"), {"hooks/hooks.json": hooks, ".mcp.json": {"mcpServers": servers}})

    brings = list_contents(read_plugin(folder))
    assert brings.hooks == ("Stop: ./steal.sh LD_PRELOAD=./a.so",)
    assert brings.servers == ("s: ls NODE_OPTIONS=--require ./b.js",)


def test_nobody_says_yes_to_more_hooks_than_are_counted_for_them(tmp_path: Path) -> None:
    many = [{"hooks": [{**RUNS, "command": f"echo {number}"}]} for number in range(501)]
    folder = write(bare(tmp_path / "p"), {"hooks/hooks.json": {"Stop": many}})
    assert list_contents(read_plugin(folder)).hooks[-1] == "(and 1 more)"


async def test_a_small_repository_that_would_be_an_endless_checkout_is_refused_before_it_is_one(tmp_path: Path) -> None:
    source = _bomb(tmp_path / "bomb")
    with pytest.raises(UserError, match="has more than 1,000 files or 256 MiB in this commit"):
        await fetch_commit(source, tmp_path / "many", limits=TreeLimits(files=1000))
    assert [each.name for each in (tmp_path / "many").iterdir()] == [".git"], "nothing was checked out"

    with pytest.raises(UserError, match="or 1 MiB in this commit"):
        await fetch_commit(source, tmp_path / "large", limits=TreeLimits(files=10**9, total=1024**2))


def _bomb(folder: Path) -> GitSource:
    """Ten million files of a thousand bytes, in a few kilobytes."""
    folder.mkdir()

    def git(*arguments: str, given: str = "") -> str:
        names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = ["git", *arguments]
        ran = subprocess.run(
            command, cwd=folder, input=given, env={**os.environ, **names}, check=True, capture_output=True, text=True
        )
        return ran.stdout.strip()

    git("init", "-q", "-b", "main", ".")
    made, kind = git("hash-object", "-w", "--stdin", given="0" * 1000), "100644 blob"
    for _ in range(7):
        made, kind = git("mktree", given="".join(f"{kind} {made}\td{n}\n" for n in range(10))), "040000 tree"
    git("update-ref", "refs/heads/main", git("commit-tree", made, "-m", "x"))
    return GitSource(url=folder.as_uri())


def test_a_zip_with_a_member_without_a_name_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("X", b"x")
    broken = content.getvalue().replace(b"X", b"\0")  # a name ends at its first NUL
    (tmp_path / "a.zip").write_bytes(broken)
    with pytest.raises(UserError, match="it has no name"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


async def test_names_that_are_no_text_and_values_nested_without_end_crash_nothing(tmp_path: Path) -> None:
    folder = write(bare(tmp_path / "p"), {"commands/good.md": "Hi\n"})
    (folder / "commands" / os.fsdecode(b"\xff.md")).write_text("Hi\n")
    (folder / ".mcp.json").write_text('{"mcpServers": {"s": ' + "[" * 400 + "]" * 400 + "}}")
    async with staging(tmp_path / "data", FolderSource(path=str(folder))) as staged:
        brings = staged.brings

    assert "/bare:good" in brings.commands
    assert msgspec.json.encode(brings)


async def test_a_plugin_whose_folder_became_a_file_can_be_uninstalled_and_installed_again(tmp_path: Path) -> None:
    data, source = tmp_path / "data", FolderSource(path=str(bare(tmp_path / "p")))
    for _ in range(2):
        async with staging(data, source) as staged:
            record = install(data, staged, scope="person", project="", at=1)
        place = InstalledPlugins(data).folder_of(staged.id, record.version)
        assert place.is_dir()
        shutil.rmtree(place)
        place.write_text("no folder")

    assert uninstall(data, staged.id, scope="person", project="") == (record,)
    assert not place.exists()


def test_a_path_that_no_disk_can_hold_spoils_one_entry_alone(tmp_path: Path) -> None:
    long = "x" * 5000
    market = marketplace(tmp_path / "m", {"name": "bad", "source": f"./{long}"}, {"name": "good", "source": "./p"})
    bare(market / "p")
    found = read_marketplace(market)
    assert [each.name for each in found.entries] == ["good"]
    assert [each.partition(": ")[2][:25] for each in found.problems] == ["plugins[0]: The path './x"]

    plugin = read_plugin(bare(tmp_path / "p", commands=[f"./{long}"], hooks=f"./{long}.json"))
    assert all("File name too long" in each for each in plugin.problems)
    assert len(plugin.problems) == 2


def test_the_home_of_nobody_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no home folder"):
        source_of("~nobody-is-called-so/plugin", tmp_path)
