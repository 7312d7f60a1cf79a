"""The rules over native requests see what they are there to see."""

import json
from typing import Any

import pytest

from tests.providers.native_rules import RULES, broken

Native = dict[str, Any]  # Any: JSON


def said(text: str = "hi") -> Native:
    return {"type": "text", "text": text}


USER: Native = {"role": "user", "content": [said()]}
USES: Native = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
RESULT: Native = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "seen"}]}
THOUGHT: Native = {"type": "thinking", "thinking": "hm", "signature": "s"}
SEARCH: Native = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}


def claude(*blocks: Native) -> Native:
    return {"role": "assistant", "content": list(blocks)}


ASKS: Native = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
SAYS: Native = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}
CALLS: Native = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
OUTPUT: Native = {"type": "function_call_output", "call_id": "a", "output": ""}
THINKS: Native = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}

HI: Native = {"role": "user", "content": "hi"}
HELLO: Native = {"role": "assistant", "content": "hello"}
WANTS: Native = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
GAVE: Native = {"role": "tool", "tool_call_id": "a", "content": "seen"}


def google(role: str, *parts: Native) -> Native:
    return {"role": role, "parts": list(parts)}


CALL: Native = {"functionCall": {"id": "a", "name": "look", "args": {}}}
RESPONSE: Native = {"functionResponse": {"id": "a", "name": "look", "response": {"output": "seen"}}}
ASK, ANSWER = google("user", {"text": "hi"}), google("model", {"text": "hello"})

