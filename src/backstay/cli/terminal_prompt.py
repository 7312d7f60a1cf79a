"""The approval prompt of a terminal, for `open_session(prompt=terminal_prompt)` and `query(..., asker=terminal_prompt)`.

It writes to standard error and reads from the terminal, so that it also works in a pipe. Without a terminal the answer is no.
"""

import json
import sys
import termios
from collections.abc import Mapping, Sequence
from typing import Final, TextIO, cast

import anyio.to_thread

from backstay.logic.text import show_invisible
from backstay.ports import Answer, Question

_TERMINAL: Final = "/dev/tty"
_LONGEST: Final = 2_000
_NOBODY: Final = Answer(allowed=False, nobody=True)


async def terminal_prompt(question: Question) -> Answer:
    """Ask the person at the terminal about one call."""
    return await anyio.to_thread.run_sync(_ask, question, abandon_on_cancel=True)


def _ask(question: Question) -> Answer:
    try:
        with open(_TERMINAL, encoding="utf-8", errors="replace") as source:
            termios.tcflush(source, termios.TCIFLUSH)  # drop what was typed before the question
            return ask_on(question, source, sys.stderr)
    except (OSError, termios.error):
        return _NOBODY


def ask_on(question: Question, source: TextIO, target: TextIO) -> Answer:
    """Ask about one call on any two streams."""
    questions = question.args.get("questions")
    if question.tool == "AskUserQuestion" and isinstance(questions, list):
        return _answers(question, cast("list[object]", questions), source, target)
    _show(question, target)
    while True:
        print(f"{_choices(question.offers)} > ", end="", file=target, flush=True)
        line = source.readline()
        if not line:
            return _NOBODY
        answer = _read(line.strip(), question.offers)
        if answer is not None:
            return answer
        print("Type one of the letters; after n you may say why.", file=target)


def _show(question: Question, target: TextIO) -> None:
    print(f"\n{show_invisible(question.tool)} wants to run: {show_invisible(question.reason)}", file=target)
    for name, value in question.args.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        cut = f"\n    [{len(text) - _LONGEST} characters more]" if len(text) > _LONGEST else ""
        print(f"  {show_invisible(name)}: {show_invisible(text[:_LONGEST])}{cut}", file=target)


def _choices(offers: Sequence[str]) -> str:
    if not offers:
        return "y yes  n no  s this very call for the whole session"
    listed = " and ".join(map(show_invisible, offers))
    return f"y yes  n no  and {listed} too: s in this session  p in this project  u always"


def _read(line: str, offers: Sequence[str]) -> Answer | None:
    letter, _, rest = line.partition(" ")
    rules = tuple(offers)
    match letter.lower():
        case "y" | "yes":
            return Answer(allowed=True)
        case "n" | "no":
            return Answer(allowed=False, message=rest)
        case "s":
            return Answer(allowed=True, grant="session", rules=rules)
        case "p" if rules:
            return Answer(allowed=True, grant="project", rules=rules)
        case "u" if rules:
            return Answer(allowed=True, grant="person", rules=rules)
        case _:
            return None


def _answers(question: Question, asked: Sequence[object], source: TextIO, target: TextIO) -> Answer:
    answers: dict[str, object] = {}
    for each in asked:
        if not isinstance(each, Mapping):
            continue
        words, options = str(each.get("question", "")), _labels(each.get("options"))
        print(f"\n{show_invisible(words)}", file=target)
        for number, label in enumerate(options, start=1):
            print(f"  {number}. {show_invisible(label)}", file=target)
        print("Number or your own words > ", end="", file=target, flush=True)
        line = source.readline()
        if not line:
            return _NOBODY
        answers[words] = _choose(line.strip(), options)
    return Answer(allowed=True, args={**question.args, "answers": answers})


def _labels(options: object) -> list[str]:
    found = options if isinstance(options, list) else []
    return [str(each.get("label", "")) for each in found if isinstance(each, Mapping)]


def _choose(line: str, options: Sequence[str]) -> str:
    return options[int(line) - 1] if line.isdecimal() and 1 <= int(line) <= len(options) else line
