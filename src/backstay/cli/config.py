"""`backstay config`: which settings files there are, what they come to, and why."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstay.cli import output
from backstay.cli.trust import here, legible, shown, trust_object

if TYPE_CHECKING:
    from backstay.config.entries import SettingsEntry
    from backstay.config.layer_file import LayerFile
    from backstay.config.layers import Layered
    from backstay.config.locations import SettingsFile
    from backstay.instructions import InstructionInputs, Instructions, Part
    from backstay.vocab.rules import Rule

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
trusted = click.option("--trust", is_flag=True, help="As with --trust.")
given_file = click.option(
    "--settings", type=click.Path(dir_okay=False), metavar="FILE", help="Settings over the person's own."
)


@click.group("config")
def command() -> None:
    """Show the settings files, what they come to, and why."""


@command.command()
@given_file
@as_json
@here
def path(cwd: Path, settings: str | None, as_json: bool) -> int:
    """List the settings files, highest first, and whether each is there."""
    import os

    from backstay.config.json_document import is_missing
    from backstay.config.locations import places
    from backstay.sandbox.folders import project_root

    root = project_root(cwd.absolute())
    found = places(root, given=None if settings is None else Path(settings), bare=False, environment=os.environ)
    rows = [(each, not is_missing(each.path)) for each in found]
    if as_json:
        output.say_json([{**_place(each), "exists": there} for each, there in rows])
    else:
        table = [(each.source, str(each.path), "there" if there else "missing") for each, there in rows]
        output.say_table(("who", "file", ""), table)
    return 0


@command.command()
@given_file
@trusted
@click.option("--why", "key", metavar="KEY", help="Tell of one value alone who says what, and what counts.")
@as_json
@here
def show(cwd: Path, settings: str | None, trust: bool, key: str | None, as_json: bool) -> int:
    """Show what the settings come to, where each value comes from, and what is left out.

    \b
    backstay config show
    backstay config show --why permissions.allow
    backstay config show --why providers.house --json
    """
    from backstay.cli.permissions import granted_here, objects, told
    from backstay.config.layers import read_layers

    found = read_layers(cwd, given=settings, trust=trust or None)
    if key is not None:
        return _tell_why(found, key, as_json=as_json)
    if as_json:
        output.say_json({**_object(found), "grants": objects(granted_here(cwd))})
        return 0
    for line in _lines(found):
        output.say(line)
    if grants := granted_here(cwd):
        output.say("\nAllowed for longer than a session (backstay permissions grants):")
        output.say("\n".join(f"  {line}" for line in told(grants)))
    for words in filter(None, (*found.warnings, found.notice, _chosen(found)[1])):
        output.warn(output.escape_terminal(words))
    return 0


@command.command()
def schema() -> int:
    """Print the JSON Schema of settings files, for editors.

    \b
    backstay config schema > ~/.config/backstay/settings.schema.json
    and in a settings file: "$schema": "./settings.schema.json"
    """
    import json

    from backstay.config.json_schema import settings_schema

    output.say(json.dumps(settings_schema(), indent=2))
    return 0


@command.command()
@click.option("--whole", is_flag=True, help="Print the text itself.")
@trusted
@as_json
@here
def instructions(cwd: Path, trust: bool, as_json: bool, whole: bool) -> int:
    """Show the parts of what a new session is told before anybody speaks, each with its file.

    \b
    backstay config instructions --cwd ~/src/project
    backstay config instructions --whole
    """

    show_instructions(cwd, as_json=as_json, trust=trust or None, whole=whole)
    return 0


# --- one value -------------------------------------------------------------------------------------------------------------------


def _tell_why(found: "Layered", key: str, *, as_json: bool) -> int:
    entries = found.why(key)
    if as_json:
        output.say_json([_entry(each) for each in entries])
        return 0
    for each in entries:
        mark = "counts" if each.counts else f"does not count: {each.reason}"
        output.say(f"{_assigned(each)}\n    {each.source}, {legible(each.place)}: {legible(mark)}")
    if not entries:
        output.say(f"Nobody says anything about {legible(key)}, and nothing holds by default.")
    return 0


def _entry(entry: "SettingsEntry") -> dict[str, object]:
    return {
        "key": legible(entry.key),
        "value": _clean(entry.value),
        "source": entry.source,
        "file": legible(entry.file) or None,
        "line": entry.line or None,
        "counts": entry.counts,
        "reason": legible(entry.reason),
    }


def _assigned(entry: "SettingsEntry") -> str:
    import msgspec

    value = entry.value if isinstance(entry.value, str) else msgspec.json.encode(entry.value).decode()
    return f"{legible(entry.key)} = {shown(value)}"


def _clean(value: object) -> object:
    """A value of a file with nothing in it that a terminal obeys."""
    if isinstance(value, dict):
        return {legible(str(name)): _clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return shown(value) if isinstance(value, str) else value


# --- everything ------------------------------------------------------------------------------------------------------------------


def _object(found: "Layered") -> dict[str, object]:
    model, problem = _chosen(found)
    return {
        "files": [{**_place(file.place), "state": _state(file, found)} for file in found.files],
        "mode": found.mode,
        "model": model,
        "bypass_forbidden_by": found.bypass_forbidden or None,
        "rules": [_rule(rule) for rule in found.rules],
        "hooks": [{"events": sorted(each.section), "source": each.source, "file": each.file} for each in found.hooks],
        "env": sorted(found.env),
        "folders": found.folders,
        "settings": _values(found),
        "values": [_entry(each) for each in found.entries],
        "trust": trust_object(found.trust),
        "warnings": (*found.warnings, *filter(None, (found.notice, problem))),
    }


def _chosen(found: "Layered") -> tuple[dict[str, str] | None, str]:
    """The model that answers when none is named, and what is to be said about it."""
    from backstay.config.model_finder import choose
    from backstay.vocab.errors import UserError

    try:
        choice = choose(found.settings)
    except UserError as exc:
        return None, str(exc)
    return (None, "") if choice is None else ({"name": shown(choice.model), "because": choice.why}, choice.notice)


def _values(found: "Layered") -> dict[str, object]:
    """The settings, without what only a provider may see."""
    from backstay.config.secret import mask_query

    said = found.settings
    return {
        "chat": {
            name: value for name in said.chat.__struct_fields__ if (value := getattr(said.chat, name)) is not None
        },
        "models": sorted(said.models),
        "providers": {
            name: {"type": each.type, "base_url": shown(mask_query(each.base_url)), "model": each.model}
            for name, each in said.providers.items()
        },
        "fallback": said.fallback,
        "auto_compact": said.auto_compact,
        "retries": said.retries,
    }


def _lines(found: "Layered") -> Iterator[str]:
    yield "Files, highest first:"
    for file in found.files:
        yield f"  {file.place.source:8} {legible(file.path)}  {_state(file, found)}"
    if not found.files:
        yield "  none"
    yield f"\nWorkspace: {legible(found.trust.root)}, {found.trust.state}"
    yield f"Mode: {found.mode or 'default'}{f'  ({legible(found.mode_file)})' if found.mode_file else ''}"
    model, _ = _chosen(found)
    yield f"Model: {model['name']}  ({model['because']})" if model else "Model: none; give one with --model"
    for title, rows in _parts(found).items():
        if rows:
            yield f"\n{title}:"
            yield from (f"  {row}" for row in rows)


def _parts(found: "Layered") -> dict[str, list[str]]:
    from backstay.config.entries import ELSEWHERE, UNTRUSTED

    counted = [each for each in found.entries if each.counts]
    held = [each for each in found.entries if not each.counts and each.reason.startswith(UNTRUSTED)]
    others = [each for each in found.entries if each.reason == ELSEWHERE]
    defaults = [each for each in found.why("permissions.allow") if each.source == "default"]
    rules = [each for each in (*counted, *defaults) if each.key in _RULES]
    return {
        "Rules": [f"{_RULES[each.key]:5} {shown(str(each.value))}  ({each.source}){_at(each)}" for each in rules],
        "Hooks": [f"{legible(each.key[6:])}{_at(each)}" for each in counted if each.key.startswith("hooks.")],
        "Environment": [
            f"{shown(f'{each.key[4:]}={each.value}')}{_at(each)}" for each in counted if each.key.startswith("env.")
        ],
        "Folders": [legible(each) for each in found.folders],
        "Settings": [f"{_assigned(each)}{_at(each)}" for each in counted if not each.key.startswith(_ELSEWHERE_TOLD)],
        "Held back until the workspace is trusted": [f"{_assigned(each)}{_at(each)}" for each in held],
        "Known elsewhere, not used here": [f"{legible(each.key)}{_at(each)}" for each in others],
    }


_RULES = {f"permissions.{decision}": decision for decision in ("deny", "ask", "allow")}
_ELSEWHERE_TOLD = (*_RULES, "hooks.", "env.")


def _at(entry: "SettingsEntry") -> str:
    return f"  ({legible(entry.place)})" if entry.file else ""


def _state(file: "LayerFile", found: "Layered") -> str:
    if file.broken:
        return "broken"
    return "only what it denies" if file.place.of_project and not found.trust.trusted else "read"


def _place(place: "SettingsFile") -> dict[str, object]:
    return {"path": legible(str(place.path)), "source": place.source, "family": place.family}


def _rule(rule: "Rule") -> dict[str, object]:
    return {"decision": rule.decision, "rule": str(rule), "source": rule.source, "root": rule.root}


def show_instructions(
    cwd: Path,
    *,
    as_json: bool,
    trust: bool | None = None,
    whole: bool = False,
    place: "InstructionInputs | None" = None,
) -> None:
    """Print each part with its source, its size, its limit and whether it was cut; with `whole` or `as_json` the text as well.

    Without a `place` it is that of a session that begins here now, with its memory, skills and plugins.
    """
    from backstay.instructions import gather

    found = gather(place) if place is not None else _told_here(cwd, trust)
    if as_json:
        output.say_json(instructions_object(found))
        return
    if whole:
        output.say(output.escape_terminal(found.text, keep="\n\t"))
    else:
        _say_parts(found)
    for words in found.problems:
        output.warn(output.escape_terminal(words))


def instructions_object(found: "Instructions") -> dict[str, object]:
    """Everything about the instructions, for programs."""
    return {
        "sha256": found.sha256,
        "size": len(found.text.encode()),
        "parts": [_part(part) for part in found.parts],
        "compact_instructions": found.compact_instructions,
        "files": [{"path": _text(path), "exists": stamp is not None} for path, stamp in sorted(found.files.items())],
        "problems": [_text(words) for words in found.problems],
        "text": found.text,
    }


def _told_here(cwd: Path, trust: bool | None) -> "Instructions":
    from backstay.config.layers import read_layers
    from backstay.config.model_finder import choose
    from backstay.session.project.discover import look_here
    from backstay.vocab.errors import UserError

    layered = read_layers(cwd, trust=trust)
    try:
        chosen = choose(layered.settings)
    except UserError as exc:  # the model has a part in one line of it: no reason to show none
        output.warn(output.escape_terminal(str(exc)))
        chosen = None
    return look_here(layered, model=chosen.model if chosen is not None else "").instructions


def _say_parts(found: "Instructions") -> None:
    rows = [
        (part.name, f"{part.size:,}", f"{part.limit:,}", "cut" if part.cut else "", ", ".join(map(_text, part.sources)))
        for part in found.parts
    ]
    output.say_table(("part", "bytes", "limit", "", "source"), rows)
    output.say(f"\n{len(found.text.encode()):,} bytes in all, {found.sha256[:12]}.")
    if found.compact_instructions:
        output.say(f"Summaries are told: {output.escape_terminal(' '.join(found.compact_instructions.split()))}")


def _part(part: "Part") -> dict[str, object]:
    return {
        "name": part.name,
        "title": part.title,
        "sources": [_text(each) for each in part.sources],
        "size": part.size,
        "limit": part.limit,
        "cut": part.cut,
        "text": part.text,
    }


def _text(words: str) -> str:
    """A path that may not be UTF-8 as text that JSON can hold."""
    return words.encode("utf-8", "replace").decode()
