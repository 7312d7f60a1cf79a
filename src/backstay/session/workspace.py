"""The workspace of a session: the folders that calls may work in, how paths resolve, and the sandbox around programs."""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final

import anyio.to_thread
from msgspec.structs import replace

from backstay.config.locations import config_dir
from backstay.permissions import Call, paths_to_resolve
from backstay.permissions.call_site import CallSite
from backstay.permissions.paths import locate, within
from backstay.permissions.sensitive_paths import find_protected
from backstay.permissions.unasked import free_programs, trusting_programs
from backstay.ports import Sandbox, Tool
from backstay.runtime.services import ResolvePaths, Tools, run_in_thread, run_offloaded
from backstay.sandbox.environment import (
    find_led_places,
    harden_environment,
    is_git_led,
    leads_inside,
    links_of,
    program_folders,
    workspace_programs,
)
from backstay.sandbox.resolve_paths import follow_links, match
from backstay.session.options import ResolvedOptions
from backstay.system.files import read_regular
from backstay.system.folders import data_dir, project_root
from backstay.system.machine import SYSTEM
from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from backstay.vocab.specs import FsScope

_SHELL: Final = re.compile(rb"[/ ](ba|da|k|z)?sh\b")
_OWN_FILES: Final = (
    "settings.json grants.json trust.json pins.json sandbox.json sessions.db plugins extensions agents skills commands"
).split()
_UNCONFINED: Final = "Programs run without a sandbox here: {} `backstay doctor` says more."
_FUNCTION: Final = re.compile(r"BASH_FUNC_(.+)(?:%%|\(\))")
_MOST_FILES: Final = 200
_LONGEST: Final = 65_536


def call_site_of(
    cwd: str,
    scope: FsScope,
    folders: Sequence[str | Path] = (),
    *,
    trusted: bool,
    running: Sequence[str] = (),
    environment: Mapping[str, str] = {},
) -> CallSite:
    """Return the call site of a session that works in `cwd`.

    `running` are files of the workspace that programs outside it run; `environment` is what settings add to that of this process.
    """
    home = Path.home()
    roots = (_root(Path(cwd), scope, home), *(Path(folder).expanduser().absolute() for folder in folders))
    found = tuple(dict.fromkeys(str(root.resolve()) for root in roots))
    known = {**os.environ, **environment}
    known |= harden_environment(known, found, cwd)
    path = known.get("PATH", "")
    places = (place for folder in (config_dir(), data_dir()) for place in _own_files(folder, (*found, cwd)))
    own = (place for place in places if within(place, found))
    led = (*program_folders(found, path, cwd), *find_led_places(known, found, cwd), *own)
    call_site = CallSite(cwd=cwd, home=str(home), roots=found, os=SYSTEM, trusted=trusted, running=(*running, *led))
    linked = (
        os.path.realpath(path) for path in links_of((*found, cwd)) if find_protected(locate(path, call_site), call_site)
    )
    inner = (each for each in linked if not any(within(root, (each,)) for root in found))
    call_site = replace(call_site, running=tuple(dict.fromkeys((*call_site.running, *inner))))
    return replace(call_site, own_programs=workspace_programs(found, path, cwd) | find_module_loaders(known, call_site))


def _own_files(folder: Path, folders: Sequence[str]) -> Iterator[str]:
    """Yield what Backstay keeps its own settings and answers in: the folder, or its files where one works in that very folder."""
    for spelling in dict.fromkeys((str(folder), os.path.realpath(folder))):
        if not any(within(each, (spelling,)) for each in folders):
            yield spelling
        else:
            yield from (os.path.join(spelling, name) for name in _OWN_FILES)


def find_module_loaders(environment: Mapping[str, str], call_site: CallSite) -> frozenset[str]:
    """Return the names of programs from elsewhere that load modules of the workspace, because variables or their Python say so."""
    roots, cwd, path = call_site.roots, call_site.cwd, environment.get("PATH", "")

    def leads(variables: Mapping[str, str]) -> bool:
        return leads_inside(variables, roots, cwd, lambda it: bool(find_protected(locate(it, call_site), call_site)))

    found = frozenset({"git"} if is_git_led(environment, roots, cwd) else ())
    functions = ((_FUNCTION.fullmatch(name), name, text) for name, text in environment.items())
    found |= {function[1] for function, name, text in functions if function and leads({name: text})}
    if not leads(environment) and not _is_installed_in_place(path, call_site):
        return found
    return found | (trusting_programs() - {"git"}) | {name for name in free_programs() if _is_script(name, path)}


