"""What is suspicious about the text of a command before it is read: hidden characters, padding, another shell's grammar."""

import re
from typing import Final

from holdfast.logic.acts import Ground
from holdfast.logic.text.invisible import HIDDEN

LONGEST: Final = 10_000
"""Longer commands are never allowed by themselves."""

_SUSPECT: Final = re.compile(r"[^\t\n\x20-\x7e]|[ \t]{60}|\n[ \t]*\n[ \t]*\n|\\\n|IFS")
"""What the finer patterns below look at again; most texts have none of it."""
_PADDING: Final = re.compile(r"[ \t]{60,}(?=\S)|\n{20,}(?=\S)|(?:\n[ \t]*){30,}(?=\S)")
_SPLIT_WORD: Final = re.compile(r"[^\s\\]\\\n[^\s]")
_SPLITTER: Final = re.compile(r"\$\{?IFS\b")
_ZSH: Final = re.compile(
    r"=\(|(?:^|[\s;&|(])=[A-Za-z]|\$\{[^}]{0,99}\(|\$\{[=^~]|[*?\])]\(|>>?!|&[!|]|\$\w+\[|\$\w+:[a-zA-Z]|\*\*\*|<\d*-\d*>"
    r"|[~^]\w*\(|(?:^|[\s;&|])(?:repeat|foreach|always|zmodload|autoload|setopt|emulate|-)\s"
)
_NOT_POSIX: Final = re.compile(
    r"\$'|\$\"|[<>]\(|&>|\[\[|<<<|\|&|;&|\bfunction\b|\(\(|\+=|\$\{\w+(?:/|\^|,|:\d|@)|\{[^{}\s]{0,99}(?:,|\.\.)[^{}\s]{0,99}\}"
)
_ALIKE: Final = re.compile(
    r"(?!(?:and|or|not|begin|end|if|else|for|foreach|while|repeat|function|switch|case|time|builtin|command|exec|eval|source|set|setenv)\b)"
    r"[a-z][\w-]*(?: [\w./,:@%+=-]+)*"
)
"""A program and plain words, which mean the same to all shells of Unix."""
_BASH_LIKE: Final = frozenset(("bash", "ksh", "rbash"))
_POSIX: Final = frozenset(("sh", "dash", "ash"))


def doubts_about(text: str, ground: Ground) -> list[str]:
    """Say what is suspicious about a text."""
    if len(text) <= LONGEST and ground.shell == "bash" and not _SUSPECT.search(text):
        return []
    doubts = list[str]()
    if len(text) > LONGEST:
        doubts.append(f"it is longer than {LONGEST} characters")
    if HIDDEN.search(text):
        doubts.append("it has characters that are not seen")
    if _PADDING.search(text):
        doubts.append("blanks hide what follows them")
    if "\\\n" in text and _SPLIT_WORD.search(text):
        doubts.append("a word goes on in the next line")
    if "IFS" in text and _SPLITTER.search(text):
        doubts.append("$IFS stands for blanks")
    return doubts + _other_grammar(text, ground)


def _other_grammar(text: str, ground: Ground) -> list[str]:
    shell = ground.shell.rpartition("/")[2]
    if shell in _BASH_LIKE:
        return []
    if shell == "zsh":
        return ["zsh reads this in its own way"] if _ZSH.search(text) else []
    if shell in _POSIX:
        return [f"{shell} reads this in its own way"] if _NOT_POSIX.search(text) else []
    if _ALIKE.fullmatch(text) and shell in ("fish", "csh", "tcsh"):
        return []
    return [f"the grammar of {shell!r} is not known"]
