"""MCP servers put to work for a session: their programs started as Backstay starts programs, their addresses reached through the guard.

A server that is a program runs as the person, with the person's rights, outside the walls that stand around commands: it is as trusted as
the file that names it. It gets a clean environment, no shell, a process group of its own, and ends with the session.
"""

import dataclasses
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from backstay.config.trust.hook_commands import command_text
from backstay.config.trust.inventory import drifted
from backstay.config.trust.own_runs import OwnRun, OwnRuns
from backstay.mcp.dependencies import Dependencies, Noise, Programs
from backstay.mcp.pin_store import PinStore
from backstay.mcp.servers import Servers
from backstay.mcp.spec import ServerSpec
from backstay.runtime.barrier import run_guarded
from backstay.tools.files.media_type import image_type
from backstay.tools.output import BoundedText, Keep, shown_in_part
from backstay.tools.shell.processes import KILL_S, RUN_VARIABLE, end_group, end_run, prepare_program, wait_for
from backstay.version import VERSION

if TYPE_CHECKING:
    import httpx2

GRACE_S: Final = 0.5
"""How long a server may take to end by itself when its input is closed."""
KEPT_VARIABLES: Final = frozenset(
    (
        "HOME LANG LANGUAGE LOGNAME NODE_EXTRA_CA_CERTS PATH SHELL SSL_CERT_DIR SSL_CERT_FILE TERM TMPDIR TZ USER "
        "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME"
    ).split()
)
"""What of our environment a server's program gets, and `LC_...`. Whatever else it needs stands in its entry."""


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
    programs: Programs | None = None,
) -> Servers:
    """The servers of a session that works in `cwd`, not connected yet.

    `data` is the data folder with the book of approved tools; None approves all, for tests and for sessions that are kept nowhere.
    `keep` puts long outputs away. `log` takes what servers log, `on_change` the name of a server whose offers have changed, `on_wait` a
    sentence about servers that are slow to answer. `programs` starts servers' programs otherwise than here, behind walls for instance.
    """
    means = Dependencies(
        programs=programs or ServerPrograms(),
        http=_client,
        cwd=cwd,
        shorten=_shortening(keep),
        image_type=image_type,
        roots=roots or (cwd,),
        environment=clean_environment(environment),
        log=log,
        guard=_guarded,
        version=VERSION,
    )
    return Servers(specs, means, pins=None if data is None else PinStore(data), on_change=on_change, on_wait=on_wait)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What every server's program may know of our environment."""
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
            env={**env, RUN_VARIABLE: run},
            start_new_session=True,
            preexec_fn=prepare_program(),  # noqa: PLW1509  # prepared before the fork; it only makes system calls
        )
        self._runs[process.pid] = run
        return process

    async def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Let it end by itself for a moment, then stop it, and whatever it left behind."""
        run = self._runs.pop(process.pid, "")
        with anyio.move_on_after(GRACE_S):
            await wait_for(process)
        if process.poll() is not None:
            await end_run(run)  # the group's number may be a stranger's by now
            return
        await end_group(process.pid, run)
        with anyio.move_on_after(KILL_S):
            await wait_for(process)


def _shortening(keep: Keep | None) -> Callable[[str], Awaitable[str]]:
    async def shorten(text: str) -> str:
        bounded = BoundedText()
        bounded.add(text)
        return await shown_in_part(bounded, text.encode, keep)

    return shorten


async def _guarded(work: Callable[[], Awaitable[None]]) -> str:
    fault = await run_guarded("mcp", work)
    return "" if fault is None else f"{fault.kind}: {fault.message}"


def _client(spec: ServerSpec, noise: Noise) -> "httpx2.AsyncClient":
    from backstay.mcp.config.http import guarded_client  # noqa: PLC0415 - only for servers that have an address

    return guarded_client(spec, noise)


def may_start(
    specs: Sequence[ServerSpec], held: Mapping[str, str], own: OwnRuns | None
) -> tuple[tuple[ServerSpec, ...], tuple[str, ...]]:
    """The servers that may be started, and words about the others. Blocks on files.

    `held` are the commands of the workspace that wait for trust for this run, `own` judges those of others.
    """
    found: list[ServerSpec] = []
    notes: list[str] = []
    for spec in specs:
        run = OwnRun() if spec.kind != "stdio" else _judged(spec, held, own)
        if run.why_not:
            notes.append(f"The MCP server {spec.name!r} of {spec.place} is held: {run.why_not.rstrip('.')}.")
        else:
            found.append(dataclasses.replace(spec, env={**run.environment, **spec.env}))
    return tuple(found), tuple(notes)


def _judged(spec: ServerSpec, held: Mapping[str, str], own: OwnRuns | None) -> OwnRun:
    if spec.scope in ("local", "project"):
        why = held.get(command_text(spec.written[0], spec.written[1:]), "")
        return OwnRun(why_not=f"it runs what cannot be followed ({why}). For this run alone: --trust" if why else "")
    return OwnRun() if own is None else own.judge(spec.argv[0], spec.argv[1:])


class JudgedPrograms:
    """Starts servers' programs when the workspace is as it was when they were allowed: one that breaks is started again later."""

    def __init__(self, programs: Programs, specs: Sequence[ServerSpec], own: OwnRuns) -> None:
        self._programs = programs
        self._theirs = frozenset(spec.argv for spec in specs if spec.scope in ("local", "project"))
        self._own = own

    def start(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start one. Raise `OSError` when what it would run has changed."""
        if tuple(argv) in self._theirs:
            changed = drifted(self._own.survey)
            why = f"{changed[0]} is not what it was when the workspace was trusted" if changed else ""
        else:
            why = self._own.judge(argv[0], argv[1:]).why_not
        if why:
            raise OSError(why)
        return self._programs.start(argv, cwd=cwd, env=env)

    async def end(self, process: subprocess.Popen[bytes]) -> None:
        """As the programs do."""
        await self._programs.end(process)