KEYS = {"anthropic": "messages", "openai-responses": "input", "openai-chat": "messages", "google": "contents"}
GOOD: dict[str, list[Native]] = {
    "anthropic": [USER, claude(THOUGHT, said(), USES), RESULT],
    "openai-responses": [ASKS, THINKS, SAYS, CALLS, OUTPUT, ASKS],
    "openai-chat": [{"role": "system", "content": "Be brief."}, HI, HELLO, HI, WANTS, GAVE],
    "google": [
        ASK,
        google("model", {"text": "", "thoughtSignature": "s"}, CALL),
        google("user", RESPONSE, {"text": "?"}),
    ],
}
BAD: list[tuple[str, str, list[Native]]] = [
    ("anthropic", "anthropic_sides_take_turns", [USER, USER]),
    ("anthropic", "anthropic_sides_take_turns", [claude(said()), USER]),
    ("anthropic", "anthropic_sides_take_turns", [USER, claude(said())]),
    ("anthropic", "anthropic_nothing_is_blank", [{"role": "user", "content": [said(" ")]}]),
    ("anthropic", "anthropic_nothing_is_blank", [{"role": "user", "content": []}]),
    ("anthropic", "anthropic_results_answer_calls", [USER, claude(USES), USER]),
    ("anthropic", "anthropic_results_answer_calls", [USER, claude(said()), RESULT]),
    ("anthropic", "anthropic_results_answer_calls", [USER, claude(USES, USES), RESULT]),
    ("anthropic", "anthropic_results_answer_calls", [USER, claude({**USES, "name": "a.b"}), RESULT]),
    ("anthropic", "anthropic_results_answer_calls", [USER, claude({**USES, "input": "x"}), RESULT]),
    (
        "anthropic",
        "anthropic_results_answer_calls",
        [USER, claude(USES), {"role": "user", "content": [said(), *RESULT["content"]]}],
    ),
    ("anthropic", "anthropic_thoughts_are_signed_and_lead_on", [USER, claude(said(), THOUGHT), USER]),
    ("anthropic", "anthropic_thoughts_are_signed_and_lead_on", [USER, claude({**THOUGHT, "signature": ""}, said())]),
    ("anthropic", "anthropic_server_tools_are_done", [USER, claude(SEARCH), USER]),
    ("anthropic", "anthropic_marks_are_few", [{"role": "user", "content": [{**said(), "cache_control": {}}] * 5}]),
    ("openai-responses", "responses_calls_have_outputs", [ASKS, CALLS]),
    ("openai-responses", "responses_calls_have_outputs", [ASKS, OUTPUT]),
    ("openai-responses", "responses_calls_have_outputs", [ASKS, CALLS, SAYS, OUTPUT]),
    ("openai-responses", "responses_calls_have_outputs", [ASKS, CALLS, OUTPUT, CALLS, OUTPUT]),
    ("openai-responses", "responses_calls_have_outputs", [ASKS, CALLS, {**OUTPUT, "type": "custom_tool_call_output"}]),
    ("openai-responses", "responses_calls_have_outputs", [ASKS, {**CALLS, "arguments": "[]"}, OUTPUT]),
    ("openai-responses", "responses_reasoning_leads_on", [ASKS, THINKS, ASKS]),
    ("openai-responses", "responses_reasoning_leads_on", [ASKS, {**THINKS, "encrypted_content": ""}, SAYS, ASKS]),
    ("openai-responses", "responses_messages_say_something", []),
    ("openai-responses", "responses_messages_say_something", [ASKS, SAYS]),
    ("openai-responses", "responses_messages_say_something", [{**ASKS, "content": []}]),
    ("openai-responses", "responses_messages_say_something", [{**SAYS, "role": "user"}]),
    ("openai-chat", "chat_calls_are_answered_at_once", [HI, WANTS, HI]),
    ("openai-chat", "chat_calls_are_answered_at_once", [HI, WANTS]),
    ("openai-chat", "chat_calls_are_answered_at_once", [HI, GAVE]),
    ("openai-chat", "chat_calls_are_answered_at_once", [HI, {**WANTS, "tool_calls": WANTS["tool_calls"] * 2}, GAVE]),
    ("openai-chat", "chat_everybody_says_something", [HI, HI]),
    ("openai-chat", "chat_everybody_says_something", [HI, {"role": "assistant", "content": None}, HI]),
    ("openai-chat", "chat_everybody_says_something", [HI, HELLO]),
    ("openai-chat", "chat_everybody_says_something", [HI, {"role": "system", "content": "x"}, HI]),
    ("google", "google_sides_take_turns", [ASK, ASK]),
    ("google", "google_sides_take_turns", [ANSWER, ASK]),
    ("google", "google_responses_answer_calls", [ASK, google("model", CALL), ASK]),
    ("google", "google_responses_answer_calls", [ASK, google("model", CALL), google("user", {"text": "?"}, RESPONSE)]),
    ("google", "google_responses_answer_calls", [ASK, ANSWER, google("user", RESPONSE)]),
    ("google", "google_parts_are_something", [google("user", {"text": ""})]),
    ("google", "google_parts_are_something", [google("user")]),
    ("google", "google_parts_are_something", [google("user", {"thoughtSignature": "s"})]),
]


def rules_broken(format: str, conversation: list[Native], provider: str = "me") -> set[str]:
    body = json.dumps({KEYS[format]: conversation}).encode()
    return {each.partition(":")[0] for each in broken(format, body, provider)}


@pytest.mark.parametrize("format", KEYS)
def test_a_good_request_breaks_no_rule(format: str) -> None:
    assert rules_broken(format, GOOD[format]) == set()


@pytest.mark.parametrize(("format", "rule", "conversation"), BAD)
def test_a_bad_request_breaks_the_rule(format: str, rule: str, conversation: list[Native]) -> None:
    assert rule in rules_broken(format, conversation)


def test_every_rule_has_a_bad_example() -> None:
    assert {rule for _, rule, _ in BAD} == {rule.__name__ for rules in RULES.values() for rule in rules}


def test_the_state_of_another_provider_is_seen() -> None:
    signed = claude({**THOUGHT, "signature": "state-of-them-1"}, said())

    assert rules_broken("anthropic", [USER, signed, USER], "them") == set()
    assert rules_broken("anthropic", [USER, signed, USER], "me") == {"the state of 'them' goes to 'me'"}
