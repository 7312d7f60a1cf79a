"""Mask the known keys of a session before an event is written: a mark stands in place of the key.

It happens before an event is made of what arrived, so live state equals replayed state, and the model is sent the same.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.logic.secrets.redact import Redactor
from backstay.logic.secrets.rewrite import FILES, Moved, change_blob, rewrite_event
from backstay.logic.stored_content import digest
from backstay.runtime.inbox import InboxItem
from backstay.vocab import events
from backstay.vocab.deltas import Delta
from backstay.vocab.event import Draft, Event

_SHOWN: Final = ("text", "name")
"""The fields of a fragment that show something."""


class Mask:
    """Hides known values in what enters a step and in what is shown meanwhile."""

    def __init__(self, values: Sequence[str] = (), others: Sequence[str] = ()) -> None:
        """Hide `values`; without any, nothing is hidden. `others` are hidden from those alone who are shown what was said."""
        self.redactor = Redactor(exact=values)
        self.shown = Redactor(exact=(*values, *others))
        self._hides = bool(values)
        self._replacements: dict[str, Moved] = {}
        """Instructions with something to hide, by the name of their blob, and what replaces them."""

    def mask_instructions(self, text: str) -> str:
        """Return the instructions without known values. Events that cite their blob cite the other one from then on."""
        content = text.encode()
        if not self._hides or (moved := self._blob(content)) is None:
            return text
        self._replacements[digest(content)] = moved
        return moved.text

    def name_of(self, sha256: str) -> str:
        """Return the name of the instructions' blob in the log."""
        return self._replacements[sha256].sha256 if sha256 in self._replacements else sha256

    def mask_drafts(self, drafts: Sequence[Draft]) -> tuple[Draft, ...]:
        """Hide known values in events that do not come through the inbox."""
        return tuple(self._draft(draft, self._replacements) for draft in drafts) if self._hides else tuple(drafts)

    def mask_started(self, started: events.Started) -> events.Started:
        """Hide what is known in the first event. Where the session works, and what it is called by, stays: it is looked for again."""
        if not self._hides or not self._holds(started, {}):
            return started
        hidden, context = rewrite_event(started, self.redactor.mask_known, {}), started.context
        kept = replace(hidden.context, working_dir=context.working_dir, active_file=context.active_file)
        return replace(
            hidden,
            context=kept,
            session=started.session,
            store=started.store,
            project=started.project,
            model=started.model,
        )

    def mask_item(self, item: InboxItem) -> None:
        """Hide what is known in the events of a post and in the blobs that they cite."""
        if not self._hides or any(isinstance(draft.event, FILES) for draft in item.drafts):
            return
        moved = {sha: found for sha, content in item.blobs.items() if (found := self._blob(content)) is not None}
        item.drafts = tuple(self._draft(draft, moved) for draft in item.drafts)
        if moved:
            kept = {sha: content for sha, content in item.blobs.items() if sha not in moved}
            item.blobs = kept | {each.sha256: each.content for each in moved.values()}

    def mask_delta(self, delta: Delta) -> Delta:
        """Hide what is known in a fragment. What is split over two fragments is for those who print them."""
        if not self._hides:
            return delta
        said = {name: text for name in _SHOWN if isinstance(text := getattr(delta, name, None), str)}
        hidden = {name: self.redactor.mask_known(text) for name, text in said.items()}
        return delta if hidden == said else replace(delta, **hidden)

    def _blob(self, content: bytes) -> Moved | None:
        return change_blob(content, self.redactor.mask_known)

    def _draft(self, draft: Draft, moved: Mapping[str, Moved]) -> Draft:
        return draft if not self._holds(draft.event, moved) else self._hide(draft, moved)

    def _holds(self, event: Event, moved: Mapping[str, Moved]) -> bool:
        """Return whether there is anything to hide in an event: by its text as a whole, since most have nothing."""
        written = msgspec.json.encode(event).decode()
        return any(sha in written for sha in moved) or self.redactor.mask_known(written) != written

    def _hide(self, draft: Draft, moved: Mapping[str, Moved]) -> Draft:
        return replace(draft, event=rewrite_event(draft.event, self.redactor.mask_known, moved))
