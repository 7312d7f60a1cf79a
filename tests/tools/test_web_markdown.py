"""HTML read as Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.tools.web.html_to_markdown import CHUNK, LINK_CHARS, STEPS, TOTAL, to_markdown

URL = "https://example.com/dir/page"


def text_of(html: str) -> str:
    return to_markdown(html, URL).text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<p>one\n   two\t three</p>", "one two three"),
        ("<h1>Big</h1><h3>Small <em>one</em></h3>", "# Big\n\n### Small *one*"),
        ("one<br>two<br/><br>three", "one\ntwo\nthree"),
        ("<p>a <b>bold</b> and <i>slanted</i> and <del>gone</del></p>", "a **bold** and *slanted* and ~~gone~~"),
        ("<b> padded </b>text", "**padded** text"),
        ("<b></b><i> </i>text", "text"),
        ("<b><b>twice</b></b>", "**twice**"),
        ("use <code>x = 1</code> or <kbd>`</kbd>", "use `x = 1` or `` ` ``"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("&lt;tag&gt; &amp; &copy; &#233; &#x1F600;&nbsp;x &bogus; &am", "<tag> & © é 😀 x &bogus; &am"),
        ("<div>one<div>two</div>three</div>", "one\n\ntwo\n\nthree"),
        ("<blockquote><p>one</p><p>two</p></blockquote>after", "> one\n\n> two\n\nafter"),
        ("<dl><dt>term<dd>meaning</dl>", "term\n\n: meaning"),
        ("<!-- no --><p>yes<!-- no --></p><? no ?><![CDATA[ no ]]><![if x]>", "yes"),
        ("<p>unclosed <a href='x", "unclosed"),
        ("x < y and <3", "x < y and <3"),
        ("<summary>More</summary><p>hidden by a click", "More\n\nhidden by a click"),
        ("<noscript>for readers without scripts</noscript>", "for readers without scripts"),
    ],
)
def test_text_reads_as_on_the_page(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<ul><li>one<li>two</ul>after", "- one\n- two\n\nafter"),
        ("<ol start=3><li>c</li><li>d</li></ol>", "3. c\n4. d"),
        ("<ol start=x><li>a</ol>", "1. a"),
        ("<ul><li>one<ul><li>deep<li>er</ul><li>two</ul>", "- one\n  - deep\n  - er\n- two"),
        ("<ol><li><p>one</p><p>more</p></li><li>two</li></ol>", "1. one\n\n   more\n2. two"),
        ("<ul><li>a</ul><ol><li>b</ol>", "- a\n\n1. b"),
        ("<ul><li><pre>code\n  x</pre></ul>", "- ```\n  code\n    x\n  ```"),
        ("<ul><li></li><li>x</ul>", "- x"),
        ("<li>stray</li>", "- stray"),
    ],
)
def test_lists_keep_their_shape(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<a href="/x?a=1&amp;b=2">here</a>', "[here](https://example.com/x?a=1&b=2)"),
        ('<a href="next">here</a>', "[here](https://example.com/dir/next)"),
        ('<a href="//other.example/">there</a>', "[there](https://other.example/)"),
        ('<base href="https://base.example/b/"><a href="c">x</a>', "[x](https://base.example/b/c)"),
        ('<a href="a b(c)">x</a>', "[x](https://example.com/dir/ab%28c%29)"),
        ('<a href="#part">x</a> <a>y</a> <a href="">z</a>', "x y z"),
        ('<a href="javascript:alert(1)">x</a> <a href="data:text/html,y">y</a>', "x y"),
        ('<a href=" jav\nascript:alert(1)">x</a>', "x"),
        ('<a href="mailto:a@example.com">write</a>', "[write](mailto:a@example.com)"),
        ('<a href="http://[bad">x</a>', "x"),
        ('<a href="x"></a>', ""),
        ('<a href="c"><h3>Card</h3><p>text</p></a><p>next', "[Card text](https://example.com/dir/c)\n\nnext"),
        (
            '<p>see <a href="x">this</a>, <a href="y">that</a>.',
            "see [this](https://example.com/dir/x), [that](https://example.com/dir/y).",
        ),
        ('<p><a href="x">open<p>two', "[open two](https://example.com/dir/x)"),
        (f'<a href="{"x" * (LINK_CHARS + 1)}">long</a>', "long"),
        ('<img src="a.png" alt="A  picture">', "![A picture](https://example.com/dir/a.png)"),
        ('<img src="data:image/png;base64,AAAA" alt="inline">', "[image: inline]"),
        ('<img src="pixel.gif"><img src="x" alt="">', ""),
        (
            '<a href="x"><img src="a.png" alt="logo"></a>',
            "[![logo](https://example.com/dir/a.png)](https://example.com/dir/x)",
        ),
    ],
)
def test_links_and_pictures_have_whole_addresses_or_none(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (
            "<table><caption>c</caption><thead><tr><th>A<th>B</thead><tr><td>1|2<td><b>x</b><p>y</table>",
            "c\n\n| A | B |\n| --- | --- |\n| 1\\|2 | **x** y |",
        ),
        ("<table><tr><td colspan=2>wide<tr><td>a<td>b</table>", "| wide |  |\n| --- | --- |\n| a | b |"),
        ("<table><td>a<td>b</table>", "| a | b |\n| --- | --- |"),
        ("<table><tr><td>only<tr><td>one</table>", "only\n\none"),
        ("<table><tr><td>left<td><table><tr><td>in<td>ner</table></table>", "left\n\n| in | ner |\n| --- | --- |"),
        ("<table><tr><td colspan=99999999999>x<td>y</table>", "| x | y |\n| --- | --- |"),
        ("<table></table>", ""),
        ("<td>stray</td>", "stray"),
    ],
)
def test_tables_are_tables_and_layout_is_not(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<pre>a\n  b &lt; c\n</pre>", "```\na\n  b < c\n```"),
        ('<pre><code class="language-python">x = 1</code></pre>', "```python\nx = 1\n```"),
        ('<pre class="brush: js">x</pre>', "```js\nx\n```"),
        ("<pre>```\nnot the end\n```</pre>", "````\n```\nnot the end\n```\n````"),
        ("<pre>a<br>b</pre>", "```\na\nb\n```"),
        ("<pre> </pre>", ""),
    ],
)
def test_code_is_left_as_it_is(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    "noise",
    [
        "<script>noise()</script>",
        "<script>if (a < b) '<p>noise</p>'</script>",
        "<style>noise{}</style>",
        "<nav><ul><li>noise</ul></nav>",
        "<footer>noise</footer>",
        "<div role=navigation>noise<div>noise</div></div>",
        "<div hidden>noise</div>",
        "<div aria-hidden=true>noise</div>",
        "<p style='color:red; display : none'>noise</p>",
        "<span style='font-size:0'>noise</span>",
        "<svg><text>noise</text></svg>",
        "<template>noise</template>",
        "<iframe>noise</iframe>",
        "<select><option>noise</select>",
        "<button>noise</button>",
    ],
)
def test_what_is_run_or_hidden_or_on_every_page_is_left_out(noise: str) -> None:
    assert text_of(f"<p>before</p>{noise}<p>after</p>") == "before\n\nafter"


def test_a_page_that_is_all_noise_is_shown_as_it_is() -> None:
    assert text_of("<nav><p>It never ends.</p>") == "It never ends."


def test_the_main_part_is_enough_when_it_says_something() -> None:
    story = "A long story. " * 30

    assert (
        text_of(f"<header>Site</header><main><h1>T</h1><p>{story}</p></main><div>ads</div>")
        == f"# T\n\n{story.strip()}"
    )
    assert text_of("<header>Site</header><main>short</main>") == "Site\n\nshort"


@pytest.mark.parametrize(
    "html",
    [
        "<html><head><title> A &amp;\n B </title><style>x</style></head><body>text",
        "<title>A & B</title><p>text",
        "<head><title>A & B</title><link><body>text",
        "<head><title>A &amp; B</title><p>text",
    ],
)
def test_the_title_is_no_part_of_the_text(html: str) -> None:
    reading = to_markdown(html, URL)

    assert (reading.title, reading.text) == ("A & B", "text")


@given(st.text(alphabet="<>/ abpdivtrul=\"'&;!-[]\n", max_size=300))
def test_anything_can_be_read(html: str) -> None:
    assert "\x1e" not in text_of(html)


TAGS = [
    "<p>",
    "</p>",
    "<a href=z>",
    "</a>",
    "<ul>",
    "<li>",
    "</ul>",
    "<table>",
    "<tr>",
    "<td>",
    "</table>",
    "<b>",
    "</b>",
    "<pre>",
    "</pre>",
]


@given(st.lists(st.sampled_from([*TAGS, "x", "y"])))
def test_tags_in_any_order_lose_no_text(pieces: list[str]) -> None:
    said = sorted(piece for piece in pieces if piece in "xy")

    written = text_of("".join(pieces)).replace("https://example.com/dir/z", "")

    assert sorted(char for char in written if char in "xy") == said


@pytest.mark.parametrize(
    "html",
    [
        "<b>" * 50_000 + "x" + "</b>" * 50_000,
        "<div>" * 50_000,
        "<" * (STEPS * 2),
        "<!--" * 500_000,
        "<![x[" * 300_000,
        "<a " + "='" * 200_000 + ">",
        "<ul><li>x" * 10_000,
        "<base href='https://example.com/" + "x" * 1900 + "'>" + "<a href=y>z</a>" * 20_000,
        "<table><tr><td>" * 20_000,
        "<title>" + "x<b>" * 50_000,
        "<a " + "a=b " * 500_000 + ">",
        "<a " + 'a="b>" ' * 300_000 + ">",
        ("<a " + "a=b " * 15_000 + ">") * 20,
        "<a href=x>" * 200_000,
        "<script>" + "</scriptx" * 300_000,
    ],
    ids=lambda html: str(html)[:8],
)
def test_a_page_that_is_made_to_take_long_or_much_is_bounded(html: str) -> None:
    reading = to_markdown(html, URL)

    assert len(reading.text) <= TOTAL + 2_000_000
    assert len(reading.title) <= 1000


def test_a_tag_that_is_too_long_is_passed_over_and_what_follows_is_read() -> None:
    long = 'title="' + "y>" * CHUNK + '"'

    assert text_of(f"<p>before</p><b {'a=b ' * CHUNK}>after</b>") == "before\n\nafter"
    assert text_of(f"<p>before</p><b {long}>z</b><p>after</p>").startswith("before")
    assert text_of(f'<p>before</p><b {long[:100]}">after</b>') == "before\n\n**after**"


@pytest.mark.parametrize("filler", ["x", "-", ">", "<b ", "a b\n"])
def test_long_scripts_and_comments_are_left_out_to_their_end(filler: str) -> None:
    long = filler * (3 * CHUNK // len(filler))

    assert text_of(f"<p>a</p><script>{long}</script ><p>b</p>") == "a\n\nb"
    assert text_of(f"<p>a</p><!--x{long}--><p>b</p>") == "a\n\nb"


@pytest.mark.parametrize("at", range(12))
def test_what_lies_across_the_end_of_a_piece_is_read_whole(at: int) -> None:
    before = "x" * (CHUNK - at)

    assert text_of(f"{before}<b>y</b>&amp;z") == f"{before}**y**&z"


def test_reading_ends_soon_when_nobody_waits() -> None:
    asked: list[int] = []

    def stopped() -> bool:
        asked.append(1)
        return True

    assert text_of("<p>x</p>") == "x"
    assert len(to_markdown("<p>x</p>" * 10_000, URL, stopped).text) < 5000
    assert asked
