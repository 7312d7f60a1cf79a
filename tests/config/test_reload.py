"""Settings that change while a session is open."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from backstay.config.last_good import has_changed_since, no_looser
from backstay.config.trust.trust_store import TrustStore
from backstay.vocab.errors import UserError
from tests.config.world import World, rules

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

    assert not has_changed_since(found)
    change(world)
    assert has_changed_since(found)
    assert not has_changed_since(world.read())


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
    found = no_looser(first, world.read())

    assert rules(found) == [("deny", "Bash(rm *)", "person")]
    assert [each.section for each in found.hooks] == [GUARDED["hooks"]]
    assert str(world.config) in " ".join(found.warnings)
    world.write(world.config, {})
    assert world.read().rules == ()
