"""Every setting, command, hook event and part of the instructions is in a generated reference."""

from pathlib import Path

import pytest

from backstay.config.key_table import KEYS
from backstay.hooks.events import EVENTS
from backstay.hooks.payload import FIELDS
from backstay.instructions import KINDS
from backstay.session.project.commands import BUILT_IN, tool_name
from scripts.docs.commands import DATA, commands_document
from scripts.docs.hooks import WHEN, hooks_document
from scripts.docs.references import REFERENCES, Reference, main, stale, write

DOCS = Path(__file__).parents[3] / "docs"
NAMES = {each.file for each in REFERENCES}


def test_no_reference_is_stale() -> None:
    assert stale(DOCS) == (), "Run: make docs"


@pytest.mark.parametrize(
    "name",
    ["events.md", "tools.md", "settings.md", "settings.schema.json", "instructions.md", "commands.md", "hooks.md"],
)
def test_the_document_is_one_that_is_written_by_make_docs(name: str) -> None:
    assert name in NAMES


def test_every_setting_is_in_its_document() -> None:
    text = (DOCS / "settings.md").read_text(encoding="utf-8")

    assert [key.name for key in KEYS if f"`{key.name}`" not in text] == []


def test_every_part_of_the_instructions_is_in_its_document() -> None:
    text = (DOCS / "instructions.md").read_text(encoding="utf-8")

    assert [kind.name for kind in KINDS if f"| `{kind.name}` |" not in text] == []


def test_every_command_is_in_its_document_with_who_may_use_it_and_what_it_gives_to_programs() -> None:
    text = commands_document()
    specs = [command.spec for command in BUILT_IN.commands()]

    assert {spec.name for spec in specs} == set(DATA), "say in commands.DATA which keys its result has"
    for spec in specs:
        (row,) = [line for line in text.splitlines() if line.startswith((f"| `/{spec.name}`", f"| `/{spec.name} "))]
        assert spec.description in row
        assert ("models" in row.split(" | ")[2]) == spec.model_invocable
        assert all(f"`{key}`" in row for key in DATA[spec.name])
        assert (f"`{tool_name(spec.name)}`" in text) == spec.model_invocable


def test_every_hook_event_is_in_its_document_with_its_moment_and_its_fields() -> None:
    text = hooks_document()
    heard = [event for event in EVENTS.values() if event.fires]

    assert {event.name for event in heard} == set(WHEN) == set(FIELDS)
    for event in heard:
        about, fields = (line for line in text.splitlines() if line.startswith(f"| `{event.name}` |"))
        assert WHEN[event.name] in about
        assert all(f"`{field}`" in fields for field in FIELDS[event.name])
        assert (about.split("|")[6].strip() == "refuses") == (event.on_failure == "block")
    unheard = text[text.index(heard[-1].name) : text.index("no moment yet")].replace("`", "").split()
    assert all(name in unheard for name, event in EVENTS.items() if not event.fires)


def test_writing_makes_what_is_missing_and_leaves_what_is_right(tmp_path: Path) -> None:
    references = (Reference(file="a.md", render=lambda: "a\n"), Reference(file="b.md", render=lambda: "b\n"))
    (tmp_path / "a.md").write_text("old\n")

    assert write(tmp_path, references) == ("a.md", "b.md")
    assert write(tmp_path, references) == ()
    assert [(tmp_path / name).read_text() for name in ("a.md", "b.md")] == ["a\n", "b\n"]


def test_the_command_checks_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--check"]) == 1
    assert "is stale" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(each.file for each in REFERENCES)
