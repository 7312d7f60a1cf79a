"""Judges generated commands, runs those that are allowed, and counts."""

import math
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from tests.proof.check import Check, Ground, Said, found_by
from tests.proof.generate import case_of
from tests.proof.judging import SOURCE, Case, Judge
from tests.proof.sandbox import Sandbox
from tests.proof.trace import Event
from tests.proof.workspace import Workspace

BATCH: Final = 250
STRETCH: Final = 50_000
"""Commands between two words about the progress."""
SECRETS: Final = (
    "work/.env",
    "work/sub/.env.local",
    "work/keys/server.pem",
    "home/.ssh/*",
    "home/.aws/*",
    "home/.netrc",
    "home/.bash_history",
)
DENIED: Final = "work/denied/*"
_AIMED: Final = re.compile(r"\b(?:hit2?|made|env|rm|cp|outside|denied)\b")
"""What a command has in it that would be seen if more of it ran than the judge thinks."""
QUOTING: Final = {
    "single quotes": re.compile(r"(?<!<)(?<!<)(?<!<-)'[^']+'"),
    "double quotes": re.compile(r'"[^"]+"'),
    "backslashes": re.compile(r"\\[^\n]"),
    "here-documents": re.compile(r"(?<!\(cat )<<[ \t]*'[A-Z]"),
    "$(cat <<'EOF')": re.compile(r"\$\(cat <<'[A-Z]"),
}


class Violation(msgspec.Struct, frozen=True):
    """A command that was allowed and did what the verdict does not name."""

    case: Case
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        case = self.case
        under = f"{case.family}, {case.shell}, {case.mode}, {list(case.rules)}, trusted={case.trusted}"
        return f"number {case.number} ({under}): {case.text!r}: {'; '.join(self.wrong)}"


class Counts(msgspec.Struct):
    """What was done."""

    generated: int = 0
    judged: int = 0
    allowed: int = 0
    run: int = 0
    shells: Counter[str] = msgspec.field(default_factory=Counter)
    families: Counter[str] = msgspec.field(default_factory=Counter)
    named: set[str] = msgspec.field(default_factory=set)
    executed: set[str] = msgspec.field(default_factory=set)
    pairs: set[tuple[str, frozenset[str]]] = msgspec.field(default_factory=set)
    lists: int = 0
    quoting: Counter[str] = msgspec.field(default_factory=Counter)
    over_time: int = 0

    def take(self, case: Case, said: Said, status: int | None, events: Sequence[Event]) -> None:
        """Count a command that was run."""
        self.run += 1
        self.over_time += status is None
        self.shells[case.shell] += 1
        self.families[case.family] += 1
        self.executed |= {event.path.rpartition("/")[2] for event in events[1:] if event.kind == "exec"}
        for pair in pairs_of(said):
            self.named.add(pair[0].split(" ")[0])
            self.pairs.add(pair)
        self.lists += len(said.commands) > 1
        self.quoting.update(kind for kind, form in QUOTING.items() if form.search(case.text))

    def lines(self) -> list[str]:
        """Say it in lines."""
        shells = ", ".join(f"{name} {count:,}" for name, count in sorted(self.shells.items()))
        return [
            f"judged {self.judged:,}, allowed {self.allowed:,}, run {self.run:,} ({shells}; {self.over_time:,} ended by the clock)",
            f"programs named {len(self.named)}, executed {len(self.executed)}; pairs of program and set of flags {len(self.pairs):,}",
            f"with pipes or lists {self.lists:,}; " + ", ".join(f"{kind} {self.quoting[kind]:,}" for kind in QUOTING),
            "by family: " + ", ".join(f"{name} {count:,}" for name, count in self.families.most_common()),
        ]


def pairs_of(said: Said) -> Iterator[tuple[str, frozenset[str]]]:
    """Give each program with the set of its flags; a subcommand of git is part of the name."""
    for layers in said.commands:
        for words in layers:
            if words and words[0]:
                name = words[0].rpartition("/")[2]
                plain = [word for word in words[1:] if word and not word.startswith("-")]
                whole = f"{name} {plain[0]}" if name == "git" and plain else name
                yield (
                    whole,
                    frozenset(word.partition("=")[0][:30] for word in words[1:] if word and word.startswith("-")),
                )


