"""As much of Markdown as notes need."""

import pytest

from backstay.instructions.markdown import front_matter, heading, sections
from tests.instructions.world import World


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# One", (1, "One")),
        ("###### Six ##", (6, "Six")),
        ("   ##\tTwo", (2, "Two")),
        ("####### Seven", None),
        ("#None", None),
        ("    # Code", None),
        ("Text # no", None),
        ("#", (1, "")),
    ],
)
def test_headings_are_told_from_text(line: str, expected: tuple[int, str] | None) -> None:
    assert heading(line) == expected


@pytest.mark.contract("RB-85")
@pytest.mark.parametrize("level", [1, 3, 6])
def test_compact_instructions_are_taken_from_any_note_and_any_level(world: World, level: int) -> None:
    mark = "#" * level
    deeper = f"{mark}# More\n\nand more\n" if level < 6 else ""
    world.write("CLAUDE.md", f"# Notes\n\n{mark} COMPACT instructions:\n\nKeep ids.\n\n{deeper}\n# Later\n\nOther.\n")
    world.write("AGENTS.md", "## Compact Instructions\nKeep paths.\n\n```\n## Not a heading\n```\n## End\nOther.")

    found = world.gather().compact_instructions

    assert found.startswith("Keep paths.\n\n```\n## Not a heading\n```")
    assert "Keep ids." in found
    assert ("and more" in found) == bool(deeper)
    assert "Other." not in found


def test_compact_instructions_in_a_fence_are_an_example(world: World) -> None:
    world.write("CLAUDE.md", "```\n## Compact Instructions\nExample.\n```\n")

    assert world.gather().compact_instructions == ""


def test_compact_instructions_are_bounded(world: World) -> None:
    world.write("CLAUDE.md", "# Compact Instructions\n" + "keep this\n" * 5_000)

    assert 3_000 < len(world.gather().compact_instructions) <= 4_096


def test_sections_end_at_the_next_heading_of_their_level() -> None:
    text = "# A\none\n## B\ntwo\n# C\nthree\n# A\nfour"

    assert list(sections(text, ("a",))) == ["one\n## B\ntwo", "four"]


@pytest.mark.parametrize(
    ("text", "keys", "body"),
    [
        ("plain", {}, "plain"),
        ("---\na: b\n---\nbody", {"a": ("b",)}, "body"),
        ("---\na: 'b: c' # no\nb: \"x\"\n...\nbody", {"a": ("'b: c'",), "b": ("x",)}, "body"),
        ("---\na: [x, 'y, z', {p,q}]\n---\n", {"a": ("x", "y, z", "{p,q}")}, ""),
        ('---\na:\n- **/*.py\n  - "b"\n---\n', {"a": ("**/*.py", "b")}, ""),
        ("---\n---\nbody", {}, "body"),
    ],
)
def test_keys_before_a_text_are_read_as_people_write_them(
    text: str, keys: dict[str, tuple[str, ...]], body: str
) -> None:
    assert front_matter(text) == (keys, body, True)


def test_keys_that_are_not_closed_are_text() -> None:
    assert front_matter("---\na: b\n") == ({}, "---\na: b\n", False)
