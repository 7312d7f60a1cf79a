"""`backstay hooks`: list hooks, and try them without a session."""

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from backstay.cli import output
from backstay.cli.shared_options import StoreLocation, as_json, settings, trust, with_location
from backstay.config.layers import Layered, collect_keys, load_layers
from backstay.config.person import require_person
from backstay.config.trust.own_runs import own_runs
from backstay.hooks.decorator import read_configured_hooks
from backstay.hooks.dispatch import judge_hooks
from backstay.hooks.events import EVENTS
from backstay.hooks.http import make_client
from backstay.hooks.matching import near_misses, select
from backstay.hooks.merge import HookVerdict, merge_answers
from backstay.hooks.payload import find_matcher_value, sample_input
from backstay.hooks.run import HookRun, run_each
from backstay.hooks.run_context import RunContext
from backstay.hooks.settings import HookReading
from backstay.hooks.spec import AgentHook, HookSpec, HttpHook, PromptHook
from backstay.logic.text import show_invisible
from backstay.system.folders import project_root
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule


@click.group("hooks")
def command() -> None:
    """List hooks, and try them without a session."""


MAX_CHARACTERS: Final = 2_000
"""Characters of a hook's output that a person is shown."""
MAX_LINES: Final = 40
"""Lines of it."""


@command.command("list")
@settings
@trust
@as_json
@with_location
async def list_hooks(location: StoreLocation, *, settings: str | None, trust: bool, as_json: bool) -> int:
    """List the hooks of the settings in force here, and what is wrong with them."""
    layered, found = await _load(location, settings, trust=trust)
    if as_json:
        output.print_json(
            {
                "hooks": [_entry(spec) for spec in found.specs],
                "held": len(_hooks_on_hold(layered)),
                "warnings": _warnings(layered, found),
            }
        )
        return 0
    held = _hold_note(layered)
    rows = [
        (spec.event, spec.matcher or "*", spec.if_rule, _kind(spec), spec.source, spec.on_failure, spec.label)
        for spec in found.specs
    ]
    if rows:
        output.print_table(("event", "matcher", "if", "type", "from", "on failure", "hook"), rows)
    else:
        output.print_line(" ".join(("There are no hooks that count here.", *held)) if held else "There are no hooks.")
    _warn_all(_warnings(layered, found))
    return 0


@command.command()
@click.argument("event")
@click.argument("json_input", required=False, metavar="[JSON]")
@settings
@trust
@as_json
@with_location
async def test(
    location: StoreLocation, *, event: str, json_input: str | None, settings: str | None, trust: bool, as_json: bool
) -> int:
    """Run the hooks of EVENT as a session would, and show the output of each and the verdict of all.

    \b
    backstay hooks test PreToolUse
    backstay hooks test PreToolUse '{"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}}'
    backstay hooks test Stop - < input.json

    Fields that JSON leaves out are filled in. The hooks really run, with all their effects. Those that ask a model are only named.
    """
    _check_event(event)
    cwd = location.folder.absolute()
    payload = {**sample_input(event, cwd=str(cwd)), **_read_input(json_input), "hook_event_name": event}
    layered, found = await _load(location, settings, trust=trust)
    value = find_matcher_value(event, payload)
    args = payload.get("tool_input")
    due = select(found.specs, event, value, args=args if isinstance(args, dict) else {}, rule_matches=_rule_matches)
    asking = tuple(spec for spec in due if isinstance(spec.handler, PromptHook | AgentHook))
    keys = collect_keys(layered.settings, layered)
    context = RunContext(
        cwd=str(cwd),
        environment={**keys.without(os.environ), **layered.env},
        headers={**keys.for_headers(os.environ), **layered.env},
        project=str(project_root(cwd)),
        http_client=make_client,
    )
    allowed, against = await judge_hooks(
        due,
        survey=layered.trust.vouched,
        held=layered.trust.held_hooks,
        own=own_runs(layered.trust, str(cwd)),
    )
    if against:
        raise UserError(f"Nothing was run: {against}")
    runs = await run_each([spec for spec in allowed if spec not in asking], payload, context)
    trial = _Trial(
        event=event,
        value=value,
        payload=payload,
        runs=runs,
        asking=asking,
        near=near_misses(found.specs, event, value),
        warnings=_warnings(layered, found),
        held=_hold_note(layered),
    )
    if as_json:
        output.print_json(trial.content(found))
    else:
        trial.print(found)
    return 0


