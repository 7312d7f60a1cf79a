"""Texts of any length on one short line."""

from backstay.logic.text.invisible import visible


def one_line(text: str, most: int) -> str:
    """Return a stranger's `text` on one line of at most `most` characters, without what a person would not see."""
    return shortened(visible(text[: 4 * most]), most)


def shortened(text: str, most: int) -> str:
    """Return `text` on one line of at most `most` characters. Of a long one only the beginning is looked at."""
    flat = " ".join(text[: 4 * most].split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
