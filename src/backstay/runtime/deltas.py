"""Shows what is not in the log: deltas go to the listeners and into the trace."""

from collections.abc import Mapping

from msgspec.structs import replace

from backstay.logic.state.session_state import State
from backstay.ports import Trace
from backstay.runtime.bus import Bus
from backstay.runtime.mask_events import Mask
from backstay.vocab.deltas import Delta, TextDelta


class DeltaStream:
    """The deltas of one session, each placed behind the newest event and numbered from there."""

    def __init__(self, session: str, state: State, mask: Mask, bus: Bus, trace: Trace) -> None:
        self._session = session
        self._state = state
        self._mask = mask
        self.bus = bus
        self.trace = trace
        self._shown = 0
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """What the model has said in the call that is going on."""
        return "".join(self._texts)

    def show(self, delta: Delta) -> None:
        """Show a delta to whoever listens, and trace it; never waits."""
        if isinstance(delta, TextDelta):
            self._texts.append(delta.text)
        self._shown += 1
        placed = replace(self._mask.delta(delta), after=self._state.progress.seq, n=self._shown)
        self.bus.publish((placed,))
        self.trace.write(self._session, type(delta).__name__, {"delta": placed})

    def tap(self, kind: str, content: Mapping[str, object]) -> None:
        """Write a line into the trace; never waits."""
        self.trace.write(self._session, kind, content)

    def committed(self, *, text: bool) -> None:
        """Number from the newest event on; with `text`, forget what the model said: its call is over."""
        self._shown = 0
        if text:
            self._texts.clear()
