"""Which MCP servers may be started as the workspace is: each is started in it, the person's own too."""

import dataclasses
import subprocess
from collections.abc import Mapping, Sequence

from holdfast.config.hook_commands import command_text
from holdfast.config.own_runs import OwnRun, OwnRuns
from holdfast.config.survey import drifted
from holdfast.mcp.means import Programs
from holdfast.mcp.spec import ServerSpec


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
