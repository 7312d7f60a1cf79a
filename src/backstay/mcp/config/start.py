"""Start the MCP servers of a session: programs, guarded addresses, and the store of approved tools.

A server that is a program runs as the person, with the person's rights, outside of the sandbox of commands: it is as trusted as
the file that names it. It gets a clean environment, no shell, a process group of its own, and ends with the session.
"""

import dataclasses
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from backstay.config.private_file import Book
from backstay.config.trust.inventory import find_drift
from backstay.config.trust.own_runs import OwnRun, OwnRuns
from backstay.config.trust.run_files import command_text
from backstay.mcp.catalog import Drift, drift, pins
from backstay.mcp.dependencies import Dependencies, Noise, Programs
from backstay.mcp.servers import Servers
from backstay.mcp.spec import ServerSpec
from backstay.runtime.barrier import run_guarded
from backstay.system.folders import bytecode_environment
from backstay.tools.files.media_type import detect_image_type
from backstay.tools.output import BoundedText, Keep, show_in_part
from backstay.tools.shell.processes import KILL_S, RUN_VARIABLE, end_group, end_run, prepare_program, wait_for
from backstay.version import VERSION
from backstay.vocab.specs import ToolSpec

if TYPE_CHECKING:
    import httpx2

GRACE_S: Final = 0.5
"""Seconds that a server may take to end by itself when its input is closed."""
KEPT_VARIABLES: Final = frozenset(
    (
        "HOME LANG LANGUAGE LOGNAME NODE_EXTRA_CA_CERTS PATH SHELL SSL_CERT_DIR SSL_CERT_FILE TERM TMPDIR TZ USER "
        "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME"
    ).split()
)
"""Variables of our environment that a server's program gets, and `LC_...`. Others stand in its entry."""


def session_servers(
    specs: Sequence[ServerSpec],
    *,
    cwd: str,
    data: Path | None,
    roots: Sequence[str] = (),
    keep: Keep | None = None,
    log: Callable[[str, str], None] | None = None,
    on_change: Callable[[str], None] | None = None,
    on_wait: Callable[[str], None] | None = None,
    environment: Mapping[str, str] = os.environ,
    added: Mapping[str, str] = {},
    programs: Programs | None = None,
) -> Servers:
    """Return the servers of a session that works in `cwd`, not connected yet.

    `data` is the data folder with the book of approved tools; None approves all, for tests and for sessions that are kept nowhere.
    `keep` puts long outputs away. `log` takes what servers log, `on_change` the name of a server whose offers have changed, `on_wait` a
    sentence about servers that are slow to answer. `added` are variables that all servers get besides the usual ones. `programs` starts
    servers' programs otherwise than here, in a sandbox for instance.
    """
    dependencies = Dependencies(
        programs=programs or ServerPrograms(),
        http=_make_client,
        cwd=cwd,
        shorten=_shorten_with(keep),
        image_type=detect_image_type,
        roots=roots or (cwd,),
        environment={**clean_environment(environment), **added},
        log=log,
        guard=_run_unstopped,
        version=VERSION,
    )
    return Servers(
        specs, dependencies, pins=None if data is None else PinStore(data), on_change=on_change, on_wait=on_wait
    )


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that every server's program gets."""
    return {name: value for name, value in environment.items() if name in KEPT_VARIABLES or name.startswith("LC_")}


