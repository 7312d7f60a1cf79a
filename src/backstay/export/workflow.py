"""Writes a session out as a workflow scaffold in YAML."""

from collections.abc import Iterator

from backstay.export.yaml_text import to_yaml, yaml_lines
from backstay.logic.conversation import ConversationFold
from backstay.logic.outline import project
from backstay.logic.redact import PLAIN, Redactor
from backstay.logic.workflow import scaffold
from backstay.pages import PagedLog
from backstay.vocab.errors import Bug
from backstay.vocab.events import Started
from backstay.vocab.specs import SessionMeta
from backstay.yaml12 import read_yaml


def workflow_text(log: PagedLog, redactor: Redactor = PLAIN) -> Iterator[str]:
    """The scaffold of a session as YAML. Each part is parsed again and compared; the same session gives the same bytes."""
    meta, fold, agent = SessionMeta(id=log.session), ConversationFold(), ""
    for records in log.pages():
        meta = project(meta, records)
        for record in records:
            fold.apply(record)
            if record.seq == 1 and isinstance(record.event, Started):
                agent = record.event.agent
    document = scaffold(meta, fold.over(log, log.session), agent, redactor)
    return yaml_lines(_checked(document, log.session))


def _checked(value: object, session: str) -> object:
    """`value`, of which every item of a long list is checked when it is written, and the rest at once."""
    if isinstance(value, Iterator):
        return (_checked(item, session) for item in value)
    if isinstance(value, dict) and any(isinstance(part, dict | Iterator) for part in value.values()):
        return {key: _checked(part, session) for key, part in value.items()}
    if read_yaml(to_yaml(value)) != value:
        raise Bug(f"The export of {session!r} does not read back as it was written.")
    return value
