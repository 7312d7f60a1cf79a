"""A notebook as the text that it is stored in: where its cells stand, so that one is changed and every other byte stays."""

import json
import re
from typing import Final

from msgspec import Struct

from backstay.tools.files import Refused

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


class Cells(Struct, frozen=True):
    """The array of cells in the text."""

    text: str
    start: int
    """Behind its bracket."""
    end: int
    """Before its closing bracket."""
    spans: tuple[tuple[int, int], ...]
    """From where to where each cell stands."""

    @property
    def _around(self) -> str:
        """The blanks before a cell: a line end and the indentation, or nothing."""
        if self.spans:
            return self.text[self.start : self.spans[0][0]]
        unit = self._unit
        return f"\n{unit * 2}" if unit else ""

    @property
    def _unit(self) -> str:
        """One step of indentation; empty when the text has none."""
        found = re.match(r"\s*\{\r?\n([ \t]+)", self.text)
        return found[1] if found else ""

    def replace(self, at: int, cell: dict[str, object]) -> str:
        """The text with another cell in the place of cell `at`."""
        start, end = self.spans[at]
        return self.text[:start] + self._dump(cell) + self.text[end:]

    def insert(self, at: int, cell: dict[str, object]) -> str:
        """The text with a new cell that stands at `at`."""
        new = self._dump(cell)
        if not self.spans:
            close = f"\n{self._unit}" if self._unit else ""
            return f"{self.text[: self.start]}{self._around}{new}{close}{self.text[self.end :]}"
        blanks = self._around or ("" if "," not in self.text or ", " not in self.text else " ")
        if at == 0:
            start = self.spans[0][0]
            return f"{self.text[:start]}{new},{blanks}{self.text[start:]}"
        end = self.spans[at - 1][1]
        return f"{self.text[:end]},{blanks}{new}{self.text[end:]}"

    def remove(self, at: int) -> str:
        """The text without cell `at`."""
        if len(self.spans) == 1:
            return self.text[: self.start] + self.text[self.end :]
        if at + 1 < len(self.spans):
            return self.text[: self.spans[at][0]] + self.text[self.spans[at + 1][0] :]
        return self.text[: self.spans[at - 1][1]] + self.text[self.spans[at][1] :]

    def _dump(self, cell: dict[str, object]) -> str:
        plain = self.text.isascii() and "\\u" in self.text
        if not self._unit:
            tight = '": ' not in self.text
            return json.dumps(cell, ensure_ascii=plain, separators=(",", ":") if tight else None)
        margin = self._around.rpartition("\n")[2]
        end = "\r\n" if "\r\n" in self.text else "\n"
        dumped = json.dumps(cell, ensure_ascii=plain, indent=self._unit)
        return dumped.replace("\n", f"{end}{margin}")


def find_cells(shown: str, text: str) -> Cells:
    """Find the cells in the text of a notebook. Refuse a text that is none."""
    try:
        at = _blank(text, 0)
        at = _expect(text, at, "{")
        while text[at] != "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _blank(text, _expect(text, _blank(text, at), ":"))
            if key == "cells":
                return _array(text, at)
            _, at = _DECODER.raw_decode(text, at)
            at = _blank(text, at)
            at = _blank(text, at + 1) if text[at] == "," else at
    except (ValueError, IndexError, RecursionError) as exc:
        raise Refused("not_notebook", f"{shown!r} is not a notebook: {exc}.") from exc
    raise Refused("not_notebook", f"{shown!r} is not a notebook: it has no cells.")


def _array(text: str, at: int) -> Cells:
    start = _expect(text, at, "[")
    at = _blank(text, start)
    spans: list[tuple[int, int]] = []
    while text[at] != "]":
        if spans:
            at = _blank(text, _expect(text, at, ","))
        _, end = _DECODER.raw_decode(text, at)
        spans.append((at, end))
        at = _blank(text, end)
    return Cells(text, start, at, tuple(spans))


def _blank(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, sign: str) -> int:
    if text[at] != sign:
        raise ValueError(f"{sign!r} was expected at character {at}")
    return _blank(text, at + 1) if sign == "{" else at + 1
