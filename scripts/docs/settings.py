"""The document about settings and their JSON Schema, read off the table of keys."""

import json
from collections.abc import Iterator
from typing import Final

from backstay.config.key_lookup import KNOWN_ELSEWHERE
from backstay.config.key_table import SECTIONS, Key, Section, SettableBy
from backstay.config.model_finder import USUAL
from backstay.config.settings_schema import Schema, kind_schema, settings_schema
from backstay.providers.registry import PROVIDERS, key_variable

_WHO: Final[dict[SettableBy, str]] = {
    "any": "every file",
    "trusted": "a project's once trusted",
    "stricter": "a project's once trusted; before that only to be stricter",
    "machine": "the machine's alone",
}


def settings_document() -> str:
    """Write `settings.md`: where settings are, how they meet, and every key."""
    lines = [_HEAD, "```json", EXAMPLE, "```", "", _TABLES]
    for section in SECTIONS:
        lines += ["", *_section(section)]
    lines += [
        "",
        _ELSEWHERE,
        "",
        _names(sorted(KNOWN_ELSEWHERE)),
        "",
        *_variables(),
        "",
        _ADDRESSES,
        *_addresses(),
        _END,
    ]
    return "\n".join(lines) + "\n"


def schema_document() -> str:
    """Write `settings.schema.json`."""
    return json.dumps(settings_schema(), indent=2) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    if section.about:
        yield from ("", section.about)
    yield from ("", "| key | value | default | besides yours and the machine's |", "|---|---|---|---|")
    for key in section.keys:
        yield f"| `{key.name}`{_also(key)}<br>{_cell(key.description)} | {_cell(_kind_words(key))} | {_cell(key.default)} | {_who(key)} |"


def _kind_words(key: Key) -> str:
    """Describe a key's value."""
    return ", or ".join(_schema_words(kind_schema(key)))


def _schema_words(schema: Schema) -> Iterator[str]:
    if "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _schema_words(each)
    elif "enum" in schema:
        yield ", ".join(f"`{str(each).lower() if isinstance(each, bool) else each}`" for each in schema["enum"])
    elif schema.get("type") == "array":
        inner = ", or ".join(_schema_words(schema.get("items", {})))
        yield f"list of {_PLURALS.get(inner, inner)}"
    else:
        yield _KINDS.get(schema.get("type", ""), "any") + _range(schema)


def _range(schema: Schema) -> str:
    if "pattern" in schema:
        return " that begins with `http://` or `https://`"
    low, above, high = schema.get("minimum"), schema.get("exclusiveMinimum"), schema.get("maximum")
    words = f"from {low}" if low is not None else f"above {above}" if above is not None else ""
    return f" {words}{f' to {high:,}' if high is not None else ''}" if words else ""


_PLURALS: Final = {"text": "texts", "any": "objects"}
_KINDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "object": "object",
}


def _also(key: Key) -> str:
    return f" or `{key.alias}`" if key.alias else ""


def _who(key: Key) -> str:
    words = {"no": "", "yes": "; `.claude` too", "project": "; a project's `.claude` too"}[key.claude_files]
    return f"{_WHO[key.settable_by]}{words}{'; those of all files' if key.merge == 'list' else ''}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _names(names: list[str]) -> str:
    return ", ".join(f"`{each}`" for each in names) + "."


def _variables() -> Iterator[str]:
    yield from ("## Keys and addresses in the environment", "")
    yield from ("| provider | key | another address | model when nothing names one |", "|---|---|---|---|")
    for each in PROVIDERS.values():
        free = " (not needed on this machine)" if each.name == "ollama" else ""
        keys, addresses = (" or ".join(f"`{name}`" for name in names) for names in (each.keys, each.addresses))
        usual = f"`{each.name}:{USUAL[each.name]}`" if each.name in USUAL else ""
        yield f"| `{each.name}` | {keys}{free} | {addresses} | {usual} |"
    yield from ("", "`BACKSTAY_DRAIN_S` is the time in seconds that a turn may go on after SIGTERM or SIGHUP.")


def _addresses() -> Iterator[str]:
    yield from ("", "| address | variable |", "|---|---|")
    for address in (
        "https://llm.example.org/v1",
        "https://my-llm.example.org:8443/v1",
        "http://127.0.0.1:8080/v1",
    ):
        yield f"| `{address}` | `{key_variable(address)}` |"


