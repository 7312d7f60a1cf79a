"""Words of strangers, marked as such: what is inside the marks is material, and nothing inside can end them."""

import re
from typing import Final

_MARKS: Final = re.compile(r"<(?=\s*/?\s*(?:web_page|search_results)\b)", re.IGNORECASE)
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff\U0001d173-\U0001d17a]"
)
"""Characters that a person does not see and a model reads: controls, changes of direction, blanks without width, tags."""


def framed(mark: str, text: str) -> str:
    """`text` between marks that it cannot imitate."""
    return f"<{mark}>\n{_MARKS.sub('&lt;', text)}\n</{mark}>"


def visible(text: str) -> str:
    """`text` as a person would see it, with one kind of line end."""
    return _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
