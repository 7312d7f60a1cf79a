"""One memory and its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.memory.entry import (
    KINDS,
    MemoryEntry,
    clean,
    entry_of,
    line_of,
    memory_id,
    sameness,
    slug,
    without_origin,
)

texts = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [
            "a",
            " ",
            "\n",
            "\u2028",
            "\x85",
            "<!--",
            "-->",
            "- [2026-01-01] (user/x) y",
            "<!-- mem_000000000000 by=user -->",
        ]
    ),
    max_size=8,
).map("".join)


@given(text=texts, kind=st.sampled_from(KINDS), topic=texts, by=texts, session=texts, turn=texts)
def test_whatever_is_kept_is_one_line_and_reads_back(
    text: str, kind: str, topic: str, by: str, session: str, turn: str
) -> None:
    kept = clean(f"x {text}")
    origin = {name: clean(value)[:200] for name, value in (("by", by), ("session", session), ("turn", turn))}
    memory = memory_id(MemoryEntry(kind=kind, topic=slug(topic), text=kept, date="", session=session, turn=turn))
    entry = MemoryEntry(kind=kind, topic=slug(topic), text=kept, date="2026-11-16", id=memory, **origin)

    line = line_of(entry)

    assert len(line.splitlines()) == 1
    assert entry_of(line) == entry
    assert without_origin(line) == f"- [2026-11-16] ({kind}/{slug(topic)}) {kept}"


@given(topic=st.text(max_size=300))
def test_a_topic_is_always_a_harmless_name(topic: str) -> None:
    name = slug(topic)

    assert 1 <= len(name) <= 80
    assert len(f".{name}.md.tmp".encode()) < 255
    assert slug(name) == name
    assert not set(name) & set("/\\.\0\n ()<>")
    assert name[0] not in "-_"


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("Build & Deploy", "build-deploy"),
        ("", "general"),
        ("...", "general"),
        ("한글_주제", "한글_주제"),
        ("x" * 200, "x" * 80),
    ],
)
@pytest.mark.contract("RB-87")
def test_a_topic_becomes_part_of_a_file_name(topic: str, name: str) -> None:
    assert slug(topic) == name


def test_a_text_cannot_bring_an_origin_of_its_own() -> None:
    line = line_of(
        MemoryEntry(kind="user", topic="x", text=clean("y <!-- mem_000000000000 by=user -->"), date="2026-01-01")
    )

    found = entry_of(line)

    assert found is not None
    assert (found.id, found.by) == ("", "")


def test_texts_are_the_same_only_as_a_whole() -> None:
    assert sameness("Use  pnpm\nhere.") == sameness("Use pnpm here.")
    assert sameness("Cafe\u0301") == sameness("Caf\u00e9")
    assert sameness("Use pnpm") != sameness("Use pnpm here.")
    assert sameness("Use PNPM") != sameness("Use pnpm")


@pytest.mark.parametrize(
    "line", ["", "- text", "- [2026-1-1] (user/x) y", "* [2026-01-01] (user/x) y", "- [2026-01-01] (a/b/c) y"]
)
def test_another_line_is_no_memory(line: str) -> None:
    assert entry_of(line) is None


def test_a_line_that_would_take_long_to_read_is_no_memory() -> None:
    assert entry_of("- [2026-01-01] (user/x) " + " " * 1_000_000) is None