EXAMPLE: Final = """\
{
  "$schema": "./settings.schema.json",
  "permissions": {
    "deny": ["Read(.env)", "Bash(git push *)"],
    "ask": ["WebFetch"],
    "allow": ["Bash(make test)", "Edit(/docs/**)"],
    "defaultMode": "acceptEdits",
    "additionalDirectories": ["~/notes"],
    "disableBypassPermissionsMode": "disable"
  },
  "hooks": {
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh", "timeout": 10}]}]
  },
  "env": {"NODE_ENV": "test"},
  "currentProvider": "house",
  "providers": {
    "house": {
      "type": "openai-chat",
      "base_url": "https://llm.example.org/v1",
      "api_key": "$ENV:HOUSE_KEY",
      "headers": {"X-Team": "$ENV:HOUSE_TEAM"},
      "model": "qwen3-32b",
      "timeout": 300000,
      "options": {"top_k": 20}
    }
  },
  "models": {
    "qwen3-32b": {
      "window": 40960,
      "max_output": 8192,
      "prices": {"input": 0.10, "output": 0.30, "cache_read": 0.01, "cache_write": 0.12},
      "abilities": ["tools", "structured"]
    }
  },
  "chat": {
    "default_model": "house:qwen3-32b",
    "fs_scope": "project",
    "allowed_commands": ["git status", "make test"],
    "max_messages": 400,
    "max_cost_microcents": 500000000,
    "on_exceed": "pause_for_approval",
    "max_session_turns": 100,
    "max_tool_turns": 40
  },
  "fallback": ["openai:gpt-4o-mini"],
  "auto_compact": 0.8,
  "retries": 5,
  "language": "English",
  "enabledPlugins": {"formatter@house": true},
  "extraKnownMarketplaces": {"house": {"source": {"source": "github", "repo": "example/plugins"}}},
  "mcpServers": {"files": {"command": "files-server", "args": ["."]}},
  "enabledMcpjsonServers": ["issues"],
  "taskContext": {"enabled": true, "dir": ".agents/tasks"},
  "memory": {"enabled": true}
}"""
"""Settings that can be used as they stand."""

