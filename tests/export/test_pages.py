"""A session as a page for people: what is on it, what is not, and that no text gets out of its place."""

import json
from collections.abc import Sequence
from hashlib import sha256
from html.parser import HTMLParser
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.export.dialogue import ENDINGS
from backstay.export.formats import PageKind
from backstay.export.html import POLICY, in_block, in_line
from backstay.logic.secrets.redact import Redactor
from backstay.testing.builders import cut_conversation
from backstay.vocab.event import ToolOutcome, TurnOutcome
from backstay.vocab.events import (
    ChildFinished,
    ChildStarted,
    EntryAdded,
    HistoryCleared,
    MessageInjected,
    PermissionAnswered,
    Rewound,
    ToolFinished,
)
from backstay.vocab.events.limits import Compacted, CompactionUndone
from backstay.vocab.events.tools import HookFinished
from backstay.vocab.ids import event_id
from backstay.vocab.messages import MediaLink, MediaRef, Reasoning, ServerBlock, Text, TextRef, ToolCall
from backstay.vocab.specs import Usage
from tests.export.pages import Turns, page_in, page_of, stored

KINDS: tuple[PageKind, ...] = ("markdown", "html")
KEY = "sk-ant-api03-Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1oKiT4Zk3Vt9QwLr7XyB2N"


def called(name: str = "Read", args: str = '{"file_path":"a.txt"}', id: str = "c1") -> ToolCall:
    return ToolCall(id=id, name=name, args=args)


def finished(text: str, outcome: ToolOutcome = "ok", code: str = "", call: str = "c1") -> ToolFinished:
    return ToolFinished(call=call, outcome=outcome, code=code, content=(Text(text=text),))


async def test_a_markdown_page_has_the_whole_conversation() -> None:
    turns = (
        Turns()
        .asked("What is in a.txt?")
        .said(Reasoning(text="I should look."), "I look.", called(), usage=Usage(input=9, output=3), cost=2_000_000)
        .happened(finished("# one line"))
        .said("It has *one* line.")
        .over()
    )

    assert await page_of("markdown", *turns.events, name="The file", project="/work") == (
        "# The file\n\n- **Session:** `s1`\n- **Model:** `scripted:test`\n- **Project:** `/work`\n"
        "- **Started:** 2026-01-01 00:00:00 UTC\n- **Turns:** 1\n- **Cost:** $0.0200\n\n"
        "## Turn 1\n\n*2026-01-01 00:00:00 UTC*\n\n### Person\n\n> What is in a.txt?\n\n### Model\n\n"
        "<details><summary>Reasoning</summary>\n\n> I should look.\n\n</details>\n\n> I look.\n\n"
        '**Tool `Read`: done**\n\nArguments:\n\n```json\n{\n  "file_path": "a.txt"\n}\n```\n\n'
        "<details><summary>Result (10 characters)</summary>\n\n```text\n# one line\n```\n\n</details>\n\n"
        "> It has *one* line.\n"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [
        ("ok", "", "done"),
        ("failed", "exit:2", "failed (exit:2)"),
        ("denied", "denied", "denied: it was not run"),
        ("invalid", "bad_arguments", "not valid: it was not run"),
        ("interrupted", "", "interrupted"),
        ("unknown", "restart", "outcome unknown: the process died while it ran, and it was not run again"),
    ],
)
async def test_how_a_call_ended_is_said(kind: PageKind, outcome: ToolOutcome, code: str, words: str) -> None:
    turns = Turns().asked("go").said(called()).happened(finished("so it was", outcome, code)).said("ok").over()

    shown = await page_of(kind, *turns.events)

    assert (f": {words}**\n" if kind == "markdown" else f">{words}</span></h4>") in shown
    assert "so it was" in shown
    assert ("<details open>" in shown) == (outcome != "ok")


