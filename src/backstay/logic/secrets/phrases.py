"""Find secrets in commands, headers and sentences: `curl -u ada:...`, `--token ...`, `bearer ...`, `the password is ...`, and in netrc.

Each phrase is looked for by fixed text of its own, and a name before it in the text read from its end. Which command an option belongs
to is followed from left to right. So no part of a text is read again for every phrase that might begin in it.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from backstay.logic.secrets.secret_names import OF_KEYS, PASSWORDS, PASSWORDS_BACK, TOKENS, TOKENS_BACK, NextMatch
from backstay.logic.secrets.shapes import (
    LONGEST_JUDGED,
    SecretMatch,
    contains,
    has_digit,
    is_code,
    is_literal,
    is_phrase,
)

REACH: Final = 400
"""Characters before an option in which its command is looked for."""
MOST_JUDGED: Final = 512
"""Values of a text that are kept in mind, so that one that stands there again is not judged anew."""


class Phrase(NamedTuple):
    """Words that a secret follows: the group `secret` of the pattern."""

    why: str
    gates: tuple[str, ...]
    """Without one of these, in small letters, there is none."""
    pattern: re.Pattern[str]
    """For the text in small letters; for the text as it is where the secret is that of an option of a command."""
    is_real: Callable[[str], bool]
    before: re.Pattern[str] | None = None
    """What must stand before the phrase, or end with its group `word`; for the text read from its end."""
    command: tuple[re.Pattern[str], ...] = ()
    """Words that have to stand before it in the same command, in this order."""


def find_phrases(text: str, lowered: str, back: str) -> Iterator[SecretMatch]:
    """Yield the secrets in `text` that follow a phrase. `lowered` is the text in small letters, `back` that from its end."""
    for phrase in _PHRASES:
        if any(contains(lowered, gate) for gate in phrase.gates):
            is_real = functools.lru_cache(MOST_JUDGED)(phrase.is_real)
            for start, end in _places(phrase, text, lowered, back):
                if is_real(text[start:end][:LONGEST_JUDGED]):
                    yield SecretMatch(start, end, phrase.why)


def _places(phrase: Phrase, text: str, lowered: str, back: str) -> Iterator[tuple[int, int]]:
    if phrase.command:
        matches, *later = (words.finditer(text) for words in (*phrase.command, phrase.pattern))
        for following in later:
            matches = _in_same_command(text, matches, following)
        for match in matches:
            yield match.span("secret")
    elif phrase.before is None:
        for match in phrase.pattern.finditer(lowered):
            yield match.span("secret")
    else:
        size, has_word = len(text), "word" in phrase.pattern.groupindex
        for match in phrase.pattern.finditer(lowered):
            if phrase.before.match(back, size - (match.end("word") if has_word else match.start())):
                yield match.span("secret")


def _in_same_command(
    text: str, words: Iterator[re.Match[str]], following: Iterator[re.Match[str]]
) -> Iterator[re.Match[str]]:
    """Yield the matches that follow one of `words` in the same command, not far from it. Both are in order, and nothing is read twice."""
    ends = NextMatch(_SEPARATOR, text)
    word, begun = next(words, None), -REACH
    for match in following:
        at = match.start()
        while word and word.start() < at:
            begun, word = word.start(), next(words, None)
        if at <= begun + REACH and ends.after(begun) >= at:
            yield match


def _is_given(value: str) -> bool:
    return not is_code(value)


def _is_password(value: str) -> bool:
    return is_literal(value, password=True)


def _is_short_name(value: str) -> bool:
    return is_literal(value, password=True) and not value.replace(".", "").isdigit()


def _is_passphrase(value: str) -> bool:
    return is_phrase(value, is_password=True)


def _is_token(value: str) -> bool:
    return is_literal(value, password=False)


def _sentence(why: str, ends: str, names: str, is_real: Callable[[str], bool]) -> Phrase:
    """Return the phrase of a sentence about one of these names; `ends` are their last letters."""
    pattern = rf" (?<=[{ends} ] )(?:is|was|ist|lautet)\b:? {{0,8}}\\*[\"'`]?(?P<secret>[^\s\"'`\\,;)}}\]]{{4,}})"
    before = re.compile(rf" {{0,7}}(?:{names})")
    return Phrase(why, (" is", " was", " lautet"), re.compile(pattern), is_real, before)


def _option(why: str, gates: tuple[str, ...], pattern: str, *command: str) -> Phrase:
    """Return the phrase of an option of one of these commands, each with those it may be instead."""
    return Phrase(why, gates, re.compile(pattern), _is_given, command=tuple(map(_words, command)))


def _words(words: str) -> re.Pattern[str]:
    """Return a pattern for any of these words. Each begins with fixed text, which makes the search fast."""
    return re.compile("|".join(rf"{word[0]}(?<!\w{word[0]}){word[1:]}\b" for word in words.split()))


_SEPARATOR: Final = re.compile(r"[\n|;&]")
_NAMES: Final = rf"{'|'.join((*PASSWORDS, *TOKENS))}|(?:{'|'.join(OF_KEYS)})[_.-]?key"
_PHRASES: Final = (
    Phrase(
        "a bearer token",
        ("bearer",),
        re.compile(r"bearer(?<![a-z0-9]bearer)[ \t]+(?P<secret>[a-z0-9._~+/=-]{16,})"),
        has_digit,
    ),
    Phrase(
        "a password",
        ("pass",),
        re.compile(r"pass(?<![\w-]pass)[ \t]{0,8}[=:][ \t]{0,8}\\*[\"'`]?(?P<secret>[^\s\"'`\\,;)}\]]{4,})"),
        _is_short_name,
    ),
    Phrase(
        "a passphrase",
        ("passphrase",),
        re.compile(
            r"passphrase[ \t]{0,8}[=:][ \t]{0,8}"
            r"(?P<secret>[a-z0-9-]{2,20}+(?: [a-z0-9-]{2,20}+){2,23}+)[ \t]{0,8}(?=[\r\n]|\Z)"
        ),
        _is_passphrase,
    ),
    _sentence("a password", "det", PASSWORDS_BACK, _is_password),
    _sentence("a secret that is named as one", "tnlsy", TOKENS_BACK, _is_token),
    _option(
        "the value of an option",
        ("--",),
        rf"--(?<![\w-]--)(?:[a-z]++-){{0,8}}(?:{_NAMES}|pass)[ =]+[\"']?(?P<secret>[^\s\"'`\\;-][^\s\"'`\\;]{{2,}})",
    ),
    _option(
        "a password of curl",
        ("curl",),
        r"\s-(?:u|-user)[ =]?\\*[\"']?[^\s:\"'\\]{1,100}:(?P<secret>[^\s\"'`\\]{1,})",
        "curl",
    ),
    _option(
        "a password of a database client",
        ("mysql", "mariadb"),
        r"\s-p\\*[\"']?(?P<secret>[^\s\"'`\\]{1,})",
        "mysql mysqldump mysqladmin mariadb",
    ),
    _option(
        "a password of a login",
        ("login",),
        r"\s-p[ =]?\\*[\"']?(?P<secret>[^\s\"'`\\-][^\s\"'`\\]*)",
        "docker podman buildah skopeo nerdctl helm oras az oc cf oci",
        "login",
    ),
    Phrase(
        "the value of a setting",
        ("config",),
        re.compile(
            r"config(?:ure)?[ \t]++(?:--?[\w-]++[ \t]++){0,2}set[ \t]++(?P<word>[^\s=]{1,160}+)[ \t=]++"
            r"\\*[\"']?(?P<secret>[^\s\"'`\\;-][^\s\"'`\\;]{2,})"
        ),
        _is_given,
        re.compile(rf"{PASSWORDS_BACK}|{TOKENS_BACK}"),
    ),
    _option("a password of sshpass", ("sshpass",), r"sshpass[ \t]+-p[ \t]*\\*[\"']?(?P<secret>[^\s\"'`\\]{1,})"),
    Phrase(
        "a password of netrc",
        ("machine",),
        re.compile(r"machine\s++\S++\s++login\s++\S++\s++(?:account\s++\S++\s++)?password\s++(?P<secret>\S+)"),
        _is_given,
    ),
    Phrase(
        "a password of netrc",
        ("password",),
        re.compile(r"password(?<=\spassword)\s++(?=(?P<secret>\S+))"),
        _is_password,
        re.compile(r"\s++\S++\s++(?:nigol|enihcam|tnuocca)"),
    ),
)
