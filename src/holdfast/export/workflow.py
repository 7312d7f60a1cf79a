"""Writes a session out as a workflow scaffold in YAML."""

from ruamel.yaml import YAML

from holdfast.export.yaml_text import to_yaml
from holdfast.logic.state import state_of
from holdfast.logic.workflow import scaffold
from holdfast.ports import EventStore
from holdfast.vocab.errors import Bug
from holdfast.vocab.events import Started


async def workflow_text(store: EventStore, session: str) -> str:
    """The scaffold of `session` as YAML. It is parsed again and compared; the same session gives the same bytes."""
    records = (await store.read(session)).records
    agent = "".join(record.event.agent for record in records[:1] if isinstance(record.event, Started))
    document = scaffold(state_of(session, records), agent)
    text = to_yaml(document)
    if from_yaml(text) != document:
        raise Bug(f"The export of {session!r} does not read back as it was written.")
    return text


def from_yaml(text: str) -> object:
    """The document of a YAML text."""
    return YAML(typ="safe", pure=True).load(text)
