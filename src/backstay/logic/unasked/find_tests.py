"""Take the words of `find` apart: folders first, then tests and actions, some of which have a value."""

from collections.abc import Sequence

from backstay.logic.unasked.grammar import Word
from backstay.logic.unasked.options import Unlisted
from backstay.logic.unasked.table import word_list


def tests_of(words: Sequence[Word]) -> list[tuple[str, Word | None]]:
    """Tell the tests and actions of `find` from their values."""
    tests, rest = list[tuple[str, Word | None]](), list(reversed(words))
    while rest:
        word = rest.pop()
        if word.value in word_list("find_valued", "reading"):
            if not rest or rest[-1].value is None or rest[-1].glob:
                raise Unlisted(f"the value of {word.text} is not known")
            tests.append((word.value or "", rest.pop()))
        elif word.value in word_list("find_alone", "reading") and not word.glob:
            tests.append((word.value or "", None))
        else:
            raise Unlisted(f"{word.text} is not one of its known tests")
    return tests


def first_test(words: Sequence[Word]) -> int:
    return next((at for at, word in enumerate(words) if (word.value or "-")[0] in "-(!"), len(words))
