"""Files that `git` goes to and that are not told as what they are: folders that it searches, places that it writes to."""

from itertools import pairwise
from typing import Final

from holdfast.logic.acts import Access, Command, Ground
from holdfast.logic.permissions.deep import git_searches, program_of
from holdfast.logic.permissions.paths import absolute

_VALUED: Final = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"))
_OUTPUT: Final = ("--output", "--output-directory", "--separate-git-dir")
_OPERAND: Final = {"clone": 1, "init": 0, "worktree": 1, "bundle": 1}
"""How many operands stand before the one that is written to, at least."""


def unnamed(command: Command, ground: Ground) -> tuple[Access, ...]:
    """The folder that `git grep` goes through, and what `git archive`, `git clone` and their like write to."""
    name, rest = program_of(command)
    if name != "git":
        return ()
    if git_searches(rest) and not any(each.kind == "read" for each in command.accesses):
        return (Access(kind="read", path=ground.cwd, written=".", deep=True),)
    return tuple(Access(kind="write", path=absolute(word, ground), written=word) for word in _written(rest))


def _written(rest: tuple[str | None, ...]) -> list[str]:
    at = 0
    while at < len(rest) and (rest[at] or "-").startswith("-"):
        at += 2 if rest[at] in _VALUED else 1
    sub, words = rest[at] if at < len(rest) else None, [word or "" for word in rest[at + 1 :]]
    found = _outputs(words, short=sub in ("archive", "format-patch"))
    operands = [word for word in words if word and not word.startswith("-")]
    if sub in _OPERAND and len(operands) > _OPERAND[sub] and operands[0] in _ADDS.get(sub, operands):
        place = operands[1] if sub in _ADDS else operands[-1]
        found += [] if "://" in place or ":" in place.partition("/")[0] else [place]
    return found


_ADDS: Final = {"worktree": ("add", "move"), "bundle": ("create",)}


def _outputs(words: list[str], *, short: bool) -> list[str]:
    found = []
    for word, after in pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if len(name) > 4 and any(each.startswith(name) for each in _OUTPUT):
            found.append(value if equals else after)
        elif short and word.startswith("-o"):
            found.append(word[2:] or after)
    return [each for each in found if each]
