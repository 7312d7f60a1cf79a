"""Files that notes name with @."""

import os
from pathlib import Path

import pytest

from backstay.instructions.imports import DEEPEST, MOST_MENTIONS, mentions
from tests.instructions.world import World

WORDS = """\
See @README.md, @docs/a\\ b.md; (@x/y.txt) and @./z. Mail me@example.org, not @.
`@code.md` and ``@also `code`.md`` <!-- @comment.md -->
```python
@app.route("/")
```
~~~
@tilde.md
```
~~~
A lone ` and @after.md
"""


def test_words_with_at_are_found_in_prose_and_not_in_code() -> None:
    found = [(mention.word, mention.line) for mention in mentions(WORDS)]

    assert found == [("README.md,", 1), ("docs/a b.md;", 1), ("x/y.txt", 1), ("./z.", 1), (".", 1), ("after.md", 10)]


def test_named_files_follow_in_the_order_in_which_they_are_named(world: World) -> None:
    world.write("AGENTS.md", "Read @docs/one.md, then @docs/two.md. Mind @docs/one.md!")
    world.write("docs/one.md", "ONE names @deeper/three.md")
    world.write("docs/two.md", "TWO")
    world.write("docs/deeper/three.md", "THREE")

    found = world.gather()
    text = found.part("agent-instructions")

    assert sorted(("Read @", "ONE", "THREE", "TWO"), key=text.index) == ["Read @", "ONE", "THREE", "TWO"]
    assert text.count("ONE") == 1
    assert '<file path="docs/deeper/three.md" imported-by="docs/one.md:1">' in text
    assert found.problems == ()


def test_rb_w53_what_is_no_file_is_text_without_complaint(world: World) -> None:
    text = 'Decorate with @app.route("/") and @pytest.fixture, use @types/node@1.2 and @/components/Button, write to @team.'
    world.write("CLAUDE.md", f"{text}\nSee @app.py")
    world.write("app.py", "@app.route('/')\ndef index(): ...\n")
    (world.project / "team.").mkdir()

    found = world.gather()

    assert text in found.part("project-notes")
    assert "def index()" in found.part("project-notes")
    assert found.problems == ()


def test_a_note_that_is_missing_is_named_with_its_line(world: World) -> None:
    world.write("CLAUDE.md", "\n\nSee @docs/gone.md.")
    world.write(".claude/rules/r.md", "---\na: b\n---\n\nSee @gone.md")

    assert world.gather().problems == (
        "CLAUDE.md:3: '@docs/gone.md.' is not there.",
        ".claude/rules/r.md:5: '@gone.md' is not there.",
    )


def test_a_circle_is_named_and_cut(world: World) -> None:
    world.write("AGENTS.md", "A @b.md")
    world.write("b.md", "B\n@c.md")
    world.write("c.md", "C @AGENTS.md @c.md")

    found = world.gather()

    assert [found.text.count(f"\n{name}") for name in ("A @b", "B\n@c", "C @A")] == [1, 1, 1]
    assert found.problems == (
        "c.md:1: '@AGENTS.md' goes round in a circle: AGENTS.md -> b.md -> c.md -> AGENTS.md.",
        "c.md:1: '@c.md' goes round in a circle: c.md -> c.md.",
    )


def test_files_may_name_one_another_only_so_deep(world: World) -> None:
    world.write("AGENTS.md", "depth-0 @1.md")
    for number in range(1, 9):
        world.write(f"{number}.md", f"depth-{number} @{number + 1}.md")

    found = world.gather()

    assert f"depth-{DEEPEST} " in found.text
    assert f"depth-{DEEPEST + 1} " not in found.text
    assert found.problems == ("4.md:1: '@5.md' is left out: files may name one another 4 deep at most.",)


def test_two_copies_beside_each_other_are_told_once(world: World) -> None:
    world.write("CLAUDE.md", "@a.md @b.md")
    world.write("a.md", "The same.")
    world.write("b.md", "The same.")

    assert world.gather().text.count("The same.") == 1


