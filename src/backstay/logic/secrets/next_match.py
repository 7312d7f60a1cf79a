"""Look up where a pattern matches next, without reading a text twice."""

import re


class NextMatch:
    """Where a pattern matches next. To be asked from left to right: then nothing is read twice."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._pattern = pattern
        self._text = text
        self._at = -1

    def after(self, place: int) -> int:
        """The first match at `place` or behind it; the end of the text when there is none."""
        if self._at < place:
            match = self._pattern.search(self._text, place)
            self._at = match.start() if match else len(self._text)
        return self._at
