"""The top of a Markdown file: texts, lists and mappings of them, and refused with a line where it is broken."""

import pytest

from backstay.skills.frontmatter import LONGEST, read_frontmatter
from backstay.skills.problems import Unusable
from backstay.skills.yaml import BadYaml, Plain, Value, convert_plain, read_yaml

FILE = "SKILL.md"


def values(yaml: str) -> dict[str, Value]:
    return dict(read_frontmatter(f"---\n{yaml}\n---\nBody\n".encode(), FILE).values)


CASES: tuple[tuple[str, dict[str, Value]], ...] = (
    ("name: x\ndescription: Does a thing", {"name": "x", "description": "Does a thing"}),
    ("tools: Read, Grep", {"tools": "Read, Grep"}),
    ("tools:\n  - Read\n  - 'Grep'\n  - \"Glob\"", {"tools": ["Read", "Grep", "Glob"]}),
    ("tools:\n- Read\n- Bash(git log:*)\nname: x", {"tools": ["Read", "Bash(git log:*)"], "name": "x"}),
    ("tools: [Read, 'Grep', \"Glob\"]", {"tools": ["Read", "Grep", "Glob"]}),
    ("tools: []", {"tools": []}),
    ("name: 'it''s'", {"name": "it's"}),
    ('name: "a \\"b\\" \\\\ \\n"', {"name": 'a "b" \\ \n'}),
    ("# who\nname: x # the name\n\n# what\ndescription: a#b", {"name": "x", "description": "a#b"}),
    ("url: http://example.com/a:b", {"url": "http://example.com/a:b"}),
    ("d: |\n  one\n  two: three\n\n  # four\nname: x", {"d": "one\ntwo: three\n\n# four\n", "name": "x"}),
    ("d: >-\n  one\n  two\n\n  three", {"d": "one two\nthree"}),
    ("d: >\n  one\n  two\n", {"d": "one two\n"}),
    ("d: |-\n  one\n    two", {"d": "one\n  two"}),
    ("d: one\n  two\n  three\nname: x", {"d": "one two three", "name": "x"}),
    ("metadata:\n  author: me\n  version: '1.0'", {"metadata": {"author": "me", "version": "1.0"}}),
    ("tools:", {"tools": ""}),
    ("tools:\nname: x", {"tools": "", "name": "x"}),
    ("name: café 技能", {"name": "café 技能"}),
    ("d: -flag", {"d": "-flag"}),
    ("d: 'one\n\n  it''s two\n  three'\nname: x", {"d": "one\nit's two three", "name": "x"}),
    ('d: "one\n  two \\"three\\"" # end\nname: x', {"d": 'one two "three"', "name": "x"}),
    ("d:\n  one\n  two\nname: x", {"d": "one two", "name": "x"}),
    ('d: one\n  "two", three', {"d": 'one "two", three'}),
    (
        "m:\n  a: [b, c]\n  d:\n  - e\n  f:\n    - g\n  h:\nname: x",
        {"m": {"a": ["b", "c"], "d": ["e"], "f": ["g"], "h": ""}, "name": "x"},
    ),
    ("argument-hint: <path> [--deep]", {"argument-hint": "<path> [--deep]"}),
    ('tools:\n  ["Read", Grep]\nname: x', {"tools": ["Read", "Grep"], "name": "x"}),
    ('name: "caf\\u00e9"', {"name": "café"}),
    ("hooks:\n  Stop:\n    - hooks:\n        - type: command", {"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}),
    ("tools: [Read,\n  Grep]", {"tools": ["Read", "Grep"]}),
    ("metadata: {a: b}", {"metadata": {"a": "b"}}),
    ("d: one\n\n  two", {"d": "one\ntwo"}),
    ("? name\n: x", {"name": "x"}),
)


@pytest.mark.parametrize(("yaml", "expected"), CASES)
def test_yaml_is_read_as_texts(yaml: str, expected: dict[str, Value]) -> None:
    assert values(yaml) == expected


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("---\nname: x\n", 1, "has no end"),
        ("---\nname: x\n# Title\n\ntext --- text\n", 1, "has no end"),
        ("---\nname: x\ntools: [Read\n---\n", 3, "not YAML"),
        ("---\nname: x\ntools: *all\n---\n", 3, "aliases"),
        ("---\na: &x 1\nb: *x\n---\n", 2, "Anchors"),
        ("---\nname: !!python/object:os.system x\n---\n", 2, "Tags"),
        ("---\nname: x\ntools: Read\ntools: Bash\n---\n", 4, "stands twice"),
        ("---\n- a\n- b\n---\n", 2, "must be a mapping"),
        ("---\njust words\n---\n", 2, "must be a mapping"),
        ("---\nname: x\n\ttools: y\n---\n", 3, "not YAML"),
        ("---\nname: a\x07b\n---\n", 2, "not YAML"),
        ("---\n? [a]\n: b\n---\n", 2, "key must be a text"),
        ('---\nname: "\\uD800"\n---\n', 2, "not YAML"),
        (f"---\nname: {'x' * LONGEST}\n---\n", 1, "more than 16,384 characters"),
        (f"---\nname: {'[' * 500}{']' * 500}\n---\n", 2, "nested more than 12 deep"),
        (f"---\nname: [{'{},' * 2_100}x]\n---\n", 2, "more than 2,000 values"),
    ],
)
def test_what_is_broken_is_refused_with_its_file_and_line(content: str, line: int, words: str) -> None:
    with pytest.raises(Unusable) as caught:
        read_frontmatter(content.encode(), "dir/SKILL.md")

    assert caught.value.problem.file == "dir/SKILL.md"
    assert caught.value.problem.line == line
    assert str(caught.value).startswith(f"dir/SKILL.md:{line}: ")
    assert words in str(caught.value)


