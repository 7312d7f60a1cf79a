"""List the paths that must be resolved before a call is judged, and the files that search tools leave out."""

from collections.abc import Sequence
from typing import Literal

from backstay.permissions.bulk_changes import literal_folder
from backstay.permissions.call_site import Access, CallSite, Command
from backstay.permissions.judge import judge_call
from backstay.permissions.path_rules import forbids
from backstay.permissions.paths import fold, locate
from backstay.permissions.rule_index import index_rules
from backstay.permissions.searches import (
    find_taken_files,
    from_the_root,
    glob_of_handed_files,
    lookup_of_names,
    search_of,
)
from backstay.permissions.sensitive_paths import is_suspect, sensitive
from backstay.permissions.tool_kinds import Call, beyond, file_accesses, form_of, spec_of, text_of
from backstay.vocab.rules import Rule


def paths_to_resolve(
    call: Call, call_site: CallSite, rules: Sequence[Rule] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the absolute paths of a call, as written, and the patterns in it: `CallSite.links` and `CallSite.globs` should know them.

    Also what tells whether a command that goes through a whole folder would meet something sensitive and, with `rules`, denied.
    """
    found = [(access, command) for access, command in _accesses(call, call_site) if access.known]
    paths = dict.fromkeys(path for access, _ in found for path in _paths_behind(access))
    globs = dict.fromkeys(access.path for access, _ in found if access.glob)
    denied = index_rules(tuple(rules), trusted=call_site.trusted).deny
    for access, command in found:
        if command is None:  # a tool reads and changes what it names
            if access.glob and (handed := glob_of_handed_files(access)):
                globs[handed] = None
            continue
        if (search := search_of(access, command, call_site)) is not None:
            about = search.about(denied.reads, call_site)
            globs.update((lookup.text, None) for lookup in (search.place, about) if lookup is not None)
        if (taken := find_taken_files(access, command, call_site)) is not None and (
            about := taken.about(denied.edits, call_site)
        ):
            globs[about.text] = None
        globs.update(
            (each, None)
            for each in (
                glob_of_handed_files(access),
                from_the_root(access, command, call_site),
                lookup_of_names(access, command),
            )
            if each
        )
    return tuple(paths), tuple(globs)


def _paths_behind(access: Access) -> tuple[str, ...]:
    """Return the path of an access; of a pattern the folder that it starts at, and a name in it."""
    if not access.glob:
        return (access.path,)
    start = literal_folder(access.path)
    return start or "/", f"{start}/_"


def is_hidden(path: str, rules: Sequence[Rule], call_site: CallSite) -> bool:
    """Return whether a file may not be read by any tool: the search tools leave it out of what they find. `path` is absolute."""
    return (
        forbids(index_rules(tuple(rules), trusted=call_site.trusted).deny.reads, locate(path, call_site), call_site)
        is not None
    )


Withheld = Literal["", "denied", "sensitive"]
"""Why the search tools leave a file out of what they show."""


def withheld(path: str, rules: Sequence[Rule], call_site: CallSite) -> Withheld:
    """Say why a search may not show what is in a file that it does not name; `path` is absolute, links followed.

    A sensitive file that the person's own rules name is shown: `Read` of it would not ask.
    """
    denied = index_rules(tuple(rules), trusted=call_site.trusted).deny.reads
    if not denied and not any(is_suspect(name, call_site.os) for name in fold(path, call_site.os).split("/")):
        return ""
    resolved = locate(path, call_site)
    if forbids(denied, resolved, call_site) is not None:
        return "denied"
    if not sensitive(resolved.all, call_site):
        return ""
    read = Call(spec_of("Read"), {"file_path": path})
    return "" if judge_call(read, call_site, rules, mode="default").decision == "allow" else "sensitive"


def _accesses(call: Call, call_site: CallSite) -> list[tuple[Access, Command | None]]:
    form = form_of(call)
    if beyond(call, form):
        return []
    if form.kind != "shell":
        return [(access, None) for access in file_accesses(call, form, call_site) or ()]
    text = text_of(call, form)
    if text is None:
        return []
    from backstay.permissions.shell import read_command  # noqa: PLC0415 - the grammar loads when the first command is read

    return [(access, command) for command in read_command(text, call_site).commands for access in command.accesses]
