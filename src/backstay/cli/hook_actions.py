"""Tries hooks: finds them as a run would, runs those of one event, and says what came of it."""

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from backstay.cli import output
from backstay.cli.location import StoreLocation
from backstay.config.layers import Layered, load_layers
from backstay.config.secret import collect_keys
from backstay.config.trust.own_programs import own_runs
from backstay.hooks.decorator import read_configured_hooks
from backstay.hooks.dispatch import judge_own_hooks
from backstay.hooks.events import EVENTS
from backstay.hooks.http import make_client
from backstay.hooks.matching import near_misses, select
from backstay.hooks.merge import HookVerdict, merge_answers
from backstay.hooks.payload import find_matcher_value, sample_input
from backstay.hooks.run import HookRun, run_each
from backstay.hooks.run_context import RunContext
from backstay.hooks.settings import HookReading
from backstay.hooks.spec import AgentHook, HookSpec, HttpHook, PromptHook
from backstay.sandbox.folders import project_root
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule

SHOWN: Final = 2_000
"""Characters of a hook's output that a person is shown."""
LINES: Final = 40
"""Lines of it."""


async def list_hooks(place: StoreLocation, *, settings: str | None, trust: bool, as_json: bool) -> int:
    """List the hooks that count."""
    layered, found = await _load(place, settings, trust=trust)
    if as_json:
        output.say_json(
            {
                "hooks": [_entry(spec) for spec in found.specs],
                "held": len(_waiting(layered)),
                "warnings": _warnings(layered, found),
            }
        )
        return 0
    held = _held(layered)
    rows = [
        (spec.event, spec.matcher or "*", spec.if_rule, _kind(spec), spec.source, spec.on_failure, spec.label)
        for spec in found.specs
    ]
    if rows:
        output.say_table(("event", "matcher", "if", "type", "from", "on failure", "hook"), rows)
    else:
        output.say(" ".join(("There are no hooks that count here.", *held)) if held else "There are no hooks.")
    _warn(_warnings(layered, found))
    return 0


async def try_hooks(
    place: StoreLocation, *, event: str, told: str | None, settings: str | None, trust: bool, as_json: bool
) -> int:
    """Run the hooks of an event that match, with a sample or with what was given."""
    _check_event(event)
    cwd = _folder(place)
    said = {**sample_input(event, cwd=str(cwd)), **_given(told), "hook_event_name": event}
    layered, found = await _load(place, settings, trust=trust)
    word = find_matcher_value(event, said)
    args = said.get("tool_input")
    due = select(found.specs, event, word, args=args if isinstance(args, dict) else {}, rule_matches=_rule_matches)
    asked = tuple(spec for spec in due if isinstance(spec.handler, PromptHook | AgentHook))
    keys = collect_keys(layered.settings, layered)
    means = RunContext(
        cwd=str(cwd),
        environment={**keys.without(os.environ), **layered.env},
        headers={**keys.for_headers(os.environ), **layered.env},
        project=str(project_root(cwd)),
        http_client=make_client,
    )
    own = own_runs(layered.trust, str(cwd))
    runnable, against = await judge_own_hooks([spec for spec in due if spec not in asked], own)
    if against:
        raise UserError(f"Nothing was run: {against}")
    runs = await run_each(runnable, said, means)
    trial = _Trial(
        event, word, said, runs, asked, near_misses(found.specs, event, word), _warnings(layered, found), _held(layered)
    )
    if as_json:
        output.say_json(trial.content(found))
    else:
        trial.say(found)
    return 0


class _Trial:
    """What came of trying the hooks of an event."""

    def __init__(
        self,
        event: str,
        word: str,
        told: Mapping[str, object],
        runs: Sequence[HookRun],
        asked: Sequence[HookSpec],
        near: Sequence[HookSpec],
        warnings: Sequence[str],
        held: Sequence[str],
    ) -> None:
        self._event = event
        self._word = word
        self._told = told
        self._runs = runs
        self._asked = asked
        self._near = near
        self._warnings = warnings
        self._held = held

    def content(self, found: HookReading) -> dict[str, object]:
        """All of it, for programs."""
        return {
            "event": self._event,
            "matched_with": self._word,
            "input": self._told,
            "runs": [_run(run) for run in self._runs],
            "verdict": msgspec.to_builtins(self._verdict),
            "not_run": [{**_entry(spec), "why": "it asks a model"} for spec in self._asked],
            "near_misses": [{**_entry(spec), "why": self._why_not(spec)} for spec in self._near],
            "others": sum(spec.event != self._event for spec in found.specs),
            "warnings": list(self._warnings),
        }

    def say(self, found: HookReading) -> None:
        """All of it, for people."""
        about = f"{self._event} of {self._word!r}" if self._word else self._event
        if not self._runs and not self._asked:
            here = sum(spec.event == self._event for spec in found.specs)
            others = f"{here} for {self._event}, {len(found.specs) - here} for other events"
            _say(" ".join((f"No hook matches {about}. There are {others}.", *self._held)))
        for run in self._runs:
            _say_run(run)
        for spec in self._asked:
            _say(f"- {_kind(spec)}  {spec.label}\n    not run here: it asks a model")
        for spec in self._near:
            _say(f"- near miss: {spec.label}\n    {self._why_not(spec)}")
        if self._runs:
            _say(f"{about}: {_words(self._verdict)}")
        _warn(self._warnings)

    @property
    def _verdict(self) -> HookVerdict:
        return merge_answers([run.answer for run in self._runs])

    def _why_not(self, spec: HookSpec) -> str:
        return f"its matcher {spec.matcher!r} does not match {self._word!r}: upper and lower case count, and a name must be whole."


