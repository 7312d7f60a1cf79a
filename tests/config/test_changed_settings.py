"""Settings that change while a session is open are noticed, and never free that session of anything."""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from backstay.config.layers import Layered, read_layers
from backstay.config.reload import keep_denials
from backstay.config.trust.inventory import find_drift
from backstay.config.trust.trust_store import TrustStore
from backstay.session.apply_settings import read_settings_files
from backstay.session.options import Options
from backstay.system.files import has_changed
from backstay.vocab.errors import UserError
from backstay.vocab.specs import SessionMeta
from tests.config.world import World, rules

DENIES = {"permissions": {"deny": ["Bash(curl *)"], "ask": ["Bash(git push *)"], "allow": ["Bash(make *)"]}}
GUARD = {"PreToolUse": [{"hooks": [{"type": "command", "command": "sh guard.sh"}]}]}
LOOKS_ON = {"SessionEnd": [{"hooks": [{"type": "command", "command": "bye"}]}]}


def again(world: World, before: Layered, *, trust: bool | None = None) -> Layered:
    """What a session makes of its settings between two turns."""
    found = read_layers(
        world.project,
        trust=trust,
        environment=world.environment,
        managed=world.managed,
        vouched=before.trust.vouched,
    )
    return keep_denials(before, found)


def guards(found: Layered) -> list[tuple[str, list[str]]]:
    """The hooks of each file, in short."""
    return [(layer.source, sorted(layer.section)) for layer in found.hooks]


@pytest.mark.parametrize("emptied", ["{}", None], ids=["emptied", "removed"])
@pytest.mark.parametrize("whose", ["person", "project"])
def test_rb_w9_a_file_that_is_emptied_while_a_session_is_open_goes_on_denying(
    world: World, emptied: str | None, whose: str
) -> None:
    path = world.config if whose == "person" else world.project / ".backstay/settings.json"
    world.write(path, {**DENIES, "hooks": {**GUARD, **LOOKS_ON}})
    before = world.read(trust=True)
    path.unlink() if emptied is None else path.write_text(emptied, encoding="utf-8")

    found = again(world, again(world, before, trust=True), trust=True)

    assert rules(found) == [("deny", "Bash(curl *)", whose), ("ask", "Bash(git push *)", whose)]
    assert guards(found) == [(whose, ["PreToolUse"])]
    assert [words for words in found.warnings if "Bash(curl *)" in words and "new session" in words]
    assert rules(world.read(trust=True)) == []


def test_what_is_denied_and_guarded_besides_holds_at_once_and_what_stays_is_there_once(world: World) -> None:
    world.write(world.config, {**DENIES, "hooks": GUARD})
    before = world.read()
    world.write(
        world.config, {"permissions": {**DENIES["permissions"], "deny": ["Bash(curl *)", "Read(x)"]}, "hooks": GUARD}
    )

    found = again(world, before)

    assert found.rules == world.read().rules
    assert found.hooks == world.read().hooks
    assert found.warnings == ()


def test_trust_for_one_run_is_not_about_settings_that_come_while_it_runs(world: World) -> None:
    before = world.read(trust=True)
    world.write(".backstay/settings.json", {**DENIES, "hooks": GUARD, "env": {"A": "b"}})

    once = again(world, before, trust=True)
    twice = again(world, once, trust=True)

    for found in (once, twice):
        assert found.trust.state == "changed"
        assert rules(found) == [("deny", "Bash(curl *)", "project"), ("ask", "Bash(git push *)", "project")]
        assert (found.hooks, dict(found.env)) == ((), {})
        assert "has changed since it was trusted" in found.notice


def test_a_guard_whose_script_is_changed_while_a_session_is_open_is_not_run_and_not_gone(world: World) -> None:
    world.write("guard.sh", "exit 2")
    world.write(".backstay/settings.json", {"hooks": GUARD})
    world.trust()
    for trust in (True, None):
        before = world.read(trust=trust)
        world.write("guard.sh", "exit 0")
        world.write(".mcp.json", {})

        found = again(world, before, trust=trust)

        assert not found.trust.trusted
        assert guards(found) == [("project", ["PreToolUse"])]
        assert find_drift(found.trust.vouched) == ("guard.sh",)
        world.write("guard.sh", "exit 2")
        (world.project / ".mcp.json").unlink()


