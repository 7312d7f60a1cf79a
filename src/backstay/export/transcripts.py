"""Writes a session out as a page for people: Markdown, or one HTML file."""

from collections.abc import Callable, Iterator
from typing import Final, Literal

from backstay.export.dialogue import Dialogue
from backstay.export.dialogue_fold import dialogue_of
from backstay.export.html_page import html_page
from backstay.export.markdown_page import markdown_page
from backstay.logic.redact import PLAIN, Redactor
from backstay.pages import PagedLog

PageKind = Literal["markdown", "html"]
_PAGES: Final[dict[PageKind, Callable[[Dialogue], Iterator[str]]]] = {"markdown": markdown_page, "html": html_page}


def page(log: PagedLog, kind: PageKind, *, redactor: Redactor = PLAIN) -> Iterator[str]:
    """The conversation of a log as a page, without its secrets, a turn at a time."""
    return _PAGES[kind](dialogue_of(log, redactor))