def test_every_outcome_has_its_words() -> None:
    assert set(ENDINGS) == {*get_args(ToolOutcome), *get_args(TurnOutcome)}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_has_no_end_is_said(kind: PageKind) -> None:
    open_turn = await page_of(kind, *Turns().asked("go").said(called()).events)
    failed = await page_of(kind, *Turns().asked("go").over("failed", code="auth", message="no <key>").events)
    cut = await page_of(kind, *Turns().asked("go").said("I was", stop="interrupted").over("interrupted").events)
    store = await stored(cut_conversation())
    died = await page_in(store, kind)
    await store.close()

    assert "it has no result yet" in open_turn
    assert "This turn has no end in the log." in open_turn
    assert "This turn failed." in failed
    assert ("auth: no <key>" if kind == "markdown" else "auth: no &lt;key&gt;") in failed
    assert "The answer was interrupted here." in cut
    assert "This turn was interrupted." in cut
    assert "outcome unknown" in died


@pytest.mark.parametrize("kind", KINDS)
async def test_long_results_and_arguments_are_shortened_and_long_texts_are_not(kind: PageKind) -> None:
    result, said = "r" * 50_000, "word " * 10_000
    blobs = {sha256(text.encode()).hexdigest(): text.encode() for text in (result, said)}
    ref, words = (TextRef(sha256=sha, chars=50_000, tokens=1, head="h") for sha in blobs)
    gone = TextRef(sha256="0" * 64, chars=70_000, tokens=1, head="The beginning")
    big = json.dumps({"content": "line\n" * 2_000, "path": "a"})
    turns = (
        Turns()
        .asked(words)
        .said(called(), called("Write", big, "c2"))
        .happened(ToolFinished(call="c1", outcome="ok", content=(ref,)), finished("ok", call="c2"))
        .said("done")
        .over()
        .happened(MessageInjected(role="user", parts=(gone,)))
    )

    shown = await page_of(kind, *turns.events, blobs=blobs)

    assert "Result (46,000 of 50,000 characters left out)" in shown
    assert "[… 46,000 characters left out …]" in shown
    assert shown.count("r" * 1_000) == 4
    assert said.strip() in shown
    assert "(6,000 of 10,000 characters left out)" in shown
    assert shown.count("line\n") < 810
    assert "The beginning… [the rest of 70,000 characters is missing]" in shown


@pytest.mark.parametrize("kind", KINDS)
async def test_no_secret_is_on_a_page(kind: PageKind) -> None:
    args = f'{{"password":"hunter2hunter2","note":"use {KEY}","text":"a\\nKEY={KEY}"}}'
    turns = (
        Turns()
        .asked(Text(text=f"my key is {KEY[:30]}"), Text(text=KEY[30:]), display="")
        .said(Reasoning(text=f"They gave {KEY}."), f"I have {KEY}.", called("Bash", args))
        .happened(finished("x" * 2_970 + f"\n{KEY}\n" + "y" * 9_000))
        .said(called("Bash", f'{{"to {KEY}', "c2"))
        .happened(
            ChildFinished(call="c2", child="s2", outcome="completed", text=f"The child has {KEY} and TOPSECRETVALUE.")
        )
        .over("failed", message=f"refused {KEY}")
        .happened(Compacted(trigger="manual", first_kept="", summary=Text(text=f"A key: {KEY}")))
        .happened(EntryAdded(kind="note", content=f'{{"token":"{KEY}"}}'))
    )

    shown = await page_of(kind, *turns.events, redactor=Redactor(["TOPSECRETVALUE"]), name=f"of {KEY}")

    assert [piece for piece in (KEY, KEY[:20], KEY[-20:], "hunter2", "TOPSECRET") if piece in shown] == []
    assert shown.count("[REDACTED]") >= 11


