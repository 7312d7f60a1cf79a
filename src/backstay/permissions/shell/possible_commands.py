"""Guess the commands that a text or a value may hold, where it is not certain what runs."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from backstay.permissions.shell.expand import Field
from backstay.permissions.shell.tree import Seen

_ASSIGNED: Final = re.compile(r"[\"']?\$?\{?([A-Za-z_]\w*)(?:\[[^\]]*\])?\}?(?:%%)?\+?=", re.ASCII)
_TABLE: Final = re.compile(r"BASH_(?:ALIASES|CMDS)\[([^\]]*)\]=(.*)", re.DOTALL)
_DEFAULT: Final = re.compile(r"\$\{\w+:?[=+-]([^}]*)")
_START: Final = re.compile(r"^|[;|&({!:=@'\"`\n]+")
_CUT: Final = re.compile(r"[;&|(){}`\n]")
_PARTED: Final = re.compile(r"[\s{]|\$\{?IFS|\\[xt0-7]")
"""What a text of several words has."""
_BLANK: Final = re.compile(r"\$(?:IFS\b|\{IFS[^}]*\})|\\t")
_CODE: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\0?([0-7]{3})")
_QUOTING: Final = re.compile(r"[\"'\\]|\$(?=['\"])")
_LEAD: Final = re.compile(
    r"(?:@(?:reboot|yearly|annually|monthly|weekly|daily|midnight|hourly)\s|[^A-Za-z_$])*", re.ASCII
)
"""What other languages put before a command: a mark, an address, times."""
_HOME: Final = re.compile(r"~(?=/|$)|\$HOME\b|\$\{HOME\}")
_WILD: Final = re.compile(r"[*?\[]")


def values_of(seen: Sequence[Seen]) -> Iterator[str]:
    """Give every value that commands assign, by themselves or in a word (`env`, `make`), also with what is added to it later."""
    held = dict[str, list[str]]()
    for each in seen:
        for field in (*(each.values or each.sets), *each.fields):
            text = field.text if field.value is None else field.value
            yield from _DEFAULT.findall(field.text)
            if found := _ASSIGNED.match(text):
                held.setdefault(found[1], []).append(text[found.end() :])
    for values in held.values():
        yield from (*values, "".join(values))


def resolve_aliases(seen: Sequence[Seen]) -> Iterator[str]:
    """Give what commands stand for by names that others give: `alias x='rm -rf'; x /`, `hash -p /bin/rm ls; ls -rf /`."""
    meant = dict(each for command in seen for each in _texts_with_names(command))
    for command in seen if meant else ():
        text = " ".join(field.text if field.value is None else field.value for field in command.fields)
        for _ in meant:
            name, _, rest = text.partition(" ")
            if name not in meant:
                break
            text = f"{meant[name]} {rest}"
        yield text


def _texts_with_names(seen: Seen) -> Iterator[tuple[str, str]]:
    words = [field.value or "" for field in (*seen.fields, *seen.values)]
    yield from ((found[1], found[2]) for found in map(_TABLE.match, words) if found)
    if "alias" in words[:2]:
        yield from ((name, text) for name, equals, text in (word.partition("=") for word in words[1:]) if equals)
    if "hash" in words[:2] and (found := re.search(r" -\w*p ?(\S+) .*?(\S+)$", " ".join(words))):
        yield found[2], found[1]


def run_by_others(seen: Sequence[Seen]) -> Iterator[str]:
    """Give what may run where a program is not known: the words of each command (`run() { "$@"; }; run rm -rf /`), its input, and behind
    each value that is assigned those of the command (`r='rm -rf'; $r /`)."""
    values = list(dict.fromkeys(values_of(seen)))
    for each in seen:
        words = [field.text if field.value is None else field.value for field in each.fields]
        yield " ".join(words[1:])
        yield from (given.value or given.text for given in each.given)
        if each.fields and each.fields[0].value is None:
            yield from (" ".join((value.strip("()"), *words[1:])) for value in values)


def guess_output(seen: Seen, *, known: bool) -> Iterator[str]:
    """Give what a command prints, where its words say so: what is known of it, or all as it is written."""
    head = seen.fields[0].value if seen.fields else None
    if head == "cat":
        yield from (given.value or given.text for given in seen.given)
    elif head in ("echo", "printf"):
        if not known:
            yield from (field.value or "" for field in seen.fields[1:])
        yield " ".join(field.value or ("" if known else field.text) for field in seen.fields[1:])


def may_be_script(text: str) -> bool:
    """Return whether a text has more than one word."""
    return _PARTED.search(text) is not None


def cut(text: str, home: str) -> Iterator[tuple[int, tuple[Field, ...]]]:
    """Give the length and the words of each command that may begin somewhere in a text."""
    text = _CODE.sub(lambda found: chr(int(found[1], 16) if found[1] else int(found[2], 8) % 256), text)
    text = _BLANK.sub(" ", text.replace("\\n", "\n"))
    for found in _START.finditer(text):
        end = _CUT.search(text, found.end())
        piece = _QUOTING.sub("", text[found.end() : end.start() if end else len(text)])
        words = _LEAD.sub("", piece, count=1).replace(",", " " if " " not in piece.strip() else ",").split()
        while words and _ASSIGNED.match(words[0]):
            words.pop(0)
        words = words[1:] if words[:1] in (["echo"], ["printf"]) else words
        yield len(piece), tuple(_field(word, home) for word in words) if len(words) > 1 else ()


def _field(word: str, home: str) -> Field:
    value = _HOME.sub(lambda _: home, word)
    return Field(None if "$" in value else value, word, _WILD.search(value) is not None)
