"""The tool `AskUserQuestion`: questions to the person. The approval of the call carries the answers in its arguments."""

from typing import Annotated

import msgspec
from msgspec import Meta

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.define import tool

UNANSWERED = "Nobody answered. Go on with the assumption that is most likely right, and say which one you made."


class AnswerChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One possible answer."""

    label: Annotated[str, Meta(min_length=1, description="The answer in a few words.")]
    description: Annotated[str, Meta(description="What it means or leads to.")] = ""


class UserQuestion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One question."""

    question: Annotated[str, Meta(min_length=1, description="The whole question.")]
    header: Annotated[str, Meta(description="One or two words for it.")] = ""
    options: Annotated[
        tuple[AnswerChoice, ...], Meta(min_length=2, max_length=4, description="Different answers to choose from.")
    ]
    multi_select: Annotated[bool, Meta(description="Whether several may be chosen.")] = False


class AskArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `AskUserQuestion`."""

    questions: Annotated[tuple[UserQuestion, ...], Meta(min_length=1, max_length=4)]
    answers: Annotated[
        dict[str, str | list[str]], Meta(description="Filled in by the person who is asked. Never write it yourself.")
    ] = msgspec.field(default_factory=dict)


def _validate(given: AskArguments) -> str:
    asked = [each.question for each in given.questions]
    if len(set(asked)) < len(asked):
        return "Two of the questions are the same. Ask each once."
    for each in given.questions:
        labels = [option.label for option in each.options]
        if len(set(labels)) < len(labels):
            return f"Two options of {each.question!r} have the same label."
    if strange := sorted(set(given.answers) - set(asked)):
        return f"There is an answer to {strange[0]!r}, which was not asked."
    return ""


@tool(arguments=AskArguments, validate=_validate, name="AskUserQuestion", effect="idempotent", touches="person")
async def ask_user(context: ToolContext, given: AskArguments) -> ToolOutput:
    """Ask the person one to four questions with two to four options each. They may also answer in words of their own. Ask only what you
    cannot find out and what changes what you do."""
    answers = {each.question: _join_answer(given.answers.get(each.question, "")) for each in given.questions}
    if not any(answers.values()):
        return ToolOutput(text=UNANSWERED, code="unanswered")
    lines = [f"- {question}\n  {answer or '(no answer: decide yourself)'}" for question, answer in answers.items()]
    return ToolOutput(text="\n".join(("The person answered:", *lines)))


def _join_answer(answer: str | list[str]) -> str:
    return answer.strip() if isinstance(answer, str) else ", ".join(each.strip() for each in answer if each.strip())
