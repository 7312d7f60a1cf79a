"""Installing: fetched from every kind of source, shown, pinned, loaded only as it was shown, switched on and off."""

import json
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from backstay.plugins.ids import PluginId
from backstay.plugins.install.fetch import Reach
from backstay.plugins.install.git import fetch_commit
from backstay.plugins.install.install import install, staging, uninstall
from backstay.plugins.install.sources import (
    ArchiveSource,
    FolderSource,
    GitSource,
    NpmSource,
    PythonSource,
    Source,
    UrlSource,
)
from backstay.plugins.installed import Installed, InstalledPlugins
from backstay.plugins.known_marketplaces import KnownMarketplaces
from backstay.plugins.load import Loaded, load_plugins
from backstay.plugins.tree import tree_digest
from backstay.vocab.errors import EgressRefused, UserError
from tests.plugins.host import Host, hosting
from tests.plugins.shop import bare, git, marketplace, plugin, repository, tarred, write, zipped


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with hosting() as host:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        yield host


async def put(data: Path, source: Source, scope: str = "person", project: str = "") -> Installed:
    async with staging(data, source) as staged:
        return install(data, staged, scope=scope, project=project, at=7)  # type: ignore[arg-type]  # one of two words


def load(data: Path, *names: str, **more: object) -> Loaded:
    return load_plugins(dict.fromkeys(names, True), None, data, True, **more)  # type: ignore[arg-type]  # as it has them