@pytest.mark.parametrize("kind", KINDS)
async def test_only_the_current_path_is_shown(kind: PageKind) -> None:
    turns = Turns().asked("first").said("one").over()
    end = event_id("t0", len(turns.events) + 1)  # the first event is the start
    turns.asked("thrown away").said("forgotten").over().happened(Rewound(to=end))
    turns.asked("second").said("two").over()

    shown = await page_of(kind, *turns.events)

    assert [word in shown for word in ("first", "one", "second", "two")] == [True] * 4
    assert [word in shown for word in ("thrown away", "forgotten")] == [False] * 2
    assert "1 time; what was left behind is not shown" in shown
    assert "Turn 2" in shown
    assert "Turn 3" not in shown


@pytest.mark.parametrize("kind", KINDS)
async def test_a_result_that_was_left_behind_is_not_shown(kind: PageKind) -> None:
    turns = Turns().asked("go").said(called())
    reply = event_id("t0", len(turns.events) + 1)
    turns.happened(finished("thrown away"), Rewound(to=reply))

    shown = await page_of(kind, *turns.events)

    assert "thrown away" not in shown
    assert "it has no result yet" in shown


@pytest.mark.parametrize("kind", KINDS)
async def test_what_happened_to_the_conversation_is_noted(kind: PageKind) -> None:
    summary = Compacted(trigger="auto", first_kept="", summary=Text(text="They met."), before=180_000, after=9_000)
    turns = (
        Turns()
        .asked("hello")
        .said("hi")
        .over()
        .happened(summary, CompactionUndone(compaction="x"), HistoryCleared())
        .happened(EntryAdded(kind="skill-invocation", content='{"skill":"commit"}'))
        .asked("the whole skill", display="/commit")
        .said("two", model="other:model")
        .over()
    )

    shown = await page_of(kind, *turns.events)

    assert "from about 180,000 to 9,000 tokens, because it was nearly full" in shown
    assert "They met." in shown
    assert "A compaction was undone here" in shown
    assert "The conversation was cleared here" in shown
    assert "Note: skill-invocation" in shown
    assert "/commit" in shown
    assert "What the model was given" in shown
    assert "scripted:test, other:model" in shown


@pytest.mark.parametrize("kind", KINDS)
async def test_media_are_named_and_children_and_changes_are_told(kind: PageKind) -> None:
    image = MediaRef(sha256="0" * 64, media_type="image/png", size=2_048, name="shot.png")
    link = MediaLink(url="https://e.org/a.pdf", media_type="application/pdf")
    turns = (
        Turns()
        .asked("see", image, link)
        .said(ServerBlock(kind="web_search", name="search", content="query"), called("Agent", '{"prompt":"p"}'))
        .happened(ChildStarted(call="c1", child="s1-c1", prompt="p"))
        .happened(ChildFinished(call="c1", child="s1-c1", outcome="failed", text="It broke."))
        .said(called("Bash", '{"command":"rm x"}', "c2"))
        .happened(PermissionAnswered(call="c2", allowed=True, args='{"command":"rm y"}'))
        .happened(ToolFinished(call="c2", outcome="ok", content=(Text(text="raw"), image)))
        .happened(HookFinished(event="PostToolUse", subject="c2", output="cleaned"))
        .over()
    )

    shown = await page_of(kind, *turns.events)

    for words in ("shot.png, image/png, 2,048 bytes", "https://e.org/a.pdf", "Done by the provider: search", "s1-c1"):
        assert words in shown
    assert [word in shown for word in ("rm x", "rm y", "cleaned", "raw", "It broke.")] == [
        True,
        True,
        True,
        False,
        True,
    ]
    assert "a hook replaced what the model saw of it" in shown
    assert "a hook or the person changed it" in shown


