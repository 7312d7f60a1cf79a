"""Settings in layers: lists are gathered, the highest word counts, and every value keeps its file."""

import os
from pathlib import Path
from typing import get_args

import pytest

from backstay.config import layers
from backstay.config.layers import Layered, load_layers
from backstay.config.settings import Settings
from backstay.logic.decide.policy import looser
from backstay.session.apply_settings import merge_layers
from backstay.session.options import Options
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule, RuleSource
from backstay.vocab.specs import MODES, Mode
from tests.config.world import World, rules


def everywhere(world: World, content: object) -> dict[str, Path]:
    """Write the same file at every layer; its places, highest first."""
    found = {
        "managed": world.managed,
        "flag": world.home / "given.json",
        "local": world.project / ".backstay/settings.local.json",
        "project": world.project / ".backstay/settings.json",
        "claude local": world.project / ".claude/settings.local.json",
        "claude project": world.project / ".claude/settings.json",
        "person": world.config,
        "claude person": world.home / ".claude/settings.json",
    }
    for path in found.values():
        world.write(path, content)
    return found


def test_a_machine_without_settings_has_none(world: World) -> None:
    found = world.read()

    assert (found.settings, found.rules, found.hooks, found.env, found.folders) == (Settings(), (), (), {}, ())
    assert (found.mode, found.files, found.warnings, found.notice) == (None, (), (), "")
    assert found.trust.trusted
    assert not world.data.exists()


async def test_the_layers_are_read_off_the_event_loop_too(world: World) -> None:
    world.write(world.config, {"permissions": {"deny": ["Bash"]}})

    found = await load_layers(world.project, environment=world.environment)

    assert rules(found) == [("deny", "Bash", "person")]


def test_every_layer_is_read_in_its_order_and_every_rule_knows_where_it_comes_from(world: World) -> None:
    places = everywhere(world, {})
    for name, path in places.items():
        world.write(path, {"permissions": {"deny": [f"Read(/{name})"]}})

    found = world.read(given=places["flag"])

    assert [(file.path, file.place.source) for file in found.files] == [
        (str(path), name.split()[-1]) for name, path in places.items()
    ]
    assert [(rule.pattern, rule.source, rule.root) for rule in found.rules] == [
        (f"/{name}", name.split()[-1], str(folder))
        for name, folder in (
            ("managed", world.managed.parent),
            ("flag", world.home),
            ("local", world.project),
            ("project", world.project),
            ("claude local", world.project),
            ("claude project", world.project),
            ("person", world.config.parent),
            ("claude person", world.home / ".claude"),
        )
    ]
    assert {rule.source for rule in found.rules} <= set(get_args(RuleSource))


def test_the_project_is_that_of_the_git_root_above_and_patterns_start_there(world: World) -> None:
    world.write(".claude/settings.json", {"permissions": {"deny": ["Edit(/src/**)"]}})
    below = world.project / "src" / "deep"
    below.mkdir(parents=True)

    (rule,) = world.read(cwd=below).rules

    assert rule.root == str(world.project)


def test_rb_w9_a_project_never_takes_away_what_the_person_denies_or_guards(world: World) -> None:
    guard = world.hook("guard")
    world.write(world.config, {"permissions": {"deny": ["Bash(rm *)"], "ask": ["WebFetch"]}, "hooks": guard})
    empty = {"permissions": {"deny": [], "ask": [], "allow": ["Bash(rm *)"]}, "hooks": {"PreToolUse": []}}
    for name in (".backstay/settings.json", ".backstay/settings.local.json", ".claude/settings.json"):
        world.write(name, {**empty, "disableAllHooks": True})

    for trust in (True, False, None):
        found = world.read(trust=trust)

        assert {("deny", "Bash(rm *)", "person"), ("ask", "WebFetch", "person")} <= set(rules(found))
        assert [layer.section for layer in found.hooks if layer.source == "person"] == [guard]
    allowed = ("allow", "Bash(rm *)", "project")
    assert allowed in rules(world.read(trust=True))  # beside the denial, which beats it


def test_hooks_of_all_layers_are_gathered_with_source_and_root(world: World) -> None:
    places = everywhere(world, {"hooks": world.hook("check")})

    found = world.read(given=places["flag"], trust=True)

    assert [(each.source, each.file) for each in found.hooks] == [
        (name.split()[-1], str(path)) for name, path in places.items()
    ]
    assert {each.root for each in found.hooks if each.source in ("project", "local")} == {str(world.project)}


@pytest.mark.parametrize(
    ("switch", "left"),
    [
        ("managed", []),
        ("flag", ["managed"]),
        ("person", ["managed", "flag"]),
        ("project", ["managed", "flag", "person", "person"]),
        ("claude person", ["managed", "flag", "local", "project", "person"]),
    ],
)
def test_a_layer_switches_off_hooks_below_it_and_never_above(world: World, switch: str, left: list[str]) -> None:
    content = {"hooks": world.hook("check")}
    places = everywhere(world, content)
    world.write(places[switch], {**content, "disableAllHooks": True})

    found = world.read(given=places["flag"], trust=True)

    assert [each.source for each in found.hooks] == left


