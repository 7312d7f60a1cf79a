"""Every row of the table of shapes finds its example, and finds nothing in ordinary words."""

import random
import re
import string
from collections.abc import Mapping

import pytest

from backstay.logic.secrets.redact import PLAIN, REDACTED
from backstay.logic.secrets.shapes import read_table

CAPITALS = string.ascii_uppercase + string.digits
LETTERS: Mapping[str, str] = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "d": string.digits,
    "c": CAPITALS,
    "l": string.ascii_lowercase,
}


def filled(example: str, begins: str, chance: random.Random) -> str:
    """The example of a row, put together by chance: no token stands in this repository."""

    def some(match: re.Match[str]) -> str:
        return "".join(chance.choice(LETTERS[match[1]]) for _ in range(int(match[2])))

    return re.sub(r"\{([ahdcl])(\d+)\}", some, example).replace("{begins}", begins)


def shaped() -> list[str]:
    chance = random.Random(21)
    table = read_table()
    tokens = [(row, begins, begins + str(row["example"])) for row in table["tokens"] for begins in row["begins"]]  # type: ignore[attr-defined]  # strings
    places = [(row, begins, str(row["example"])) for row in table["places"] for begins in row["begins"]]  # type: ignore[attr-defined]  # strings
    return [filled(example, begins, chance) for _, begins, example in (*tokens, *places)]


SHAPED = shaped()


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("text", SHAPED)
def test_l17_every_shape_of_the_table_is_found(text: str) -> None:
    assert REDACTED in PLAIN.text(text), text
    assert REDACTED in PLAIN.text(f'see "{text}", and go on')
    assert len(PLAIN.find(text)) == 1


@pytest.mark.parametrize("text", SHAPED)
def test_every_shape_is_found_in_a_text_that_holds_every_letter(text: str) -> None:
    letters = "".join(map(chr, range(32, 127))) * 30

    assert [one.start - len(letters) - 1 for one in PLAIN.find(f"{letters}\n{text}")] == [
        one.start for one in PLAIN.find(text)
    ]
    assert REDACTED in PLAIN.text(f"{letters}\\n{text}")
    assert REDACTED in PLAIN.text(f"{letters}%3D{text}")