class _Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of trying the hooks of an event."""

    event: str
    value: str
    """What the matchers were compared with."""
    payload: Mapping[str, object]
    runs: Sequence[HookRun]
    asking: Sequence[HookSpec]
    """Hooks that ask a model, and were not run."""
    near: Sequence[HookSpec]
    warnings: Sequence[str]
    held: Sequence[str]

    def content(self, found: HookReading) -> dict[str, object]:
        """Return all of it for programs."""
        return {
            "event": self.event,
            "matched_with": self.value,
            "input": self.payload,
            "runs": [_run(run) for run in self.runs],
            "verdict": msgspec.to_builtins(self._verdict),
            "not_run": [{**_entry(spec), "why": "it asks a model"} for spec in self.asking],
            "near_misses": [{**_entry(spec), "why": self._why_not(spec)} for spec in self.near],
            "others": sum(spec.event != self.event for spec in found.specs),
            "warnings": list(self.warnings),
        }

    def print(self, found: HookReading) -> None:
        """Print all of it for a person."""
        about = f"{self.event} of {self.value!r}" if self.value else self.event
        if not self.runs and not self.asking:
            here = sum(spec.event == self.event for spec in found.specs)
            others = f"{here} for {self.event}, {len(found.specs) - here} for other events"
            _print(" ".join((f"No hook matches {about}. There are {others}.", *self.held)))
        for run in self.runs:
            _print_run(run)
        for spec in self.asking:
            _print(f"- {_kind(spec)}  {spec.label}\n    not run here: it asks a model")
        for spec in self.near:
            _print(f"- near miss: {spec.label}\n    {self._why_not(spec)}")
        if self.runs:
            _print(f"{about}: {_words(self._verdict)}")
        _warn_all(self.warnings)

    @property
    def _verdict(self) -> HookVerdict:
        return merge_answers([run.answer for run in self.runs])

    def _why_not(self, spec: HookSpec) -> str:
        return f"its matcher {spec.matcher!r} does not match {self.value!r}: upper and lower case count, and a name must be whole."


async def _load(location: StoreLocation, settings: str | None, *, trust: bool) -> tuple[Layered, HookReading]:
    if trust:
        require_person("trust a workspace")
    layered = await load_layers(location.cwd or ".", given=settings, trust=True if trust else None)
    return layered, read_configured_hooks(layered)


def _warnings(layered: Layered, found: HookReading) -> list[str]:
    return [*found.warnings, *filter(None, (layered.notice,))]


def _hooks_on_hold(layered: Layered) -> tuple[str, ...]:
    """Return the hooks of the workspace that are not in force because it is not trusted."""
    return () if layered.trust.trusted else tuple(c.text for c in layered.trust.survey.claims if c.kind == "hook")


def _hold_note(layered: Layered) -> tuple[str, ...]:
    """Return a sentence about hooks that wait for trust, if any does."""
    number = len(_hooks_on_hold(layered))
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
    hint = f" Did you mean {lower[close[0]]}?" if close else f" Known are {', '.join(sorted(EVENTS))}."
    raise click.UsageError(f"There is no event {event!r}.{hint}")


def _read_input(text: str | None) -> dict[str, object]:
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
    """Return whether the rule of `if` may match a call: here, whether it names the tool."""
    try:
        return Rule.parse("ask", rule).tool in (tool, "*")
    except UserError:
        return True


def _entry(spec: HookSpec) -> dict[str, object]:
    """Return a hook for programs, without the values of its headers: they may be secrets."""
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


def _print_run(run: HookRun) -> None:
    outcome, answer = run.outcome, run.answer
    code = "" if outcome.exit_code is None else f"exit {outcome.exit_code}, "
    how = "took too long, " if outcome.timed_out else "in the background, " if outcome.background else ""
    _print(f"- {_kind(run.spec)}  {run.spec.label}  ({run.spec.source}, {run.spec.where})")
    _print(f"    {code}{how}{run.seconds:.2f} s: {_words(merge_answers([answer]))}")
    notes = [("note", note) for note in answer.notes]
    for name, text in (("output", outcome.stdout), ("errors", outcome.stderr), *notes):
        if shown := _beginning(text):
            _print(f"    {name}: " + shown.replace("\n", "\n            "))


def _beginning(text: str) -> str:
    """Return the beginning of a text, and how long the rest is."""
    text = text.strip()
    shown = "\n".join(text[:MAX_CHARACTERS].split("\n", MAX_LINES)[:MAX_LINES])
    return shown if shown == text else f"{shown}\n[{len(text) - len(shown):,} characters more; --json has all of them]"


def _words(verdict: HookVerdict) -> str:
    """Return a verdict in words."""
    words: list[str] = []
    if verdict.decision is not None:
        words.append(verdict.decision)
    elif verdict.blocked:
        words.append("blocked")
    words += ["the turn ends"] if verdict.stops else []
    words += [f"reason: {_beginning(verdict.reason)}"] if verdict.reason else []
    words += [f"other arguments: {_beginning(verdict.args)}"] if verdict.args else []
    words += [f"context: {_beginning(verdict.context)}"] if verdict.context else []
    words += [f"other output: {_beginning(verdict.output)}"] if verdict.output is not None else []
    return "; ".join(words or ["no objection"])


def _warn_all(warnings: Sequence[str]) -> None:
    for warning in warnings:
        output.warn(output.escape_line(warning))


def _print(text: str) -> None:
    output.print_line(show_invisible(text))