class ServerPrograms:
    """Starts servers' programs so that they end with us, and ends them with all that they started."""

    def __init__(self) -> None:
        self._runs: dict[int, str] = {}

    def start(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start one, on the event loop's own thread: the kernel ends it together with the thread that forked."""
        run = os.urandom(8).hex()
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**env, **bytecode_environment(), RUN_VARIABLE: run},
            start_new_session=True,
            preexec_fn=prepare_program(),  # noqa: PLW1509  # prepared before the fork; it only makes system calls
        )
        self._runs[process.pid] = run
        return process

    async def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait a moment for it to end by itself, then stop it with all descendants."""
        run = self._runs.pop(process.pid, "")
        with anyio.move_on_after(GRACE_S):
            await wait_for(process)
        if process.poll() is not None:
            await end_run(run)  # the group's number may be another's by now
            return
        await end_group(process.pid, run)
        with anyio.move_on_after(KILL_S):
            await wait_for(process)


def _shorten_with(keep: Keep | None) -> Callable[[str], Awaitable[str]]:
    async def shorten(text: str) -> str:
        bounded = BoundedText()
        bounded.add(text)
        return await show_in_part(bounded, text.encode, keep)

    return shorten


async def _run_unstopped(work: Callable[[], Awaitable[None]]) -> str:
    fault = await run_guarded("mcp", work)
    return "" if fault is None else f"{fault.kind}: {fault.message}"


def _make_client(spec: ServerSpec, noise: Noise) -> "httpx2.AsyncClient":
    from backstay.mcp.config.http import make_client  # noqa: PLC0415 - only for servers that have an address

    return make_client(spec, noise)


def may_start(
    specs: Sequence[ServerSpec], held: Mapping[str, str], own: OwnRuns | None
) -> tuple[tuple[ServerSpec, ...], tuple[str, ...]]:
    """Return the servers that may be started, and notes about the others. Blocks on files.

    `held` are the commands of the workspace that wait for trust for this run, `own` judges those of others.
    """
    found: list[ServerSpec] = []
    notes: list[str] = []
    for spec in specs:
        run = OwnRun() if spec.kind != "stdio" else _judge(spec, held, own)
        if run.why_not:
            notes.append(f"The MCP server {spec.name!r} of {spec.place} is held: {run.why_not.rstrip('.')}.")
        else:
            found.append(dataclasses.replace(spec, env={**run.environment, **spec.env}))
    return tuple(found), tuple(notes)


def _judge(spec: ServerSpec, held: Mapping[str, str], own: OwnRuns | None) -> OwnRun:
    if spec.scope in ("local", "project"):
        why = held.get(command_text(spec.written[0], spec.written[1:]), "")
        return OwnRun(why_not=f"it runs what cannot be followed ({why}). For this run alone: --trust" if why else "")
    return OwnRun() if own is None else own.judge(spec.argv[0], spec.argv[1:])


class JudgedPrograms:
    """Starts servers' programs only while the workspace is as it was when they were allowed: a broken one is started again later."""

    def __init__(self, programs: Programs, specs: Sequence[ServerSpec], own: OwnRuns) -> None:
        self._programs = programs
        self._theirs = frozenset(spec.argv for spec in specs if spec.scope in ("local", "project"))
        self._own = own

    def start(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start one. Raise `OSError` when what it would run has changed."""
        if tuple(argv) in self._theirs:
            changed = find_drift(self._own.survey)
            why = f"{changed[0]} is not what it was when the workspace was trusted" if changed else ""
        else:
            why = self._own.judge(argv[0], argv[1:]).why_not
        if why:
            raise OSError(why)
        return self._programs.start(argv, cwd=cwd, env=env)

    async def end(self, process: subprocess.Popen[bytes]) -> None:
        """End the program."""
        await self._programs.end(process)


class PinStore:
    """The approved tools of each server, by the server's identity."""

    def __init__(self, data: Path) -> None:
        # a program of a session may add to it: configuring a server approves what it offers when it is first seen
        self._book = Book(data / "pins.json", dict[str, dict[str, str]], "approve your servers")

    def drift(self, server: str, tools: Sequence[ToolSpec]) -> Drift:
        """Compare a server's tools with the approved ones. Raise `UserError` when the file cannot be trusted."""
        return drift(self._book.read().get(server, {}), tools)

    def approve(self, server: str, tools: Sequence[ToolSpec]) -> None:
        """Approve a server's tools exactly as they are."""
        with self._book.changing() as book:
            book[server] = pins(tools)
