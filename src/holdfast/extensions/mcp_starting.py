"""Which MCP servers may be started as the workspace is: each is started in it, the person's own too."""

import dataclasses
from collections.abc import Mapping, Sequence

from holdfast.config.following import command_text
from holdfast.config.own_runs import OwnRun, OwnRuns
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