def test_of_single_values_the_highest_counts_and_its_file_is_known(world: World) -> None:
    places = everywhere(world, {"chat": {"max_messages": 1}, "env": {"A": "1"}, "retries": 1})
    world.write(places["person"], {"chat": {"max_messages": 2, "default_model": "m:1"}, "env": {"A": "2", "B": "2"}})
    world.write(places["project"], {"chat": {"max_messages": 3}, "env": {"A": "3", "C": "3"}})
    for name in ("managed", "local", "claude local", "claude project"):
        places[name].unlink()

    found = world.read(trust=True)

    assert (found.settings.chat.max_messages, found.settings.chat.default_model) == (3, "m:1")
    assert found.settings.retries is None
    assert found.env == {"A": "3", "B": "2", "C": "3"}
    project, person = str(places["project"]), str(places["person"])
    assert {each.key: each.file for each in found.entries if each.counts} == {
        "chat.max_messages": project,
        "chat.default_model": person,
        "env.A": project,
        "env.B": person,
        "env.C": project,
    }


def test_of_another_programs_files_only_permissions_and_hooks_and_a_projects_environment_are_read(world: World) -> None:
    content = {"env": {"A": "1"}, "chat": {"max_messages": 1}, "providers": 7, "statusLine": {}, "sandbox": {}}
    world.write(".claude/settings.json", content)
    world.write(world.home / ".claude/settings.json", {**content, "env": {"B": "1"}})

    found = world.read(trust=True)

    assert (found.settings, found.env, found.warnings) == (Settings(), {"A": "1"}, ())


def test_allowed_commands_of_all_layers_are_gathered(world: World) -> None:
    world.write(world.config, {"chat": {"allowed_commands": ["make", "git status"]}})
    world.write(".backstay/settings.json", {"chat": {"allowed_commands": ["npm test", "make"]}})

    assert world.read(trust=True).settings.chat.allowed_commands == ("npm test", "make", "git status")
    assert world.read(trust=False).settings.chat.allowed_commands == ("make", "git status")


# --- modes ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("person", [None, *MODES])
@pytest.mark.parametrize("wanted", MODES)
def test_an_untrusted_projects_mode_only_makes_stricter_and_no_project_asks_nobody(
    world: World, person: Mode | None, wanted: Mode
) -> None:
    if person is not None:
        world.write(world.config, {"permissions": {"defaultMode": person}})
    world.write(".claude/settings.json", {"permissions": {"defaultMode": wanted}})

    untrusted, trusted = world.read(trust=False), world.read(trust=True)

    assert untrusted.mode == (person if looser(wanted, person or "default") or wanted == person else wanted)
    assert trusted.mode == (person if wanted == "bypassPermissions" else wanted)
    assert bool(trusted.warnings) == (wanted == "bypassPermissions")


@pytest.mark.parametrize("forbidding", ["managed", ".backstay/settings.json"])
@pytest.mark.parametrize("wanted", MODES)
def test_an_untrusted_projects_mode_is_measured_by_the_mode_that_holds_where_bypass_is_forbidden(
    world: World, forbidding: str, wanted: Mode
) -> None:
    target = world.managed if forbidding == "managed" else world.project / forbidding
    world.write(target, {"permissions": {"disableBypassPermissionsMode": "disable"}})
    world.write(world.config, {"permissions": {"defaultMode": "bypassPermissions"}})
    world.write(".claude/settings.json", {"permissions": {"defaultMode": wanted}})

    found, trusted = world.read(), world.read(trust=True)

    assert found.mode == (wanted if looser("default", wanted) else "default")
    assert trusted.mode == ("default" if wanted == "bypassPermissions" else wanted)
    assert (found.trust.state, bool(found.notice)) == (
        ("untrusted", True) if wanted == "acceptEdits" else ("trusted", False)
    )


@pytest.mark.parametrize("said", MODES)
@pytest.mark.parametrize("wanted", MODES)
def test_the_mode_of_an_opening_goes_before_that_of_a_project(world: World, said: Mode, wanted: Mode) -> None:
    world.write(".claude/settings.json", {"permissions": {"defaultMode": wanted}})

    for trust in (True, False):
        assert merge_layers(Options(permission_mode=said), world.read(trust=trust)).permission_mode == said


def test_rb_w21_where_nothing_is_said_nobody_is_left_unasked(world: World) -> None:
    for trust in (True, False, None):
        assert merge_layers(Options(), world.read(trust=trust)).permission_mode in (None, "default")


