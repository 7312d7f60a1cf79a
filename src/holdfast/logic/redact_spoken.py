"""Finds secrets in commands, headers and sentences: `curl -u ada:...`, `--token ...`, `bearer ...`, `the password is ...`, and in netrc."""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from holdfast.logic.redact_named import PASSWORDS, TOKENS, is_code, is_literal
from holdfast.logic.redact_shapes import LONGEST_JUDGED, Found, has_digit

REACH: Final = 400
"""Characters before an option in which its command is looked for."""


class Spoken(NamedTuple):
    """A form of words that a secret, the group `secret`, follows."""

    why: str
    gates: tuple[str, ...]
    """Without one of these, in small letters, there is none."""
    pattern: re.Pattern[str]
    """For the text in small letters, unless `cased`: then for the text as it is."""
    is_real: Callable[[str], bool]
    cased: bool = False
    command: re.Pattern[str] | None = None
    """What has to stand before it in the same command."""


def find_spoken(text: str, lowered: str) -> Iterator[Found]:
    """The secrets in `text` that follow a form of words. `lowered` is the text in small letters."""
    for form in _FORMS:
        if not any(gate in lowered for gate in form.gates):
            continue
        for match in form.pattern.finditer(text if form.cased else lowered):
            start, end = match.span("secret")
            if form.is_real(text[start : min(end, start + LONGEST_JUDGED)]) and _is_of(
                form.command, text, match.start()
            ):
                yield Found(start, end, form.why)


def _is_of(command: re.Pattern[str] | None, text: str, at: int) -> bool:
    """Whether the option at `at` belongs to that command."""
    return command is None or command.search(_SEPARATOR.split(text[max(0, at - REACH) : at + 1])[-1]) is not None


def _is_given(value: str) -> bool:
    return not is_code(value)


def _is_password(value: str) -> bool:
    return is_literal(value, password=True)


def _is_token(value: str) -> bool:
    return is_literal(value, password=False)


_SEPARATOR: Final = re.compile(r"[\n|;&]")
_SAID: Final = r"(?:{names}) {{1,8}}(?:is|was|ist|lautet)\b:? {{0,8}}\\*[\"'`]?(?P<secret>[^\s\"'`\\,;)}}\]]{{4,}})"
_FORMS: Final = (
    Spoken(
        "a bearer token",
        ("bearer",),
        re.compile(r"bearer(?<![a-z0-9]bearer)[ \t]+(?P<secret>[a-z0-9._~+/=-]{16,})"),
        has_digit,
    ),
    Spoken("a password", (" is", " was", " lautet"), re.compile(_SAID.format(names=PASSWORDS)), _is_password),
    Spoken(
        "a secret that is named as one", (" is", " was", " lautet"), re.compile(_SAID.format(names=TOKENS)), _is_token
    ),
    Spoken(
        "the value of an option",
        ("--",),
        re.compile(
            rf"--(?<![\w-]--)(?:[a-z]+-){{0,8}}(?:{PASSWORDS}|pass|{TOKENS})[ =]+[\"']?"
            r"(?P<secret>[^\s\"'`\\;-][^\s\"'`\\;]{2,})"
        ),
        _is_given,
    ),
    Spoken(
        "a password of curl",
        ("curl",),
        re.compile(r"\s-(?:u|-user)[ =]?\\*[\"']?[^\s:\"'\\]{1,100}:(?P<secret>[^\s\"'`\\]{1,})"),
        _is_given,
        cased=True,
        command=re.compile(r"\bcurl\b"),
    ),
    Spoken(
        "a password of a database client",
        ("mysql", "mariadb"),
        re.compile(r"\s-p\\*[\"']?(?P<secret>[^\s\"'`\\]{1,})"),
        _is_given,
        cased=True,
        command=re.compile(r"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b"),
    ),
    Spoken(
        "a password of a login",
        ("login",),
        re.compile(r"\s-p[ =]?\\*[\"']?(?P<secret>[^\s\"'`\\-][^\s\"'`\\]*)"),
        _is_given,
        cased=True,
        command=re.compile(r"\b(?:docker|podman|buildah|skopeo|nerdctl|helm|oras|az|oc|cf|oci)\b.*\blogin\b"),
    ),
    Spoken(
        "the value of a setting",
        ("config",),
        re.compile(
            rf"config(?:ure)?[ \t]++(?:--?[\w-]++[ \t]++){{0,2}}set[ \t]++[^\s=]{{0,120}}(?:{PASSWORDS}|{TOKENS})[ \t=]++"
            r"\\*[\"']?(?P<secret>[^\s\"'`\\;-][^\s\"'`\\;]{2,})"
        ),
        _is_given,
    ),
    Spoken(
        "a password of sshpass",
        ("sshpass",),
        re.compile(r"sshpass[ \t]+-p[ \t]*\\*[\"']?(?P<secret>[^\s\"'`\\]{1,})"),
        _is_given,
    ),
    Spoken(
        "a password of netrc",
        ("machine",),
        re.compile(r"machine\s++\S++\s++login\s++\S++\s++(?:account\s++\S++\s++)?password\s++(?P<secret>\S+)"),
        _is_given,
    ),
    Spoken(
        "a password of netrc",
        ("password",),
        re.compile(r"(?:login|machine|account)\s++\S++\s++password\s++(?P<secret>\S+)"),
        _is_password,
    ),
)
