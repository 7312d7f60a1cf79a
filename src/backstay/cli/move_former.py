"""`backstay doctor --move-from`: move what is kept under the former name, and say what was done."""

from collections.abc import Iterator

from backstay.cli import output
from backstay.cli.doctor_project import Here
from backstay.config.former_name import FORMER, FormerItem, MoveReport, move_former
from backstay.vocab.errors import UserError


def move(name: str, here: Here, *, as_json: bool) -> int:
    """Move from the former `name`; the exit code is 1 when something stood in the way."""
    if name.lower() != FORMER:
        raise UserError(f"Backstay was never called {name!r}. Type: backstay doctor --move-from {FORMER}")
    report = move_former(here.cwd, store=here.place.path)
    if as_json:
        items = {"moved": report.moved, "left": report.left}
        output.say_json(
            {**{name: [_object(each) for each in found] for name, found in items.items()}, "blocked": report.blocked}
        )
    else:
        for line in _lines(report):
            output.say(output.escape_terminal(line))
    return output.COULD_NOT if report.blocked else output.DONE


def _object(item: FormerItem) -> dict[str, str | None]:
    return {"kind": item.kind, "what": item.what, "todo": item.todo, "into": item.into or None}


def _lines(report: MoveReport) -> Iterator[str]:
    for item in report.moved:
        yield f"moved {item.kind}: {item.what} -> {item.into}"
        if item.kind == "project":
            yield "  If git tracks it, commit the new name. Grants and pins hold for the paths that they name; what was"
            yield "  trusted in this folder must be trusted once more: backstay trust"
    for words in report.blocked:
        yield f"not moved: {words}"
    for item in report.left:
        if not item.into:
            yield f"yours to change: {item.what}. {item.todo}"
    if not (report.moved or report.left or report.blocked):
        yield f"Nothing is left under the name {FORMER}."