@pytest.mark.contract("RB-111")
async def test_a_plugin_is_shown_before_it_is_installed_and_pinned_by_version_and_hash(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", plugin(tmp_path / "p")
    async with staging(data, FolderSource(path=str(folder))) as staged:
        assert staged.brings.hooks == ("PreToolUse: python3 ${CLAUDE_PLUGIN_ROOT}/hooks/guard.py",)
        assert staged.brings.servers == ("notes: ${CLAUDE_PLUGIN_ROOT}/bin/notes --stdio",)
        assert staged.brings.commands == ("/reviewer:review", "/reviewer:team:sync")
        assert staged.brings.skills == ("reviewer:style",)
        assert staged.brings.agents == ("critic",)
        assert staged.brings.rules == ("deny Bash(rm -rf *)", "ask WebFetch")
        assert staged.brings.runs
        assert not (data / "plugins/cache").exists()
        record = install(data, staged, scope="person", project="", at=7)

    assert os.listdir(data / "plugins/staging") == []
    place = data / "plugins/cache/direct/reviewer/1.9.0"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    book = data / "plugins/installed_plugins.json"
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    assert json.loads(book.read_text())["plugins"]["reviewer@direct"][0]["sha256"] == record.sha256
    found = load(data, "reviewer@direct")
    assert [(each.id, each.version, each.folder) for each in found.plugins] == [("reviewer@direct", "1.9.0", place)]
    assert found.problems == ()
    assert not any(path.name == "SHOULD_NOT_EXIST" for path in tmp_path.rglob("*"))


async def test_what_nobody_said_yes_to_leaves_nothing_behind(tmp_path: Path) -> None:
    async with staging(tmp_path / "data", FolderSource(path=str(plugin(tmp_path / "p")))):
        pass
    assert [path.name for path in (tmp_path / "data").rglob("*")] == ["plugins", "staging"]


@pytest.mark.contract("RB-111")
async def test_a_tree_that_changed_after_the_install_is_not_loaded_and_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await put(data, FolderSource(path=str(plugin(tmp_path / "p"))))
    await put(data, FolderSource(path=str(bare(tmp_path / "b"))))
    guard = data / "plugins/cache/direct/reviewer/1.9.0/hooks/guard.py"
    before = guard.read_text()

    guard.write_text("import evil\n")

    found = load(data, "reviewer@direct", "bare@direct")
    assert [each.name for each in found.plugins] == ["bare"]  # what is wrong with one hides no other
    assert "'reviewer@direct' is not loaded: its files in" in found.problems[0]
    assert "are not what was installed" in found.problems[0]
    guard.write_text(before)
    assert len(load(data, "reviewer@direct").plugins) == 1
    (guard.parent / "more.py").write_text("x")
    assert load(data, "reviewer@direct").plugins == ()


@pytest.mark.contract("RB-111")
async def test_rb_w20_what_is_switched_off_is_not_loaded(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await put(data, FolderSource(path=str(bare(tmp_path / "b"))))

    def names(enabled: dict[str, bool], **more: object) -> list[str]:
        return [each.id for each in load_plugins(enabled, None, data, True, **more).plugins]  # type: ignore[arg-type]

    assert names({"bare@direct": True}) == names({"bare": True}) == ["bare@direct"]
    assert names({}) == names({"bare@direct": False}) == names({"bare": False}) == []
    assert names({"bare": True, "bare@direct": False}) == names({"bare": False, "bare@direct": True}) == []
    assert names({"bare@direct": True}, of_project={"bare@direct": False}) == []
    assert names({"bare@direct": False}, of_project={"bare@direct": True}) == ["bare@direct"]


async def test_rb_w20_a_project_install_counts_in_its_project_and_only_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await put(data, FolderSource(path=str(bare(tmp_path / "b", version="1.9"))))
    await put(data, FolderSource(path=str(bare(tmp_path / "b", version="1.10"))), "project", "/work/one")

    assert [each.version for each in load(data, "bare", project="/work/one").plugins] == ["1.10"]
    assert [each.version for each in load(data, "bare", project="/work/two").plugins] == ["1.9"]
    uninstall(data, next(iter(InstalledPlugins(data).read())), scope="person", project="")
    assert not (data / "plugins/cache/direct/bare/1.9").exists()
    found = load(data, "bare", project="/work/two")
    assert found.plugins == ()
    assert "installed for another project only" in found.problems[0]


async def test_before_trust_a_workspace_switches_nothing_on_or_off(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("on", "off"):
        await put(data, FolderSource(path=str(bare(tmp_path / name, name=name))))

    found = load_plugins({"on": True}, None, data, False, of_project={"off": True, "on": False, "gone": True})

    assert [each.name for each in found.plugins] == ["on"]  # a guard of the person's own stays
    assert found.held_back == ("off", "on", "gone")
    assert found.problems == ()


async def test_a_plugin_of_a_forgotten_marketplace_or_a_missing_one_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = marketplace(tmp_path / "m", {"name": "bare", "source": "./b"})
    with_entry = bare(folder / "b")
    assert with_entry.exists()
    book = KnownMarketplaces(data)
    listed = await book.add(FolderSource(path=str(folder)), 1)
    async with staging(data, listed.entry("bare").source, entry=listed.entry("bare")) as staged:
        install(data, staged, scope="person", project="", at=1)

    assert load_plugins({"bare@acme": True}, {"acme"}, data, True).problems == ()
    gone = load_plugins({"bare@acme": True, "never@acme": True}, {"other"}, data, True)
    assert gone.plugins == ()
    assert "its marketplace 'acme' is not known any more" in gone.problems[0]
    assert "'never@acme' is not installed" in gone.problems[1]


def test_nothing_switched_on_reads_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"plugins/installed_plugins.json": "{ broken"})

    assert load_plugins({}, None, tmp_path, True) == Loaded()
    assert load_plugins({"a": False}, None, tmp_path, True) == Loaded()
    found = load_plugins({"a": True}, None, tmp_path, True)
    assert found.plugins == ()
    assert "is damaged" in found.problems[0] or "Other users" in found.problems[0]


async def test_a_plugin_without_a_manifest_takes_what_its_marketplace_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(tmp_path / "m/one", {"skills/s/SKILL.md": "x", "lib/h.json": {"Stop": []}})
    entry = {
        "name": "one",
        "source": "./one",
        "version": "0.3",
        "description": "Short",
        "strict": False,
        "hooks": "./lib/h.json",
        "keywords": ["k"],
    }
    listed = await KnownMarketplaces(data).add(FolderSource(path=str(marketplace(tmp_path / "m", entry))), 1)
    async with staging(data, listed.entry("one").source, entry=listed.entry("one")) as staged:
        install(data, staged, scope="person", project="", at=1)

    (found,) = load(data, "one@acme").plugins
    assert (found.version, found.manifest.description, found.manifest.keywords) == ("0.3", "Short", ("k",))
    assert found.hooks_raw == ({"Stop": []},)
    assert not (tmp_path / "m/one/.claude-plugin").exists()  # the source is left as it was


async def test_an_unfit_plugin_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    for number, folder in enumerate(
        (
            bare(tmp_path / "a", skills="../../x"),
            write(bare(tmp_path / "b"), {"hooks/hooks.json": "{"}),
            write(tmp_path / "c", {"README.md": "no plugin"}),
        )
    ):
        with pytest.raises(UserError, match=r"is refused|no plugin"):
            async with staging(tmp_path / f"data{number}", FolderSource(path=str(folder))):
                pytest.fail("it must not be shown")
    evil = bare(tmp_path / "d")
    (evil / "link").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="The link 'link'"):
        await put(tmp_path / "data", FolderSource(path=str(evil)))