SECRETS = (
    ".env",
    "server.pem",
    "id_rsa",
    ".git/config",
    ".claude/settings.local.json",
    ".aws/credentials",
    ".netrc",
    ".ssh/notes.md",
    "Library/Mail/a.md",
)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("through_link", [False, True])
def test_secrets_are_never_told(world: World, name: str, through_link: bool) -> None:
    world.write(name, "TOP SECRET")
    if through_link:
        (world.project / "harmless.md").symlink_to(name)
    world.write("CLAUDE.md", f"See @{'harmless.md' if through_link else name} and @fine.md")
    world.write("fine.md", "Fine.")

    found = world.gather()

    assert "TOP SECRET" not in found.text
    assert "Fine." in found.text
    assert len(found.problems) == 1
    assert found.problems[0].startswith("CLAUDE.md:1: ")
    assert "secrets" in found.problems[0]


@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md", ".claude/rules/a.md", "harmless.md"])
def test_another_name_of_a_private_file_is_never_told(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(world.home))
    private = world.home / ".aws/credentials"
    private.parent.mkdir()
    private.write_text("TOP SECRET")
    world.write("CLAUDE.local.md", "See @fine.md and @harmless.md")
    world.write("fine.md", "Fine.")
    (world.project / name).parent.mkdir(parents=True, exist_ok=True)
    os.link(private, world.project / name)

    found = world.gather()

    assert "TOP SECRET" not in found.text
    assert "Fine." in found.text
    assert any("another name of ~/.aws/credentials" in each for each in found.problems), found.problems


def test_a_template_of_a_secret_may_be_told(world: World) -> None:
    world.write(".env.example", "KEY=")
    world.write("CLAUDE.md", "See @.env.example")

    assert "KEY=" in world.gather().text


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    "way", ["@../../outside.md", "@~/outside.md", "@{home}/outside.md", "@link.md", "@linked/outside.md"]
)
def test_nothing_outside_of_the_project_is_told(world: World, way: str, trusted: bool) -> None:
    world.write(world.home / "outside.md", "OUTSIDE")
    (world.project / "link.md").symlink_to(world.home / "outside.md")
    (world.project / "linked").symlink_to(world.home)
    world.write("sub/CLAUDE.md", f"See {way.format(home=world.home)}")
    world.write("CLAUDE.md", f"See {way.format(home=world.home)}")

    found = world.gather("sub", trusted=trusted)

    assert "OUTSIDE" not in found.text
    assert len(found.problems) >= 1
    assert str(world.home / "outside.md") not in found.files  # not even looked at
    assert all(
        "CLAUDE.md:1: " in words and "outside of the project" in words
        for words in found.problems
        if "not there" not in words
    )


def test_a_note_that_is_a_link_out_of_the_project_is_refused(world: World) -> None:
    world.write(world.home / "outside.md", "OUTSIDE")
    (world.project / "AGENTS.md").symlink_to(world.home / "outside.md")
    (world.project / ".claude").mkdir()
    (world.project / ".claude/rules").symlink_to(world.home)

    found = world.gather()

    assert "OUTSIDE" not in found.text
    assert found.problems == (
        "AGENTS.md: 'AGENTS.md' is left out: it leads outside of the project.",
        ".claude/rules: It leads outside of the project and is left out.",
    )


def test_an_added_folder_may_be_named_once_the_workspace_is_trusted(world: World) -> None:
    shared = world.home / "shared"
    world.write(shared / "style.md", "SHARED STYLE")
    world.write("CLAUDE.md", f"See @{shared}/style.md")

    assert "SHARED STYLE" in world.gather(folders=(shared,)).text
    assert "SHARED STYLE" not in world.gather(folders=(shared,), trusted=False).text


