"""What settings say about plugins, and what becomes of it in a session."""

from pathlib import Path

import pytest

from backstay.config.layer_file import read_layer
from backstay.config.locations import SettingsFile
from backstay.plugins.install.install import install, staging
from backstay.plugins.install.sources import FolderSource, GitSource, UrlSource
from backstay.plugins.installed import read_enabling
from backstay.plugins.load import PluginConfig
from backstay.plugins.manage import Plugins
from backstay.system.machine import SystemClock
from backstay.vocab.errors import UserError
from tests.config.world import World
from tests.config.world import world as world  # noqa: PLC0414 - a fixture
from tests.plugins.shop import bare, write


def test_the_settings_of_all_files_come_together_by_who_wrote_them(tmp_path: Path) -> None:
    github = {"source": {"source": "github", "repo": "acme/m"}}
    files = []
    for name, source, family, content in (
        ("managed", "managed", "backstay", {"enabledPlugins": {"a@m": False}}),
        ("local", "local", "backstay", {"enabledPlugins": {"a@m": True, "b@m": True}}),
        (
            "project",
            "project",
            "claude",
            {"enabledPlugins": {"b@m": False, "c@m": True}, "extraKnownMarketplaces": {"p": github}},
        ),
        (
            "person",
            "person",
            "backstay",
            {
                "enabledPlugins": {"a@m": True, "d@m": True, "../x": True, "e": "yes"},
                "extraKnownMarketplaces": {
                    "q": {"source": {"source": "url", "url": "https://x.example/m.json"}},
                    "r": {"source": {"source": "url", "url": "file:///etc"}},
                    "s": 3,
                },
            },
        ),
        ("other", "person", "claude", {"enabledPlugins": {"theirs@m": True}}),
    ):
        path = write(tmp_path, {f"{name}.json": content}) / f"{name}.json"
        files.append(read_layer(SettingsFile(path=path, source=source, root=str(tmp_path), family=family)))  # type: ignore[arg-type]

    found = read_enabling(files)

    assert found.enabled == {"a@m": False, "d@m": True, "e": False}
    assert found.of_project == {"b@m": True, "c@m": True}  # what is managed is not up to a workspace
    assert found.counts(trusted=False) == found.enabled
    assert found.counts(trusted=True) == {**found.enabled, **found.of_project}
    assert found.marketplaces == {"q": UrlSource(url="https://x.example/m.json")}
    assert found.project_marketplaces == {"p": GitSource(url="https://github.com/acme/m.git")}
    assert [each.rpartition(f"{tmp_path}/")[2].partition(": ")[0] for each in found.problems] == [
        "person.json:5",
        "person.json:6",
        "person.json:15",
        "person.json:21",
    ]


async def put(world: World, folder: Path) -> None:
    async with staging(world.data, FolderSource(path=str(folder))) as staged:
        install(world.data, staged, scope="person", project="", at=1)


def place(world: World) -> PluginConfig:
    return PluginConfig.of(world.read())


async def test_the_plugins_of_a_run_are_those_that_its_settings_switch_on(world: World, tmp_path: Path) -> None:
    await put(world, bare(tmp_path / "mine", name="mine"))
    await put(world, bare(tmp_path / "ours", name="ours"))
    assert place(world).load().plugins == ()

    world.write(world.config, {"enabledPlugins": {"mine@direct": True}})
    world.write(".backstay/settings.json", {"enabledPlugins": {"ours@direct": True}, "env": {"A": "b"}})

    untrusted = place(world).load()
    assert ([each.name for each in untrusted.plugins], untrusted.held_back) == (["mine"], ("ours@direct",))
    world.trust()
    trusted = place(world).load()
    assert ([each.name for each in trusted.plugins], trusted.held_back, trusted.problems) == (["mine", "ours"], (), ())


async def test_damaged_books_take_no_session_down(world: World, tmp_path: Path) -> None:
    await put(world, bare(tmp_path / "mine", name="mine"))
    world.write(world.config, {"enabledPlugins": {"mine@direct": True, "theirs@acme": True}})
    world.write(world.data / "plugins/known_marketplaces.json", "{")

    found = place(world).load()
    assert [each.name for each in found.plugins] == ["mine"]
    assert "known_marketplaces.json' is damaged" in found.problems[0]
    world.write(world.data / "plugins/installed_plugins.json", "[]")
    found = place(world).load()
    assert found.plugins == ()
    assert "installed_plugins.json' is damaged" in found.problems[1]


async def test_switching_in_a_trusted_project_keeps_it_trusted(world: World, tmp_path: Path) -> None:
    await put(world, bare(tmp_path / "ours", name="ours"))
    world.write(".backstay/settings.json", {"env": {"A": "b"}})
    world.trust()

    plugins = Plugins(world.project, SystemClock(), world.environment)
    assert plugins.switch("ours@direct", True, "project") == world.project / ".backstay/settings.json"

    assert world.read().trust.trusted
    assert [row.state for row in plugins.rows()] == ["on"]


async def test_rb_w56_settings_that_became_broken_meanwhile_are_left_as_they_are(world: World, tmp_path: Path) -> None:
    await put(world, bare(tmp_path / "mine", name="mine"))
    plugins = Plugins(world.project, SystemClock(), world.environment)
    broken = '{"permissions": {"deny": ["Read(.env)"]},}'
    world.write(world.config, broken)

    with pytest.raises(UserError, match=rf"{world.config}:1"):
        plugins.switch("mine@direct", True, "person")

    assert world.config.read_text() == broken


async def test_a_project_cannot_have_a_file_elsewhere_written(world: World, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"settings.json": "{}"})
    (world.project / ".backstay").symlink_to(outside)
    plugins = Plugins(world.project, SystemClock(), world.environment)

    with pytest.raises(UserError, match="leads"):
        plugins.switch("mine@direct", True, "project")
    assert (outside / "settings.json").read_text() == "{}"
