"""`backstay permissions grants`: what was allowed for longer than a session, and how to take it back."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from backstay.cli import telling
from backstay.cli.trusting import legible
from backstay.config.granting import EVERYWHERE, GrantBook
from backstay.vocab.errors import UserError
from backstay.workspaces.project import data_dir, project_root


class Granted(Struct, frozen=True):
    """A rule that holds here because a person allowed it for longer than a session."""

    rule: str
    place: str

    @property
    def where(self) -> str:
        """In words, where it holds."""
        return "everywhere" if self.place == EVERYWHERE else self.place


def granted_here(cwd: Path) -> tuple[Granted, ...]:
    """What was granted for the project that a folder lies in, and everywhere. Raise `UserError` when the book cannot be believed."""
    return tuple(
        Granted(rule, place) for place, rules in GrantBook(data_dir()).here(_project(cwd)).items() for rule in rules
    )


def told(grants: Sequence[Granted]) -> list[str]:
    """A line for each grant."""
    return [f"allow {legible(each.rule)}  ({legible(each.where)})" for each in grants]


def show(cwd: Path, *, as_json: bool) -> int:
    """Print what was granted."""
    grants = granted_here(cwd)
    if as_json:
        telling.say_json(objects(grants))
        return 0
    for line in told(grants):
        telling.say(line)
    telling.say(
        "To take one back: backstay permissions grants --remove RULE; all that hold here: --clear."
        if grants
        else "Nothing was allowed here for longer than a session."
    )
    return 0


def objects(grants: Sequence[Granted]) -> list[dict[str, str]]:
    """The grants for programs."""
    return [{"rule": legible(each.rule), "where": legible(each.where)} for each in grants]


def take_back(cwd: Path, rules: Sequence[str] | None, *, as_json: bool) -> int:
    """Forget grants that hold here, by what they say or how they are printed; None means all.

    Raise `UserError` when one was not granted, and then forget none.
    """
    book, grants = GrantBook(data_dir()), granted_here(cwd)
    for rule in rules or ():
        if not any(rule in _names(each) for each in grants):
            raise UserError(f"{rule!r} was not granted here. To see what was: backstay permissions grants")
    gone = [each for each in grants if rules is None or not _names(each).isdisjoint(rules)]
    for rule in dict.fromkeys(each.rule for each in gone):
        book.remove(rule, (_project(cwd), EVERYWHERE))
    if as_json:
        telling.say_json(objects(gone))
        return 0
    for line in told(gone):
        telling.say(f"taken back: {line}")
    telling.say("Sessions that are opened from now on ask again." if gone else "Nothing was changed.")
    return 0


def _names(grant: Granted) -> set[str]:
    return {grant.rule, legible(grant.rule)}


def _project(cwd: Path) -> str:
    return str(project_root(cwd.absolute()))
