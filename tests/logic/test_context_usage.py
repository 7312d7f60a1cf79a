"""How full the context is: given events, expect figures, the same ones that the conversation itself gives."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.logic.context_usage import ContextUsage, estimate, fold_context_usage, tokens_of
from backstay.logic.state.transcript import transcript_of
from backstay.testing.builders import log, started
from backstay.vocab.event import CompactionTrigger, Event
from backstay.vocab.events import (
    ChildFinished,
    HistoryCleared,
    InputDropped,
    InputReceived,
    InputTaken,
    Interrupted,
    MessageInjected,
    ModelAsked,
    ModelChanged,
    ModelReplied,
    Opened,
    Rewound,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
)
from backstay.vocab.events.limits import Compacted, CompactionFailed, CompactionStarted, CompactionUndone
from backstay.vocab.messages import MediaRef, Reasoning, Text, ToolCall
from backstay.vocab.specs import Usage


def after(*events: Event, start: ContextUsage | None = None) -> ContextUsage:
    """The figures after events."""
    return reduce(fold_context_usage, log(*events), start or ContextUsage())


def said(text: str, **fields: object) -> ModelReplied:
    """A reply."""
    return ModelReplied(parts=(Text(text=text),), **fields)  # type: ignore[arg-type]  # each test names its own


def asked(tokens: int) -> ModelAsked:
    """A request that is thought to have so many tokens."""
    return ModelAsked(turn="t", round=1, model="m", tokens=tokens)


def given_input(name: str, text: str) -> InputReceived:
    """A person says something."""
    return InputReceived(input=name, parts=(Text(text=text),))


texts = st.text(max_size=60)
parts = st.lists(
    st.one_of(
        st.builds(Text, text=texts),
        st.builds(Reasoning, text=texts),
        st.builds(ToolCall, id=st.just("c"), name=texts, args=texts),
        st.builds(MediaRef, sha256=st.just("0" * 64), media_type=st.just("image/png"), size=st.just(9)),
    ),
    max_size=4,
).map(tuple)
events = st.one_of(
    st.builds(
        lambda text, at: (given_input(f"i{at}", text), InputTaken(inputs=(f"i{at}",))),
        texts.filter(bool),
        st.integers(),
    ),
    st.builds(
        lambda a, b, at: (
            given_input(f"a{at}", a),
            given_input(f"b{at}", b),
            InputTaken(inputs=(f"a{at}", f"b{at}")),
        ),
        texts.filter(bool),
        texts.filter(bool),
        st.integers(),
    ),
    st.builds(lambda p: (ModelReplied(parts=p),), parts),
    st.builds(lambda p: (ModelReplied(parts=p, stop="interrupted"),), parts),
    st.builds(lambda t: (ToolFinished(call="c", outcome="ok", content=(Text(text=t),)),), texts),
    st.builds(lambda t: (ChildFinished(call="c", child="d", outcome="completed", text=t),), texts),
    st.builds(lambda t: (MessageInjected(role="system", parts=(Text(text=t),)),), texts.filter(bool)),
    st.just((HistoryCleared(),)),
)


@given(st.lists(events, max_size=12))
def test_the_estimate_is_that_of_the_conversation_after_every_event(story: list[tuple[Event, ...]]) -> None:
    records = log(started(), *(event for step in story for event in step))
    context = ContextUsage()
    for count, record in enumerate(records, start=1):
        context = fold_context_usage(context, record)
        there = transcript_of(records[:count]).messages
        assert (context.messages, context.guess) == (len(there), sum(map(estimate, there)))


def test_what_the_provider_counted_is_exact_until_something_is_said() -> None:
    context = after(asked(100), said("x", usage=Usage(input=120, output=30)))
    assert (context.request_tokens(10), context.exact) == (150, True)
    more = after(given_input("a", "some words"), InputTaken(inputs=("a",)), start=context)
    assert not more.exact
    assert more.request_tokens(10) == 150 + int(tokens_of((Text(text="some words"),)) * context.ratio)
    newest = after(asked(200), said("y", usage=Usage(input=170, output=5)), start=more)
    assert newest.request_tokens(10) == 175  # never a sum


def test_an_estimated_usage_counts_as_none() -> None:
    context = after(asked(100), said("hello", usage=Usage(input=999, output=9, estimated=True)))
    assert (context.counted, context.exact, context.ratio) == (0, False, 1.0)
    assert context.request_tokens(50) == 50 + tokens_of((Text(text="hello"),))


@pytest.mark.parametrize(
    ("thought", "counted", "least", "most"),
    [
        (20_000, 30_000, 1.45, 1.5),
        (20_000, 10_000, 0.5, 0.55),
        (10, 500, 1.0, 2.0),
        (1_000, 10**6, 4.0, 4.0),
        (0, 5, 1, 1),
    ],
)
def test_a_count_corrects_the_unit_of_the_estimate_by_as_much_as_it_says(
    thought: int, counted: int, least: float, most: float
) -> None:
    context = after(asked(thought), said("x", usage=Usage(input=counted)))
    assert least <= context.ratio <= most


@pytest.mark.parametrize(
    "jump", [Rewound(to="x", tokens=70, messages=3), CompactionUndone(compaction="c", guess=70, messages=3)]
)
def test_after_a_jump_no_count_is_about_the_conversation(jump: Event) -> None:
    context = after(asked(100), said("x", usage=Usage(input=1_000)), jump)
    assert (context.counted, context.since, context.guess, context.messages) == (0, 0, 70, 3)
    assert not context.exact
    assert context.request_tokens(30) == int(100 * context.ratio)


def test_another_model_has_counted_nothing() -> None:
    context = after(asked(100), said("x", usage=Usage(input=100)), ModelChanged(model="n"))
    assert not context.exact


def test_an_abandoned_turn_was_never_there() -> None:
    before = after(asked(50), said("x", usage=Usage(input=50, output=3)))
    turn = (TurnStarted(number=2), given_input("a", "words " * 40), InputTaken(inputs=("a",)), said("y" * 400))
    there = after(*turn, TurnCompleted(turn="t", outcome="abandoned"), start=before)
    assert (there.counted, there.since, there.guess, there.messages) == (
        before.counted,
        before.since,
        before.guess,
        before.messages,
    )
    kept = after(*turn, TurnCompleted(turn="t", outcome="failed"), start=before)
    assert kept.messages == before.messages + 2


def test_what_is_dropped_is_forgotten() -> None:
    assert after(given_input("a", "x"), given_input("b", "y"), InputDropped(inputs=("a",))).waiting == (("b", 6),)


# --- compactions -----------------------------------------------------------------------------------------------------------------


def began(trigger: CompactionTrigger) -> CompactionStarted:
    """A compaction begins."""
    return CompactionStarted(trigger=trigger, model="m", used=900, window=1_000)


def done(trigger: CompactionTrigger, after_: int) -> Compacted:
    """It is over."""
    return Compacted(trigger=trigger, first_kept="x", before=900, after=after_, guess=100, messages=2)


@pytest.mark.parametrize(
    ("trigger", "left", "fruitless"),
    [("auto", 899, 1), ("overflow", 899, 1), ("auto", 400, 0), ("manual", 899, 0), ("trim", 899, 0)],
)
def test_only_what_the_session_tried_by_itself_and_what_brought_nothing_counts(
    trigger: CompactionTrigger, left: int, fruitless: int
) -> None:
    assert after(began(trigger), done(trigger, left)).fruitless == fruitless
    failed = after(began(trigger), CompactionFailed(message=""))
    assert failed.fruitless == (trigger in ("auto", "overflow"))
    assert after(began(trigger), Interrupted(), CompactionFailed(message="")).fruitless == 0


def test_one_that_helped_forgets_those_that_did_not_and_trimming_changes_neither() -> None:
    twice = after(began("auto"), done("auto", 899), began("auto"), CompactionFailed(message=""))
    assert twice.fruitless == 2
    assert after(began("trim"), done("trim", 100), start=twice).fruitless == 2
    assert after(began("auto"), done("auto", 100), start=twice).fruitless == 0
    assert after(HistoryCleared(), start=twice).fruitless == 0


def test_it_is_tried_once_until_something_is_said_and_again_after_a_crash() -> None:
    assert after(began("auto"), done("auto", 100)).tried
    assert not after(began("auto"), done("auto", 100), said("more")).tried
    assert not after(began("auto"), Opened()).tried  # the process died in it


def test_what_is_said_in_between_is_counted_too() -> None:
    start = after(MessageInjected(role="user", parts=(Text(text="long " * 90),)))
    added = MessageInjected(role="user", parts=(Text(text="by the way"),))
    context = after(began("manual"), added, done("manual", 100), start=start)
    assert (context.guess, context.messages) == (100 + tokens_of((Text(text="by the way"),)), 3)
