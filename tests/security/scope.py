"""Runs generated calls in a real workspace and looks at what lies outside: `python -m tests.security.scope [CALLS] [SEED]`."""

import collections
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

import anyio

from backstay import Rule, Session, open_session
from backstay.providers.scripted import ScriptedModel
from backstay.vocab.events import CallJudged, ModelReplied, ToolFinished, ToolStarted, calls_of
from backstay.vocab.messages import Text
from backstay.vocab.specs import FsScope, Mode
from tests.security.scope_calls import Call, Caller
from tests.security.yard import OUTSIDE, PRIVATE, Yard, swapped_meanwhile, yard

REPLIES: Final = 5
AT_ONCE: Final = 8
"""Calls of one reply: all of them are looked at before the first one runs."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a session is held, and what must not be seen in it."""

    name: str
    scope: FsScope
    mode: Mode = "acceptEdits"
    allow: tuple[str, ...] = ()
    race: bool = False
    commands: bool = True
    searches: bool = True
    hidden: tuple[str, ...] = (OUTSIDE, PRIVATE)
    """What no output may hold. Where somebody swaps folders while programs run, or every command is allowed, programs may read what
    sandbox shows them: then only what it closes counts."""


SETTINGS: Final = (
    Setting(name="edits", scope="sandboxed"),
    Setting(name="edits in a project", scope="project"),
    Setting(
        name="patterns",
        scope="sandboxed",
        mode="default",
        allow=(
            "Bash(cat *)",
            "Bash(cp *)",
            "Bash(sed -i *)",
            "Bash(mv *)",
            "Edit(plain/**)",
            "Edit(/swap/**)",
            "Read(**/*.txt)",
            "Write",
        ),
    ),
    Setting(
        name="files while folders are swapped",
        scope="sandboxed",
        race=True,
        commands=False,
        searches=False,
        allow=("Edit", "Write"),
    ),
    Setting(
        name="everything while folders are swapped", scope="sandboxed", race=True, searches=False, hidden=(PRIVATE,)
    ),
    Setting(name="every command", scope="project", allow=("Bash",), race=True, searches=False, hidden=(PRIVATE,)),
)


@dataclass
class Figures:
    """What came of the calls."""

    judged: collections.Counter[str] = field(default_factory=collections.Counter)
    ran: collections.Counter[str] = field(default_factory=collections.Counter)
    well: int = 0
    slipped: int = 0
    """Outputs with what lies outside, also where that is not held against anybody."""
    holes: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """How many were made."""
        return self.judged.total()

    def __str__(self) -> str:
        judged = ", ".join(f"{number} {name}" for name, number in sorted(self.judged.items()))
        ran = ", ".join(f"{name} {number}" for name, number in sorted(self.ran.items()))
        end = f"{self.well} went well; slipped {self.slipped}; {len(self.holes)} holes"
        return f"{self.calls} calls: {judged}; ran {self.ran.total()} ({ran}), {end}"


async def run_batch(made: Yard, setting: Setting, seed: int, figures: Figures, *, calls: Sequence[Call] = ()) -> None:
    """Lay the workspace out anew, make calls in a session, and note whatever happened outside."""
    made.lay_out()
    before = made.outside()
    caller = Caller(made, seed, commands=setting.commands, searches=setting.searches)
    wanted = calls or [caller.call() for _ in range(REPLIES * AT_ONCE)]
    replies = [wanted[at : at + AT_ONCE] for at in range(0, len(wanted), AT_ONCE)]
    script = [{"calls": [{"name": name, "args": args} for name, args in reply]} for reply in replies]
    model = ScriptedModel.of([*script, {"text": "Done."}])
    with at_home(made), swapped_meanwhile(made) if setting.race else nullcontext():
        async with open_session(
            model=model,
            store=None,
            cwd=made.work,
            permission_mode=setting.mode,
            fs_scope=setting.scope,
            rules=[Rule.parse("allow", rule) for rule in setting.allow],
            trust=True,
        ) as session:
            await session.run("go")
            await _account(session, setting, seed, figures)
    after = made.outside()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        figures.holes.append(f"{setting.name}, seed {seed}: changed outside: {', '.join(changed)}")


async def _account(session: Session, setting: Setting, seed: int, figures: Figures) -> None:
    asked: dict[str, str] = {}
    for record in await session.events():
        event = record.event
        if isinstance(event, ModelReplied):
            asked |= {call.id: f"{call.name} {call.args}" for call in calls_of(event)}
        elif isinstance(event, CallJudged):
            figures.judged[event.decision] += 1
        elif isinstance(event, ToolStarted):
            figures.ran[event.name] += 1
        elif isinstance(event, ToolFinished):
            figures.well += event.outcome == "ok"
            text = "".join(part.text for part in event.content if isinstance(part, Text))
            figures.slipped += OUTSIDE in text
            if any(mark in text for mark in setting.hidden):
                figures.holes.append(f"{setting.name}, seed {seed}: shown by {asked[event.call]}: {text[:200]!r}")


@contextmanager
def at_home(made: Yard) -> Iterator[None]:
    """Make the yard's home the person's."""
    before = os.environ.get("HOME")
    os.environ["HOME"] = str(made.home)
    try:
        yield
    finally:
        os.environ["HOME"] = before or "/"


def main(arguments: Sequence[str]) -> int:
    """Make so many calls over all settings, and print what came of them; 1 when something got out."""
    wanted, seed = map(int, (*arguments, *("3000", "1")[len(arguments) :]))
    batches = max(1, wanted // (REPLIES * AT_ONCE * len(SETTINGS)))
    together: list[str] = []
    total = 0
    with yard() as made:
        for place, setting in enumerate(SETTINGS):
            figures, began = Figures(), time.monotonic()
            for number in range(batches):
                anyio.run(run_batch, made, setting, seed * 1_000_000 + place * 100_000 + number, figures)
            print(f"{setting.name}: {figures} in {time.monotonic() - began:.0f} s", flush=True)
            total += figures.calls
            together += figures.holes
    print(f"{total} calls, {len(together)} holes", *together, sep="\n")
    return 1 if together else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
