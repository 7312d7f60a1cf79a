"""Apply the limits that settings files put on hooks: who may define some, where they may post to, which variables they may use."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from backstay.hooks.settings import HookReading
from backstay.hooks.spec import (
    HookSource,
    HookSpec,
    HttpHook,
)

_FROM_OUTSIDE: Final[tuple[HookSource, ...]] = ("project", "local", "plugin")
"""Sources whose limits apply only to hooks of a workspace or a plugin."""


class HookLimits(NamedTuple):
    """The limits that one settings file puts on hooks."""

    source: HookSource
    urls: tuple[str, ...] | None = None
    """Addresses that hooks may post to, with `*`; None: any."""
    env_names: tuple[str, ...] | None = None
    """Variables that headers may use; None: those that each hook lists."""
    managed_only: bool = False
    """Whether only managed hooks may run."""
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


def apply_limits(specs: Sequence[HookSpec], limits: Sequence[HookLimits]) -> HookReading:
    """Return the hooks that may run within the limits, and a warning for each that may not."""
    notes = [warning for limit in limits for warning in limit.warnings]
    kept: dict[str, HookSpec] = {}
    for spec in specs:
        limited = _limit_one(spec, [limit for limit in limits if _reaches(limit.source, spec.source)], notes)
        if limited is not None:
            kept.setdefault(limited.id, limited)
    return HookReading(tuple(kept.values()), tuple(dict.fromkeys(notes)))


def _reaches(limit: HookSource, hook: HookSource) -> bool:
    if hook == "managed":
        return limit == "managed"
    return hook in _FROM_OUTSIDE if limit in _FROM_OUTSIDE else True


def _limit_one(spec: HookSpec, limits: Sequence[HookLimits], notes: list[str]) -> HookSpec | None:
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
    """Return whether a pattern allows an address. In the host, `*` stands only for whole names before a dot."""
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
