"""Numbers in sentences."""


def pluralise(number: int, one: str, many: str = "") -> str:
    """`1 reply`, `2 replies`: a number and the word for so many; `many` is `one` with an s when it is left out."""
    return f"{number} {one if number == 1 else many or one + 's'}"
