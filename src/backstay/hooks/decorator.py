"""Where hooks come from: functions, `@hook("PreToolUse", matcher="Bash")`, given to `open_session(hooks=[...])`; and settings files."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.hooks.events import EVENTS, OnFailure
from backstay.hooks.matching import matcher_problem
from backstay.hooks.run_context import PythonFunction
from backstay.hooks.settings import HookReading, read_hooks
from backstay.hooks.spec import HookSource, HookSpec, HttpHook, PythonHook, make_spec
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule, RuleSource

if TYPE_CHECKING:
    from backstay.config.layers import Layered

_VISITORS: Final[tuple[HookSource, ...]] = ("project", "local", "plugin")
"""Whose limits reach no further than what a workspace or a plugin brought along."""


class HookLimits(NamedTuple):
    """What one settings file allows hooks to do."""

    source: HookSource
    urls: tuple[str, ...] | None = None
    """Addresses that hooks may post to, with `*`; None: any."""
    env_names: tuple[str, ...] | None = None
    """Variables that headers may use; None: those that each hook lists."""
    managed_only: bool = False
    """Whether only hooks of whoever runs the machine may run."""
    warnings: tuple[str, ...] = ()


def read_limits(settings: Mapping[str, object], *, source: HookSource) -> HookLimits:
    """Read the limits of a settings file. One that cannot be read allows nothing."""
    odd: list[str] = []
    managed_only = settings.get("allowManagedHooksOnly")
    if managed_only is not None and not isinstance(managed_only, bool):
        odd.append(f"allowManagedHooksOnly: {managed_only!r} is neither true nor false; it counts as true.")
    return HookLimits(
        source=source,
        urls=_list(settings, "allowedHttpHookUrls", odd),
        env_names=_list(settings, "httpHookAllowedEnvVars", odd),
        managed_only=source == "managed" and managed_only not in (None, False),
        warnings=tuple(odd),
    )


def within(specs: Sequence[HookSpec], limits: Sequence[HookLimits]) -> HookReading:
    """The hooks that may run within the limits, and a word about each that may not."""
    notes = [warning for limit in limits for warning in limit.warnings]
    kept: dict[str, HookSpec] = {}
    for spec in specs:
        limited = _limited(spec, [limit for limit in limits if _reaches(limit.source, spec.source)], notes)
        if limited is not None:
            kept.setdefault(limited.id, limited)
    return HookReading(tuple(kept.values()), tuple(dict.fromkeys(notes)))


def _reaches(limit: HookSource, hook: HookSource) -> bool:
    if hook == "managed":
        return limit == "managed"
    return hook in _VISITORS if limit in _VISITORS else True


def _limited(spec: HookSpec, limits: Sequence[HookLimits], notes: list[str]) -> HookSpec | None:
    if spec.source not in ("managed", "program") and any(limit.managed_only for limit in limits):
        notes.append(f"allowManagedHooksOnly is set: hooks of {spec.source} do not run.")
        return None
    if not isinstance(spec.handler, HttpHook):
        return spec
    handler, names = spec.handler, spec.handler.env_names
    for limit in limits:
        if limit.urls is not None and not any(covers(url, handler.url) for url in limit.urls):
            notes.append(f"{spec.label!r} is not in allowedHttpHookUrls ({limit.source}); it does not run.")
            return None
        if limit.env_names is not None:
            names = tuple(name for name in names if name in limit.env_names)
    return spec if names == handler.env_names else replace(spec, handler=replace(handler, env_names=names))


def covers(pattern: str, url: str) -> bool:
    """Whether an address is one of those that a pattern allows. In the host, `*` stands only for whole names before a dot."""
    if pattern in ("*", url):
        return True
    try:
        allowed, asked = urlsplit(pattern), urlsplit(url)
        same = (allowed.scheme, allowed.port) == (asked.scheme, asked.port) and "@" not in asked.netloc
    except ValueError:
        return False
    host, name = allowed.hostname or "", asked.hostname or ""
    wide = host.startswith("*.") and "*" not in host[2:]
    host_fits = name.endswith(host[1:]) if wide else name == host
    return same and host_fits and re.fullmatch(_glob(_rest(pattern)), _rest(url), re.DOTALL) is not None


def _rest(url: str) -> str:
    return url.partition("://")[2].partition("/")[2]


def _glob(text: str) -> str:
    return ".*".join(map(re.escape, text.split("*")))


def _list(settings: Mapping[str, object], key: str, odd: list[str]) -> tuple[str, ...] | None:
    value = settings.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        odd.append(f"{key}: {value!r} is not a list of texts; it allows nothing until it is one.")
        return ()
    return tuple(value)


class Hook(Struct, frozen=True):
    """A function, and when it is called."""

    spec: HookSpec
    function: PythonFunction

    def __call__(self, told: dict[str, object]) -> object:
        """Call the function."""
        return self.function(told)


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


def registered(hooks: Sequence[Hook]) -> tuple[tuple[HookSpec, ...], Mapping[str, PythonFunction]]:
    """The hooks and their functions by the name of their handler. None replaces another, also when their functions share a name."""
    specs: list[HookSpec] = []
    functions: dict[str, PythonFunction] = {}
    for each in hooks:
        if not isinstance(each, Hook):
            raise UserError(f"{each!r} is not a hook. Put @hook(EVENT) above the function.")
        name = _free_name(each.spec.label, each.function, functions)
        functions[name] = each.function
        specs.append(_renamed(each.spec, name))
    return tuple(specs), functions


def configured(layered: "Layered") -> HookReading:
    """The hooks of all settings files that count, none replacing another; what is worth saying names the file."""
    specs: list[HookSpec] = []
    warnings: list[str] = []
    for layer in layered.hooks:
        found = read_hooks(layer.section, source=_SOURCES[layer.source], root=layer.root)
        specs += found.specs
        warnings += (f"{layer.file}: {warning}" for warning in found.warnings)
    files = [(file.place.source, file.text.content) for file in layered.files if file.text is not None]
    limits = [read_limits(msgspec.json.decode(content), source=_SOURCES[source]) for source, content in files]
    reading = within(specs, limits)
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
    if not known.moment:
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


def _renamed(spec: HookSpec, name: str) -> HookSpec:
    return make_spec(
        spec.event,
        PythonHook(name=name),
        matcher=spec.matcher,
        if_rule=spec.if_rule,
        timeout=spec.timeout,
        on_failure=spec.on_failure,
        source=spec.source,
    )
