"""Print what a person sees of the demo: in colour on a terminal, plain in a pipe."""

from rich.console import Console
from rich.text import Text as Styled

from backstay.cli.output import forget_output
from backstay.runtime.bus import Item
from backstay.vocab import events
from backstay.vocab.deltas import Notice, TextDelta
from backstay.vocab.event import Recorded
from backstay.vocab.messages import ToolCall, text_of

LINES = 9
"""Lines of a tool's result that are shown."""


class Screen:
    """Print headings, remarks and the items of a session."""

    def __init__(self) -> None:
        self._console = _Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._streaming = False
        self._held: list[Item] | None = None
        """What happened while a question was open."""
        self._calls: dict[str, ToolCall] = {}

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches."""
        return self._console.is_terminal

    def heading(self, words: str) -> None:
        """Begin a part."""
        self._end_stream()
        line = f"── {words} "
        self._console.print()
        self._console.print(Styled(line + "─" * max(0, 78 - len(line)), style="bold cyan"))
        self._flush()

    def remark(self, words: str, style: str = "") -> None:
        """Print a comment on what happens."""
        self._end_stream()
        self._console.print(Styled(words, style=style))
        self._flush()

    def line(self, who: str, words: str, style: str = "") -> None:
        """Print who does what."""
        self._end_stream()
        self._console.print(Styled.assemble((f"{who:<7}", "bold"), (words, style)))
        self._flush()

    def question(self, words: str) -> None:
        """Print a question, and leave the cursor behind it. Nothing else is printed before the answer."""
        self._end_stream()
        self._held = []
        self._console.print(Styled.assemble((f"{'ask':<7}", "bold yellow"), (words, "yellow")), end=" ")
        self._flush()

    def hint(self, words: str) -> None:
        """Print how to answer."""
        self._console.print(Styled(words, style="yellow"))
        self._flush()

    def answer(self, words: str) -> None:
        """End a question, and print what happened meanwhile."""
        self.hint(words)
        held, self._held = self._held or [], None
        for item in held:
            self.show(item)

    def show(self, item: Item) -> None:
        """Print an item, or nothing when a person need not see it."""
        if self._held is not None:
            self._held.append(item)
            return
        match item:
            case TextDelta():
                self._stream(item.text)
            case Recorded(event=events.ModelReplied() as reply):
                self._end_stream()
                self._calls.update({call.id: call for call in events.calls_of(reply)})
            case Recorded(event=events.CallJudged(reason="grant") as judged):
                self.line("", f"({judged.detail})", "dim")
            case Recorded(event=events.ToolStarted() as started):
                self.line("tool", f"{started.name} {self._arguments(started.call)}", "magenta")
            case Recorded(event=events.ToolFinished() as finished):
                self._result(finished)
            case Recorded(event=events.TurnCompleted() as over):
                self.line("", f"the turn is over: {over.outcome}", "dim")
            case Notice(notice="SessionPersisted"):
                self.line("", "everything is on the disk", "dim")
            case _:
                pass

    def remember(self, calls: dict[str, ToolCall]) -> None:
        """Add calls that were made before this screen existed."""
        self._calls.update(calls)

    def _stream(self, text: str) -> None:
        if not self._streaming:
            self._console.print(Styled(f"{'model':<7}", style="bold green"), end="")
            self._streaming = True
        self._console.print(Styled(text, style="green"), end="")
        self._flush()

    def _end_stream(self) -> None:
        if self._streaming:
            self._console.print()
            self._streaming = False

    def _arguments(self, call: str) -> str:
        found = self._calls.get(call)
        args = found.args if found else ""
        return args if len(args) <= 100 else args[:99] + "…"

    def _result(self, finished: events.ToolFinished) -> None:
        lines = text_of(finished.content).rstrip().splitlines() or ["(nothing)"]
        style = "dim" if finished.outcome == "ok" else "red"
        for line in lines[-LINES:] if finished.outcome == "failed" else lines[:LINES]:
            self.line("", f"| {line}", style)

    def _flush(self) -> None:
        if not self._console.quiet:
            self._console.file.flush()


class _Console(Console):
    """A console that falls silent when its reader is gone, instead of ending the program in the middle of a session."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        forget_output()
