"""Read the `hooks` of settings files leniently, but never drop a guard silently."""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from backstay.hooks.events import EVENTS, OnFailure
from backstay.hooks.matching import fails_closed, matcher_problem, matcher_warning
from backstay.hooks.spec import (
    AgentHook,
    BrokenHook,
    CommandHook,
    Handler,
    HookSource,
    HookSpec,
    HttpHook,
    PromptHook,
    make_spec,
)
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule

TYPES: Final = ("command", "http", "prompt", "agent")
"""The types that settings may name. Functions come from the program."""


class BadEntry(ValueError):
    """An entry that cannot be used; the message says why and what to write."""


def read_handler(raw: Mapping[str, object], env: Mapping[str, object]) -> Handler:
    """Return the handler that an entry describes; `env` is what its group sets for it. Raise `BadEntry`."""
    kind = raw.get("type", _guess_type(raw))
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        if kind == "mcp_tool":
            raise BadEntry("Hooks of the type 'mcp_tool' are not available yet.")
        raise BadEntry(f"{kind!r} is not a type of hook. Write one of {', '.join(TYPES)}.")
    return reader(raw, env)


def _guess_type(raw: Mapping[str, object]) -> object:
    """Guess the type that old files leave out."""
    return "command" if "command" in raw else "http" if "url" in raw else None


def _command(raw: Mapping[str, object], env: Mapping[str, object]) -> CommandHook:
    args = None if raw.get("args") is None else _texts(raw, "args")
    command = _text(raw, "command")
    if "\0" in command or any("\0" in each for each in args or ()):
        raise BadEntry("A command cannot contain a NUL character.")
    wakes = _flag(raw, "asyncRewake")
    return CommandHook(
        command=command,
        args=args,
        shell=_shell(raw),
        background=_flag(raw, "async") or wakes,
        wakes=wakes,
        env=_variables(env),
    )


def _http(raw: Mapping[str, object], env: Mapping[str, object]) -> HttpHook:
    url = _text(raw, "url")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise BadEntry(f"{url!r} is not an address. Write http:// or https://, a host and a path.")
    names = () if raw.get("allowedEnvVars") is None else _texts(raw, "allowedEnvVars")
    return HttpHook(url=url, headers=_headers(raw), env_names=names)


def _prompt(raw: Mapping[str, object], env: Mapping[str, object]) -> PromptHook:
    return PromptHook(
        prompt=_text(raw, "prompt"), model=_optional(raw, "model"), continues=_flag(raw, "continueOnBlock")
    )


def _agent(raw: Mapping[str, object], env: Mapping[str, object]) -> AgentHook:
    prompt, agent = _optional(raw, "prompt"), _optional(raw, "agent")
    if not (prompt.strip() or agent.strip()):
        raise BadEntry("It needs a `prompt`, or the name of an `agent`.")
    turns = raw.get("maxTurns", 50)
    if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1:
        raise BadEntry(f"maxTurns: {turns!r} is not a number of turns.")
    return AgentHook(prompt=prompt, agent=agent, model=_optional(raw, "model"), max_turns=turns)


_READERS: Final[Mapping[str, Callable[[Mapping[str, object], Mapping[str, object]], Handler]]] = {
    "command": _command,
    "http": _http,
    "prompt": _prompt,
    "agent": _agent,
}


