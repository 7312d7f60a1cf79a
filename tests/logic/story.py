"""A log that grows a step at a time, for tests of what is decided."""

from backstay.logic.decide.policy import Policy
from backstay.logic.decide.step import settle
from backstay.logic.state.progress import Progress, fold_all
from backstay.vocab.event import Draft, Event, Recorded
from backstay.vocab.events import CallInspected, InputReceived, ModelReplied, Opened, Started, ToolFinished
from backstay.vocab.messages import Text, ToolCall
from backstay.vocab.specs import SessionContext, ToolSpec
from backstay.wire.codec import NAME_OF


def spec(name: str, **fields: object) -> ToolSpec:
    return ToolSpec(name=name, description="", schema={}, **fields)  # type: ignore[arg-type]  # each test names its own


POLICY = Policy(
    tools={
        "look": spec("look", effect="pure", concurrent=True, touches="reads"),
        "put": spec("put", effect="idempotent"),
        "find": spec("find", effect="reconcilable"),
        "pay": spec("pay", effect="once"),
        "run": spec("run", effect="once", touches="runs"),
        "child": spec("child", child=True),
    }
)


class Story:
    """A log that grows a step at a time."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.policy = policy
        self.progress = Progress()
        self.log: list[Recorded] = []
        self.say(Started(session="s", context=SessionContext(working_dir="/"), store="x", model="m"))

    def say(self, *events: Event, cause: str = "") -> list[str]:
        """Let `events` arrive and return the names of everything that is written."""
        return self.take(*(Draft(event=event, cause=cause) for event in events))

    def take(self, *drafts: Draft) -> list[str]:
        """As `say`, for events that have their own causes."""
        step = settle(self.progress, drafts, self.policy, nonce="n", now=len(self.log))
        self.progress = step.progress
        self.log += step.records
        assert fold_all(self.log) == self.progress
        return [NAME_OF[type(record.event)] for record in step.records]

    def ask(self, text: str = "go") -> list[str]:
        return self.say(InputReceived(input=f"in-{len(self.log)}", parts=(Text(text=text),)))

    def steer(self) -> list[str]:
        return self.say(InputReceived(input=f"in-{len(self.log)}", parts=(Text(text="also"),), delivery="steer"))

    def reply(self, *names: str, text: str = "") -> list[str]:
        asked = self.progress.asking
        wanted = [ToolCall(id=f"{asked}-{n}", name=name, args='{"prompt": "x"}') for n, name in enumerate(names)]
        looked = [CallInspected(call=call.id) for call in wanted]
        said = (Text(text=text),) if text else ()
        return self.say(ModelReplied(parts=(*said, *wanted)), *looked, cause=asked)

    def finish(self, position: int = 0) -> list[str]:
        call = self.progress.calls[position]
        return self.say(ToolFinished(call=call.id, outcome="ok"), cause=call.intent)

    def crash(self, on_crash: str = "continue") -> list[str]:
        return self.say(Opened(on_crash=on_crash))  # type: ignore[arg-type]  # one of two words

    def inspect_again(self) -> list[str]:
        waiting = [call for call in self.progress.calls if call.phase == "inspecting"]
        return [name for call in waiting for name in self.say(CallInspected(call=call.id), cause=call.intent)]

    def outcomes(self) -> list[tuple[str, str]]:
        return [(r.event.outcome, r.event.code) for r in self.log if isinstance(r.event, ToolFinished)]