def test_bytes_that_are_no_text_are_refused_with_the_line() -> None:
    with pytest.raises(Unusable, match=r"^x\.md:3: This is not UTF-8"):
        read_frontmatter(b"---\nname: x\ndescription: \xff\n---\n", "x.md")


def test_the_body_begins_after_the_frontmatter_and_may_have_rules_of_its_own() -> None:
    head = read_frontmatter(b"\xef\xbb\xbf---\r\nname: x\r\n---  \r\n# Title\r\n\r\n---\r\nmore\r\n", FILE)

    assert (dict(head.values), dict(head.lines)) == ({"name": "x"}, {"name": 2})
    assert head.body == "# Title\n\n---\nmore\n"


def test_a_file_without_frontmatter_is_all_body() -> None:
    assert read_frontmatter(b"# Title\n---\n", FILE).body == "# Title\n---\n"
    assert read_frontmatter(b"---\n---\nText", FILE).body == "Text"


def test_prose_that_is_not_yaml_is_taken_as_it_stands_with_a_warning() -> None:
    yaml = 'name: x\ndescription: Use when: it\'s "needed" # really\nargument-hint: [issue] [branch]\ntools: Read'
    head = read_frontmatter(f"---\n{yaml}\n---\n".encode(), FILE)

    assert head.values == {
        "name": "x",
        "description": 'Use when: it\'s "needed" # really',
        "argument-hint": "[issue] [branch]",
        "tools": "Read",
    }
    assert [str(each).partition(" is not")[0] for each in head.warnings] == [
        "SKILL.md:3: The text of 'description'",
        "SKILL.md:4: The text of 'argument-hint'",
    ]
    with pytest.raises(Unusable, match=r"SKILL\.md:3"):
        read_frontmatter(f"---\n{yaml}\n---\n".encode(), FILE, strict=True)


def test_a_description_of_several_paragraphs_ends_at_the_next_key_that_means_something() -> None:
    yaml = "name: x\ndescription: Use it. Examples:\n\n<example>\nContext: a repository\nuser: go\n</example>\n\nTools: Read\nmodel: haiku"
    head = read_frontmatter(f"---\n{yaml}\n---\nBody".encode(), FILE)

    assert head.values == {
        "name": "x",
        "description": "Use it. Examples:\n\n<example>\nContext: a repository\nuser: go\n</example>",
        "Tools": "Read",
        "model": "haiku",
    }
    assert dict(head.lines) == {"name": 2, "description": 3, "Tools": 10, "model": 11}


def test_a_list_of_tools_that_is_not_yaml_is_never_mended() -> None:
    with pytest.raises(Unusable, match=r"SKILL\.md:3"):
        read_frontmatter(b"---\ndescription: Use when: needed\ntools: Read: Write\n---\n", FILE)


def test_texts_become_numbers_and_truth_values_only_when_asked_and_without_quotes() -> None:
    (read, _) = read_yaml("a: 10\nb: '10'\nc: true\nd: no\ne: 1.50\nf:\ng: [~, \"null\", 0x10]\n")

    assert read["e"] == "1.50"
    assert convert_plain(read) == {
        "a": 10,
        "b": "10",
        "c": True,
        "d": "no",
        "e": 1.5,
        "f": None,
        "g": [None, "null", "0x10"],
    }
    assert isinstance(read["a"], Plain)


def test_the_reader_says_where() -> None:
    with pytest.raises(BadYaml) as caught:
        read_yaml("a: b\nc: [")

    assert caught.value.line == 2