def _text(raw: Mapping[str, object], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadEntry(f"{key}: {value!r} is not a text." if key in raw else f"It has no `{key}`.")
    return value


def _optional(raw: Mapping[str, object], key: str) -> str:
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise BadEntry(f"{key}: {value!r} is not a text.")
    return value or ""


def _texts(raw: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = raw.get(key)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadEntry(f"{key}: {value!r} is not a list of texts.")
    return tuple(value)


def _flag(raw: Mapping[str, object], key: str) -> bool:
    value = raw.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadEntry(f"{key}: {value!r} is neither true nor false.")
    return bool(value)


def _shell(raw: Mapping[str, object]) -> Literal["bash", "powershell"]:
    match raw.get("shell"):
        case None | "bash":
            return "bash"
        case "powershell":
            return "powershell"
        case other:
            raise BadEntry(f"shell: {other!r} is neither 'bash' nor 'powershell'.")


def _variables(env: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    for name, value in env.items():
        if not isinstance(value, str) or not name or "=" in name or "\0" in name + value:
            raise BadEntry(f"env: {name!r} cannot be set to {value!r}.")
    return tuple((name, str(value)) for name, value in env.items())


def _headers(raw: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    value = raw.get("headers")
    if value is None:
        return ()
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadEntry(f"headers: {value!r} is not an object of texts.")
    for name, text in value.items():
        if not name or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise BadEntry(f"headers: {name!r} cannot name a header.")
        if not text.isprintable():
            raise BadEntry(f"headers: the value of {name!r} has characters that no header can have.")
    return tuple(value.items())


LONG_S: Final = 3_600
"""A timeout of more seconds was probably meant in milliseconds."""


class HookReading(NamedTuple):
    """Hooks, and warnings about them."""

    specs: tuple[HookSpec, ...]
    warnings: tuple[str, ...] = ()


def read_hooks(section: object, *, source: HookSource, root: str = "") -> HookReading:
    """Read the `hooks` object of a settings file, or the content of a plugin's `hooks.json`.

    Nothing raises. An entry that cannot be used is named with the keys that lead to it; when it stands guard, it stays, as a hook that
    fails whenever it is due.
    """
    reader = _Reader(source, root)
    specs: dict[str, HookSpec] = {}
    for spec in reader.section(section):
        specs.setdefault(spec.id, spec)
    return HookReading(tuple(specs.values()), tuple(reader.warnings))


class _Reader:
    """Reads one section and collects warnings."""

    def __init__(self, source: HookSource, root: str) -> None:
        self._source = source
        self._root = root
        self.warnings: list[str] = []

    def section(self, section: object) -> Iterator[HookSpec]:
        """Yield all hooks of a section."""
        if not section:
            return
        if not isinstance(section, dict):
            yield from self._keep_guard("PreToolUse", "hooks", "It is not an object of events.")
            return
        inner = section.get("hooks")
        if isinstance(inner, dict):  # a plugin's file has the section one level deeper, beside a description
            section = inner
        for name, value in section.items():
            yield from self._event(name, value)

    def _event(self, name: str, value: object) -> Iterator[HookSpec]:
        where = f"hooks.{name}"
        if name not in EVENTS:
            yield from self._read_unknown_event(name, value, where)
            return
        if not EVENTS[name].fires:
            self._warn(where, f"There is no moment for {name} yet; its hooks do not run.")
            return
        yield from self._groups(name, value, where)

    def _read_unknown_event(self, name: str, value: object, where: str) -> Iterator[HookSpec]:
        """Warn of an unknown event; where it is nearly spelled like one that guards, keep its hooks as broken guards."""
        meant = _nearest(name)
        problem = f"{name!r} is not an event that this version knows"
        guards: list[HookSpec] = []
        if meant and EVENTS[meant].fires and EVENTS[meant].on_failure == "block":
            guards = [
                each
                for each in self._groups(meant, value, where)
                if each.on_failure == "block" and not _is_observer(each)
            ]
        stays = (
            f" Until the file is fixed, it fails whenever {meant} is due, and what it guards is refused."
            if guards
            else ""
        )
        self._warn(where, f"{problem}{'.' if guards else '; it is ignored.'}{_advice(name, meant)}{stays}")
        for each in guards:
            yield make_spec(
                meant,
                BrokenHook(problem=f"{where}: {problem}."),
                matcher=each.matcher,
                if_rule=each.if_rule,
                on_failure="block",
                source=self._source,
                root=self._root,
                where=each.where,
                doubt=each.doubt,
            )

    def _groups(self, event: str, value: object, where: str) -> Iterator[HookSpec]:
        if value is None:
            return
        groups = value if isinstance(value, list) else [value]
        for number, group in enumerate(groups):
            yield from self._group(event, group, f"{where}[{number}]" if isinstance(value, list) else where)

    def _group(self, event: str, group: object, where: str) -> Iterator[HookSpec]:
        if not isinstance(group, dict):
            yield from self._keep_guard(event, where, f"{group!r} is not an object with `matcher` and `hooks`.")
            return
        matcher, doubt = self._matcher(event, group.get("matcher"), where)
        if "hooks" not in group and ({"type", "command", "url"} & group.keys()):
            yield from self._entry(event, group, matcher, {}, doubt, where)
            return
        entries, env = group.get("hooks"), group.get("env") or {}
        if isinstance(entries, dict):
            entries = [entries]
        if not isinstance(entries, list) or not isinstance(env, dict):
            wrong = "`hooks` is not a list." if not isinstance(entries, list) else "`env` is not an object."
            yield from self._keep_guard(event, where, wrong, matcher=matcher)
            return
        for number, entry in enumerate(entries):
            yield from self._entry(event, entry, matcher, env, doubt, f"{where}.hooks[{number}]")

    def _entry(
        self, event: str, raw: object, matcher: str, env: Mapping[str, object], doubt: str, where: str
    ) -> Iterator[HookSpec]:
        if not isinstance(raw, dict):
            wrong = f'{raw!r} is not an object like {{"type": "command", "command": "..."}}.'
            yield from self._keep_guard(event, where, wrong, matcher=matcher)
            return
        on_failure = self._on_failure(event, raw, where)
        if_rule, doubtful_rule = self._if_rule(event, raw, where)
        try:
            handler = read_handler(raw, env)
        except BadEntry as exc:
            yield from self._keep_guard(event, where, str(exc), matcher=matcher, on_failure=on_failure)
            return
        if isinstance(handler, CommandHook) and handler.background and EVENTS[event].decides:
            self._warn(where, "It runs in the background, so it decides nothing.")
        status = raw.get("statusMessage")
        yield make_spec(
            event,
            handler,
            matcher=matcher,
            if_rule=if_rule,
            timeout=self._timeout(raw, where),
            on_failure=on_failure,
            source=self._source,
            root=self._root,
            where=where,
            status=status if isinstance(status, str) else "",
            doubt=doubt or doubtful_rule,
        )

    def _keep_guard(
        self, event: str, where: str, problem: str, *, matcher: str = "", on_failure: OnFailure | None = None
    ) -> Iterator[HookSpec]:
        """Warn, and keep a broken guard in its place."""
        guards = (on_failure or EVENTS[event].on_failure) == "block"
        stays = (
            " Until the file is fixed, it fails whenever it is due, and what it guards is refused." if guards else ""
        )
        self._warn(where, f"{problem} The hook cannot run.{stays}")
        if guards:
            yield make_spec(
                event,
                BrokenHook(problem=f"{where}: {problem}"),
                matcher=matcher,
                on_failure="block",
                source=self._source,
                root=self._root,
                where=where,
            )

    def _matcher(self, event: str, value: object, where: str) -> tuple[str, str]:
        """Return the matcher, and why it cannot be read."""
        if value is None:
            return "", ""
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = "|".join(value)
        if not isinstance(value, str):
            return "", self._doubt(f"{where}.matcher", f"{value!r} is not a text.")
        if warning := matcher_warning(event, value):
            self._warn(f"{where}.matcher", warning)
        problem = matcher_problem(event, value) if EVENTS[event].matcher_field else ""
        if problem:
            unread = f"{value!r} cannot be read: {problem}."
            return value, self._doubt(f"{where}.matcher", unread, runs=fails_closed(event))
        return value, ""

    def _doubt(self, where: str, problem: str, *, runs: bool = True) -> str:
        what = "runs for everything; it may refuse, and may not allow or change anything" if runs else "does not run"
        self._warn(where, f"{problem} The hook {what}.")
        return problem

    def _if_rule(self, event: str, raw: Mapping[str, object], where: str) -> tuple[str, str]:
        value = raw.get("if")
        if value is None or value == "":
            return "", ""
        if not EVENTS[event].tool:
            self._warn(f"{where}.if", f"{event} is not about a call of a tool; `if` is ignored.")
            return "", ""
        try:
            if not isinstance(value, str):
                raise UserError(f"{value!r} is not a text.")
            Rule.parse("ask", value)
        except UserError as exc:
            return "", self._doubt(f"{where}.if", str(exc))
        return value, ""

    def _timeout(self, raw: Mapping[str, object], where: str) -> float | None:
        value = raw.get("timeout")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self._warn(f"{where}.timeout", f"{value!r} is not a number of seconds; the usual time is used.")
            return None
        if value > LONG_S:
            self._warn(f"{where}.timeout", f"{value} seconds is more than an hour; the time is not in milliseconds.")
        return float(value)

    def _on_failure(self, event: str, raw: Mapping[str, object], where: str) -> OnFailure | None:
        match raw.get("onFailure"):
            case None:
                return None
            case "continue":
                return "continue"
            case "block":
                if not EVENTS[event].decides:
                    self._warn(f"{where}.onFailure", f"Nothing can be refused at {event}; it is ignored.")
                return "block"
            case other:
                self._warn(f"{where}.onFailure", f"{other!r} is neither 'block' nor 'continue'; the usual one is used.")
                return None

    def _warn(self, where: str, words: str) -> None:
        self.warnings.append(f"{where}: {words}")


def _is_observer(spec: HookSpec) -> bool:
    """Return whether the session does not wait for a hook, so that it guards nothing."""
    return isinstance(spec.handler, CommandHook) and spec.handler.background


def _nearest(name: str) -> str:
    """Return the event that is spelled nearly like `name`; empty when none is."""
    lower = {each.lower(): each for each in EVENTS}
    plain = name.lower().replace("_", "").replace("-", "")
    found = difflib.get_close_matches(plain, lower, n=1, cutoff=0.8)
    return lower[found[0]] if found else ""


def _advice(name: str, meant: str) -> str:
    if name == "disableAllHooks":
        return " Write it beside `hooks`, not inside."
    return f" Did you mean {meant!r}?" if meant else ""