def test_looser_orders_the_modes() -> None:
    order: tuple[Mode, ...] = ("plan", "dontAsk", "default", "acceptEdits", "bypassPermissions")

    assert [(a, b) for a in order for b in order if looser(a, b)] == [
        (a, b) for i, a in enumerate(order) for b in order[:i]
    ]


@pytest.mark.parametrize("switch", ["disable", True, "yes", 1])
@pytest.mark.parametrize("where", [".claude/settings.json", "managed"])
def test_bypass_can_be_forbidden_by_anybody(world: World, where: str, switch: object) -> None:
    target = world.managed if where == "managed" else world.project / where
    world.write(world.config, {"permissions": {"defaultMode": "bypassPermissions"}})
    path = world.write(target, {"permissions": {"disableBypassPermissionsMode": switch}})

    found = world.read()

    assert (found.mode, found.bypass_forbidden) == ("default", str(path))
    with pytest.raises(UserError, match="forbids"):
        merge_layers(Options(permission_mode="bypassPermissions"), found)


MISTYPED = [
    ({"permissions": {"defaultMode": "Plan"}}, "permissions.defaultMode: 'Plan' is no mode", "Did you mean 'plan'?"),
    ({"permissions": {"defaultMode": "dont-ask"}}, "'dont-ask' is no mode", "Did you mean 'dontAsk'?"),
    ({"permissions": {"defaultMode": "auto"}}, "'auto' is no mode", "The modes are plan, default,"),
    ({"permissions": {"defaultMode": ""}}, "'' is no mode", "The modes are"),
    ({"defaultTrustLevel": "Safe"}, "defaultTrustLevel: 'Safe' is no level", "Did you mean 'safe'?"),
    ({"defaultTrustLevel": "wild"}, "'wild' is no level", "The levels are safe, moderate, full."),
    ({"permissions": {"defaultMode": "default"}, "defaultTrustLevel": "wild"}, "'wild' is no level", "The levels are"),
]


@pytest.mark.parametrize(("content", "words", "hint"), MISTYPED)
@pytest.mark.parametrize("kept", [None, {"permissions": {"deny": ["Bash"]}}])
def test_b4_a_mode_or_level_that_nobody_knows_stops_the_run(
    world: World, content: object, words: str, hint: str, kept: object
) -> None:
    """Also when an older copy says what the file denied: the word may have meant a stricter mode."""
    for path in (world.config, world.managed, ".backstay/settings.json"):
        if kept is not None:
            world.write(path, kept)
            world.read()
        written = world.write(path, content)
        with pytest.raises(UserError) as caught:
            world.read()
        written.unlink()

        assert str(caught.value).startswith(f"{written}:")
        assert words in str(caught.value)
        assert hint in str(caught.value)
    with pytest.raises(UserError, match=r"is no (mode|level)"):
        world.read(given=world.write(world.home / "given.json", content))


@pytest.mark.parametrize(
    ("written", "mode"),
    [("Plan", "plan"), ("dontask", "dontAsk"), ("auto", None), ("AcceptEdits", None), ("bypass", None)],
)
def test_b4_a_mistyped_mode_of_another_programs_file_never_loosens(
    world: World, written: str, mode: Mode | None
) -> None:
    path = world.write(".claude/settings.json", {"permissions": {"defaultMode": written}})

    found = world.read(trust=True)

    assert found.mode == mode
    assert any(str(path) in words and f"{written!r}, which is no mode" in words for words in found.warnings)


def test_a_managed_mode_is_not_made_looser_by_a_flag(world: World) -> None:
    world.write(world.managed, {"permissions": {"defaultMode": "default"}})
    found = world.read()

    assert merge_layers(Options(), found).permission_mode == "default"
    assert merge_layers(Options(permission_mode="plan"), found).permission_mode == "plan"
    with pytest.raises(UserError, match="looser than 'default'"):
        merge_layers(Options(permission_mode="acceptEdits"), found)


def test_layers_fill_options_and_an_old_session_keeps_its_mode(world: World) -> None:
    world.write(
        world.config,
        {
            "permissions": {"defaultMode": "acceptEdits", "deny": ["Bash"], "additionalDirectories": [str(world.home)]},
            "retries": 2,
        },
    )
    mine = Rule.parse("allow", "Read")

    found = merge_layers(Options(rules=(mine,), folders=("x",)), world.read())
    resumed = merge_layers(Options(), world.read(), "default")

    assert [str(rule) for rule in found.rules] == ["Read", "Bash"]
    assert isinstance(found.settings, Settings)
    assert (found.settings.retries, found.permission_mode, found.trust) == (2, "acceptEdits", True)
    assert tuple(found.folders) == ("x", str(world.home))
    assert resumed.permission_mode is None


# --- bare, managed, odd --------------------------------------------------------------------------------------------------------------


