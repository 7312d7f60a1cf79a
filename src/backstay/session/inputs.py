"""Input on its way into a session: shown and heard as its sender wants, waiting in the order in which it came, and taken back."""

from collections.abc import Mapping
from typing import Final

from backstay.logic.state.content import LONG, make_durable, replace_surrogates
from backstay.logic.state.prompt_variables import filled_in
from backstay.runtime.runner import Runner
from backstay.session.history import History
from backstay.vocab.errors import IllegalTransition, InputConflict, UserError
from backstay.vocab.event import By, Delivery, Draft
from backstay.vocab.events import InputDropped, InputReceived, Interrupted
from backstay.vocab.messages import InFlightPart, InputPart, MediaLink, MediaRef, Text, TextRef

Prompt = str | tuple[InFlightPart, ...]

EVERYTHING: Final = "*"
"""Instead of the ids of inputs: all that wait."""
QUEUE_LIMIT: Final = 32
"""Inputs that may wait for their turn."""
SHOWN: Final = 2_000
"""Characters of a display text that are kept."""


class Queueing(History):
    """The queue of a session."""

    def __init__(self, runner: Runner, variables: Mapping[str, str]) -> None:
        super().__init__(runner)
        self._variables = variables
        self._inputs = 0
        self._arriving = 0
        """Inputs that are on their way into the queue."""
        self._newest = ""
        """The input that was sent last, if it waits for a turn of its own."""
        self._ending = False
        self.queue_limit = QUEUE_LIMIT
        """Inputs that may wait for their turn; one more is refused."""

    async def submit(
        self,
        prompt: Prompt,
        *,
        delivery: Delivery = "queue",
        input_id: str | None = None,
        display: str = "",
        raw: str = "",
        replaces: bool = False,
    ) -> str:
        """Say something and return its input id once it is durable; `input_result` says later what became of it. See `send`."""
        event, blobs = self._said(prompt, delivery, input_id, display, raw)
        if event.input in self._world.state.results.inputs.parts:
            await self._deliver()
        else:
            await self._enqueue(event, blobs, replaces=replaces)
        return event.input

    async def steer(self, prompt: Prompt) -> None:
        """Say something into the running turn: it is taken at the next point where no call is open."""
        await self.submit(prompt, delivery="steer")

    async def abort(self, reason: str = "", *, by: By = "user") -> None:
        """Stop the running turn and drop what is queued; nothing happens when the session is idle. `by` says who wants it."""
        stopped = Draft(event=Interrupted(reason=reason), by=by)
        dropped = Draft(event=InputDropped(inputs=(EVERYTHING,)), by=by)
        await self._deliver(stopped, dropped, goes_on=self._world.state.progress.busy)

    async def drop_queued(self) -> None:
        """Take back what is queued; the running turn goes on."""
        await self._deliver(Draft(event=InputDropped(inputs=(EVERYTHING,)), by="user"), goes_on=False)

    # --- how -----------------------------------------------------------------------------------------------------------------------

    def _next_input(self) -> str:
        self._inputs += 1
        return f"{self._runner.nonce}-in-{self._inputs}"

    def _said(
        self, prompt: Prompt, delivery: Delivery, input_id: str | None, display: str, raw: str
    ) -> tuple[InputReceived, dict[str, bytes]]:
        parts, blobs = self._input(prompt)
        name = replace_surrogates(input_id or self._next_input())
        if name == EVERYTHING:
            raise UserError(f"{EVERYTHING!r} cannot be the id of an input: it stands for all of them.")
        if self._world.state.results.inputs.parts.get(name, parts) != parts:
            raise InputConflict(f"The input id {name!r} was used for another text in session {self.id!r}.")
        if len(raw) > LONG:  # cut, it would hide its end from whoever decides by it
            raise UserError(
                f"The raw text has {len(raw)} characters, and {LONG} may be. Leave it out: hooks see the prompt."
            )
        shown = display if len(display) <= SHOWN else f"{display[:SHOWN]}…"
        return InputReceived(input=name, parts=parts, delivery=delivery, display=shown, raw=raw), blobs

    async def _enqueue(self, event: InputReceived, blobs: dict[str, bytes], *, replaces: bool) -> None:
        if self._ending and not self._closed:
            raise IllegalTransition(f"Session {self.id!r} is being shut down and takes no more prompts.")
        drafts = [Draft(event=event, by="user")]
        tail = self._tail() if replaces else ""
        if tail == event.input:  # it is sent again: it does not take its own place
            tail = ""
        if tail:
            drafts.insert(0, Draft(event=InputDropped(inputs=(tail,)), by="user"))
        begins = 0 if self.is_running else 1  # one of them does not wait at all
        waiting = len(self.pending_inputs) + self._arriving - begins
        if not tail and waiting >= self.queue_limit:
            raise UserError(
                f"{waiting} inputs wait in session {self.id!r} already, and {self.queue_limit} may. "
                "Wait for the turn that runs, or take them back with drop_queued()."
            )
        self._newest = event.input if event.delivery == "queue" else ""
        self._arriving += 1
        try:
            await self._deliver(*drafts, blobs=blobs)
        finally:
            self._arriving -= 1

    def _tail(self) -> str:
        """The input that waits last, if it waits for a turn of its own."""
        queue = self._world.state.progress.queue
        if self._arriving:
            return self._newest
        return queue[-1].input if queue and queue[-1].delivery == "queue" else ""

    def _input(self, prompt: Prompt) -> tuple[tuple[InputPart, ...], dict[str, bytes]]:
        given = (Text(text=prompt),) if isinstance(prompt, str) else prompt
        parts, blobs = make_durable(
            Text(text=filled_in(replace_surrogates(part.text), self._variables)) if isinstance(part, Text) else part
            for part in given
        )
        kept = tuple(part for part in parts if isinstance(part, Text | TextRef | MediaRef | MediaLink))
        if not any(not isinstance(part, Text) or part.text.strip() for part in kept):
            raise UserError("The prompt is empty. Say something.")
        return kept, blobs
