"""Read the bytes of a page: HTML as Markdown, JSON indented, PDF as text, pictures as pictures."""

import codecs
import re
from collections.abc import Callable
from typing import Final

import msgspec

from backstay.logic.text import strip_invisible
from backstay.tools.files.media_type import detect_image_type
from backstay.tools.files.pdf import read_pdf
from backstay.tools.web.html_to_markdown import to_markdown
from backstay.tools.web.interfaces import FetchFailed, Page
from backstay.vocab.messages import InlineMedia

PDF_PAGES: Final = 100
"""Pages of a PDF that are read."""
PDF_CHARS: Final = 1_000_000
"""Characters of them together."""
EXPLANATION: Final = 2000
"""Characters of what a server says about a failure."""


def read_page(url: str, content_type: str, body: bytes, stopped: Callable[[], bool] = lambda: False) -> Page:
    """Read a body that is no PDF. Raise `FetchFailed("not_text")` when it cannot be read. Takes seconds at times: not for the event loop.

    It ends soon once `stopped` says that the caller is gone.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if picture := detect_image_type(body):
        return Page(url, picture, media=(InlineMedia(media_type=picture, content=body, name=url[-200:]),))
    if not _is_text(media_type, body):
        raise FetchFailed(
            "not_text", f"{url!r} is {media_type or 'of no stated kind'}, {len(body):,} bytes that are not text."
        )
    html = media_type in _HTML or (media_type in _UNSTATED and _looks_like_html(body))
    text = strip_invisible(decode_body(body, content_type, html=html))
    if html:
        reading = to_markdown(text, url, stopped)
        return Page(
            url, "HTML", title=strip_invisible(reading.title)[:500], text=strip_invisible(reading.text)
        )  # what was escaped is not any more
    if media_type.endswith(("/json", "+json")):
        return Page(url, "JSON", text=_in_order(text))
    return Page(url, "Markdown" if media_type == "text/markdown" else "text", text=text.strip("\n"))


def is_pdf(body: bytes) -> bool:
    """Return whether a body is a PDF; its header may say otherwise."""
    return body[:1024].lstrip().startswith(b"%PDF-")


async def read_pdf_page(url: str, body: bytes) -> Page:
    """Read a PDF in a process of its own, as files are. Raise `FetchFailed("not_text")` when its text cannot be had."""
    answer = await read_pdf(body, 1, PDF_PAGES, most=PDF_CHARS)
    if answer.problem:
        why = answer.detail or f"it is {answer.problem}"
        raise FetchFailed("not_text", f"{url!r} is a PDF whose text cannot be read: {strip_invisible(why)}")
    text = "\n\n".join(f"[page {number}]\n{text}" for number, text in enumerate(answer.texts, 1))
    more = answer.total - len(answer.texts)
    return Page(url, "PDF", text=strip_invisible(text + (f"\n\n[{more} more pages are not shown]" if more else "")))


def read_explanation(content_type: str, body: bytes) -> str:
    """Return what a server says about a failure, as far as it can be read; empty when that is nothing."""
    media_type = content_type.partition(";")[0].strip().lower()
    if not body or b"\0" in body or not _TEXTUAL.fullmatch(media_type):
        return ""
    text = decode_body(body, content_type, html=media_type in _HTML)
    return strip_invisible(to_markdown(text, "").text if media_type in _HTML else text).strip()[:EXPLANATION]


def decode_body(body: bytes, content_type: str, *, html: bool) -> str:
    """Decode a body: by its byte order mark, by its header, by what the page says, else as UTF-8 or windows-1252."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    declared = _charset(content_type) or (_charset(body[:2048].decode("latin-1")) if html else "")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        # what claims to be UTF-8 and is not keeps most of its letters this way
        return body.decode(declared or "windows-1252", "replace")
    # bytes that are UTF-8 by chance are rare; a header that says western by mistake is not
    return text if declared in _WESTERN else body.decode(declared, "replace")


_HTML: Final = frozenset(("text/html", "application/xhtml+xml"))
_UNSTATED: Final = frozenset(
    ("", "application/octet-stream", "text/plain", "binary/octet-stream", "application/unknown")
)
_TEXTUAL: Final = re.compile(
    r"text/.*|.*[/+](?:json|xml|yaml|x-yaml|toml|javascript|x-javascript|ecmascript|typescript|x-sh|sql|graphql|x-ndjson|csv|x-tex"
    r"|x-www-form-urlencoded|manifest|ld\+json|x-httpd-php|rtf|markdown)"
)
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WESTERN: Final = frozenset(("", "utf-8", "windows-1252"))
_CHARSET: Final = re.compile(r"charset\s{0,20}=\s{0,20}[\"']?\s{0,20}([\w.:-]{1,40})", re.IGNORECASE | re.ASCII)
_KNOWN: Final = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|iso-?8859-\d{1,2}|windows-125\d|cp125\d|koi8-[ru]|macintosh|mac-?roman|ibm866|cp866|gbk|gb2312|gb18030"
    r"|big5(?:-hkscs)?|euc-(?:jp|kr)|shift[-_]jis|sjis|iso-2022-jp|us-ascii|ascii|latin-?1|tis-620|windows-874"
)
"""Encodings that the web knows. Python knows more, some of which change what is text and what is markup."""


def _charset(text: str) -> str:
    found = _CHARSET.search(text)
    name = found[1].lower().removeprefix("x-") if found else ""
    if not _KNOWN.fullmatch(name):
        return ""
    if name in ("utf8", "utf-8"):
        return "utf-8"
    if name in ("iso-8859-1", "iso8859-1", "us-ascii", "ascii", "latin1", "latin-1", "cp1252"):
        return "windows-1252"  # as browsers have it
    try:
        return codecs.lookup({"windows-874": "cp874", "macintosh": "mac-roman"}.get(name, name)).name
    except LookupError:
        return ""


def _is_text(media_type: str, body: bytes) -> bool:
    if body.startswith(tuple(mark for mark, _ in _BOMS)):
        return True
    if b"\0" in body[:8192]:
        return False
    if _TEXTUAL.fullmatch(media_type):
        return True
    if media_type not in _UNSTATED:
        return False
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return media_type == "" and _looks_like_html(body)
    return True


def _looks_like_html(body: bytes) -> bool:
    return re.match(rb"\s{0,200}(?:<!doctype html|<html[\s>])", body[:1000], re.IGNORECASE) is not None


def _in_order(text: str) -> str:
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text
