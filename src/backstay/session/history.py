"""The history of an open session: what can be read of it and added to it, and where it goes on from."""

from collections.abc import AsyncIterator, Mapping
from typing import Final, Literal

from backstay.checkpoints.points import RestoreReport
from backstay.logic.context.tokens import estimate
from backstay.logic.history.entries import Entry, InvokedBy, SkillMode, SkillStatus, entry_added, skill_entry
from backstay.logic.state.content import shorten
from backstay.logic.state.transcript import Transcript
from backstay.runtime.bus import Item
from backstay.runtime.follow import follow
from backstay.session.control import Changing
from backstay.vocab.errors import BlobMissing, UserError
from backstay.vocab.event import Draft
from backstay.vocab.events import HistoryCleared, MessageInjected, Rewound

MOST_BEFORE: Final = 200
"""Files whose earlier content is fetched to show what became of it; the newest ones."""
LARGEST_BEFORE: Final = 1_048_576
"""Bytes of such a content; of a larger one no difference is shown."""


class History(Changing):
    """A session's history."""

    async def full_history(self) -> tuple[Entry, ...]:
        """The conversation with the events between its messages: tools with what they changed, summaries, whatever was added."""
        transcript = await self._whole_transcript()
        return transcript.entries(await self._held_before(transcript))

    async def follow(self, after: int | None = None) -> AsyncIterator[Item]:
        """Everything from now on, or after seq `after`, until the session ends. What a slow listener misses is read from the log."""
        subscription = self.subscribe(after=self.seq)
        try:
            for record in await self.events(after) if after is not None and after < self.seq else ():
                subscription.caught_up(record.seq)
                yield record
            async for item in follow(subscription, self._world.store, self.id):
                yield item
        finally:
            subscription.close()

    async def inject(self, role: Literal["system", "user", "assistant"], content: str) -> None:
        """Add a message to the history without asking the model."""
        if role not in ("system", "user", "assistant"):
            raise UserError(f"A message of role {role!r} cannot be injected. Use 'system', 'user' or 'assistant'.")
        part, blobs = shorten(content)
        await self._deliver(
            Draft(event=MessageInjected(role=role, parts=(part,)), by="user"), blobs=blobs, goes_on=False
        )

    async def add_entry(self, kind: str, content: dict[str, object]) -> None:
        """Add an entry to the full history; no model sees it."""
        await self._deliver(Draft(event=entry_added(kind, content), by="user"), goes_on=False)

    async def note_skill(
        self,
        name: str,
        display: str = "",
        mode: SkillMode = "inject",
        by: InvokedBy = "user",
        status: SkillStatus = "started",
    ) -> None:
        """Add a `skill-invocation` entry: the skill `name` was used, and `display` is shown for it."""
        entry = skill_entry(name, display, mode=mode, by=by, status=status)
        await self._deliver(Draft(event=entry, by=by), goes_on=False)

    async def clear_history(self) -> None:
        """Start the conversation over, the context's token count included. The log keeps what was."""
        await self._deliver(Draft(event=HistoryCleared(), by="user"), goes_on=False)

    async def rewind(
        self, *, to: str | None = None, before: str | None = None, files: bool = False
    ) -> RestoreReport | None:
        """Let the conversation go on from the end of turn `to`, or from just before turn `before`. Nothing is deleted.

        With `files` the files go back too, in the same commit, and the report says what became of them.
        """
        if (to is None) == (before is None):
            raise UserError("Say either `to=TURN` (the last turn to keep) or `before=TURN`.")
        transcript = await self._whole_transcript()
        node = transcript.before_turn(before) if before is not None else transcript.turn_end(to or "")
        if node is None:
            raise UserError(
                f"There is no turn {before or to!r} to rewind to in session {self.id!r}; `turns` lists them."
            )
        there = transcript.at(node).messages
        event = Rewound(
            to=node,
            turns=transcript.turns_up_to(node) if node else 0,
            tokens=sum(map(estimate, there)),
            messages=len(there),
        )
        rewound = Draft(event=event, by="user")
        if files:
            return await self.restore_files(to=to or "", before=before or "", along=(rewound,))
        await self._deliver(rewound, goes_on=False)
        return None

    # --- how -----------------------------------------------------------------------------------------------------------------------

    async def _held_before(self, transcript: Transcript) -> Mapping[str, str]:
        """What files held before calls changed them; what is gone, too large or no text is left out."""
        held: dict[str, str] = {}
        for call, sha256 in tuple(transcript.kept().items())[-MOST_BEFORE:]:
            try:
                content = await self._world.store.blob(sha256) if sha256 else b""
                if len(content) <= LARGEST_BEFORE:
                    held[call] = content.decode()
            except (BlobMissing, UnicodeDecodeError):
                continue
        return held
