"""Collect the hooks of a session: functions with `@hook("PreToolUse")` in `open_session(hooks=[...])`, and those of settings files."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from backstay.hooks.events import EVENTS, OnFailure
from backstay.hooks.limits import apply_limits, read_limits
from backstay.hooks.matching import matcher_problem
from backstay.hooks.run_context import PythonFunction
from backstay.hooks.settings import HookReading, read_hooks
from backstay.hooks.spec import HookSource, HookSpec, PythonHook, make_spec
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule, RuleSource

if TYPE_CHECKING:
    from backstay.config.layers import Layered


class Hook(Struct, frozen=True):
    """A function, and when it is called."""

    spec: HookSpec
    function: PythonFunction

    def __call__(self, payload: dict[str, object]) -> object:
        """Call the function."""
        return self.function(payload)


def hook(
    event: str,
    *,
    matcher: str = "",
    if_rule: str = "",
    timeout: float | None = None,
    on_failure: OnFailure | None = None,
) -> Callable[[PythonFunction], Hook]:
    """Make a function, plain or async, the hook of an event.

    It takes what a program would read as JSON, and returns None or what a program would print. An exception is a failure: it refuses
    where hooks of the event stand guard, unless `on_failure` says "continue". A plain function that takes too long is left behind in
    its thread.
    """
    _check(event, matcher, if_rule, timeout)

    def wrap(function: PythonFunction) -> Hook:
        name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
        spec = make_spec(
            event,
            PythonHook(name=name.lstrip(".")),
            matcher=matcher,
            if_rule=if_rule,
            timeout=timeout,
            on_failure=on_failure,
            source="program",
        )
        return Hook(spec, function)

    return wrap


def register_hooks(hooks: Sequence[Hook]) -> tuple[tuple[HookSpec, ...], Mapping[str, PythonFunction]]:
    """Return the hooks, and their functions by the name of their handler. None replaces another, even under the same name."""
    specs: list[HookSpec] = []
    functions: dict[str, PythonFunction] = {}
    for each in hooks:
        if not isinstance(each, Hook):
            raise UserError(f"{each!r} is not a hook. Put @hook(EVENT) above the function.")
        name = _free_name(each.spec.label, each.function, functions)
        functions[name] = each.function
        specs.append(_rename(each.spec, name))
    return tuple(specs), functions


def read_configured_hooks(layered: "Layered") -> HookReading:
    """Return the hooks of all settings files that count, none replacing another; each warning names its file."""
    if not layered.files and not layered.hooks:  # hooks of a file that went away while the session was open stay
        return HookReading(())
    specs: list[HookSpec] = []
    warnings: list[str] = []
    for layer in layered.hooks:
        found = read_hooks(layer.section, source=_SOURCES[layer.source], root=layer.root)
        specs += found.specs
        warnings += (f"{layer.file}: {warning}" for warning in found.warnings)
    files = [(file.place.source, file.text.content) for file in layered.files if file.text is not None]
    limits = [read_limits(msgspec.json.decode(content), source=_SOURCES[source]) for source, content in files]
    reading = apply_limits(specs, limits)
    return HookReading(reading.specs, (*warnings, *reading.warnings))


_SOURCES: Final[Mapping[RuleSource, HookSource]] = {
    "managed": "managed",
    "flag": "flag",
    "person": "person",
    "project": "project",
    "local": "local",
    "session": "program",
    "default": "program",
}


def _check(event: str, matcher: str, if_rule: str, timeout: float | None) -> None:
    known = EVENTS.get(event)
    if known is None:
        raise UserError(f"{event!r} is not an event that hooks know. Use one of {', '.join(EVENTS)}.")
    if not known.fires:
        raise UserError(f"There is no moment for {event!r} yet, so a hook for it would never run.")
    if problem := matcher_problem(event, matcher):
        raise UserError(f"The matcher {matcher!r} cannot be read: {problem}.")
    if if_rule:
        Rule.parse("ask", if_rule)
    if timeout is not None and not timeout > 0:
        raise UserError(f"A hook cannot have {timeout!r} seconds. Give it more than 0.")


def _free_name(name: str, function: PythonFunction, taken: Mapping[str, PythonFunction]) -> str:
    free, number = name, 1
    while free in taken and taken[free] is not function:
        number += 1
        free = f"{name}#{number}"
    return free


def _rename(spec: HookSpec, name: str) -> HookSpec:
    return make_spec(
        spec.event,
        PythonHook(name=name),
        matcher=spec.matcher,
        if_rule=spec.if_rule,
        timeout=spec.timeout,
        on_failure=spec.on_failure,
        source=spec.source,
    )
