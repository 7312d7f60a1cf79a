"""The keys that a session knows of stay out of its log: whatever would bring the value of one is written with a mark in its place.

It happens before an event is made of what arrived, so what is live is what is replayed, and the model is told the same.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.logic.redact import Redactor
from holdfast.logic.rewriting import FILES, Moved, changed_blob, rewritten
from holdfast.runtime.inbox import Post
from holdfast.vocab.deltas import Delta
from holdfast.vocab.event import Draft, Event

_TEXT: Final = "text"


class Mask:
    """Hides known values in what enters a step and in what is shown meanwhile."""

    def __init__(self, values: Sequence[str] = ()) -> None:
        """Hide `values`; without any, nothing is hidden."""
        self.redactor = Redactor(exact=values)
        self._hides = bool(values)

    def post(self, post: Post) -> None:
        """Hide what is known in the events of a post and in the blobs that they cite."""
        if not self._hides or any(isinstance(draft.event, FILES) for draft in post.drafts):
            return
        moved = {sha: found for sha, content in post.blobs.items() if (found := self._blob(content)) is not None}
        post.drafts = tuple(self._draft(draft, moved) for draft in post.drafts)
        if moved:
            kept = {sha: content for sha, content in post.blobs.items() if sha not in moved}
            post.blobs = kept | {each.sha256: each.content for each in moved.values()}

    def delta(self, delta: Delta) -> Delta:
        """Hide what is known in a fragment. What is split over two fragments is for those who print them."""
        text = getattr(delta, _TEXT, None)
        if not self._hides or not isinstance(text, str) or self.redactor.known(text) == text:
            return delta
        return msgspec.structs.replace(delta, text=self.redactor.known(text))

    def _blob(self, content: bytes) -> Moved | None:
        return changed_blob(content, self.redactor.known)

    def _draft(self, draft: Draft, moved: Mapping[str, Moved]) -> Draft:
        return draft if not self._holds(draft.event, moved) else self._hidden(draft, moved)

    def _holds(self, event: Event, moved: Mapping[str, Moved]) -> bool:
        """Whether there is anything to hide in an event: a look at its text as a whole, since most have nothing."""
        written = msgspec.json.encode(event).decode()
        return any(sha in written for sha in moved) or self.redactor.known(written) != written

    def _hidden(self, draft: Draft, moved: Mapping[str, Moved]) -> Draft:
        return msgspec.structs.replace(draft, event=rewritten(draft.event, self.redactor.known, moved))