def test_the_persons_word_in_another_window_holds_for_an_open_session_too(world: World) -> None:
    before = world.read(trust=True)
    world.write(".backstay/settings.json", DENIES)
    waiting = again(world, before, trust=True)
    world.trust()

    found = again(world, waiting, trust=True)

    assert not waiting.trust.trusted
    assert found.trust.trusted
    assert ("allow", "Bash(make *)", "project") in rules(found)
    assert found.trust.vouched.seen == world.read().trust.survey.seen


def test_what_the_machines_file_settles_stays_settled(world: World) -> None:
    world.write(world.managed, {"permissions": {"defaultMode": "plan", "disableBypassPermissionsMode": "disable"}})
    before = world.read()
    world.managed.unlink()

    found = again(world, before)

    assert (found.mode, found.mode_source, found.mode_file) == ("plan", "managed", str(world.managed))
    assert found.bypass_forbidden == str(world.managed)


def test_an_open_session_gives_what_held_and_gets_what_holds(world: World) -> None:
    world.write(world.config, DENIES)
    read = partial(world.read, trust=True)
    given = Options(cwd=world.project, layers=lambda cwd, vouched: read(), bare=True)
    meta = SessionMeta(id="s", cwd=str(world.project), mode="default")
    first = read_settings_files(given, meta)
    world.config.unlink()

    second = read_settings_files(given, meta, first.resolved.layered)

    assert [str(rule) for rule in second.rules if rule.decision != "allow"] == ["Bash(curl *)", "Bash(git push *)"]
    assert [str(rule) for rule in read_settings_files(given, meta).rules] == []
    assert TrustStore(world.data).path.exists() is False


GUARDED = {"permissions": {"deny": ["Bash(rm *)"]}, "hooks": {"PreToolUse": [{"hooks": [{"command": "guard"}]}]}}


def touch_later(path: Path) -> None:
    """Let a file look as if it had been written later than it was."""
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))


CHANGES: dict[str, Callable[[World], object]] = {
    "the person's": lambda world: world.write(world.config, {"retries": 2}),
    "a new file of the project": lambda world: world.write(".claude/settings.local.json", {}),
    "new servers": lambda world: world.write(".mcp.json", {}),
    "a file that goes": lambda world: world.config.unlink(),
    "the same size, later": lambda world: touch_later(world.config),
    "another file in its place": lambda world: world.write(world.home / "x", {"retries": 1}).replace(world.config),
    "trust": lambda world: TrustStore(world.data).record(world.read().trust.survey, 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_any_file_is_noticed_also_of_one_that_was_not_there(
    world: World, change: Callable[[World], object]
) -> None:
    world.write(world.config, {"retries": 1})
    found = world.read()

    assert not has_changed(found.fingerprint)
    change(world)
    assert has_changed(found.fingerprint)
    assert not has_changed(world.read().fingerprint)


@pytest.mark.parametrize("broken", ["", "{", '{"permissions": {"deny": "Bash"}}'])
@pytest.mark.parametrize("remembered", [True, False])
def test_rb_w10_a_file_that_breaks_between_turns_goes_on_denying_and_guarding(
    world: World, broken: str, remembered: bool
) -> None:
    world.write(world.config, GUARDED)
    first = world.read()
    world.config.write_text(broken, encoding="utf-8")
    if not remembered:
        for copy in (world.data / "last-good").iterdir():
            copy.unlink()

    if not remembered:
        with pytest.raises(UserError, match=re.escape(str(world.config))):
            world.read()
        return
    found = keep_denials(first, world.read())

    assert rules(found) == [("deny", "Bash(rm *)", "person")]
    assert [each.section for each in found.hooks] == [GUARDED["hooks"]]
    assert str(world.config) in " ".join(found.warnings)
    world.write(world.config, {})
    assert world.read().rules == ()
