"""Find where PATH and the rest of the environment of commands lead into the workspace: an edit there would become code that runs.

Three kinds of variables are told apart. Those that every program, the shell or git obeys are *followed*: of a list, entries that are empty
or the workspace itself are taken out, relative ones are made absolute, and what is left inside the workspace is protected, whether it is
there or not. Other variables of git are protected word by word. *Any other* variable that names a place of the workspace leads the
programs that load modules: they are asked about where edits are free.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

_LISTS: Final = re.compile(
    r"PATH|(LD|DYLD)_\w*(PATH|PRELOAD|AUDIT|LIBRARIES)|GCONV_PATH|LOCPATH|GIT_EXEC_PATH|OPENSSL_(ENGINES|MODULES)"
)
_FILES: Final = frozenset(
    "BASH_ENV GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM OPENSSL_CONF RIPGREP_CONFIG_PATH XDG_CONFIG_HOME".split()
)
_BY_NAME: Final = ("LD_PRELOAD", "LD_AUDIT")
"""Lists in which a name without a slash is looked for where the system keeps its libraries."""
_GIT_DATA: Final = re.compile(
    r"GIT_(WORK_TREE|PREFIX|INDEX_FILE|CEILING_DIRECTORIES|OBJECT_DIRECTORY|ALTERNATE\w*|TRACE\w*|AUTHOR\w*|COMMITTER\w*)"
)
_GIT_FOLDERS: Final = ("GIT_DIR", "GIT_COMMON_DIR")
_HARMLESS: Final = re.compile(
    "(OLD)?PWD|HOME|_|TMPDIR|TE?MP|(MAN|INFO|CD|C|LIBRARY_|PKG_CONFIG_|CMAKE_PREFIX_)PATH|BACKSTAY_.*|CLAUDE_PROJECT_DIR"
)
"""Variables that lead no program of the tables to what it loads, although they may name the workspace or end in a colon."""
_OF_PLACES: Final = re.compile(r"\w*(PATH|LIB|HOME|USERBASE|GEMFILE)", re.IGNORECASE)
_OF_FILES: Final = re.compile(r"\w*(OPTS?|OPTIONS|FLAGS|WRAPPER|RC|CONF|CONFIG|FILE|STARTUP|INIT)", re.IGNORECASE)
_CODE: Final = re.compile(r"\.(jar|[cm]?js|ts|py|rb|pl|lua|so|dylib|conf|cnf|ini|json|toml|ya?ml)$")
_BETWEEN: Final = re.compile(r"[:;=,'\"\s]")
MOST: Final = 5_000
"""Entries of a folder that are looked at."""
_OF_SYSTEM: Final = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")
_OF_PYTHON: Final = ("bin", "Scripts")
_SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def harden_environment(environment: Mapping[str, str], roots: Sequence[str], cwd: str) -> dict[str, str]:
    """Return the variables whose values commands must get instead of those of `environment`.

    `CDPATH` is emptied: with it `cd` goes elsewhere than the command says.
    """
    found = {"CDPATH": ""} if environment.get("CDPATH") else {}
    for name, value in environment.items():
        if value and (name in _FILES or _LISTS.fullmatch(name)):
            kept = ":".join(_keep(name, value, roots, cwd))
            if kept != value:
                found[name] = kept or (_SYSTEM_PATH if name == "PATH" else "")
    return found


def find_led_places(environment: Mapping[str, str], roots: Sequence[str], cwd: str) -> tuple[str, ...]:
    """Return the places in `roots` that programs run or load because variables of a cleaned `environment` name them."""
    found: list[str] = []
    for name, value in environment.items():
        if not value or name == "PATH":  # `program_folders` looks at that
            continue
        if name in _FILES or _LISTS.fullmatch(name):
            found += (place for entry in _entries(name, value) if (place := _place(name, entry, cwd)))
        elif name.startswith("GIT_") and not _GIT_DATA.fullmatch(name):
            split = enumerate(_BETWEEN.split(value))  # without a slash, the first word is looked for on PATH
            words = (word for at, word in split if word and (at or "/" in word or name in _GIT_FOLDERS))
            found += (os.path.join(folder, word) for word in words for folder in dict.fromkeys((cwd, *roots)))
    inside = (spelling for place in found for spelling in _spellings(place) if _is_inside(spelling, roots))
    return tuple(each for each in dict.fromkeys(inside) if not _holds(each, (*roots, cwd)))


def is_git_led(environment: Mapping[str, str], roots: Sequence[str], cwd: str) -> bool:
    """Return whether the repository of git is a folder of work, by a variable: its configuration is a file like any other there."""
    places = (os.path.join(cwd, environment[name]) for name in _GIT_FOLDERS if environment.get(name))
    return any(
        _is_inside(each, roots) and _holds(each, (*roots, cwd)) for place in places for each in _spellings(place)
    )


def leads_inside(
    environment: Mapping[str, str], roots: Sequence[str], cwd: str, is_protected: Callable[[str], bool]
) -> bool:
    """Return whether a variable of a cleaned `environment` names a place in `roots` that may be written like any other."""
    return any(
        _is_inside(spelling, roots) and not is_protected(spelling)
        for name, value in environment.items()
        if value and not _HARMLESS.fullmatch(name)
        for place in _list_places(name, value, roots, cwd)
        for spelling in _spellings(place)
    )


def _keep(name: str, value: str, roots: Sequence[str], cwd: str) -> Iterator[str]:
    """Yield the entries of a variable that stay, relative ones as absolute ones."""
    for entry in _entries(name, value):
        place = _place(name, entry, cwd)
        held = place is not None and any(
            _is_inside(each, roots) and _holds(each, (*roots, cwd)) for each in _spellings(place)
        )
        if not entry or held or (name == "BASH_ENV" and re.search(r"[$`]", os.path.expandvars(entry))):
            continue
        yield entry if place is None or os.path.isabs(entry) else place


def _entries(name: str, value: str) -> list[str]:
    if name in _FILES:
        return [value]
    if name == "PATH":
        return value.split(os.pathsep)
    return re.split(r"[:;\s]" if name == "LD_PRELOAD" else "[:;]", value)


def _place(name: str, entry: str, cwd: str) -> str | None:
    """Return the place that an entry names, up to what the loader fills in; None when it is looked for by its name."""
    if name in _BY_NAME and "/" not in entry:
        return None
    if name == "BASH_ENV":
        entry = os.path.expandvars(entry)
    if name != "PATH":
        entry = re.sub(r"[^/]*\$.*", "", entry)
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(entry)))


def _list_places(name: str, value: str, roots: Sequence[str], cwd: str) -> Iterator[str]:
    """Yield the places that the words of a variable may name. The workspace itself is one only where modules are looked for in it."""
    if _OF_PLACES.fullmatch(name):
        for entry in re.split("[:;]", value):
            yield from _from_any_folder(entry, cwd)
        return
    whole = (text for root in roots for text in re.findall(rf"{re.escape(root)}[^:;=,'\"\s]*", value))
    included = re.findall(r"(?:-I|-Mlib=)([^\s:;,]+)", value) if name.upper().endswith("OPT") else ()
    for folder in included:
        yield from _from_any_folder(folder, cwd)
    for word in (value, *whole, *_BETWEEN.split(value)):
        text = re.sub(r"^-\w(?=.)", "", word)
        place = os.path.normpath(os.path.join(cwd, text))
        if text.startswith("-") or place in (*roots, cwd):
            continue
        is_file = bool(_OF_FILES.fullmatch(name)) and ("/" in text or _CODE.search(text) is not None)
        is_file = is_file or (text == value and os.path.isfile(place))
        if is_file or text.startswith(("/", "./", "../")) or ("/" in text and os.path.exists(place)):
            yield from _from_any_folder(text, cwd)


def _from_any_folder(entry: str, cwd: str) -> tuple[str, ...]:
    """Return where an entry leads from the working folder, and one that leads upwards from a folder below: `cd` may come first."""
    below = re.sub(r"^(\.\.?(/+|$))+", "", entry)
    return tuple(dict.fromkeys(os.path.normpath(os.path.join(cwd, each)) for each in (entry, below)))


def _spellings(place: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((place, os.path.realpath(place))))


def _is_inside(place: str, roots: Sequence[str]) -> bool:
    return any(is_below(place, root) for root in roots)


def _holds(place: str, folders: Sequence[str]) -> bool:
    return any(is_below(folder, place) for folder in folders)


# --- programs of the workspace -------------------------------------------------------------------------------------------------------


def program_folders(roots: Sequence[str], path: str, cwd: str) -> tuple[str, ...]:
    """List the folders and files below `roots` that programs found by a shell are made of, with and without links followed.

    These are folders named by `path` (the value of PATH), the targets of links in them, and whole virtual environments.
    """
    named = [os.path.normpath(os.path.join(cwd, each)) for each in path.split(os.pathsep)]
    named += [link for folder in dict.fromkeys(named) for link in _links(folder, roots)]
    named += [folder for root in dict.fromkeys((*roots, cwd)) for folder in _environments(root)]
    return tuple(
        spelling
        for folder in dict.fromkeys(named)
        for spelling in dict.fromkeys((folder, os.path.realpath(folder)))
        if _is_strictly_below(spelling, roots)
    )


def workspace_programs(roots: Sequence[str], path: str, cwd: str) -> frozenset[str]:
    """Return the names of programs that a shell finds in one of `roots` before any other folder of `path` (the value of PATH).

    Programs elsewhere that are links into one of `roots` are among them.
    """
    found: dict[str, bool] = {}
    folders = [os.path.normpath(os.path.join(cwd, each)) for each in path.split(os.pathsep)]
    inside = [
        any(is_below(each, top) for each in (folder, os.path.realpath(folder)) for top in roots) for folder in folders
    ]
    linked = {
        link
        for folder, here in zip(folders, inside, strict=True)
        if not here
        for link in _links(folder, roots)
        if any(is_below(os.path.realpath(link), top) for top in roots)
    }
    if not any(inside) and not linked:
        return frozenset()
    for folder, here in zip(folders, inside, strict=True):
        for entry in _list_entries(folder):
            found.setdefault(entry.name, here or os.path.join(folder, entry.name) in linked)
    return frozenset(name for name, here in found.items() if here)


def find_program_outside(name: str, root: Path) -> str | None:
    """Find the program `name` outside of `root`, so that discovery in a workspace runs nothing of it."""
    real = os.path.realpath(root)
    if real == os.path.sep:
        return shutil.which(name)
    kept = [
        each
        for each in os.get_exec_path()
        if os.path.isabs(each)
        and not any(is_below(path, top) for path in (each, os.path.realpath(each)) for top in (str(root), real))
    ]
    found = shutil.which(name, path=os.pathsep.join(kept))
    return None if found is None or is_below(os.path.realpath(found), real) else found


def links_of(roots: Sequence[str]) -> Iterator[str]:
    """Yield the links at the top of folders, and the places of programs that they lead to."""
    for root in dict.fromkeys(roots):
        for entry in _list_entries(root):
            if entry.is_symlink():
                yield entry.path
                yield from (os.path.join(entry.path, name) for name in _OF_PYTHON)


def _list_entries(root: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root) as listing:
            return list(islice(listing, MOST))
    except OSError:  # a folder that cannot be looked into has nothing that could be written by its name
        return []


def _links(folder: str, roots: Sequence[str]) -> Iterator[str]:
    """Yield the links of a folder. Folders of the system are left out: only its owner makes links there."""
    if folder in _OF_SYSTEM and not _is_strictly_below(folder, roots):
        return
    yield from (entry.path for entry in _list_entries(folder) if entry.is_symlink())


def _environments(root: str) -> Iterator[str]:
    """Yield the virtual environments at the top of a folder: their programs load all that is in them."""
    return (entry.path for entry in _list_entries(root) if os.path.isfile(os.path.join(entry.path, "pyvenv.cfg")))


def _is_strictly_below(path: str, tops: Sequence[str]) -> bool:
    """Return whether a path lies below one of `tops` and is none of them."""
    return any(path != top and is_below(path, top) for top in tops)


def is_below(path: str, top: str) -> bool:
    """Return whether a path is `top` or lies below it."""
    return path == top or path.startswith(f"{top.rstrip('/')}/")
