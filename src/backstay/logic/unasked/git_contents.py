"""Which subcommands of git show what is in files, and which of their words narrow that down."""

import re
from collections.abc import Sequence
from typing import Final

from backstay.logic.unasked.grammar import Word
from backstay.logic.unasked.options import Given

ENDING: Final = re.compile(r"\*[\w.+@-]+")
"""A pathspec that is about the end of a name. In any other, `*` may stand for folders."""
REVISION_PATH: Final = re.compile(r"[\w.~^/@-]+:(?P<path>[\w.+@-][\w./+@-]*)")
"""`HEAD~2:src/a.py`: one file or folder of a revision."""
COMMIT: Final = re.compile(r"HEAD(?:[~^]\d*)*(?:\^\{(?:commit|tree)\})?")
"""What is a commit or a list of names for certain. Any other word may be the name of a file's content."""

_BY_DEFAULT: Final = ("diff", "show", "range-diff")
_WHEN_ASKED: Final = ("log", "whatchanged", "reflog", "diff-tree", "diff-index", "diff-files", "stash")
_PATCH: Final = (
    "-p -u --patch -U --unified --patch-with-raw --patch-with-stat --cc -c --dd --diff-merges -m --binary -W --function-context "
    "--word-diff --word-diff-regex --color-words -S -G --check"
)
_INSTEAD: Final = (
    "--stat --numstat --shortstat --dirstat -X --cumulative --summary --name-only --name-status --raw -s --no-patch -q --quiet "
    "--compact-summary"
)
"""Flags that take the place of a patch."""


def shows_contents(name: str, given: Given) -> bool:
    """Whether a subcommand shows what is in files that it need not name, or tells what is in them."""
    if name != "grep" and given.has("-L") and not given.has("--full-diff"):
        return False  # lines of a file that it names
    if name == "show" and not all(COMMIT.fullmatch(word.value or "") for word in given.operands):
        return True  # the content of a file is shown with any flags
    if name in _BY_DEFAULT:
        return given.has(_PATCH) or not given.has(_INSTEAD)
    return (
        name == "grep"
        or (name in _WHEN_ASKED and given.has(_PATCH))
        or (name == "status" and given.has("-v --verbose"))
    )


def may_show(name: str) -> bool:
    """Whether some flags make a subcommand show what is in files."""
    return name in _BY_DEFAULT or name in _WHEN_ASKED


def narrowing(name: str, words: Sequence[Word], given: Given) -> tuple[Word, ...]:
    """Give the operands that may be pathspecs; without `--` each may be a revision as well. None of them: everything is shown."""
    if given.has("--full-diff") or name in ("stash", "range-diff"):
        return ()
    if name == "grep":
        return given.operands[0 if given.has("-e -f") else 1 :]
    values = [word.value for word in words]
    return tuple(words[values.index("--") + 1 :]) if "--" in values else given.operands
