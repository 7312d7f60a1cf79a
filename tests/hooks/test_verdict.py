"""Answers of several hooks together."""

import itertools
from typing import Literal

import pytest

from backstay.hooks.merge import HookAnswer, HookVerdict, merge_answers

Decisions = tuple[Literal["allow", "ask", "deny"] | None, ...]


def answer(name: str = "a", *, event: str = "PreToolUse", **fields: object) -> HookAnswer:
    return HookAnswer(hook=f"hook-{name}", event=event, label=name, **fields)  # type: ignore[arg-type]  # as each test says


def test_without_answers_there_is_nothing_to_say() -> None:
    assert merge_answers([]) == HookVerdict()
    assert merge_answers([answer(), answer("b")]) == HookVerdict()


@pytest.mark.parametrize("decisions", list(itertools.product((None, "allow", "ask", "deny"), repeat=3)))
def test_deny_beats_ask_beats_allow_in_any_order(decisions: Decisions) -> None:
    verdict = merge_answers([answer(str(number), decision=each) for number, each in enumerate(decisions)])

    strictest = next((each for each in ("deny", "ask", "allow") if each in decisions), None)
    assert (verdict.decision, verdict.blocked) == (strictest, strictest == "deny")


def test_the_reasons_of_those_who_count_are_told() -> None:
    verdict = merge_answers(
        [
            answer("a", decision="allow", reason="fine"),
            answer("b", decision="deny", reason="one"),
            answer("c", decision="deny", reason="two"),
        ]
    )

    assert verdict == HookVerdict(decision="deny", blocked=True, reason="one\ntwo")


def test_who_comes_first_changes_the_call_and_the_other_is_noted() -> None:
    verdict = merge_answers([answer("a", args='{"x":1}'), answer("b", args='{"x":2}'), answer("c", args='{"x":1}')])

    assert verdict.args == '{"x":1}'
    assert verdict.notes == ("'b' wants other arguments than 'a', which comes first.",)


def test_a_denied_call_has_no_other_arguments() -> None:
    assert merge_answers([answer("a", args="{}"), answer("b", decision="deny")]).args == ""


def test_a_permission_for_the_call_as_it_was_does_not_hold_for_a_changed_one() -> None:
    by_another = merge_answers([answer("a", decision="allow"), answer("b", args='{"x":1}')])
    by_itself = merge_answers([answer("a", decision="allow", args='{"x":1}'), answer("b")])
    by_the_first = merge_answers([answer("a", args='{"x":1}'), answer("b", decision="allow", args='{"x":2}')])

    assert (by_another.decision, by_another.args) == (None, '{"x":1}')
    assert "does not count" in by_another.notes[0]
    assert (by_itself.decision, by_itself.args) == ("allow", '{"x":1}')
    assert (by_the_first.decision, by_the_first.args) == (None, '{"x":1}')


def test_contexts_are_joined_and_notes_said_once() -> None:
    verdict = merge_answers(
        [answer("a", context="one", notes=("n",)), answer("b", context="two", notes=("n",)), answer("c", context="one")]
    )

    assert verdict == HookVerdict(context="one\ntwo", notes=("n",))


def test_the_first_replacement_of_an_output_counts_even_when_it_is_empty() -> None:
    verdict = merge_answers([answer("a"), answer("b", output=""), answer("c", output="x")])

    assert verdict.output == ""
    assert verdict.notes == ("'c' wants another output than 'b', which comes first.",)


def test_one_who_blocks_is_enough() -> None:
    verdict = merge_answers([answer(event="Stop"), answer("b", event="Stop", blocked=True, reason="tests fail")])

    assert verdict == HookVerdict(blocked=True, reason="tests fail")


def test_an_end_of_the_turn_beats_whoever_wants_it_to_go_on() -> None:
    verdict = merge_answers(
        [
            answer("a", event="Stop", blocked=True, reason="go on"),
            answer("b", event="Stop", stops=True, reason="enough"),
        ]
    )

    assert verdict == HookVerdict(stops=True, reason="enough")
