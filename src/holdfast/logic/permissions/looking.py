"""What must be looked at before a call can be weighed, and what the search tools must not show."""

from collections.abc import Sequence
from typing import Final, Literal

from holdfast.logic.acts import Access, Command, Ground
from holdfast.logic.permissions.book import open_book
from holdfast.logic.permissions.bounds import beyond
from holdfast.logic.permissions.calls import Call, file_accesses, form_of, text_of
from holdfast.logic.permissions.deep import is_deep, takes_all
from holdfast.logic.permissions.path_rules import deep_globs, forbids, path_pattern
from holdfast.logic.permissions.paths import fold, locate, plain
from holdfast.logic.permissions.places import is_suspect, sensitive
from holdfast.logic.permissions.searches import search_of
from holdfast.vocab.rules import Rule

MOST_BELOW: Final = 100
"""Patterns that are looked up for what a command takes away with a folder: no more is asked about than is found."""


def paths_of(call: Call, ground: Ground, rules: Sequence[Rule] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The absolute paths of a call, as written, and the patterns in it: `Ground.links` and `Ground.globs` should know them.

    Also the patterns that tell whether a command that goes through a whole folder would meet something sensitive and, with `rules`, denied.
    """
    found = [(access, command) for access, command in _accesses(call, ground) if access.known]
    paths = dict.fromkeys(access.path for access, _ in found if not access.glob)
    globs = dict.fromkeys(access.path for access, _ in found if access.glob)
    denied = open_book(tuple(rules), trusted=ground.trusted).deny
    below = dict[str, None]()
    for access, command in found:
        if (search := search_of(access, command, ground)) is not None:
            globs[search.lookup] = None
    for access, command in found if rules else ():
        if not access.glob and is_deep(access, command):
            search = search_of(access, command, ground)
            if search is not None and search.by_git:
                globs.update(
                    (search.lookup_of(glob), None) for rule in denied.reads for glob in deep_globs(rule, "", ground)
                )
            else:
                globs.update(_below(denied.reads, access, ground))
        elif not access.glob and len(below) < MOST_BELOW and takes_all(access, command):
            below.update(_below(denied.edits, access, ground))
    return tuple(paths), tuple(globs | below)


def _below(rules: Sequence[Rule], access: Access, ground: Ground) -> dict[str, None]:
    """The patterns that find what rules are about below a folder."""
    folder = plain(access.path, ground.os)
    reached = [rule for rule in rules if path_pattern(rule, ground).may_reach_below(folder)]
    return dict.fromkeys(glob for rule in reached for glob in deep_globs(rule, folder, ground))


def hidden(path: str, rules: Sequence[Rule], ground: Ground) -> bool:
    """Whether a file may not be read by any tool: the search tools leave it out of what they find. `path` is absolute."""
    return forbids(open_book(tuple(rules), trusted=ground.trusted).deny.reads, locate(path, ground), ground) is not None


Withheld = Literal["", "denied", "sensitive"]
"""Why the search tools leave a file out of what they show."""


def withheld(path: str, rules: Sequence[Rule], ground: Ground) -> Withheld:
    """Say why a search may not show what is in a file that it does not name; `path` is absolute, links followed."""
    denied = open_book(tuple(rules), trusted=ground.trusted).deny.reads
    if not denied and not any(is_suspect(name, ground.os) for name in fold(path, ground.os).split("/")):
        return ""
    spot = locate(path, ground)
    if forbids(denied, spot, ground) is not None:
        return "denied"
    return "sensitive" if sensitive(spot.all, ground) else ""


def _accesses(call: Call, ground: Ground) -> list[tuple[Access, Command | None]]:
    form = form_of(call)
    if beyond(call, form):
        return []
    if form.kind != "shell":
        return [(access, None) for access in file_accesses(call, form, ground) or ()]
    text = text_of(call, form)
    if text is None:
        return []
    from holdfast.logic.shell import read_command  # noqa: PLC0415 - the grammar loads when the first command is read

    return [(access, command) for command in read_command(text, ground).commands for access in command.accesses]