def test_bare_reads_nothing_but_what_is_managed(world: World) -> None:
    places = everywhere(world, {"permissions": {"deny": ["Bash"], "allow": ["Read"]}, "env": {"A": "1"}})

    found = world.read(bare=True)

    assert [file.path for file in found.files] == [str(places["managed"])]
    assert rules(found) == [("deny", "Bash", "managed"), ("allow", "Read", "managed")]


def test_the_environment_can_add_managed_settings_and_not_replace_them(world: World) -> None:
    world.write(world.managed, {"permissions": {"deny": ["Bash"], "defaultMode": "plan"}})
    also = world.write(world.home / "also.json", {"permissions": {"deny": ["Read"], "defaultMode": "acceptEdits"}})

    found = layers.read_layers(
        world.project,
        environment={**world.environment, "BACKSTAY_MANAGED_SETTINGS": str(also)},
        managed=world.managed,
    )

    assert rules(found) == [("deny", "Bash", "managed"), ("deny", "Read", "managed")]
    assert found.mode == "plan"


def test_folders_are_absolute_and_those_that_are_none_are_told(world: World) -> None:
    (world.project.parent / "beside").mkdir()
    below = world.project / "below"
    below.mkdir()
    world.write(".claude/settings.json", {"permissions": {"additionalDirectories": ["../beside", "nowhere", "a\0b"]}})
    world.write(world.config, {"permissions": {"additionalDirectories": ["..", str(world.home)]}})

    found = world.read(cwd=below, trust=True)

    assert found.folders == (str(world.project.parent / "beside"), str(world.project), str(world.home))
    assert ["nowhere" in words or "x00" in words for words in found.warnings] == [True, True]
    assert world.read(cwd=below, trust=False).folders == (str(world.project), str(world.home))


def test_an_allowance_that_cannot_be_read_allows_nothing_and_is_told(world: World) -> None:
    path = world.write(world.config, {"permissions": {"allow": ["Bash(", "Bash()", "Read( )", "Read(src/**)"]}})

    found = world.read()

    assert rules(found) == [("allow", "Read(src/**)", "person")]
    assert [words.partition(" 'permissions.allow'")[0] for words in found.warnings] == [
        f"{path}:{line}:" for line in (4, 5, 6)
    ]


def test_a_home_that_is_the_project_reads_the_persons_file_once_and_warns(world: World) -> None:
    world.write(world.home / ".claude/settings.json", {"permissions": {"allow": ["Read"], "deny": ["Bash"]}})

    found = world.read(cwd=world.home)

    assert rules(found) == [("deny", "Bash", "person"), ("allow", "Read", "person")]
    assert found.trust.survey.claims == ()
    world.write(world.home / ".claude/settings.local.json", {"permissions": {"allow": ["Edit"]}})
    (warning,) = world.read(cwd=world.home).warnings
    assert "your whole home folder" in warning


def test_a_persons_settings_that_others_can_change_are_a_warning(world: World) -> None:
    path = world.write(world.config, {})
    path.chmod(0o666)

    (warning,) = world.read().warnings

    assert f"Other users of this machine can change {str(path)!r}" in warning
    path.chmod(0o644)
    assert world.read().warnings == ()


@pytest.mark.parametrize("content", [{"env": {"A": 1}}, {"env": {"": "x"}}, {"env": {"A=B": "x"}}, {"chat": []}])
def test_a_wrong_value_stops_the_run_where_it_would_count_and_nowhere_else(world: World, content: object) -> None:
    world.write(".backstay/settings.json", content)

    assert isinstance(world.read(trust=False), Layered)
    with pytest.raises(UserError, match=r"settings\.json:\d"):
        world.read(trust=True)


def test_a_given_file_must_be_there_and_whole(world: World) -> None:
    missing = world.home / "missing.json"
    with pytest.raises(UserError, match="missing"):
        world.read(given=missing)
    world.write(missing, {"permissions": {"deny": ["Bash"]}})
    assert rules(world.read(given=missing)) == [("deny", "Bash", "flag")]
    world.write(missing, "{")
    with pytest.raises(UserError, match="not JSON"):
        world.read(given=missing)


def test_a_name_that_is_not_utf8_is_no_trouble(world: World) -> None:
    odd = Path(os.fsdecode(os.fsencode(world.project.parent) + b"/\xff\xfe"))
    (odd / ".claude" / "skills").mkdir(parents=True)
    (odd / ".claude" / "settings.json").write_text('{"permissions": {"deny": ["Bash"], "allow": ["Read"]}}')
    (odd / ".claude" / "skills" / os.fsdecode(b"\xfd.md")).write_text("x")

    found = world.read(cwd=odd)

    assert rules(found) == [("deny", "Bash", "project")]
    world.trust(cwd=odd)
    assert world.read(cwd=odd).trust.since
