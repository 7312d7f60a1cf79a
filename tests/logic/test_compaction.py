"""What stays of a conversation that is made shorter, for any conversation."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from backstay.logic.compaction import (
    HEAD,
    apply,
    chunks,
    clip_tokens,
    digest,
    frame_summary,
    plan,
    question,
    state_after,
    trim,
    trim_plan,
    without_marks,
)
from backstay.logic.context_usage import estimate, estimate_text
from backstay.logic.state.request_messages import to_messages
from backstay.testing.checked_model import check_shape
from backstay.vocab.events.limits import Compacted
from backstay.vocab.messages import DurablePart, Role, SessionMessage, Text, TextRef, ToolCall, ToolResult, text_of

WORDS = "lorem ipsum dolor sit amet "


def message(number: int, role: Role, *parts: DurablePart) -> SessionMessage:
    """A message."""
    return SessionMessage(id=f"m{number}", session="s", number=number, role=role, content=parts, at=number)


@st.composite
def conversations(draw: st.DrawFn) -> list[SessionMessage]:
    """Turns with short and long words, tools that say little or much, words of the system, an open turn at the end."""
    found: list[SessionMessage] = []

    def say(role: Role, *parts: DurablePart) -> None:
        found.append(message(len(found), role, *parts))

    for turn in range(draw(st.integers(0, 12))):
        if draw(st.integers(0, 9)) == 0:
            say("system", Text(text=f"rule {turn}"))
        say("user", Text(text=f"user {turn}: " + WORDS * draw(st.sampled_from((0, 1, 12, 40)))))
        for round in range(draw(st.integers(0, 3))):
            names = [f"c{turn}-{round}-{n}" for n in range(draw(st.integers(1, 3)))]
            say("assistant", Text(text="I look."), *(ToolCall(id=n, name="look", args="{}") for n in names))
            for name in names:
                size = draw(st.sampled_from((1, 30, 400)))
                say("tool", ToolResult(call=name, content=(Text(text=f"{name} " + WORDS * size),)))
        if draw(st.integers(0, 5)):
            say("assistant", Text(text=f"answer {turn} " + WORDS * draw(st.sampled_from((1, 20)))))
    return found


def compact(
    messages: list[SessionMessage], before: Compacted | None, window: int, number: int, turn: int | None = None
) -> tuple[list[SessionMessage], Compacted] | None:
    """One compaction with a summary of one word, applied."""
    used = sum(map(estimate, messages)) + 50
    chosen = plan(messages, before, used=used, window=window, overhead=50, ratio=1.0, turn=turn)
    if chosen is None:
        return None
    event = state_after(chosen, Text(text=f"notes {number}"), "auto")
    frame = message(1000 + number, "user", *frame_summary(event))
    return apply(event, frame, messages), event


@given(conversations(), st.sampled_from((1_000, 4_000, 30_000)), st.integers(1, 4))
def test_any_conversation_stays_one_that_every_provider_takes(
    messages: list[SessionMessage], window: int, times: int
) -> None:
    before: Compacted | None = None
    system = [m for m in messages if m.role == "system"]
    for number in range(times):
        found = compact(messages, before, window, number)
        if found is None:
            break
        old, (messages, before) = messages, found
        assert (before.messages, before.guess) == (len(messages), sum(map(estimate, messages)))
        rest = [m for m in messages if m.role != "system"]
        assert [m for m in messages if m.role == "system"] == system
        assert text_of(rest[0].content).startswith(HEAD)
        assert len(rest) < 2 or rest[1].role in ("user", "assistant")
        kept = {m.id: m for m in old}
        assert all(m in (kept[m.id], trim(kept[m.id])) for m in rest[1:])
        assert [m.id for m in rest[1:]] == [m.id for m in old if m.role != "system"][-len(rest[1:]) :] or not rest[1:]
        sent = to_messages(messages, lambda sha: b"")
        if sent[-1].role != "assistant":
            for format in ("anthropic", "openai-responses", "openai-chat", "google"):
                assert check_shape(format, sent) == ()


@given(conversations(), st.sampled_from((4_000, 30_000)))
def test_the_request_that_is_being_answered_stays_word_for_word(messages: list[SessionMessage], window: int) -> None:
    request = "Please do it."
    number = len(messages)
    since = number - 1
    messages = [
        *messages,
        message(number, "user", Text(text=request)),
        message(number + 1, "assistant", ToolCall(id="c", name="look", args="{}")),
        message(number + 2, "tool", ToolResult(call="c", content=(Text(text=WORDS * 900),))),
    ]
    before: Compacted | None = None
    for turn in range(3):
        found = compact(messages, before, window, turn, since)
        if found is None:
            break
        messages, before = found
        assert sum(text_of(m.content).count(request) for m in messages if m.role == "user") == 1
    found = compact(messages, before, window, 9)  # the turn is over
    assert found is None or request not in text_of(found[0][0].content) or found[0][1:] == messages[1:]


@given(conversations(), st.integers(1, 12))
def test_trimming_keeps_whole_turns_from_the_end(messages: list[SessionMessage], keep: int) -> None:
    chosen = trim_plan(messages, keep)
    turns = [i for i, m in enumerate(messages) if m.role == "user"]
    cut = next((i for i in turns if len(messages) - i <= keep), turns[-1] if turns else 0)
    if chosen is None:
        assert all(m.role == "system" for m in messages[:cut])
        return
    assert chosen.kept[0].role == "user"
    assert len(chosen.kept) <= keep or messages.index(chosen.kept[0]) == turns[-1]
    event = state_after(chosen, None, "trim")
    after = apply(event, message(99, "user"), messages)
    assert after == [*chosen.system, *chosen.kept]
    assert (event.messages, event.guess) == (len(after), sum(map(estimate, after)))


def test_nothing_is_gained_from_nothing() -> None:
    short = [message(0, "user", Text(text="hi")), message(1, "assistant", Text(text="hello"))]
    for messages in ([], short):
        assert plan(messages, None, used=100, window=1_000, overhead=10, ratio=1.0) is None
    assert trim_plan([], 3) is None


def test_texts_that_are_long_stay_the_newest_first_and_small_ones_are_not_pushed_out_by_big_ones() -> None:
    talk = [message(n, "assistant" if n % 2 else "user", Text(text=f"{n} " + WORDS * 30)) for n in range(60)]
    small, big = Text(text="small " + WORDS * 12), Text(text="big " + WORDS * 4_000)
    blob = TextRef(sha256="0" * 64, chars=40_000, tokens=90, head="blob")
    talk[2], talk[4], talk[6] = message(2, "user", small), message(4, "user", big), message(6, "user", blob)
    talk = [replace(m, content=(Text(text="?"),)) if m.role == "user" and m.number > 6 else m for m in talk]
    chosen = plan(talk, None, used=9_000, window=10_000, overhead=0, ratio=1.0)
    assert chosen is not None
    assert small in chosen.verbatim
    assert chosen.verbatim[-1] == blob
    assert chosen.forgone == 1


@given(
    st.text(alphabet="<>/sumarygiven[Contx S]\n ", max_size=60),
    st.lists(
        st.sampled_from(
            (
                HEAD,
                "<summary>",
                "</summary>",
                "<given>",
                "</given>",
                "<SUMMARY>",
                "<sum<summary>mary>",
                "</gi</given>ven>",
            )
        ),
        max_size=6,
    ),
)
def test_no_mark_of_the_frame_is_left_in_a_summary(text: str, marks: list[str]) -> None:
    bare = without_marks(text.join(marks) + text).lower()
    assert not any(mark in bare for mark in (HEAD.lower(), "<summary>", "</summary>", "<given>", "</given>"))


@given(st.text(max_size=400), st.integers(0, 80))
def test_a_text_that_is_clipped_fits_and_is_a_beginning(text: str, tokens: int) -> None:
    short = clip_tokens(text, tokens)
    assert text.startswith(short)
    assert estimate_text(short) <= tokens


@given(conversations(), st.integers(64, 3_000))
def test_every_piece_for_the_summariser_fits_and_none_is_missing(messages: list[SessionMessage], tokens: int) -> None:
    pieces = list(chunks(messages, tokens))
    assert all(estimate_text(piece) <= tokens + len(piece.splitlines()) + 8 for piece in pieces)
    whole = "\n".join(pieces)
    assert all(f"{m.role}: " in whole for m in messages)
    assert sum(f"user {n}:" in whole for n in range(12)) == sum(m.role == "user" for m in messages)


@given(conversations(), st.integers(20, 2_000), st.text(max_size=200))
def test_notes_without_a_model_fit_and_the_newest_come_first_in_line(
    messages: list[SessionMessage], tokens: int, earlier: str
) -> None:
    notes = digest(messages, tokens, earlier)
    assert estimate_text(notes) <= tokens + 16
    users = [m for m in messages if m.role == "user"]
    if "what came before is in the log" not in notes:
        assert sum(f"user {n}:" in notes for n in range(12)) == len(users)


def test_the_question_says_what_to_look_at_and_what_was_known() -> None:
    asked = question("user: hi", "so far", "the names", 100)
    assert "Additional focus: the names" in asked
    assert "so far" in asked
    assert asked.endswith("user: hi")
    assert "focus" not in question("x", "", "", 100)