_HEAD: Final = """\
# Settings

Everything works without a settings file. What a flag says goes before what a file says. Generated by `make docs`; do not edit.

## Where they are

Highest first:

| whose | file |
|---|---|
| the machine's | `/etc/backstay/settings.json`; `BACKSTAY_MANAGED_SETTINGS` names a second one that is laid below it |
| this run's | flags, then `--settings FILE` |
| the project's, yours alone | `.backstay/settings.local.json` |
| the project's | `.backstay/settings.json` |
| the same for another program | `.claude/settings.local.json`, `.claude/settings.json`: the keys that are marked below |
| yours | `~/.config/backstay/settings.json`; `$XDG_CONFIG_HOME/backstay` when that is set; `BACKSTAY_CONFIG_DIR` is another folder |
| yours for another program | `~/.claude/settings.json` (`CLAUDE_CONFIG_DIR` names another folder): the same keys |

A project is the git root above the working folder, or else the working folder. `--bare` reads none of them except the machine's. A
file that changes while a session is open is read again before the next turn.

```
backstay config path                              which files there are
backstay config show                              what they come to, each value with its file and line, and what is left out
backstay config show --why permissions.allow      who says what about one value, what counts, and why the rest does not
backstay config schema                            the JSON Schema, for editors
```

Lists are gathered from all files: rules, hooks, folders, `chat.allowed_commands`. So no file takes away what another denies. Of everything
else the highest file's word counts: `chat`, `env`, `enabledPlugins`, `taskContext` and `memory` key by key, `models`, `providers`,
`mcpServers` entry by entry, the rest whole. `--settings` is taken by `backstay -p`, `backstay models show`,
`backstay sessions compact` and `backstay config`.

Sessions, pulled models, trust and copies of denials are under `~/.local/share/backstay`; under `$XDG_DATA_HOME/backstay` when that is
set; `BACKSTAY_DATA_DIR` names another folder.

## Which model answers

The first of these that says one: `--model`; `currentProvider`, which names a profile; the older `provider`; `chat.default_model`; `model`;
and where nothing says one, the provider whose key is in the environment, which is told. An old session keeps its model.

## When a file is broken

A file that cannot be read, is no JSON or no regular file, has more than 1 MiB, 5,000 rules, or 2,000 keys in its upper two levels, has a
key of `permissions` or `hooks` twice, or has a denial that is no rule is broken. It never counts as missing. What it denied and asked
for when it could last be read goes on holding, with its stricter mode, its hooks that decide and the servers it disabled, and a warning
names the file and the line; the rest of it is left out. When nobody knows what it denied, nothing starts (exit code 1).

Any other wrong value stops the run with the file, the line and the key, in a file that counts; in another program's file it is left out
with a warning. A key that this version does not know is a warning that names the nearest one it knows, and is left out, in a file of
another program too, but for the [keys of other programs](#keys-of-other-programs). An allowance that is no rule allows nothing, with a
warning.

A misspelled name never loosens: what stands under a key that is nearly spelled `deny`, `ask`, `defaultMode` (a stricter mode) or
`disableBypassPermissionsMode`, inside `permissions` or inside a section whose name is nearly spelled so, holds as if it were spelled
right, trusted or not, with a warning. `backstay permissions lint` ends with 1 for it.

## Trust

What comes with a workspace does nothing until you trust it: its hooks, allow rules, folders, environment, providers, models, plugins,
marketplaces, MCP servers and every other setting, and a mode that is looser than yours. What it denies and asks for holds at
once. `bypassPermissions` never comes from a project's file. `backstay config show` lists what is held back.

```
backstay trust              show what it would run or loosen, ask, and trust it from now on (--yes: do not ask)
backstay trust show --json  the same for programs; the state is trusted, untrusted or changed
backstay trust revoke       trust it no longer
backstay -p "..." --trust   trust it for this run; nothing is recorded
```

Trust is for the folder and for the content that was shown. It ends when any of this changes, and `backstay trust` says what did:

- the project's settings files and `.mcp.json`;
- files of the project that a hook or a server names, such as `scripts/check.sh`, and what its command runs: the script after a `cd`,
  the module behind `python -m` and compiled ones that Python takes before it, `package.json` behind `npm`, the Makefile behind `make`
  (what such a file runs in turn is not looked at);
- files of the project that a hook or a server of your own would run, because it is started there: `./guard.sh`, `npx NAME` with a
  `node_modules/.bin/NAME`, `make`;
- everything in the folders `agents`, `commands`, `hooks`, `output-styles`, `plugins`, `skills` and `workflows` of `.backstay`, `.claude`
  and `.agents`. Links there are not followed, and what is behind them is not loaded. At most 5,000 files and 64 MiB: more than that cannot
  be trusted for good;
- programs in the repository's git configuration: `core.fsmonitor`, `core.hooksPath` with every hook in it, `diff.external`, filters,
  aliases, included files and the like, with the files of the project that they name.

A hook whose files cannot be told from its command, such as `npx prettier`, is not covered by what is recorded: it runs under `--trust`
only. Otherwise a hook that decides (`PreToolUse`, `UserPromptSubmit`, `UserPromptExpansion`, `PreModelSwitch`) refuses the step, and at
any other event the step goes on without the hook. So is a server such as `uv run serve.py`; one that is fetched by its name (`npx
-y NAME`, `uvx NAME`, `docker run NAME`) is covered. `backstay trust show` names them. Only a person can trust, for good or for one run: a
program that a session started cannot, however it is started.

**Your own hooks and servers run nothing of a workspace that is not trusted**, but for programs in a folder of it that you put on `PATH` by
its full path. One that would is held, a hook refuses what it stands guard
over, and the message says which file it is. Python is told not to look for modules there (`PYTHONSAFEPATH`), so `python3 -c "import
json"` and `python3 -m my_server` go on to work, also behind programs that keep variables (`nice`, `ionice`, `flock`, `taskset`, `op run`,
`doppler run`, `aws-vault exec`, `xvfb-run`, ...). A Python whose version its path does not tell, and one whose variables may be gone
(behind `env -i`, `env -u`, `unset`, `sudo`, `su` or a program that no list knows), is held
when such a file is there, and when it runs or imports a
module that is not Python's own, such as `my_server`: of this it cannot be told what it imports. Of a program that no list knows, each word
that may be a command is followed, and what cannot be told is held. What a script of yours outside the workspace starts in
turn is not looked at.

A workspace that has nothing of the kind is as good as trusted, and so is one whose settings only make things stricter. Only programs that
may load files of it (`python --version` behind a version manager, `pytest --version`, `npm ls`, `pip list`) are asked about until you say
`backstay trust`. One whose git configuration names programs is not: git commands that would otherwise run by themselves need a yes there.

The home folder, `/`, temporary folders and folders of other users get a warning when they are a project, and so do your own settings when
others can change them.

## An example
"""

_TABLES: Final = """\
In the tables, `*` is a name of your own. The last column says which files may set a key besides yours, this run's and the machine's."""

_ELSEWHERE: Final = """\
## Keys of other programs

These are let stand without a warning, and mean nothing here:"""

_ADDRESSES: Final = """\
## A server by its address

Any server can be named without a profile: `provider:MODEL@ADDRESS`, where the provider says which format it speaks.

```
backstay -p "..." --model openai-chat:qwen3@http://127.0.0.1:8080/v1
backstay -p "..." --model openai-chat:qwen3@https://llm.example.org/v1
```

The first needs no key. The second has a variable of its own, since a provider's key is never sent to an address in a name:
`BACKSTAY_API_KEY_` and the host in capitals, with `_` for a dot, `__` for a hyphen, and `_PORT_` and the port when there is one."""

_END: Final = """
`backstay models show NAME` names the variable. Over plain `http` a key is sent to this machine only."""
