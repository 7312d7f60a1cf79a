"""The rows as a person reads them, and as a program does."""

import json
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.frame import Figure, Row

HEADS = ("what", "Backstay", "aim", "met", "beside it")


def table(rows: Sequence[Row]) -> str:
    """All rows under their heads, then how many aims are met."""
    cells = [HEADS, *(line for row in rows for line in _lines(row))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS))]
    shown = [_joined(line, widths) for line in cells]
    shown.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*shown, "", _summary(rows)])


def as_json(rows: Iterable[Row], machine: Sequence[str]) -> str:
    """Everything, measurements included."""
    return json.dumps({"machine": list(machine), "rows": [_plain(row) for row in rows]}, indent=1)


def _lines(row: Row) -> Iterator[tuple[str, ...]]:
    """One line for the row and one more for each further peer."""
    beside = [f"{name} {figure}" for name, figure in row.beside.items()]
    notes = [row.note] if row.note else []
    first, *more = (beside + notes) or [""]
    met = {True: "yes", False: "NO", None: ""}[row.met]
    aim = f"{row.aim} {_unit(row)}".strip() if row.aim else ""
    yield (row.what, str(row.figure) if row.figure else "not measured", aim, met, first)
    for line in more:
        yield ("", "", "", "", line)


def _unit(row: Row) -> str:
    return row.figure.unit if row.figure else ""


def _joined(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _summary(rows: Sequence[Row]) -> str:
    held = [row for row in rows if row.met is not None]
    if not held:
        return "Nothing here is held to an aim."
    missed = [row.what for row in held if not row.met]
    verdict = f"{len(held) - len(missed)} of {len(held)} aims are met"
    return f"{verdict}; not met: {'; '.join(missed)}." if missed else f"{verdict}."


def _plain(row: Row) -> dict[str, object]:
    return {
        "what": row.what,
        "backstay": _figure(row.figure) if row.figure else None,
        "aim": str(row.aim) if row.aim else None,
        "met": row.met,
        "beside": {name: _figure(figure) for name, figure in row.beside.items()},
        "note": row.note,
    }


def _figure(figure: Figure) -> dict[str, object]:
    return {"median": figure.median, "unit": figure.unit, "values": list(figure.values)}
