"""Characters that nobody sees: two classes of them, and everybody who cleans or shows text knows the same ones."""

import sys
import unicodedata
from collections.abc import Callable

import pytest

from backstay.catalog.sessions import check_name
from backstay.cli.output import escape_line
from backstay.logic.text import (
    HIDDEN,
    OBEYED,
    VisibleText,
    read_visible,
    show_invisible,
    show_lines,
    strip_invisible,
)
from backstay.memory.memory import read_window
from backstay.permissions.judge import find_hidden_text
from backstay.vocab.errors import BadId

DRAWN = {chr(each) for each in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)}
"""Format characters that have a picture: signs of numbers in Arabic, Syriac and Kaithi."""
HIDING = (
    "\u202e\u2066\u061c\u200b\u2060\u2800\u034f\u180b\ufeff\xad\u3164\U000e0041\U000e0101\U0001d173\ufff9\x1b\x9b\x07"
)
AT_HOME = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f\u200d\U0001f525",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f9d1\U0001f3fd\u200d\U0001f4bb",
    "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0928\u200c\u092e",
    "\u0d28\u0d4d\u200d",
    "\u845b\ufe00",
]
ASTRAY = [
    "r\u200dm",
    "\u200dx",
    "a\u200c\u200d",
    "\U0001f468\u200d\u200d\U0001f469",
    "a\ufe0f",
    "\U0001f600\ufe0f\ufe0e",
]


@pytest.mark.parametrize("text", AT_HOME)
def test_joiners_and_selectors_stay_where_scripts_and_emoji_need_them(text: str) -> None:
    assert strip_invisible(text) == show_invisible(text) == text
    assert find_hidden_text({"command": f"ls '{text}.txt'", "file_path": text}) == ""


@pytest.mark.parametrize("text", ASTRAY)
def test_joiners_and_selectors_are_hidden_where_they_can_have_no_sense(text: str) -> None:
    assert strip_invisible(text) != text
    assert "<U+" in show_invisible(text)
    assert find_hidden_text({"command": text})


def test_every_control_and_format_character_is_hidden_unless_it_has_a_picture() -> None:
    unseen = [
        chr(each)
        for each in range(sys.maxunicode + 1)
        if unicodedata.category(chr(each)) in ("Cc", "Cf", "Zl", "Zp", "Cs")
    ]

    assert {each for each in unseen if not HIDDEN.search(each)} == DRAWN | {"\t", "\n"}


def test_what_a_terminal_obeys_is_hidden_too_except_tabs_and_line_ends() -> None:
    obeyed = [chr(each) for each in range(0x10000) if OBEYED.search(chr(each))]

    assert {each for each in obeyed if not HIDDEN.search(each)} == {"\t", "\n"}
    assert all(chr(each) in obeyed for each in (*range(32), *range(0x7F, 0xA0)))


def test_signs_are_pictures_of_controls_and_numbers_of_the_rest() -> None:
    assert (
        show_invisible("a\x1b\x00\r\x7f\tb\n\x9b\u202e\u200b\U000e0041")
        == "a␛␀␍␡\tb\n<U+009B><U+202E><U+200B><U+E0041>"
    )


CLEANING: dict[str, Callable[[str], str]] = {
    "the web": strip_invisible,
    "files of the project": lambda text: read_visible(text).text,
    "memory": lambda text: read_window(text.encode("utf-8", "replace")).text,
}
SHOWING: dict[str, Callable[[str], str]] = {
    "the command line": escape_line,
    "an export": show_lines,
}


@pytest.mark.parametrize("who", CLEANING)
@pytest.mark.parametrize("character", HIDING)
def test_house_4_1_everybody_leaves_the_same_characters_out(who: str, character: str) -> None:
    assert CLEANING[who](f"a{character}b") == "ab"


@pytest.mark.parametrize("who", CLEANING)
@pytest.mark.parametrize("text", AT_HOME)
def test_house_4_1_everybody_keeps_the_same_joiners(who: str, text: str) -> None:
    assert CLEANING[who](text) == text


@pytest.mark.parametrize("who", SHOWING)
@pytest.mark.parametrize("character", HIDING)
def test_house_4_1_everybody_shows_the_same_sign(who: str, character: str) -> None:
    assert SHOWING[who](f"a{character}b") == show_invisible(f"a{character}b")
    assert character not in SHOWING[who](f"a{character}b")


@pytest.mark.parametrize("character", HIDING)
def test_house_4_1_no_name_of_a_session_has_them_and_every_command_with_them_asks(character: str) -> None:
    assert find_hidden_text({"command": f"a{character}b"})
    with pytest.raises(BadId):
        check_name(f"a{character}b")


def test_a_carriage_return_is_hidden_in_an_argument_unless_it_ends_a_line() -> None:
    assert find_hidden_text({"command": "git status\rrm x"})
    assert find_hidden_text({"prompt": "one\r\ntwo\r\n"}) == ""


def test_lines_stay_lines() -> None:
    assert show_invisible("a\tb\nc\x07\u202e\x7f") == "a\tb\nc␇<U+202E>␡"


@pytest.mark.parametrize(
    "text",
    [
        "Plain words,\n\twith tabs.",
        "café, 日本語, Ελληνικά",
        "👨‍👩‍👧 ❤️‍🔥 🏳️‍🌈 ✔️",
        "می‌خواهم",
    ],
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert read_visible(text) == VisibleText(text, 0, 0)


@pytest.mark.parametrize(
    ("text", "kept", "count"),
    [
        ("a\x1b[31mb\x7f", "a[31mb", 2),
        ("ti\u00ady\u3164\uffa0", "tiy", 3),
        ("".join(chr(0xE0000 + ord(each)) for each in "obey") + "x", "x", 4),
        ("😀" + "".join(chr(0xE0100 + each) for each in b"obey"), "😀", 4),
        ("😀\ufe00\ufe01\ufe02", "😀\ufe00", 2),
        ("न\u200c\u200d\u200c\u200db", "न\u200cb", 3),
        ("left\u202eright\u2066\u200f", "leftright", 3),
    ],
)
def test_what_only_a_model_would_read_is_left_out_and_counted(text: str, kept: str, count: int) -> None:
    assert read_visible(f"one\n{text}") == VisibleText(f"one\n{kept}", count, 2)
