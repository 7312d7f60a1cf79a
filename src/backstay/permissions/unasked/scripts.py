"""Texts in other languages: the few forms of sed, awk and jq that only pass text through.

Their tokens and words are in `tables/scripts.toml`.
"""

import re
from functools import cache
from typing import Final

from backstay.permissions.unasked.table import load, word_list

LONGEST: Final = 2_000


def is_sed_script(script: str) -> bool:
    """Return whether a sed script is made of `p`, `d`, `q`, `=` and `s` without `e` and `w`."""
    return 0 < len(script) <= LONGEST and _sed().fullmatch(script) is not None


@cache
def _sed() -> re.Pattern[str]:
    table = load("scripts")["sed"]
    text, replacement, marks = table["text"], table["replacement"], table["marks"]
    regex = "/" + text.replace("MARK", "/") + "/I?"
    substitutions = "|".join(
        f"s{mark}{text.replace('MARK', mark)}{mark}{replacement.replace('MARK', mark)}{mark}{table['flags']}"
        for mark in map(re.escape, marks)
    )
    command = (
        table["command"]
        .replace("ADDRESS", table["address"].replace("REGEX", regex))
        .replace("SUBSTITUTION", substitutions)
    )
    return re.compile(
        table["script"].replace("COMMAND", command).replace("ADDRESS", table["address"].replace("REGEX", regex))
    )


def is_awk_program(program: str) -> bool:
    """Return whether an awk program only computes and prints to its own output: no `>`, no `|` and no function that is not listed."""
    token, at, depth, before = _tokens("awk"), 0, 0, ";"
    while at < len(program) <= LONGEST:
        found = token.match(program, at)
        if not found:
            return False
        at, text, kind = found.end(), found[0], found.lastgroup
        if kind == "blank":
            before = ";" if ";" in text or "\n" in text else before
            continue
        if kind == "name" and text not in word_list("awk_words", "scripts"):
            called = program[at:].lstrip(" ").startswith("(")
            if called or not (re.fullmatch("[a-z]{1,2}", text) or text in word_list("awk_variables", "scripts")):
                return False
        if (kind == "regex" and before not in word_list("awk_before_regex", "scripts")) or (
            text in (">", "|") and depth
        ):
            return False
        depth += (text == "{") - (text == "}")
        before = text
    return 0 < len(program) <= LONGEST and depth == 0


def is_jq_filter(script: str) -> bool:
    """Return whether a jq filter uses listed functions alone: none that reads the environment, other files or modules."""
    token, at = _tokens("jq"), 0
    while at < len(script) <= LONGEST:
        found = token.match(script, at)
        if not found or (found["name"] and found["name"] not in word_list("jq_words", "scripts")):
            return False
        at = found.end()
    return 0 < len(script) <= LONGEST


@cache
def _tokens(language: str) -> re.Pattern[str]:
    return re.compile("|".join(load("scripts")[f"{language}_tokens"]))
