"""Characters that a person who is asked would not see, or that change what is seen."""

import re
from typing import Final

from holdfast.logic.permissions.arguments import texts_in

_BIDI: Final = "\u202a-\u202e\u2066-\u2069"
_TAGS: Final = "\U000e0000-\U000e007f"
_ESCAPE: Final = "\x1b\x9b"
_CONTENT: Final = re.compile(f"[{_BIDI}{_TAGS}{_ESCAPE}]")
_ANY: Final = re.compile(
    f"[{_BIDI}{_TAGS}{_ESCAPE}\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028\u2029"
    "\u2060-\u2065\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]",
)
_CONTENT_KEYS: Final = frozenset(
    ("content", "new_string", "old_string", "new_source", "patch", "input", "edits", "todos")
)
"""Arguments that become the text of files: marks that scripts and emoji need are at home there."""


def hidden_in(args: dict[str, object]) -> str:
    """What is hidden in the arguments of a call, in words; empty when nothing is."""
    for key, content in args.items():
        pattern = _CONTENT if key in _CONTENT_KEYS else _ANY
        for text in texts_in(content):
            if found := pattern.search(text):
                return f"{key!r} has the invisible character U+{ord(found[0]):04X}"
    return ""
