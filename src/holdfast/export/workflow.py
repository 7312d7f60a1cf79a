"""Writes a session out as a workflow scaffold in YAML."""

from pathlib import Path

import anyio.to_thread
from ruamel.yaml import YAML

from holdfast.export.files import note_export, replace_file
from holdfast.export.yaml_text import to_yaml
from holdfast.logic.state import state_of
from holdfast.logic.workflow import scaffold
from holdfast.ports import Clock, EventStore
from holdfast.vocab.errors import Bug


async def export_workflow(store: EventStore, session: str, target: Path, *, clock: Clock) -> str:
    """Write the scaffold of `session` to `target` and note it in the log; return the text.

    The text is parsed again and compared before it replaces anything. An export that was written before gives the same bytes.
    """
    text = await workflow_text(store, session)
    await anyio.to_thread.run_sync(replace_file, target, text)
    await note_export(store, session, "workflow", text, clock=clock)
    return text


async def workflow_text(store: EventStore, session: str) -> str:
    """The scaffold of `session` as YAML."""
    state = state_of(session, (await store.read(session)).records)
    text = to_yaml(scaffold(state))
    if from_yaml(text) != scaffold(state):
        raise Bug(f"The export of {session!r} does not read back as it was written.")
    return text


def from_yaml(text: str) -> object:
    """The document of a YAML text."""
    return YAML(typ="safe", pure=True).load(text)
