"""The tool `AskUserQuestion`."""

import pytest

from backstay.ports import ToolOutput
from backstay.tools.ask_user import UNANSWERED, ask_user
from tests.tools.context import RecordingContext

pytestmark = pytest.mark.anyio

OPTIONS = [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}]
STORE = {"question": "Which store?", "header": "Store", "options": OPTIONS}
EXTRAS = {"question": "Which extras?", "options": OPTIONS, "multiSelect": True}


async def _ask(**args: object) -> ToolOutput:
    return await ask_user.run(args, RecordingContext())


async def test_answers_are_told_as_they_were_given() -> None:
    answers = {"Which store?": "SQLite", "Which extras?": ["SQLite", "something else"]}

    output = await _ask(questions=[STORE, EXTRAS], answers=answers)

    assert output == ToolOutput(
        text="The person answered:\n- Which store?\n  SQLite\n- Which extras?\n  SQLite, something else"
    )


async def test_without_an_answer_the_model_goes_on_with_its_best_assumption() -> None:
    empty: tuple[dict[str, object], ...] = ({}, {"Which store?": " "}, {"Which store?": []})
    for answers in empty:
        assert await _ask(questions=[STORE], answers=answers) == ToolOutput(text=UNANSWERED, code="unanswered")
    assert await _ask(questions=[STORE]) == ToolOutput(text=UNANSWERED, code="unanswered")
    partly = await _ask(questions=[STORE, EXTRAS], answers={"Which store?": "SQLite"})
    assert partly.text.endswith("- Which extras?\n  (no answer: decide yourself)")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"questions": []}, "length >= 1"),
        ({"questions": [STORE] * 5}, "length <= 4"),
        ({"questions": [STORE, STORE]}, "Two of the questions are the same."),
        ({"questions": [STORE | {"options": OPTIONS[:1]}]}, "length >= 2"),
        ({"questions": [STORE | {"options": OPTIONS * 3}]}, "length <= 4"),
        ({"questions": [STORE | {"options": [OPTIONS[0]] * 2}]}, "have the same label"),
        ({"questions": [STORE], "answers": {"Else?": "x"}}, "which was not asked"),
        ({"questions": [STORE], "answers": {"Which store?": 1}}, "Argument 'answers"),
        ({"questions": [{"question": "Q?"}]}, "Missing argument 'options' in 'questions[0]'."),
    ],
)
async def test_a_question_that_cannot_be_asked_is_explained(args: dict[str, object], words: str) -> None:
    output = await _ask(**args)

    assert (output.failed, output.code) == (True, "bad_arguments")
    assert words in output.text


def test_the_policy_knows_that_it_needs_a_person() -> None:
    assert (ask_user.spec.touches, ask_user.spec.effect) == ("person", "idempotent")
    assert "Never write it yourself" in str(ask_user.spec.schema)