class Found(HTMLParser):
    """The tags of a page, their attributes, and the texts between them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.closed: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.closed.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


ATTACKS = (
    "<script>alert(1)</script>",
    "</pre></details></main><h1>mine</h1>",
    '" onmouseover="alert(1)',
    "' style='x'",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "&lt;b&gt; &#60;i&#62;",
    "<!-- ",
    "]]><svg onload=alert(1)>",
    "</style><style>@import 'http://e'",
    "a\u2028b\u202eevil\u2066\x00\x1b[31m\x85\ud800\U000e0041",
    "```\n</pre><script>\n```",
)


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_text_becomes_html(attack: str) -> None:
    safe = attack.encode("utf-8", "replace").decode()
    turns = (
        Turns()
        .asked(safe, MediaRef(sha256="0" * 64, media_type=safe, size=1, name=safe), display=safe)
        .said(Reasoning(text=safe), safe, called(safe, safe), ServerBlock(kind=safe, content=safe), model=safe)
        .happened(ToolFinished(call="c1", outcome="failed", code=safe, content=(Text(text=safe),)))
        .said(called("Agent", "{}", "c2"), model="another")
        .happened(
            ChildFinished(call="c2", child=safe, outcome="completed", text=safe), EntryAdded(kind=safe, content=safe)
        )
        .over("failed", code=safe, message=safe)
    )

    shown = await page_of("html", *turns.events, name=safe, project=safe)

    found = Found(shown)
    ours = {
        *(
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "header",
            "h1",
            "dl",
            "dt",
            "dd",
            "code",
            "main",
            "section",
        ),
        *("h2", "p", "h3", "pre", "details", "summary", "div", "h4", "span"),
    }
    assert set(found.tags) <= ours
    assert found.tags.count("h1") == found.tags.count("style") == found.tags.count("main") == 1
    assert sorted(tag for tag in found.tags if tag != "meta") == sorted(found.closed)
    assert {name for name, _ in found.attributes} <= {
        *("lang", "charset", "http-equiv", "content", "name", "class", "dir", "aria-labelledby", "id", "open"),
    }
    assert not set(shown) & set("\u2028\u202e\u2066\x00\x1b\x85\U000e0041")


@given(text=st.text())
def test_every_text_is_escaped_and_whole(text: str) -> None:
    shown = Found(in_block(text, "said") + in_line(text))

    assert set(shown.tags) <= {"pre", "span"}
    assert set(shown.attributes) <= {("class", "said"), ("dir", "auto"), ("class", "sign")}
    if text.isprintable():
        assert shown.text.startswith("\n" + text)


async def test_an_html_page_is_one_file_without_scripts_and_with_landmarks() -> None:
    turns = Turns().asked("hi").said("ho", called()).happened(finished("x")).over()

    shown = await page_of("html", *turns.events)

    assert f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">' in shown
    assert POLICY.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert shown.index("Content-Security-Policy") < shown.index("<style>")
    assert [
        word for word in ("<script", "http://", "https://", "src=", "href=", "url(", "@import") if word in shown
    ] == []
    found = Found(shown)
    assert {"header", "main", "section", "h1", "h2", "h3", "h4"} <= set(found.tags)
    assert "prefers-color-scheme: dark" in shown
    assert "@media print" in shown
    assert 'name="viewport"' in shown


@pytest.mark.parametrize("kind", KINDS)
async def test_an_empty_session_has_a_page(kind: PageKind) -> None:
    shown = await page_of(kind)

    assert "scripted:test" in shown
    assert "Turn 1" not in shown


@pytest.mark.parametrize("kind", ["markdown", "html"])
@pytest.mark.parametrize(
    "args",
    [
        '{"a":' * 600 + "1" + "}" * 600,
        json.dumps({"body": '{"password": "hunter2xyz", "x": "\\ud800"}'}),
        json.dumps({KEY: "x"}),
        json.dumps({KEY: "x\ny"}),
    ],
    ids=["deep", "half a character", "a secret name", "a secret name of lines"],
)
async def test_whatever_a_call_was_given_the_page_is_written_without_secrets(args: str, kind: PageKind) -> None:
    page = await page_of(kind, *Turns().asked("go").said(called("Read", args)).happened(finished("r")).over().events)
    assert (KEY in page, "hunter2xyz" in page) == (False, False)
