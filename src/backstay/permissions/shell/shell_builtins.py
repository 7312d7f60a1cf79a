"""Refuse builtins of the shell that evaluate a text, and check what the others set and keep."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from backstay.permissions.shell.table import words
from backstay.permissions.shell.words import NAME, Held, Words, is_special
from backstay.permissions.unasked.shell_grammar import Outside
from backstay.permissions.unasked.table import word_list

_SETTING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:=|$)")
_OPTIONS: Final = re.compile(r"[-+][euxfC]{1,4}|[-+][eux]{0,3}o|pipefail|errexit|nounset|xtrace|noclobber|noglob")
_SIGNAL: Final = re.compile(r"[A-Z0-9]+")
_FOLDER: Final = r"(?:\$PATH|\$\{PATH\}|(?:\$HOME|\$PWD|\$\(pwd\)|~|/)[\w/.+-]*)"
_PATH: Final = re.compile(rf"\"?{_FOLDER}(?::{_FOLDER})+\"?")


def check_builtin(given: Sequence[Held], sets: Sequence[str], script: Words) -> None:
    """Refuse a command that the shell may evaluate a word of, or whose program is not known."""
    head, rest = given[0], given[1:]
    name = head.value
    if not name or head.loose:
        raise Outside("which program runs is not known before it runs")
    program = name not in word_list("words") and name not in script.names.functions
    found = [each for each in sets if is_special(each) and not (each == "IFS" and name == "read")]
    if found and (not program or "PATH" in found):
        raise Outside(f"it sets {found[0]}, which means something to the shell")
    if program or name in script.names.functions:
        return
    if name in words("before", "plain"):
        if not rest:
            return
        at = next((at for at, word in enumerate(rest) if word.text != "-p"), 0)
        if rest[at].text in ("-v", "-V") and name == "command":
            return
        if (rest[at].value or "-").startswith("-") or rest[at].value in ("cd", "pushd", "popd"):
            raise Outside(f"what {name} runs is not plain")
        check_builtin(rest[at:], (), script)
        return
    if name in words("inert", "plain") and (name != "jobs" or all(word.value not in (None, "-x") for word in rest)):
        return
    if name in words("counting", "plain"):
        if not all(word.number or (word.value or "").startswith("%") for word in rest):
            raise Outside(f"a word of {name} is not a number")
    elif name in words("setting", "plain"):
        _check_setting(name, rest, script)
    elif read := _READERS.get(name):
        read(rest, script)
    else:
        raise Outside(f"{name} is a word of the shell that may evaluate others")


def _check_setting(name: str, rest: Sequence[Held], script: Words) -> None:
    """Check `export NAME=value`: plain names, no flags that give a variable a type, no arrays."""
    values = [word for word in rest if word.text not in words("setting_flags", "plain")]
    for word in values:
        found = _SETTING.match(word.text)
        if not found or (word.loose and not script.bash) or (len(word.fields) > 1 and word.bare):
            raise Outside(f"what {name} sets is not plain")
        variable, value = found[1], word.text[found.end() :]
        if variable == "PATH" and "PATH" in value and _PATH.fullmatch(value):
            continue
        if any((field.value or "").startswith(f"{variable}=(") for field in word.fields):
            raise Outside(f"what {name} sets is not plain")
        script.names.declared.add(variable)
        if found[0].endswith("="):
            held = [replace(each, value=each.value and each.value[found.end() :]) for each in word.fields]
            script.names.assign(variable, number=(word.value or "")[found.end() :].isdecimal())
            script.hold(variable, held)
        elif is_special(variable):
            raise Outside(f"it sets {variable}, which means something to the shell")


def _check_test(rest: Sequence[Held], script: Words) -> None:
    """Check `test`: -v and -R evaluate the word behind them, so no word may turn into one of them."""
    given = list(rest)
    if given and given[-1].text == "]":
        given.pop()
    while given and given[0].text == "!":
        given.pop(0)
    known = all(word.value is not None or word.number for word in given)
    first, second = (given[0].text if given else "", given[1].text if len(given) == 3 else "")
    compared = len(given) == 3 and second in words("test_compares", "plain")
    looked = len(given) == 2 and first in words("test_looks", "plain")
    if any(word.value in ("-v", "-R") for word in given) or not (known or compared or looked or len(given) == 1):
        raise Outside("a test is not plain")
    if any(word.loose for word in given):
        raise Outside("a word of a test may become several")


def _check_read(rest: Sequence[Held], script: Words) -> None:
    """Check `read`: the names of variables stand there as they are."""
    valued = False
    for word in rest:
        if valued and not word.loose:
            valued = False
        elif word.text.startswith("-") and word.bare and re.fullmatch("-[rse]*[pdntN]?", word.text):
            valued = word.text[-1] in "pdntN"
        elif word.text.startswith("-") and re.fullmatch("-r?[ntN][0-9.]+|-d''", word.text):
            continue
        elif word.bare and NAME.fullmatch(word.text):
            script.names.assign(word.text, number=False)
        else:
            raise Outside("what read sets is not plain")


def _check_printf(rest: Sequence[Held], script: Words) -> None:
    """Check `printf`: not -v."""
    first = rest[0].text.lstrip("\"'") if rest else ""
    if rest and re.search(r"%[-+ #0-9.*]*n", rest[0].value or ""):
        raise Outside("printf may set a variable")
    if not first or (first.startswith("-") and rest[0].text != "--") or first.startswith("$") or rest[0].loose:
        raise Outside("what printf prints is not plain")


def _check_trap(rest: Sequence[Held], script: Words) -> None:
    """Check `trap`: what it keeps is read like the text itself."""
    if not rest or not all(word.bare and _SIGNAL.fullmatch(word.text) for word in rest[1:]):
        raise Outside("a trap is not plain")
    if rest[0].text not in ("-", "''", '""', "--"):
        if rest[0].value is None:
            raise Outside("what a trap runs is not known")
        script.keep(rest[0].value)


def _check_set(rest: Sequence[Held], script: Words) -> None:
    """Check `set`: options that change no reading, and parameters behind `--`."""
    for word in rest:
        if word.text == "--":
            return
        if not _OPTIONS.fullmatch(word.text):
            raise Outside("what set changes is not plain")


def _check_unset(rest: Sequence[Held], script: Words) -> None:
    """Check `unset`: names, not parts of arrays."""
    for word in rest:
        if not (word.bare and NAME.fullmatch(word.text)):
            raise Outside("what unset takes away is not plain")
        script.names.assign(word.text, number=True)


def _check_source(rest: Sequence[Held], script: Words) -> None:
    """Check `source`: a file that is named. What it sets is not known."""
    if len(rest) != 1 or rest[0].value is None or re.match("/dev/|/proc/", rest[0].value):
        raise Outside("which file it runs is not known before it runs")
    script.doubt(set(script.held) - {"HOME"})


def _check_mapfile(rest: Sequence[Held], script: Words) -> None:
    """Check `mapfile -t NAME`."""
    if [word.text for word in rest[:-1]] not in ([], ["-t"]) or not rest or not NAME.fullmatch(rest[-1].text):
        raise Outside("what mapfile sets is not plain")
    script.names.assign(rest[-1].text, number=False)
    script.names.arrays.add(rest[-1].text)


_READERS: Final[Mapping[str, Callable[[Sequence[Held], Words], None]]] = {
    "[": _check_test,
    "test": _check_test,
    "read": _check_read,
    "printf": _check_printf,
    "trap": _check_trap,
    "set": _check_set,
    "unset": _check_unset,
    "source": _check_source,
    ".": _check_source,
    "mapfile": _check_mapfile,
    "readarray": _check_mapfile,
}