async def test_what_is_pinned_and_yet_unfit_is_not_loaded(tmp_path: Path) -> None:
    """A book from elsewhere, or rules that became stricter: the pin alone is not enough."""
    data = tmp_path / "data"
    record = await put(data, FolderSource(path=str(bare(tmp_path / "b"))))
    folder = data / "plugins/cache/direct/bare/1.0.0"
    bare(folder, skills="../../../../..")
    InstalledPlugins(data).add(PluginId("bare", "direct"), replace(record, sha256=tree_digest(folder)))

    found = load(data, "bare")

    assert found.plugins == ()
    assert "'../../../../..' leaves the plugin's folder" in found.problems[0]


async def test_installs_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def one(name: str) -> None:
        source = FolderSource(path=str(bare(tmp_path / name, name=name)))
        async with staging(data, source) as staged:
            work = partial(install, data, staged, scope="person", project="", at=1)
            await anyio.to_thread.run_sync(work)

    names = [f"p{number}" for number in range(8)]
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(one, name)

    assert sorted(each.name for each in InstalledPlugins(data).read()) == names
    assert len(load(data, *names).plugins) == 8


# --- git -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-111")
async def test_rb_w15_a_repository_is_fetched_at_the_ref_or_commit_that_was_named(tmp_path: Path) -> None:
    folder = bare(tmp_path / "r", version="1.0")
    first = repository(folder)
    git(folder, "tag", "v1")
    bare(folder, version="2.0")
    second = repository(folder)
    url = f"file://{folder}"

    for source, commit, version in (
        (GitSource(url=url), second, "2.0"),
        (GitSource(url=url, ref="v1"), first, "1.0"),
        (GitSource(url=url, sha=first), first, "1.0"),
        (GitSource(url=url, ref="main", sha=second), second, "2.0"),
    ):
        async with staging(tmp_path / "data", source) as staged:
            assert (staged.commit, staged.version) == (commit, version)
    with pytest.raises(UserError, match="git fetch failed"):
        await put(tmp_path / "data", GitSource(url=url, sha="0" * 40))
    with pytest.raises(UserError, match="git fetch failed"):
        await put(tmp_path / "data", GitSource(url=url, ref="gone"))


async def test_a_plugin_in_a_folder_of_a_repository_is_found_and_none_outside_it(tmp_path: Path) -> None:
    bare(tmp_path / "r/deep/plugin", version="")
    commit = repository(tmp_path / "r")
    url = f"file://{tmp_path / 'r'}"

    async with staging(tmp_path / "data", GitSource(url=url, path="deep/plugin")) as staged:
        assert staged.version == commit[:12]
    with pytest.raises(UserError, match="leaves the repository"):
        await put(tmp_path / "data", GitSource(url=url, path="../../x"))


async def test_rb_w15_nothing_of_a_hostile_repository_runs_when_it_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    program = write(tmp_path, {"evil.sh": f"#!/bin/sh\ntouch {mark}\ncat\n"}) / "evil.sh"
    program.chmod(0o755)
    folder = write(bare(tmp_path / "r"), {".gitattributes": "* filter=evil\n", ".gitmodules": "[submodule]\n"})
    repository(folder)
    for name in ("post-checkout", "post-merge", "reference-transaction", "post-index-change"):
        write(tmp_path / "template/hooks", {name: f"#!/bin/sh\ntouch {mark}\n"})
        (tmp_path / "template/hooks" / name).chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path / "template"))
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))

    await put(tmp_path / "data", GitSource(url=f"file://{folder}"))

    assert not mark.exists()
    with pytest.raises(UserError, match="git fetch failed"):
        await fetch_commit(GitSource(url=f"ext::sh -c touch% {mark}"), tmp_path / "x")
    with pytest.raises(UserError, match="git fetch failed"):
        await fetch_commit(GitSource(url=f"file://{folder}"), tmp_path / "y", local=False)
    with pytest.raises(UserError, match="git fetch failed"):
        await fetch_commit(GitSource(url=f"; touch {mark}", ref="$(id)"), tmp_path / "z")
    assert not mark.exists()


# --- archives, indexes ---------------------------------------------------------------------------------------------------------------


async def test_an_archive_of_this_machine_or_of_a_host_is_installed_and_its_hash_is_checked(
    tmp_path: Path, host: Host
) -> None:
    folder = plugin(tmp_path / "p")
    zip_file, tar_file = zipped(folder, tmp_path / "p.zip"), tarred(folder, tmp_path / "p.tgz", "p-1.0")
    for source in (
        ArchiveSource(url=str(zip_file)),
        ArchiveSource(url=str(tar_file)),
        ArchiveSource(url=host.put("/p.zip", zip_file.read_bytes())),
    ):
        assert (await put(tmp_path / "data", source)).version == "1.9.0"
    for url in (str(zip_file), f"{host.url}/p.zip"):
        with pytest.raises(UserError, match="SHA-256"):
            await put(tmp_path / "data", ArchiveSource(url=url, sha256="0" * 64))
    with pytest.raises(UserError, match="answered 404"):
        await put(tmp_path / "data", ArchiveSource(url=f"{host.url}/gone.zip"))


