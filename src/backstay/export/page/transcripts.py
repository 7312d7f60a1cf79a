"""Writes a session out as a page for people: Markdown, or one HTML file."""

from collections.abc import Callable, Iterator
from typing import Final, Literal

from backstay.catalog.load import PagedLog
from backstay.export.page.fold import Dialogue, dialogue_of
from backstay.export.page.html import html_page
from backstay.export.page.markdown import markdown_page
from backstay.logic.secrets.redact import PLAIN, Redactor

PageKind = Literal["markdown", "html"]
_PAGES: Final[dict[PageKind, Callable[[Dialogue], Iterator[str]]]] = {"markdown": markdown_page, "html": html_page}


def page(log: PagedLog, kind: PageKind, *, redactor: Redactor = PLAIN) -> Iterator[str]:
    """The conversation of a log as a page, without its secrets, a turn at a time."""
    return _PAGES[kind](dialogue_of(log, redactor))
