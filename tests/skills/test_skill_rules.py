"""Our strict validator and the reference one of the open standard say the same about every case."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.skills.skill import validate_skill

GOOD = {"name": "my-skill", "description": "A test skill"}


def text(body: str = "# Title\n", **keys: object) -> str:
    lines = [f"{key.replace('_', '-')}: {value}" for key, value in {**GOOD, **keys}.items() if value is not None]
    return "\n".join(("---", *lines, "---", body))


CASES: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    # what it is about: (folder, SKILL.md, a word of each complaint)
    "a valid skill": ("my-skill", text(), ()),
    "every key of the standard": (
        "my-skill",
        text(license="MIT", compatibility="Needs Python 3.11+", allowed_tools="Bash(jq:*) Read", metadata="\n  a: b"),
        (),
    ),
    "no SKILL.md": ("my-skill", None, ("no SKILL.md",)),
    "upper case": ("MySkill", text(name="MySkill"), ("lower case",)),
    "a name of 64": ("a" * 64, text(name="a" * 64), ()),
    "a name of 70": ("a" * 70, text(name="a" * 70), ("70 characters",)),
    "a hyphen first": ("-my-skill", text(name="-my-skill"), ("begin or end",)),
    "a hyphen last": ("my-skill-", text(name="my-skill-"), ("begin or end",)),
    "two hyphens": ("my--skill", text(name="my--skill"), ("two hyphens",)),
    "an underscore": ("my_skill", text(name="my_skill"), ("letters, digits and hyphens",)),
    "a blank in the name": ("my skill", text(name="my skill"), ("letters, digits and hyphens",)),
    "another folder": ("other", text(), ("that of the folder",)),
    "an unknown key": ("my-skill", text(author="me"), ("not a key of the standard",)),
    "an extension of others": ("my-skill", text(context="fork"), ("not a key of the standard",)),
    "Chinese": ("技能", text(name="技能"), ()),
    "Russian": ("мой-навык", text(name="мой-навык"), ()),
    "Russian in upper case": ("НАВЫК", text(name="НАВЫК"), ("lower case",)),
    "a name that is composed": ("café", text(name="cafe\u0301"), ()),
    "a folder that is decomposed": ("cafe\u0301", text(name="café"), ()),
    "a description of 1,024": ("my-skill", text(description="x" * 1_024), ()),
    "a description of 1,100": ("my-skill", text(description="x" * 1_100), ("1,100 characters",)),
    "a compatibility of 550": ("my-skill", text(compatibility="x" * 550), ("550 characters",)),
    "a compatibility that is a list": ("my-skill", text(compatibility="\n  - a"), ("must be a text",)),
    "no name": ("my-skill", text(name=None), ("no 'name'",)),
    "no description": ("my-skill", text(description=None), ("no 'description'",)),
    "an empty name": ("my-skill", text(name=""), ("says something",)),
    "an empty description": ("my-skill", text(description="''"), ("says something",)),
    "a name that is a list": ("my-skill", text(name="\n  - a"), ("says something",)),
    "a number as a name": ("123", text(name="123"), ()),
    "a truth value as a name": ("true", text(name="true"), ()),
    "nothing as a name": ("null", text(name="null"), ()),
    "a quoted name": ("my-skill", text(name="'my-skill'"), ()),
    "a description in many lines": ("my-skill", text(description="|\n  one\n  two"), ()),
    "allowed tools as a list of lines": ("my-skill", text(allowed_tools="\n  - Read\n  - Grep"), ()),
    "allowed tools in brackets": ("my-skill", text(allowed_tools="[Read, Grep]"), ("Brackets",)),
    "metadata in braces": ("my-skill", text(metadata="{a: b}"), ("Brackets",)),
    "metadata that nests": ("my-skill", text(metadata="\n  a:\n    b: c"), ()),
    "an anchor": ("my-skill", text(description="&x y"), ("Anchors",)),
    "a tag": ("my-skill", text(description="!!str y"), ("Tags",)),
    "a key that stands twice": ("my-skill", text(license="a\nlicense: b"), ("twice",)),
    "a colon in the description": ("my-skill", text(description="Use when: needed"), ("not YAML",)),
    "an open bracket": ("my-skill", text(name="[invalid"), ("Brackets",)),
    "an open quote": ("my-skill", text(description="'open"), ("not YAML",)),
    "a list instead of keys": ("my-skill", "---\n- a\n- b\n---\n", ("mapping",)),
    "no frontmatter": ("my-skill", "# Title\n", ("must begin",)),
    "an empty file": ("my-skill", "", ("must begin",)),
    "an empty frontmatter": ("my-skill", "---\n---\n", ("must begin",)),
    "a frontmatter without an end": ("my-skill", "---\nname: my-skill\ndescription: x\n", ("no end",)),
    "three mistakes at once": ("My--skill-", text(name="My--skill-", x="y"), ("not a key", "lower", "begin", "two")),
}


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    folder_name, content, words = CASES[request.param]
    folder = tmp_path / folder_name
    folder.mkdir()
    if content is not None:
        (folder / "SKILL.md").write_text(content, encoding="utf-8")
    return folder, words


def test_each_case_gets_exactly_its_complaints(case: tuple[Path, tuple[str, ...]]) -> None:
    folder, words = case

    problems = validate_skill(folder)

    assert len(problems) == len(words)
    for problem, word in zip(problems, words, strict=True):
        assert word in problem.message
        assert problem.line >= 1


def test_the_reference_validator_says_the_same(case: tuple[Path, tuple[str, ...]]) -> None:
    reference = pytest.importorskip("skills_ref")
    folder, _ = case

    theirs = reference.validate(folder)

    assert bool(theirs) == bool(validate_skill(folder))
    if not any("Unexpected fields" in each for each in theirs):
        assert len(theirs) == len(validate_skill(folder))


# no tabs: YAML takes one between a key and its text, which the reference refuses
_NAMES = st.text(st.sampled_from("abz09-_ .:AÉéß技ﬁ\u0301"), max_size=8) | st.sampled_from(("a" * 64, "a" * 65))
_TEXTS = st.text(st.sampled_from("ab :#'\"[]{}|>&*!%@`-,\\\né"), max_size=10) | st.sampled_from(
    ("x" * 1_024, "x" * 1_025)
)


@given(name=_NAMES, description=_TEXTS, extra=st.sampled_from(("", "license: MIT\n", "x: y\n", "metadata:\n  a: 1\n")))
def test_the_reference_validator_says_the_same_about_what_nobody_thought_of(
    tmp_path_factory: pytest.TempPathFactory, name: str, description: str, extra: str
) -> None:
    reference = pytest.importorskip("skills_ref")
    if "---" in f"{name}{description}" or name.strip() in ("", ".", ".."):
        return  # the reference cuts at the first --- anywhere, also within a text
    folder = tmp_path_factory.mktemp("skills") / name.strip()
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{extra}---\n", encoding="utf-8")

    assert bool(validate_skill(folder)) == bool(reference.validate(folder))


def test_what_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    assert "nothing here" in validate_skill(tmp_path / "missing")[0].message
    assert "not a folder" in validate_skill(tmp_path / "file")[0].message


def test_both_spellings_of_the_file_are_found_and_capitals_go_first(tmp_path: Path) -> None:
    folder = tmp_path / "my-skill"
    folder.mkdir()
    (folder / "skill.md").write_text(text())
    assert validate_skill(folder) == []

    (folder / "SKILL.md").write_text("nothing")
    assert validate_skill(folder)[0].file.endswith("SKILL.md")


def test_the_line_of_a_complaint_is_that_of_its_key(tmp_path: Path) -> None:
    folder = tmp_path / "my-skill"
    folder.mkdir()
    (folder / "SKILL.md").write_text(text(license="MIT", author="me"))

    assert [problem.line for problem in validate_skill(folder)] == [5]
