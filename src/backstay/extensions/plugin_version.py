"""Which of two versions is the newer one. Versions are numbers with dots between them, not text: 1.10 comes after 1.9."""

import re
from typing import Final, Literal

Order = Literal["newer", "older", "same", "other"]
"""`other`: at least one of them is no version, such as the name of a commit, so nobody can tell."""
_VERSION: Final = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:-(?P<before>[0-9A-Za-z.-]+)|[._]?(?P<marked>(?:a|b|c|rc|alpha|beta|pre|preview|dev|post)[.-]?\d*(?:\.dev\d+)?))?"
    r"(?:\+[0-9A-Za-z.-]+)?"
)
_PIECE: Final = re.compile(r"\d+|[A-Za-z]+")
_Key = tuple[tuple[int, ...], bool, bool, tuple[tuple[int, int, str], ...]]


def compare(version: str, than: str) -> Order:
    """How `version` stands to another one."""
    if version == than:
        return "same"
    one, two = version_key(version), version_key(than)
    if one is None or two is None:
        return "other"
    return "same" if one == two else "newer" if one > two else "older"


def version_key(text: str) -> _Key | None:
    """Something that sorts as versions do; None for a text that is no version.

    What comes before a release (`1.0-rc.1`, `1.0b2`) sorts before it, `1.0.post1` after it. What stands behind a `+` does not count.
    """
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        return None
    release = [int(each) for each in found["release"].split(".")]
    while len(release) > 1 and not release[-1]:
        release.pop()
    extra = (found["before"] or found["marked"] or "").lower()
    after = extra.startswith("post")
    return tuple(release), after, after or not extra, tuple(_piece(each) for each in _PIECE.findall(extra))


def _piece(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdigit() else (1, 0, text)