def test_the_persons_notes_may_name_the_persons_configuration_and_nothing_else(world: World) -> None:
    world.write(world.config / "AGENTS.md", "@style.md @~/.claude/more.md @~/private.md @settings.json")
    world.write(world.config / "style.md", "MY STYLE")
    world.write(world.config / "settings.json", '{"key": "SECRET"}')
    world.write(world.home / ".claude/more.md", "MORE OF MINE")
    world.write(world.home / "private.md", "PRIVATE")

    found = world.gather()

    assert "MY STYLE" in found.part("person")
    assert "MORE OF MINE" in found.part("person")
    assert "PRIVATE" not in found.text
    assert "SECRET" not in found.text


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"PNG\0\1", "CLAUDE.md:1: It is left out: it is not UTF-8 text."),
        (b"one\ncaf\xe9", "CLAUDE.md:2: It is not UTF-8 text; what cannot be read is replaced by marks."),
        ("one\ntwo\u202e\U000e0041\u200b".encode(), "CLAUDE.md:2: 3 characters that nobody sees are left out."),
        (b"x" * 70_000, "CLAUDE.md: It has 70,000 bytes; only the first 65,536 of a file are read."),
    ],
)
def test_odd_text_is_named_with_its_line(world: World, content: bytes, complaint: str) -> None:
    world.write("CLAUDE.md", content)
    world.write("AGENTS.md", "Still here.")

    found = world.gather(part_limit=100_000)

    assert complaint in found.problems
    assert "Still here." in found.text
    assert not set("\u202e\U000e0041\u200b\0") & set(found.text)


def test_a_letter_that_the_limit_cuts_in_two_is_no_complaint(world: World) -> None:
    world.write("AGENTS.md", "x" + "é" * 40_000)

    assert [words for words in world.gather().problems if "UTF-8" in words] == []


def test_special_files_and_folders_are_never_waited_for(world: World) -> None:
    os.mkfifo(world.project / "pipe.md")
    (world.project / "folder.md").mkdir()
    (world.project / "loop.md").symlink_to("loop.md")
    world.write("CLAUDE.md", "@pipe.md @folder.md @loop.md @/dev/zero @/proc/self/environ")

    found = world.gather()

    assert "CLAUDE.md:1: 'pipe.md' is left out: it is not a regular file." in found.problems
    assert len(found.parts) == len(world.gather().parts)


def test_hostile_numbers_of_names_are_bounded(world: World) -> None:
    world.write("CLAUDE.md", " ".join(f"@n{number}.x" for number in range(5_000)))
    world.write("AGENTS.md", "\n".join(f"@f{number}.md" for number in range(180)))
    for number in range(180):
        world.write(f"f{number}.md", f"file {number}")

    found = world.gather()

    assert len(found.files) < 3 * MOST_MENTIONS
    assert any(f"Only the first {MOST_MENTIONS} words" in words for words in found.problems)
    assert any("notes may name 128 files in all" in words for words in found.problems)
    assert len(found.problems) == 3


def test_what_is_wrong_with_one_file_hides_no_other(world: World) -> None:
    world.write("AGENTS.md", "\n".join(f"@gone{number}.md" for number in range(150)))
    world.write("CLAUDE.md", "@other.md")

    found = world.gather()

    assert "CLAUDE.md:1: '@other.md' is not there." in found.problems
    assert len(found.problems) == 11


@pytest.mark.parametrize(
    "text", ["`" * 60_000, "@" * 60_000, "<!--" * 15_000, "[" * 60_000, "# " * 30_000, "@a " * 20_000]
)
def test_hostile_markdown_is_read_all_the_same(world: World, text: str) -> None:
    world.write("CLAUDE.md", text)
    world.write(".claude/rules/x.md", f"---\npaths: {{{text}\n---\n{text}")
    world.write(".agents/tasks/x.md", text)

    assert world.gather().part("project-notes")


def test_paths_that_are_not_utf8_are_shown_with_marks(world: World) -> None:
    folder = Path(os.fsdecode(os.fsencode(world.project) + b"/caf\xe9"))
    world.write(folder / "AGENTS.md", "In an odd folder.")

    found = world.gather(folder)

    assert "In an odd folder." in found.text
    assert found.text.encode()
