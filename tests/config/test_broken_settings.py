"""Broken settings: never as if they were not there. What they denied holds, or nothing starts."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from backstay.config.json_document import LARGEST
from backstay.vocab.errors import UserError
from tests.config.world import World, rules, run_as_root

GOOD = {
    "permissions": {
        "deny": ["Bash(rm *)", "Read(.env)"],
        "ask": ["WebFetch"],
        "allow": ["Bash(make)"],
        "defaultMode": "plan",
        "disableBypassPermissionsMode": "disable",
        "additionalDirectories": [".."],
    },
    "hooks": {
        "PreToolUse": [{"hooks": [{"type": "command", "command": "guard"}]}],
        "SessionStart": [{"hooks": [{"type": "command", "command": "greet"}]}],
    },
    "env": {"A": "1"},
}


def replaced(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Put something else in the file's place."""

    def harm(path: Path) -> None:
        path.unlink()
        make(path)

    return harm


BROKEN: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_text(""),
    "cut": lambda path: path.write_text(json.dumps(GOOD, indent=1)[:-5]),
    "a list": lambda path: path.write_text("[]"),
    "null": lambda path: path.write_text("null"),
    "not text": lambda path: path.write_bytes(b'{"a": "\xff"}'),
    "not a number": lambda path: path.write_text('{"a": NaN}'),
    "half a pair": lambda path: path.write_text('{"a": "\\ud800"}'),
    "digits": lambda path: path.write_text('{"a": ' + "1" * 5000 + "}"),
    "deep": lambda path: path.write_text("[" * 50_000),
    "permissions no object": lambda path: path.write_text('{"permissions": []}'),
    "permissions null": lambda path: path.write_text('{"permissions": null}'),
    "deny no list": lambda path: path.write_text('{"permissions": {"deny": "Bash"}}'),
    "deny null": lambda path: path.write_text('{"permissions": {"deny": null}}'),
    "deny of numbers": lambda path: path.write_text('{"permissions": {"deny": [1]}}'),
    "deny no rule": lambda path: path.write_text('{"permissions": {"deny": ["Bash("]}}'),
    "ask no rule": lambda path: path.write_text('{"permissions": {"ask": ["!"]}}'),
    "more rules than are read": lambda path: path.write_text(
        json.dumps({"permissions": {"allow": ["Bash(a)"] * 3_000, "denny": ["Bash(a)"] * 2_001}})
    ),
    "more keys than are read": lambda path: path.write_text(
        json.dumps({f"permission{each}": {"a": 1} for each in range(1_001)})
    ),
    "mode no word": lambda path: path.write_text('{"permissions": {"defaultMode": 3}}'),
    "hooks no object": lambda path: path.write_text('{"hooks": []}'),
    "deny twice": lambda path: path.write_text('{"permissions": {"deny": ["Bash"], "deny": []}}'),
    "permissions twice": lambda path: path.write_text('{"permissions": {"deny": ["Bash"]}, "permissions": {}}'),
    "hooks twice": lambda path: path.write_text('{"hooks": {"PreToolUse": [1], "PreToolUse": []}}'),
    "huge": lambda path: path.write_text(" " * LARGEST + "{}"),
    "folder": replaced(Path.mkdir),
    "pipe": replaced(os.mkfifo),
    "endless": replaced(lambda path: path.symlink_to("/dev/zero")),
    "link to nowhere": replaced(lambda path: path.symlink_to("nowhere")),
    "link to itself": replaced(lambda path: path.symlink_to(path)),
}


def person(world: World) -> Path:
    """The person's own file."""
    return world.write(world.config, GOOD)


def project(world: World) -> Path:
    """A file of the project."""
    return world.write(".claude/settings.json", GOOD)


def managed(world: World) -> Path:
    """What the machine's owner has settled."""
    return world.write(world.managed, GOOD)


