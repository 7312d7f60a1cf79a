"""Secrets that somebody wrote out and that look like nothing: `password=hunter2`, `DB_TOKEN=...`, `curl -u ada:...`.

For what leaves the machine for other people's eyes. It is not for logs and traces: there, a word too many that is missing does more harm,
and next to a name like `token` stands a lot of ordinary code.
"""

import re
from collections.abc import Iterator
from typing import Final

from holdfast.logic.redact import Found, Redactor, apart
from holdfast.logic.redact_shapes import KEY_WORDS, is_placeholder

_PASSWORDS: Final = "password|passwd|passphrase|pwd|passwort|kennwort"
_OTHERS: Final = rf"secret|token|credentials?|(?:{KEY_WORDS})[_.-]?key"
_VALUE: Final = r"(?:[bBrRuU](?=[\"']))?\\*[\"'`]?(?P<secret>[^\s\"'`\\,;)}\]]{4,400})"
_SIGN: Final = r"\\*[\"'`]?\]?(?:[ \t]{0,8}(?:=>|:=|[:=])|[ \t]{1,8}(?:is|was|ist|lautet)\b:?)[ \t]{0,8}"
_NAMED: Final = re.compile(rf"(?i)(?P<name>{_PASSWORDS}|{_OTHERS}){_SIGN}{_VALUE}")
_VARIABLE: Final = re.compile(
    rf"(?<![A-Za-z0-9_])(?:[A-Z0-9]+_)*[A-Z0-9]*(?:PASSWORD|PASSWD|PASSPHRASE|_PWD|_PASS|SECRET|TOKEN|CREDENTIALS?|(?:{KEY_WORDS.upper()})_?KEY)"
    r"[ \t]{0,2}=[ \t]{0,2}[\"']?(?P<secret>[^\s\"'`\\;]{3,400})"
)
_OPTION: Final = re.compile(
    rf"(?<![\w-])--(?:[a-z]+-)*(?:{_PASSWORDS}|pass|token|secret|(?:{KEY_WORDS})-?key)[ =]+"
    r"[\"']?(?P<secret>[^\s\"'`\\;-][^\s\"'`\\;]{2,400})"
)
_COMMANDS: Final = (
    re.compile(
        r"\bcurl\b[^\n|;&]{0,400}?\s(?:-u|--user)[ =]?\\*[\"']?[^\s:\"'\\]{1,100}:(?P<secret>[^\s\"'`\\]{1,400})"
    ),
    re.compile(
        r"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;&]{0,400}?\s-p\\*[\"']?(?P<secret>[^\s\"'`\\]{1,400})"
    ),
    re.compile(r"\bsshpass\s+-p\s*\\*[\"']?(?P<secret>[^\s\"'`\\]{1,400})"),
)
_COOKIE: Final = re.compile(
    r"(?i)\bcookie\\*[\"'`]?[ \t]{0,8}:[ \t]{0,8}\\*[\"'`]?(?P<secret>[^\r\n\"'`\\=]{1,80}=[^\r\n\"'`\\]{3,4000})"
)
_CODE: Final = re.compile(
    r"[(\[{]|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+\Z|\.{0,2}/|~|https?:|\d{4}-\d\d-\d\d|\d{1,2}:\d\d"
)
_DIGIT: Final = re.compile(r"[0-9]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_SYMBOL: Final = re.compile(r"[^\w.:/-]")


class GivenRedactor(Redactor):
    """Finds also what only its place tells."""

    def find(self, text: str) -> list[Found]:
        """Every secret in `text`, in order, none overlapping another."""
        return apart([*super().find(text), *_given(text)])


def _given(text: str) -> Iterator[Found]:
    for match in _NAMED.finditer(text):
        password = re.fullmatch(_PASSWORDS, match["name"], re.IGNORECASE) is not None
        if _is_literal(match["secret"], password=password):
            yield Found(*match.span("secret"), f"a {match['name'].lower()}")
    for pattern in (_VARIABLE, _OPTION, *_COMMANDS, _COOKIE):
        for match in pattern.finditer(text):
            if not is_placeholder(match["secret"]) and not _CODE.match(match["secret"]):
                yield Found(*match.span("secret"), "a value that is named as one")


def _is_literal(value: str, *, password: bool) -> bool:
    """Whether a value is written out: not code that gets it from elsewhere, and not a plain word, which may be code too."""
    if is_placeholder(value) or _CODE.match(value) or any(sign in value for sign in "([{"):
        return False
    if password:
        return bool(_DIGIT.search(value) or (_SYMBOL.search(value) and _LETTER.search(value)))
    return len(value) >= 6 and bool(_DIGIT.search(value) and _LETTER.search(value))


GIVEN: Final = GivenRedactor()
"""For exports."""
