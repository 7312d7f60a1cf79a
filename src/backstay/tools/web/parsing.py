"""A parser of HTML that holds little at a time, whatever a page does: no tag, comment or script makes it take much or long."""

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Final

CHUNK: Final = 64 * 1024
"""Characters that are parsed at once. A tag that is longer is passed over: the parser would keep every one of its attributes."""
TAIL: Final = 64
"""Characters of something that has not ended which are enough to see it end."""
STEPS: Final = 250_000
"""Tags, attributes and pieces of text that are looked at, so that a page made to take long does not."""
LOOK: Final = 1000
"""Steps after which it is asked again whether anybody still waits."""


class Enough(Exception):
    """The page has more parts than are looked at, or nobody waits for it any more."""


class BoundedParser(HTMLParser):
    """Takes a page piece by piece, and counts its steps."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        super().__init__(convert_charrefs=True)
        self._stopped = stopped
        self._steps = 0

    def take(self, html: str) -> None:
        """Parse a page. Raise `Enough` when it has too many parts. What has not ended at the end is left in `rawdata`."""
        at = 0
        while at < len(html):
            self.step()
            self.feed(html[at : at + CHUNK])
            at += CHUNK
            if len(self.rawdata) <= CHUNK:
                continue
            if self.cdata_elem is not None:
                self.rawdata = self.rawdata[-TAIL:]
            elif self.rawdata.startswith("<!--"):
                self.rawdata = "<!--x" + self.rawdata[-TAIL:]  # with the letter, no `>` that follows ends it at once
            else:
                self.rawdata = ""
                at = html.find(">", at) + 1 or len(html)

    def step(self, count: int = 1) -> None:
        """Count steps."""
        before, self._steps = self._steps, self._steps + count
        if self._steps > STEPS or (self._steps // LOOK > before // LOOK and self._stopped()):
            raise Enough