class Campaign:
    """One workspace, one sandbox and one judge, for any number of commands."""

    def __init__(self, seed: int, source: Path = SOURCE, families: Collection[str] = ()) -> None:
        self.seed, self.families = seed, families
        self.folder = Path(tempfile.mkdtemp(prefix="proof-"))
        root = self.folder.resolve() / "place"
        self.workspace = Workspace(root)
        self.judge = Judge(root, source)
        self.sandbox = Sandbox(root)
        self.root = root
        self.counts = Counts()
        self.seen = set[object]()

    def go(
        self,
        count: int,
        run: int,
        found: Callable[[Violation], None],
        *,
        first: int = 0,
        enough: int = 0,
        seconds: float = math.inf,
        progress: Callable[[Counts], None] = lambda _: None,
    ) -> int:
        """Judge the commands from `first` on, run some of those that are allowed, and give the number of violations.

        Stop after `enough` of them, or when the time is over.
        """
        hits, until = 0, time.monotonic() + seconds
        for start in range(first, first + count, BATCH):
            if time.monotonic() > until:
                break
            cases = [case_of(self.seed, number) for number in range(start, min(start + BATCH, first + count))]
            self.counts.generated += len(cases)
            cases = [case for case in cases if not self.families or case.family in self.families]
            answers = self.judge.judge(cases)
            self.counts.judged += len(cases)
            for case, said in zip(cases, answers, strict=True):
                if said.decision != "allow":
                    continue
                self.counts.allowed += 1
                if not self._worth_it(case, said, run, count):
                    continue
                wrong = self.run(case, said)
                if wrong:
                    hits += 1
                    found(Violation(case, tuple(wrong)))
                    if hits == enough:
                        return hits
            if self.counts.generated % STRETCH == 0:
                progress(self.counts)
        return hits

    def _worth_it(self, case: Case, said: Said, run: int, count: int) -> bool:
        """Whether to run a command: those that are unlike all before it first, others when there is room."""
        marks = {(case.family, shape_of(case.text)), *pairs_of(said)}
        new = not marks <= self.seen
        self.seen |= marks
        room = run / count * self.counts.generated - self.counts.run
        aimed = _AIMED.search(case.text) is not None
        return room > (0 if new and aimed else 5 if new else 20)

    def run(self, case: Case, said: Said) -> list[str]:
        """Run one command, and say what it did that was not named."""
        check = Check(said, self.ground(case))
        status, events = self.sandbox.run(case.shell, case.text)
        wrong = self.look(case, check, events)
        self.workspace.put_back()
        self.counts.take(case, said, status, events)
        return wrong

    def ground(self, case: Case) -> Ground:
        """Say where a case runs, and by which leave."""
        return Ground(
            root=str(self.root),
            tracked=self.workspace.tracked,
            text=case.text,
            bare=bool({"allow Bash", "allow Bash(*)"} & set(case.rules)),
            denied=(DENIED,) if "deny Read(denied/**)" in case.rules else (),
            secrets=SECRETS,
        )

    def look(self, case: Case, check: Check, events: Sequence[Event]) -> list[str]:
        """Compare what was done with what was said, and with what is denied."""
        wrong = found_by(check, events)
        make = {event.process for event in events if event.kind == "exec" and event.path.endswith("/make")}
        executed = any(
            event.kind == "exec" and event.path.endswith("/hit") and not make & set(event.parents) for event in events
        )  # what a Makefile runs no rule about commands can stop
        if "deny Bash(hit:*)" in case.rules and executed and re.search(r"\bhit\b", case.text):
            wrong.append("executes hit, which a rule denies")
        return wrong

    def close(self) -> None:
        """Remove all of it."""
        self.sandbox.close()
        self.judge.__exit__(None, None, None)
        self.workspace.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def shape_of(text: str) -> str:
    """Give a text with its words and numbers made alike."""
    return re.sub(r"[A-Za-z_][A-Za-z0-9_]*", "a", re.sub(r"[0-9]+", "0", text))[:120]
