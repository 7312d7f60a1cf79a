"""Whether a part of a script changes the shell that it runs in, so that a second pass would begin elsewhere."""

from typing import Final

from holdfast.logic.shell.syntax import (
    AndOr,
    Choose,
    Coprocess,
    Count,
    Function,
    Group,
    Literal,
    Loop,
    Node,
    Pipeline,
    Sequence,
    Simple,
    Test,
)

_TAME: Final = frozenset(
    (
        *("echo", "cat", "ls", "grep", "true", "false", ":", "sleep", "head", "tail", "wc", "test", "["),
        *("printf", "rm", "cp", "mv", "sort", "diff", "find", "git", "python3", "node", "npm"),
    )
)


def alters(node: Node | None) -> bool:
    """Whether running it may change the folder or a variable of the shell."""
    match node:
        case None | Test():
            return False
        case Simple(assignments, words):
            if not words or assignments:
                return True
            return _alters(node)
        case Count() | Function():
            return True
        case Group(body, own_shell):
            return not own_shell and alters(body)
        case Pipeline(elements):
            return len(elements) == 1 and alters(elements[0])
        case AndOr(first, rest):
            return alters(first) or any(alters(each) for _, each in rest)
        case Sequence(items):
            return any(alters(each) for each, background in items if not background)
        case Choose(_, conditions, bodies):
            return any(alters(each) for each in (*conditions, *bodies))
        case Loop(body=body, condition=condition):
            return alters(condition) or alters(body)
        case Coprocess():
            return False


def _alters(node: Simple) -> bool:
    first = node.words[0].parts[0] if len(node.words[0].parts) == 1 else None
    if not isinstance(first, Literal) or first.quoted or first.text not in _TAME:
        return True
    return first.text == "printf" and any(word.text.startswith(("-", "$", '"$')) for word in node.words[1:2])
