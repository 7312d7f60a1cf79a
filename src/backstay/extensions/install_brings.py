"""What a plugin would add to a session, in words that a person can say yes or no to."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from backstay.extensions.plugin import Plugin
from backstay.logic.parts import clean

_MOST: Final = 500
_DEEPEST: Final = 4


class Brings(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a plugin, each as a line."""

    hooks: tuple[str, ...] = ()
    """Commands and requests that would run by themselves."""
    servers: tuple[str, ...] = ()
    """Programs that would be started, or addresses that would be asked."""
    commands: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """What it denies and wants to be asked."""
    instructions: str = ""
    """What it would tell the model."""
    problems: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether anything of it would run by itself."""
        return bool(self.hooks or self.servers)


def what_it_brings(plugin: Plugin) -> Brings:
    """Look through a plugin's folder; nothing of it runs."""
    top = f"{plugin.folder}{os.sep}"
    return Brings(
        hooks=_some(line for section in plugin.hooks_raw for line in _hooks(section)),
        servers=_some(f"{name}: {' '.join(_texts(server))}" for name, server in plugin.mcp_servers_raw.items()),
        commands=tuple(clean(f"/{plugin.name}:{name}") for name in _names(plugin.commands_dirs)),
        skills=tuple(clean(f"{plugin.name}:{name}") for name in _skills(plugin)),
        agents=tuple(map(clean, _names(plugin.agents_dirs))),
        rules=_some(f"{rule.decision} {rule}" for rule in plugin.deny_rules),
        instructions=plugin.instructions,
        problems=tuple(clean(each.replace(top, "")) for each in (*plugin.problems, *plugin.notes)),
    )


def _some(lines: Iterable[str]) -> tuple[str, ...]:
    """As many lines as anybody reads, and how many there are besides."""
    found = tuple(lines)
    return found if len(found) <= _MOST else (*found[:_MOST], f"(and {len(found) - _MOST:,} more)")


def _hooks(section: Mapping[str, object]) -> Iterator[str]:
    inner = section.get("hooks")
    for event, value in (inner if isinstance(inner, dict) else section).items():
        for words in _handlers(value):
            yield f"{event}: {' '.join(words)}"


def _handlers(value: object) -> Iterator[list[str]]:
    """The words of each handler, in whatever shape it stands: what the session would run must not be left out here."""
    if isinstance(value, list):
        for each in value:
            yield from _handlers(each)
    elif isinstance(value, dict) and "hooks" in value:
        for words in _handlers(value["hooks"]):
            yield [*words, *_texts({"env": value.get("env")})]
    elif value is not None:
        said = value if isinstance(value, dict) else {"": value}
        yield [*_texts({key: said[key] for key in said if key not in ("type", "timeout")})]


def _names(places: tuple[Path, ...]) -> Iterator[str]:
    """The names of the Markdown files below some folders; nested ones as `folder:name`."""
    count = 0
    for place in places:
        files = [place] if place.is_file() else _below(place, 0)
        for file in files:
            count += 1
            if count > _MOST:
                return
            parts = file.relative_to(place).with_suffix("").parts if place.is_dir() else (file.stem,)
            yield ":".join(parts)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    for each in sorted(folder.iterdir()):
        if each.is_dir() and not each.is_symlink() and depth < _DEEPEST:
            yield from _below(each, depth + 1)
        elif each.suffix == ".md" and each.is_file():
            yield each


def _skills(plugin: Plugin) -> Iterator[str]:
    count = 0
    for place in plugin.skills_dirs:
        folders = [place] if (place / "SKILL.md").is_file() else sorted(place.iterdir()) if place.is_dir() else []
        for folder in folders:
            if (folder / "SKILL.md").is_file() and count < _MOST:
                count += 1
                yield plugin.name if folder == plugin.folder else folder.name


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON value, in order; variables with their names."""
    if isinstance(value, dict):
        env = value.get("env")
        named = [f"{name}={said}" for name, said in env.items()] if isinstance(env, dict) else [env]
        value = [*(inner for key, inner in value.items() if key != "env"), *named]
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif value is not None:
        yield str(value)