async def test_a_wheel_and_a_tarball_of_npm_are_archives_whose_one_plugin_is_installed(tmp_path: Path) -> None:
    write(plugin(tmp_path / "w/acme_reviewer/plugin"), {})
    write(
        tmp_path / "w",
        {"acme_reviewer/__init__.py": "raise SystemExit('imported')", "acme_reviewer-1.dist-info/METADATA": "x"},
    )
    wheel = zipped(tmp_path / "w", tmp_path / "acme_reviewer-1-py3-none-any.whl")
    tarball = tarred(plugin(tmp_path / "n", version="3.1.0"), tmp_path / "acme-reviewer-3.1.0.tgz", "package")

    assert (await put(tmp_path / "data", ArchiveSource(url=str(wheel)))).version == "1.9.0"
    assert (await put(tmp_path / "data", ArchiveSource(url=str(tarball)))).version == "3.1.0"
    for name, folders in (("none", ()), ("two", ("a", "b"))):
        folder = write(tmp_path / name, {"README": "x"})
        for each in folders:
            bare(folder / each)
        with pytest.raises(UserError, match=r"holds (no|2) plugins"):
            await put(tmp_path / "data", ArchiveSource(url=str(zipped(folder, tmp_path / f"{name}.zip"))))


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (PythonSource(package="acme", version="1.2"), "pip download --no-deps acme==1.2"),
        (NpmSource(package="@acme/tools", version="1.2.3"), "npm pack @acme/tools@1.2.3"),
    ],
)
async def test_nothing_is_fetched_from_an_index_and_what_to_do_is_said(
    tmp_path: Path, source: Source, command: str
) -> None:
    with pytest.raises(UserError) as caught:
        await put(tmp_path / "data", source)

    assert command in str(caught.value)
    assert "backstay plugins install ./FILE" in str(caught.value)


async def test_a_plugin_that_once_came_from_an_index_is_still_loaded(tmp_path: Path) -> None:
    data = tmp_path / "data"
    record = await put(data, FolderSource(path=str(bare(tmp_path / "b"))))
    InstalledPlugins(data).add(PluginId("bare", "direct"), replace(record, source=NpmSource(package="bare")))

    assert [each.name for each in load(data, "bare").plugins] == ["bare"]


async def test_a_marketplace_at_an_address_reaches_its_own_host_and_no_other_private_one(
    tmp_path: Path, host: Host
) -> None:
    with hosting() as other:
        content = zipped(plugin(tmp_path / "p"), tmp_path / "p.zip").read_bytes()
        entries = [
            {"name": "near", "source": {"source": "archive", "url": host.put("/p.zip", content)}},
            {"name": "far", "source": {"source": "archive", "url": other.put("/p.zip", content)}},
            {"name": "metadata", "source": {"source": "archive", "url": "http://169.254.169.254/x.zip"}},
            {"name": "repository", "source": {"source": "url", "url": "https://127.0.0.1:1/x.git"}},
        ]
        listing = {"name": "acme", "owner": {"name": "A"}, "plugins": entries}
        source = UrlSource(url=host.put("/m.json", json.dumps(listing).encode(), "application/json"))
        data = tmp_path / "data"
        listed = await KnownMarketplaces(data).add(source, 1)
        reach = Reach.of_marketplace(source)

        async with staging(data, listed.entry("near").source, entry=listed.entry("near"), reach=reach) as staged:
            assert str(staged.id) == "near@acme"
        for name in ("far", "metadata", "repository"):
            entry = listed.entry(name)
            with pytest.raises(EgressRefused):
                async with staging(data, entry.source, entry=entry, reach=reach):
                    pytest.fail("it must not be fetched")
        assert other.asked == []


async def test_a_new_version_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for version in ("1.9", "1.10"):
        await put(data, FolderSource(path=str(bare(tmp_path / "b", version=version))))

    assert os.listdir(data / "plugins/cache/direct/bare") == ["1.10"]
    assert [each.version for each in load(data, "bare").plugins] == ["1.10"]
    bare(tmp_path / "b", version="1.10", description="same number, other words")
    await put(data, FolderSource(path=str(tmp_path / "b")))
    assert load(data, "bare").plugins[0].manifest.description == "same number, other words"
