"""Characters that a person who is asked would not see, or that change what is seen."""

import re
from typing import Final

from backstay.logic.permissions.arguments import texts_in
from backstay.logic.text.invisible import HIDDEN

_BIDI: Final = "\u202a-\u202e\u2066-\u2069"
_TAGS: Final = "\U000e0000-\U000e007f"
_ESCAPE: Final = "\x1b\x9b"
_CONTENT: Final = re.compile(f"[{_BIDI}{_TAGS}{_ESCAPE}]")
_CONTENT_KEYS: Final = frozenset(
    ("content", "new_string", "old_string", "new_source", "patch", "input", "edits", "todos")
)
"""Arguments that become the text of files: marks that scripts and emoji need are at home there."""


def hidden_in(args: dict[str, object]) -> str:
    """What is hidden in the arguments of a call, in words; empty when nothing is."""
    for key, content in args.items():
        pattern = _CONTENT if key in _CONTENT_KEYS else HIDDEN
        for text in texts_in(content):
            if found := pattern.search(
                text.replace("\r\n", "\n")
            ):  # an end of a line as Windows writes it hides nothing
                return f"{key!r} has the invisible character U+{ord(found[0]):04X}: call again without it"
    return ""
