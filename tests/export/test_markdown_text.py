"""Whatever somebody says stays in its place in a Markdown document."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from backstay.export.markdown import fence, in_code, in_html, in_words, quote, segments

PIECES = st.sampled_from(
    [
        *("`", "``", "```", "~~~", "\n", "\n\n", " ", "    ", "\t", "\\", "|", "| a | b |\n|---|---|\n| ", "- ", "1. "),
        *(
            "<b>",
            "</details>",
            "</blockquote>",
            "<!--",
            "<script>",
            "<?x",
            "![x](http://e/x.png)",
            "[a](",
            ")",
            '"',
            "'",
        ),
        *("[a](`) ", "[x]: http://e", "[^1]: foot", "# Heading", "===", "---", "> ", "word", "&lt;", "<http://e>"),
        *(
            "\r",
            "\x0b",
            "\x0c",
            "\u2028",
            "\x85",
            "\u202e",
            "\x00",
            "[x](javascript:alert(1))",
            "[x][y]",
            "\\`",
            "```js\n",
        ),
    ]
)
HOSTILE = st.lists(PIECES, max_size=25).map("".join)
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
READER.validateLink = lambda url: True  # type: ignore[method-assign]  # not every viewer judges addresses itself
OURS = "\n\n## Ours\n"


def read(lines: list[str]) -> list[Token]:
    return READER.parse("\n".join(lines) + OURS)


def inner(tokens: list[Token]) -> list[Token]:
    return [*tokens, *(child for token in tokens for child in token.children or ())]


def shape(tokens: list[Token]) -> list[str]:
    """What stands at the margin of the document."""
    return [token.type for token in tokens if token.level == 0]


@pytest.mark.parametrize("hard", [False, True])
@given(text=HOSTILE)
@example(text="[a](`) `x` <b>`")
@example(text="[a](\n`) `x` <b>`")
@example(text="| a | b |\n|---|---|\n| `a | ![x](http://e/x.png)` |")
@example(text="| a | b |\n|---|---|\n| `a | <b>` |")
@example(text="| a | b |\n|---|---|\n| `a | [c](javascript:alert(1)) ` |")
@example(text="| a | b |\n|---|---|\n| `a | [c] ` |\n\n`|\n[c]: javascript:alert(1)`")
@example(text="- ```js\n  <b>\n  ```\nrest")
@example(text="    ```\n<b>")
@example(text="a\r# b")
def test_what_is_quoted_stays_in_the_quotation(text: str, hard: bool) -> None:
    tokens = read(["before", "", quote(text, hard=hard)])

    kinds = ("paragraph", "blockquote", "heading")
    assert [kind for kind in shape(tokens) if kind != "inline"] == [
        f"{k}_{e}" for k in kinds for e in ("open", "close")
    ]
    assert {token.type for token in inner(tokens)} & {"html_block", "html_inline", "image"} == set()
    addresses = [str(token.attrs["href"]) for token in inner(tokens) if token.type == "link_open"]
    assert [address for address in addresses if re.match(r"\s*(?:javascript|data|vbscript):", address)] == []


@given(text=HOSTILE)
@example(text="```\n# out")
@example(text="````\n```\n~~~")
def test_what_is_fenced_is_one_block_of_code(text: str) -> None:
    tokens = read([fence(text, "text")])

    assert [token.type for token in tokens] == ["fence", "heading_open", "inline", "heading_close"]


@given(text=HOSTILE)
def test_what_stands_in_a_line_stays_in_it(text: str) -> None:
    for line in (f"a {in_code(text)} b", f"a {in_words(text)} b"):
        tokens = read([line])
        assert [token.type for token in tokens][:3] == ["paragraph_open", "inline", "paragraph_close"]
        kinds = {child.type for child in tokens[1].children or ()}
        assert kinds <= {"text", "code_inline", "text_special"}
    assert re.search(r"<|>|\n", in_html(text)) is None


def test_a_block_of_code_is_given_back_letter_for_letter() -> None:
    code = "if a < b:\n\n\n    print(`x`)  # ``` ![i](u)"
    for text in (f"See:\n```python\n{code}\n```\nDone.", f"See:\n~~~~ python\n{code}\n~~~~\nDone."):
        blocks = [token for token in read([quote(text)]) if token.type == "fence"]
        assert [(block.info, block.content) for block in blocks] == [("python", f"{code}\n")]


@pytest.mark.parametrize("text", ["- ```sh\n  ls\n  ```\n- two", "1. one\n   ```sh\n   ls\n   ```\n2. two"])
def test_code_in_a_list_ends_where_it_ended(text: str) -> None:
    blocks = [token.content for token in read([quote(text)]) if token.type == "fence"]

    assert blocks == ["ls\n"]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Use `Vec<T>` or `<div>`.", "> Use `Vec<T>` or `<div>`."),
        ("1 < 2 and **bold** [here](https://e.org/a?b=1&c=2)", "> 1 < 2 and **bold** [here](https://e.org/a?b=1&c=2)"),
        ("<div> and an odd ` tick", "> &lt;div> and an odd \\` tick"),
        ("![pixel](https://e.org/p.png)", "> !\\[pixel](https://e.org/p.png)"),
        ("[x](javascript:alert) [y](java&#115;cript:z)", "> [x]\\(javascript:alert) [y]\\(java&#115;cript:z)"),
        ("[x]: https://e.org", "> [x]\\: https://e.org"),
    ],
)
def test_markdown_stays_readable(said: str, written: str) -> None:
    assert quote(said) == written


def test_lines_that_a_person_typed_stay_lines() -> None:
    assert quote("one\ntwo\n\nthree", hard=True) == "> one  \n> two\n>\n> three"


def test_a_line_of_bullets_ends() -> None:
    line = "-  " * 5_000 + "x"
    assert [each.lines for each in segments(line)] == [[line]]
