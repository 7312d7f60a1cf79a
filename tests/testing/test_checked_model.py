"""The shape rules of the provider formats: for each rule and format, a list that keeps it and one that breaks it."""

from collections.abc import Iterator

import pytest

from backstay.testing.checked_model import RULES, check_shape
from backstay.vocab.errors import UserError
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    MediaRef,
    Message,
    Reasoning,
    Role,
    ServerBlock,
    SignedReasoning,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)

FORMATS = ("anthropic", "openai-responses", "openai-chat", "google")
MERGING = ("anthropic", "google")
OWN = {"anthropic": "anthropic", "openai-responses": "openai", "openai-chat": "openai-chat", "google": "google"}

Messages = tuple[Message, ...]


def says(role: Role, *parts: InFlightPart | str) -> Message:
    return Message(role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def user(*parts: InFlightPart | str) -> Message:
    return says("user", *(parts or ("hi",)))


def assistant(*parts: InFlightPart | str) -> Message:
    return says("assistant", *(parts or ("hello",)))


def replayed(provider: str, *parts: InFlightPart) -> Message:
    return Message(role="assistant", parts=parts, opaque=b"[]", provider=provider)


def tool(*results: InFlightPart) -> Message:
    return says("tool", *results)


def call(id: str = "a") -> ToolCall:
    return ToolCall(id=id, name="Read", args="{}")


def result(id: str = "a", *content: Text | TextRef | MediaRef) -> ToolResult:
    return ToolResult(call=id, content=content or (Text(text="one line"),))


def signed(provider: str) -> SignedReasoning:
    return SignedReasoning(text="hm", signature="xyz", provider=provider)


SYSTEM = says("system", "Be brief.")
PICTURE = InlineMedia(media_type="image/png", content=b"png")
PHOTO = MediaRef(sha256="0" * 64, media_type="image/png", size=3)
LINK = MediaLink(url="https://example.org/a.png")
HANDLE = TextRef(sha256="0" * 64, chars=9, tokens=3)
SEARCH = ServerBlock(kind="server_tool_use", name="web_search", content="news")
THOUGHT = Reasoning(text="hm")

GOOD: tuple[Messages, ...] = (
    (user(),),
    (SYSTEM, SYSTEM, user()),
    (user(), assistant(), user("more", PICTURE, PHOTO)),
    (user("one"), user("two"), assistant(), assistant("again"), user("three")),
    (user(), assistant("I look.", call()), tool(result())),
    (user(), assistant(call("a"), call("b")), tool(result("b"), result("a"))),
    (user(), assistant(call("a"), call("b")), tool(result("a")), tool(result("b")), user("and then?")),
    (
        user(),
        assistant(call("a")),
        tool(result("a")),
        assistant(call("b")),
        tool(result("b", PHOTO)),
        assistant(),
        user(),
    ),
    (user(), assistant(Reasoning(text="hm"), "Well."), user()),
    (user(), assistant(call()), tool(ToolResult(call="a", is_error=True))),
    (user("Look:", LINK, PICTURE), assistant("Look:", PICTURE, PHOTO, LINK), user()),
    (user(), assistant(THOUGHT, SEARCH, "Well."), user()),
    (user(), assistant("Well.", THOUGHT, SEARCH), user()),
    (user(), assistant(SEARCH, call()), tool(ToolResult(call="a", content=(PICTURE,)))),
)


def bad_for_all() -> Iterator[tuple[str, str, Messages]]:
    for name in FORMATS:
        yield name, "something_is_said", ()
        yield name, "something_is_said", (SYSTEM,)
        yield name, "system_comes_first", (user(), SYSTEM, user())
        yield name, "system_comes_first", (SYSTEM, user(), assistant(), SYSTEM, user())
        yield name, "user_ends", (user(), assistant())
        yield name, "parts_fit_their_role", (user(call("z")), assistant(), user())
        yield name, "parts_fit_their_role", (user(Reasoning(text="hm"), "hi"),)
        yield name, "parts_fit_their_role", (user(), assistant(call()), tool(result(), Text(text="and")))
        yield name, "parts_fit_their_role", (says("system", PICTURE), user())
        yield name, "nothing_is_empty", (says("user"), user())
        yield name, "nothing_is_empty", (user(""),)
        yield name, "nothing_is_empty", (user(), says("assistant"), user())
        yield name, "nothing_is_empty", (user(), assistant(SEARCH), user())
        yield name, "nothing_is_empty", (user(), assistant(THOUGHT, SEARCH), user())
        yield name, "nothing_is_empty", (user(), replayed("another", THOUGHT, SEARCH), user())
        yield name, "parts_fit_their_role", (user(SEARCH, "hi"),)
        yield name, "parts_fit_their_role", (user(), assistant(call()), tool(result(), LINK))
        yield name, "text_is_at_hand", (user(), assistant(call()), tool(result("a", HANDLE)))
        yield name, "reasoning_has_a_successor", (user(), assistant(Reasoning(text="hm")), user())
        yield name, "reasoning_has_a_successor", (user(), assistant("Well.", signed(OWN[name])), user())
        yield name, "signatures_are_at_home", (user(), assistant(signed("another"), "Well."), user())
        yield name, "call_ids_are_unique", (user(), assistant(call(), call()), tool(result()))
        again = (assistant(call()), tool(result()))
        yield name, "call_ids_are_unique", (user(), *again, *again)
        yield name, "results_are_unique", (user(), assistant(call()), tool(result(), result()))
        yield name, "results_are_unique", (user(), assistant(call()), tool(result()), assistant(), tool(result()))
        yield name, "results_have_calls", (user(), tool(result("lost")))
        yield name, "results_have_calls", (user(), tool(result()), assistant(call()), tool(result("b")))


ANSWERED = {
    "anthropic": "results_are_in_the_next_turn",
    "openai-responses": "outputs_come_before_the_model_goes_on",
    "openai-chat": "tool_messages_follow_their_call",
    "google": "as_many_responses_as_calls",
}
"""The rule of each format that says where results belong."""


def bad_answers() -> Iterator[tuple[str, str, Messages]]:
    for name, rule in ANSWERED.items():
        yield name, rule, (user(), assistant(call()))
        yield name, rule, (user(), assistant(call()), user())
        yield name, rule, (user(), assistant(call("a"), call("b")), tool(result("a")))
        yield name, rule, (user(), assistant(call()), user(), assistant(), tool(result()))
        yield name, rule, (user(), assistant(call()), tool(result()), assistant(call("b")), user())
    yield "openai-chat", "tool_messages_follow_their_call", (user(), assistant(call()), user("wait"), tool(result()))
    yield "openai-chat", "tool_messages_follow_their_call", (user(), assistant(call()), assistant(), tool(result()))
    yield (
        "openai-responses",
        "outputs_come_before_the_model_goes_on",
        (user(), assistant(call()), assistant(), tool(result())),
    )
    yield "google", "as_many_responses_as_calls", (user(), assistant(call()), tool(result(), result("b")))


def bad_for_some() -> Iterator[tuple[str, str, Messages]]:
    for name in MERGING:
        yield name, "user_begins", (SYSTEM, assistant(), user())
        yield name, "user_begins", (tool(result()), user())
    yield "anthropic", "no_text_is_blank", (user(" \n"),)
    yield "anthropic", "no_text_is_blank", (user(), assistant(call()), tool(result("a", Text(text=""))))
    yield "anthropic", "results_stand_first", (user(), assistant(call()), user("wait"), tool(result()))
    yield "openai-chat", "parts_fit_their_role", (user(), assistant(call()), user(result()))


BAD = (*bad_for_all(), *bad_answers(), *bad_for_some())


def rules_broken(format: str, messages: Messages) -> set[str]:
    return {each.partition(":")[0] for each in check_shape(format, messages)}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("messages", GOOD)
def test_a_good_request_breaks_no_rule(format: str, messages: Messages) -> None:
    assert check_shape(format, messages) == ()


@pytest.mark.parametrize(("format", "rule", "messages"), BAD)
def test_a_bad_request_breaks_the_rule(format: str, rule: str, messages: Messages) -> None:
    assert rule in rules_broken(format, messages)


@pytest.mark.parametrize("format", FORMATS)
def test_every_rule_of_a_format_has_a_bad_example(format: str) -> None:
    shown = {rule for name, rule, _ in BAD if name == format}
    without_prefill = {rule.__name__ for rule in RULES[format]} - {"beginning_of_answer_ends_in_ink"}

    assert shown == without_prefill


@pytest.mark.parametrize(
    ("format", "messages"),
    [
        ("openai-responses", (user(), assistant(call()), user("wait"), tool(result()))),
        ("openai-responses", (user(), assistant(call()), user(result()))),
        ("openai-responses", (user(" "),)),
        ("openai-responses", (SYSTEM, assistant(), user())),
        ("openai-chat", (assistant(), user())),
        ("anthropic", (user(), assistant(call()), user(result(), "and"))),
        ("anthropic", (user(), assistant(call("a")), assistant(call("b")), tool(result("a"), result("b")))),
        ("anthropic", (user(), assistant(signed("anthropic")), assistant("Well."), user())),
        ("google", (user(), assistant(call()), user("wait"), tool(result()))),
    ],
)
def test_what_one_format_refuses_another_may_take(format: str, messages: Messages) -> None:
    assert check_shape(format, messages) == ()


@pytest.mark.parametrize("format", FORMATS)
def test_reasoning_signed_at_home_passes(format: str) -> None:
    assert check_shape(format, (user(), assistant(signed(OWN[format]), "Well."), user())) == ()


@pytest.mark.parametrize("format", FORMATS)
def test_a_reply_that_goes_back_as_it_was_written_counts_by_its_parts(format: str) -> None:
    own = OWN[format]

    assert check_shape(format, (user(), replayed(own, THOUGHT, SEARCH), user())) == ()
    assert check_shape(format, (user(), replayed(own, THOUGHT, call()), tool(result()))) == ()
    assert rules_broken(format, (user(), replayed(own, SEARCH, call()), user())) == {ANSWERED[format]}
    assert rules_broken(format, (user(), replayed(own, SEARCH, THOUGHT), user())) == {"reasoning_has_a_successor"}


def test_another_provider_of_the_same_format_takes_only_its_own_signatures() -> None:
    own, foreign = ((user(), assistant(signed(name), "Well."), user()) for name in ("bedrock", "anthropic"))

    assert check_shape("anthropic", own, provider="bedrock") == ()
    assert len(check_shape("anthropic", foreign, provider="bedrock")) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_the_answer_may_be_begun_where_that_is_allowed(format: str) -> None:
    assert check_shape(format, (user(), assistant("Dear")), prefill=True) == ()
    assert len(check_shape(format, (user(), assistant(call())), prefill=True)) == 1


def test_the_beginning_of_an_answer_does_not_end_in_white_space() -> None:
    begun = (user(), assistant("Dear "))

    assert check_shape("anthropic", begun, prefill=True) == (
        "beginning_of_answer_ends_in_ink: messages[1]: the beginning of the answer ends in white space",
    )
    assert check_shape("google", begun, prefill=True) == ()


def test_what_is_broken_names_the_message_and_the_call() -> None:
    messages = (SYSTEM, user(), assistant(call("r1-0"), call("r1-1")), tool(result("r1-0")))

    assert check_shape("anthropic", messages) == (
        "results_are_in_the_next_turn: messages[2]: the call 'r1-1' has no result in the next turn",
    )


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UserError, match="'smoke' is not a format"):
        check_shape("smoke", (user(),))