def _folder(place: StoreLocation) -> Path:
    return Path(place.cwd or ".").absolute()


async def _load(place: StoreLocation, settings: str | None, *, trust: bool) -> tuple[Layered, HookReading]:
    layered = await load_layers(place.cwd or ".", given=settings, trust=True if trust else None)
    return layered, read_configured_hooks(layered)


def _warnings(layered: Layered, found: HookReading) -> list[str]:
    return [*found.warnings, *filter(None, (layered.notice,))]


def _waiting(layered: Layered) -> tuple[str, ...]:
    """The hooks of the workspace that do not count because nobody trusts it."""
    return () if layered.trust.trusted else tuple(c.text for c in layered.trust.survey.claims if c.kind == "hook")


def _held(layered: Layered) -> tuple[str, ...]:
    """A sentence about hooks that wait for trust; none when none does."""
    number = len(_waiting(layered))
    many = "One hook of this workspace waits" if number == 1 else f"{number} hooks of this workspace wait"
    return (f"{many} for trust: backstay trust.",) if number else ()


def _check_event(event: str) -> None:
    known = EVENTS.get(event)
    if known is not None and known.fires:
        return
    if known is not None:
        raise click.UsageError(f"There is no moment for {event!r} yet: its hooks do not run.")
    lower = {each.lower(): each for each in EVENTS}
    close = difflib.get_close_matches(event.lower(), lower, n=1, cutoff=0.6)
    meant = f" Did you mean {lower[close[0]]}?" if close else f" Known are {', '.join(sorted(EVENTS))}."
    raise click.UsageError(f"There is no event {event!r}.{meant}")


def _given(text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    if text == "-":
        text = sys.stdin.read()
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise click.UsageError(f"The input is not JSON: {exc}.") from None
    if not isinstance(given, dict):
        raise click.UsageError('The input is not a JSON object, like {"tool_name": "Bash"}.')
    return given


def _rule_matches(rule: str, tool: str, args: Mapping[str, object]) -> bool:
    """Whether the rule of `if` may be about a call: here, whether it names the tool."""
    try:
        return Rule.parse("ask", rule).tool in (tool, "*")
    except UserError:
        return True


def _entry(spec: HookSpec) -> dict[str, object]:
    """A hook, for programs; what its headers carry may be secret."""
    if isinstance(spec.handler, HttpHook):
        hidden = tuple((name, "...") for name, _ in spec.handler.headers)
        spec = replace(spec, handler=replace(spec.handler, headers=hidden))
    entry: dict[str, object] = msgspec.to_builtins(spec)
    return {**entry, "label": spec.label}


def _run(run: HookRun) -> dict[str, object]:
    ended = msgspec.to_builtins(run.outcome)
    return {**_entry(run.spec), **ended, "answer": msgspec.to_builtins(run.answer), "seconds": round(run.seconds, 3)}


def _kind(spec: HookSpec) -> str:
    return str(spec.handler.__struct_config__.tag)


def _say_run(run: HookRun) -> None:
    outcome, answer = run.outcome, run.answer
    code = "" if outcome.exit_code is None else f"exit {outcome.exit_code}, "
    how = "took too long, " if outcome.timed_out else "in the background, " if outcome.background else ""
    _say(f"- {_kind(run.spec)}  {run.spec.label}  ({run.spec.source}, {run.spec.where})")
    _say(f"    {code}{how}{run.seconds:.2f} s: {_words(merge_answers([answer]))}")
    notes = [("note", note) for note in answer.notes]
    for name, text in (("output", outcome.stdout), ("errors", outcome.stderr), *notes):
        if shown := _shown(text):
            _say(f"    {name}: " + shown.replace("\n", "\n            "))


def _shown(text: str) -> str:
    """The beginning of a text, with a word about the rest of it."""
    text = text.strip()
    shown = "\n".join(text[:SHOWN].split("\n", LINES)[:LINES])
    return shown if shown == text else f"{shown}\n[{len(text) - len(shown):,} characters more; --json has all of them]"


def _words(verdict: HookVerdict) -> str:
    """A verdict in words."""
    said: list[str] = []
    if verdict.decision is not None:
        said.append(verdict.decision)
    elif verdict.blocked:
        said.append("blocked")
    said += ["the turn ends"] if verdict.stops else []
    said += [f"reason: {_shown(verdict.reason)}"] if verdict.reason else []
    said += [f"other arguments: {_shown(verdict.args)}"] if verdict.args else []
    said += [f"context: {_shown(verdict.context)}"] if verdict.context else []
    said += [f"other output: {_shown(verdict.output)}"] if verdict.output is not None else []
    return "; ".join(said or ["no objection"])


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        output.warn(output.escape_terminal(warning))


def _say(text: str) -> None:
    output.say(output.escape_terminal(text, keep="\n\t"))
