"""One handler of a settings file, read: strict about what it does, so that a guard is never half understood."""

from collections.abc import Callable, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

from backstay.logic.hooks.spec import AgentHook, CommandHook, Handler, HttpHook, PromptHook

TYPES: Final = ("command", "http", "prompt", "agent")
"""The types that settings may name. Functions come from the program."""


class BadEntry(ValueError):
    """An entry cannot be used; the message says why and what to write."""


def read_handler(raw: Mapping[str, object], env: Mapping[str, object]) -> Handler:
    """The handler that an entry describes; `env` is what its group sets for it. Raise `BadEntry`."""
    kind = raw.get("type", _guessed(raw))
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        if kind == "mcp_tool":
            raise BadEntry("Hooks of the type 'mcp_tool' are not available yet.")
        raise BadEntry(f"{kind!r} is not a type of hook. Write one of {', '.join(TYPES)}.")
    return reader(raw, env)


def _guessed(raw: Mapping[str, object]) -> object:
    """Old files leave the type out; what else is there says it."""
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
    return PromptHook(prompt=_text(raw, "prompt"), model=_optional(raw, "model"), goes_on=_flag(raw, "continueOnBlock"))


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