def _is_installed_in_place(path: str, call_site: CallSite) -> bool:
    """Return whether the Python of `path` is told by its packages to load modules of the workspace."""
    prefix = Path(shutil.which("python3", path=path) or "").parent.parent
    managed = prefix.glob("versions/*")  # behind the programs of pyenv
    prefixes = (prefix, prefix / "local", Path(call_site.home, ".local"), *islice(managed, _MOST_FILES))
    files = (
        file
        for prefix in prefixes
        for pattern in ("*.pth", "__editable__*.py")
        for file in prefix.glob(f"lib/python3*/*-packages/{pattern}")
    )
    for file in islice(files, _MOST_FILES):
        with contextlib.suppress(OSError):  # Python reads nothing of such a file either
            text = read_regular(file, _LONGEST)[0].decode("utf-8", "replace")
            lines = (os.path.join(file.parent, line) for line in text.splitlines() if "\0" not in line)
            if any(root in text for root in call_site.roots) or any(
                within(os.path.realpath(line), call_site.roots) for line in lines
            ):
                return True
    return False


def _is_script(name: str, path: str) -> bool:
    """Return whether a program is a script in a language with modules."""
    found = shutil.which(name, path=path)
    try:
        with open(found or "", "rb") as file:
            first = file.readline(_LONGEST)
    except OSError:
        return False
    return first.startswith(b"#!") and _SHELL.search(first) is None


def path_resolver(tools: Tools, call_site: CallSite, rules: Sequence[Rule]) -> ResolvePaths:
    """Return what resolves the paths of calls beside the event loop."""

    async def look_at(name: str, args: Mapping[str, object]) -> events.CallFacts | None:
        tool: Tool | None = tools.get(name)
        if tool is None:
            return None
        call = Call(tool=tool.spec, args=dict(args))
        if tool.spec.touches == "runs":  # a command may be long, and reading the first one loads the readers
            return await run_in_thread(lambda: _facts(call, call_site, rules))
        found = await run_offloaded(lambda: paths_to_resolve(call, call_site, rules), len(repr(args)))
        if not any(found):
            return None
        return await anyio.to_thread.run_sync(_resolve, *found)

    return look_at


class StartSandbox:
    """The sandbox around the programs of a session, started with the first one."""

    def __init__(self, scope: FsScope, call_site: CallSite, warn: Callable[[str], None]) -> None:
        """Prepare to start it. `warn` takes a warning for the person when no sandbox works here."""
        self._scope, self._call_site, self._warn = scope, call_site, warn
        self._lock = Lock()
        self._raised: list[Sandbox | None] = []

    def __call__(self) -> Sandbox | None:
        """Return the sandbox. The first call may take a moment, so never call it on the event loop."""
        from backstay.sandbox.probe import build_sandbox, probe  # noqa: PLC0415 - only programs need it

        with self._lock:
            if not self._raised:
                report, site = probe(self._scope), self._call_site
                if not report.available:
                    self._warn(_UNCONFINED.format(report.why))
                self._raised.append(build_sandbox(self._scope, site.roots, home=site.home, report=report))
            return self._raised[0]

    def close(self) -> None:
        """Remove the sandbox, if it was started."""
        for sandbox in filter(None, self._raised):
            sandbox.close()


async def check_sandbox(options: ResolvedOptions, recorded: FsScope) -> str:
    """Raise `UserError` when a sandbox was asked for by name and none works here. Return a warning when it is known to be missing.

    Only a scope that was named is probed for: otherwise the first program does that. A child inherits its scope, which nobody named for it.
    """
    scope = options.fs_scope or recorded
    if scope == "full":
        return ""
    is_named = options.fs_scope == scope and not options.lineage.parent
    if not is_named and not (data_dir() / "sandbox.json").exists():
        return ""  # nothing was probed for here yet
    from backstay.sandbox.probe import probe, recall  # noqa: PLC0415 - likewise

    report = await anyio.to_thread.run_sync(probe if is_named else recall, scope)
    if report is None or report.available:
        return ""
    if is_named:
        raise UserError(f"No sandbox works here, so the scope {scope!r} cannot be kept: {report.why}")
    return _UNCONFINED.format(report.why)


def _facts(call: Call, call_site: CallSite, rules: Sequence[Rule]) -> events.CallFacts | None:
    paths, globs = paths_to_resolve(call, call_site, rules)
    return _resolve(paths, globs) if paths or globs else None


def _resolve(paths: Sequence[str], globs: Sequence[str]) -> events.CallFacts:
    return events.CallFacts(links=follow_links(paths), globs=match(globs))


def _root(cwd: Path, scope: FsScope, home: Path) -> Path:
    """Return the folder to work in: in the scope `project` the project's root, unless that is a home folder or `/`."""
    root = project_root(cwd)
    wide = root in (home, Path("/"), home.parent)
    return root if scope == "project" and not wide else cwd