@pytest.mark.parametrize("harm", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("layer", [person, project, managed])
def test_rb_w10_a_broken_file_still_denies_and_asks_what_it_did_when_it_was_good(
    world: World, layer: Callable[[World], Path], harm: Callable[[Path], object]
) -> None:
    path = layer(world)
    source = world.read().files[0].place.source
    harm(path)

    found = world.read()

    assert rules(found) == [
        ("deny", "Bash(rm *)", source),
        ("deny", "Read(.env)", source),
        ("ask", "WebFetch", source),
    ]
    assert (found.mode, found.bypass_forbidden) == ("plan", str(path))
    assert (found.env, found.folders) == ({}, ())
    guards = [] if source == "project" else [{"PreToolUse": GOOD["hooks"]["PreToolUse"]}]  # type: ignore[index]  # it is an object
    assert [each.section for each in found.hooks] == guards
    (warning,) = [words for words in found.warnings if "when it could last be read" in words]
    assert str(path) in warning
    assert world.read().rules == found.rules, "the copy is not forgotten"


@pytest.mark.parametrize("harm", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("layer", [person, project, managed])
def test_rb_w10_nothing_starts_when_nobody_knows_what_a_broken_file_denied(
    world: World, layer: Callable[[World], Path], harm: Callable[[Path], object]
) -> None:
    path = layer(world)
    harm(path)

    with pytest.raises(UserError) as caught:
        world.read()

    assert str(path) in str(caught.value)
    assert "nothing is started" in str(caught.value)
    if path != world.managed:
        assert world.read(bare=True).rules == ()


def test_the_line_of_what_is_broken_is_told(world: World) -> None:
    path = world.write(world.config, '{\n "permissions": {\n  "deny": [\n   "Bash",\n   "Read("\n  ]\n }\n}')
    with pytest.raises(UserError, match=f"{path}:5: permissions.deny: 'Read\\('"):
        world.read()
    world.write(world.config, '{\n "permissions": {\n  "deny": [\n  ],\n }\n}')
    with pytest.raises(UserError, match=f"{path}:5: This is not JSON"):
        world.read()


@pytest.mark.skipif(run_as_root(), reason="permission bits do not stop root")
def test_a_file_that_may_not_be_read_is_broken_and_not_missing(world: World) -> None:
    path = person(world)
    world.read()
    path.chmod(0)

    assert ("deny", "Read(.env)", "person") in rules(world.read())


def test_a_mended_file_counts_again_and_a_changed_one_replaces_the_copy(world: World) -> None:
    path = person(world)
    world.read()
    path.write_text("{")
    assert len(world.read().rules) == 3
    world.write(path, {"permissions": {"deny": ["Edit"]}})
    assert rules(world.read()) == [("deny", "Edit", "person")]
    path.write_text("{")
    assert rules(world.read()) == [("deny", "Edit", "person")]
    path.unlink()
    assert rules(world.read()) == [], "a file that was taken away is gone for good"


def test_a_broken_project_file_counts_for_nothing_else_and_makes_the_workspace_untrusted(world: World) -> None:
    world.write(".backstay/settings.json", {"permissions": {"allow": ["Bash(make)"]}})
    path = project(world)
    world.trust()
    assert ("allow", "Bash(make)", "project") in rules(world.read())
    path.write_text("{")

    found = world.read()

    assert not found.trust.trusted
    assert {rule.decision for rule in found.rules} == {"deny", "ask"}
    assert [each.section for each in world.read(trust=True).hooks] == [{"PreToolUse": GOOD["hooks"]["PreToolUse"]}]  # type: ignore[index]  # it is an object


def test_copies_are_for_their_owner_alone_and_hold_no_allowance(world: World) -> None:
    person(world)
    world.read()

    (copy,) = (world.data / "last-good").iterdir()

    assert (copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert b"make" not in copy.read_bytes()
    assert msgspec.json.decode(copy.read_bytes())["path"] == str(world.config)


@pytest.mark.parametrize("harm", [b"", b"[]", b'{"path": 1}'])
def test_a_copy_that_cannot_be_believed_is_none(world: World, harm: bytes) -> None:
    path = person(world)
    world.read()
    (copy,) = (world.data / "last-good").iterdir()
    copy.write_bytes(harm)
    path.write_text("{")

    with pytest.raises(UserError, match="nothing is started"):
        world.read()


def test_a_copy_that_others_can_write_is_none(world: World) -> None:
    path = person(world)
    world.read()
    (copy,) = (world.data / "last-good").iterdir()
    copy.chmod(0o666)
    path.write_text("{")

    with pytest.raises(UserError, match="nothing is started"):
        world.read()


def test_a_copy_that_cannot_be_kept_is_told_when_losing_it_would_matter(world: World) -> None:
    world.data.write_text("not a folder")
    world.write(world.config, {"retries": 1})
    assert world.read().warnings == ()
    person(world)

    (warning,) = world.read().warnings

    assert f"What {str(world.config)!r} denies could not be kept" in warning
