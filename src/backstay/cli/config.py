"""`backstay config`: the settings files, the values in force and why, and the instructions of a new session."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from backstay.cli import output
from backstay.cli.output import escape_untrusted, redact_untrusted
from backstay.cli.permissions import find_grants, grant_lines, grant_objects
from backstay.cli.shared_options import as_json, settings, trust, with_folder
from backstay.cli.trust import trust_object
from backstay.config.entries import ELSEWHERE, UNTRUSTED, SettingsEntry
from backstay.config.layer_file import LayerFile
from backstay.config.layers import Layered, read_layers
from backstay.config.locations import SettingsFile, places
from backstay.config.model_finder import choose
from backstay.config.secret import mask_query
from backstay.config.settings_schema import settings_schema
from backstay.instructions import Instructions, Part
from backstay.logic.text import show_invisible
from backstay.session.project.discover_extensions import discover_here
from backstay.system.files import is_missing
from backstay.system.folders import project_root
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule


@click.group("config")
def command() -> None:
    """Show the settings files, the values that they come to, and why."""


@command.command()
@settings
@as_json
@with_folder
def path(cwd: Path, settings: str | None, as_json: bool) -> int:
    """List the settings files, highest first, and whether each is there."""
    root = project_root(cwd.absolute())
    found = places(root, given=None if settings is None else Path(settings), bare=False, environment=os.environ)
    rows = [(each, not is_missing(each.path)) for each in found]
    if as_json:
        output.print_json([{**_place(each), "exists": there} for each, there in rows])
    else:
        table = [(each.source, str(each.path), "there" if there else "missing") for each, there in rows]
        output.print_table(("who", "file", ""), table)
    return 0


@command.command()
@settings
@trust
@click.option("--why", "key", metavar="KEY", help="Show for one value what each file says, and what counts.")
@as_json
@with_folder
def show(cwd: Path, settings: str | None, trust: bool, key: str | None, as_json: bool) -> int:
    """Show the settings in force, where each value comes from, and what is left out.

    \b
    backstay config show
    backstay config show --why permissions.allow
    backstay config show --why providers.house --json
    """
    found = read_layers(cwd, given=settings, trust=trust or None)
    if key is not None:
        return _explain(found, key, as_json=as_json)
    if as_json:
        output.print_json({**_object(found), "grants": grant_objects(find_grants(cwd))})
        return 0
    for line in _lines(found):
        output.print_line(line)
    if grants := find_grants(cwd):
        output.print_line("\nAllowed for longer than a session (backstay permissions grants):")
        output.print_line("\n".join(f"  {line}" for line in grant_lines(grants)))
    for words in filter(None, (*found.warnings, found.notice, _default_model(found)[1])):
        output.warn(output.escape_line(words))
    return 0


@command.command()
def schema() -> int:
    """Print the JSON Schema of settings files, for editors.

    \b
    backstay config schema > ~/.config/backstay/settings.schema.json
    and in a settings file: "$schema": "./settings.schema.json"
    """
    output.print_line(json.dumps(settings_schema(), indent=2))
    return 0


@command.command()
@click.option("--whole", is_flag=True, help="Print the text itself.")
@trust
@as_json
@with_folder
def instructions(cwd: Path, trust: bool, as_json: bool, whole: bool) -> int:
    """Show the parts of the instructions of a new session, each with its file.

    \b
    backstay config instructions --cwd ~/src/project
    backstay config instructions --whole
    """
    found = _gather_instructions(cwd, trust or None)
    if as_json:
        output.print_json(_instructions_object(found))
        return 0
    if whole:
        output.print_line(show_invisible(found.text))
    else:
        _print_parts(found)
    for words in found.problems:
        output.warn(output.escape_line(words))
    return 0


# --- one value -------------------------------------------------------------------------------------------------------------------


def _explain(found: Layered, key: str, *, as_json: bool) -> int:
    entries = found.why(key)
    if as_json:
        output.print_json([_entry(each) for each in entries])
        return 0
    for each in entries:
        mark = "counts" if each.counts else f"does not count: {each.reason}"
        output.print_line(
            f"{_assignment(each)}\n    {each.source}, {escape_untrusted(each.place)}: {escape_untrusted(mark)}"
        )
    if not entries:
        output.print_line(f"No file says anything about {escape_untrusted(key)}, and nothing holds by default.")
    return 0


def _entry(entry: SettingsEntry) -> dict[str, object]:
    return {
        "key": escape_untrusted(entry.key),
        "value": _clean(entry.value),
        "source": entry.source,
        "file": escape_untrusted(entry.file) or None,
        "line": entry.line or None,
        "counts": entry.counts,
        "reason": escape_untrusted(entry.reason),
    }


def _assignment(entry: SettingsEntry) -> str:
    value = entry.value if isinstance(entry.value, str) else msgspec.json.encode(entry.value).decode()
    return f"{escape_untrusted(entry.key)} = {redact_untrusted(value)}"


def _clean(value: object) -> object:
    """Return a value of a file without control characters."""
    if isinstance(value, dict):
        return {escape_untrusted(str(name)): _clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return redact_untrusted(value) if isinstance(value, str) else value


# --- everything ------------------------------------------------------------------------------------------------------------------


def _object(found: Layered) -> dict[str, object]:
    model, problem = _default_model(found)
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


def _default_model(found: Layered) -> tuple[dict[str, str] | None, str]:
    """Return the default model and why it is, and a warning about it."""
    try:
        choice = choose(found.settings)
    except UserError as exc:
        return None, str(exc)
    return (
        (None, "")
        if choice is None
        else ({"name": redact_untrusted(choice.model), "because": choice.why}, choice.notice)
    )


def _values(found: Layered) -> dict[str, object]:
    """Return the settings without secrets."""
    settings = found.settings
    return {
        "chat": {
            name: value
            for name in settings.chat.__struct_fields__
            if (value := getattr(settings.chat, name)) is not None
        },
        "models": sorted(settings.models),
        "providers": {
            name: {"type": each.type, "base_url": redact_untrusted(mask_query(each.base_url)), "model": each.model}
            for name, each in settings.providers.items()
        },
        "fallback": settings.fallback,
        "auto_compact": settings.auto_compact,
        "retries": settings.retries,
    }


def _lines(found: Layered) -> Iterator[str]:
    yield "Files, highest first:"
    for file in found.files:
        yield f"  {file.place.source:8} {escape_untrusted(file.path)}  {_state(file, found)}"
    if not found.files:
        yield "  none"
    yield f"\nWorkspace: {escape_untrusted(found.trust.root)}, {found.trust.state}"
    yield f"Mode: {found.mode or 'default'}{f'  ({escape_untrusted(found.mode_file)})' if found.mode_file else ''}"
    model, _ = _default_model(found)
    yield f"Model: {model['name']}  ({model['because']})" if model else "Model: none; give one with --model"
    for title, rows in _parts(found).items():
        if rows:
            yield f"\n{title}:"
            yield from (f"  {row}" for row in rows)


def _parts(found: Layered) -> dict[str, list[str]]:
    counted = [each for each in found.entries if each.counts]
    held = [each for each in found.entries if not each.counts and each.reason.startswith(UNTRUSTED)]
    others = [each for each in found.entries if each.reason == ELSEWHERE]
    defaults = [each for each in found.why("permissions.allow") if each.source == "default"]
    rules = [each for each in (*counted, *defaults) if each.key in _RULES]
    return {
        "Rules": [
            f"{_RULES[each.key]:5} {redact_untrusted(str(each.value))}  ({each.source}){_at(each)}" for each in rules
        ],
        "Hooks": [f"{escape_untrusted(each.key[6:])}{_at(each)}" for each in counted if each.key.startswith("hooks.")],
        "Environment": [
            f"{redact_untrusted(f'{each.key[4:]}={each.value}')}{_at(each)}"
            for each in counted
            if each.key.startswith("env.")
        ],
        "Folders": [escape_untrusted(each) for each in found.folders],
        "Settings": [f"{_assignment(each)}{_at(each)}" for each in counted if not each.key.startswith(_ELSEWHERE_TOLD)],
        "Held back until the workspace is trusted": [f"{_assignment(each)}{_at(each)}" for each in held],
        "Known elsewhere, not used here": [f"{escape_untrusted(each.key)}{_at(each)}" for each in others],
    }


_RULES = {f"permissions.{decision}": decision for decision in ("deny", "ask", "allow")}
_ELSEWHERE_TOLD = (*_RULES, "hooks.", "env.")


def _at(entry: SettingsEntry) -> str:
    return f"  ({escape_untrusted(entry.place)})" if entry.file else ""


def _state(file: LayerFile, found: Layered) -> str:
    if file.broken:
        return "broken"
    return "only what it denies" if file.place.of_project and not found.trust.trusted else "read"


def _place(place: SettingsFile) -> dict[str, object]:
    return {"path": escape_untrusted(str(place.path)), "source": place.source, "family": place.family}


def _rule(rule: Rule) -> dict[str, object]:
    return {"decision": rule.decision, "rule": str(rule), "source": rule.source, "root": rule.root}


# --- the instructions -----------------------------------------------------------------------------------------------------------


def _instructions_object(found: Instructions) -> dict[str, object]:
    return {
        "sha256": found.sha256,
        "size": len(found.text.encode()),
        "parts": [_part(part) for part in found.parts],
        "compact_instructions": found.compact_instructions,
        "files": [{"path": _text(path), "exists": stamp is not None} for path, stamp in sorted(found.files.items())],
        "problems": [_text(words) for words in found.problems],
        "text": found.text,
    }


def _gather_instructions(cwd: Path, trust: bool | None) -> Instructions:
    layered = read_layers(cwd, trust=trust)
    try:
        chosen = choose(layered.settings)
    except UserError as exc:  # only one line of the instructions depends on the model
        output.warn(output.escape_line(str(exc)))
        chosen = None
    return discover_here(layered, model=chosen.model if chosen is not None else "").instructions


def _print_parts(found: Instructions) -> None:
    rows = [
        (part.name, f"{part.size:,}", f"{part.limit:,}", "cut" if part.cut else "", ", ".join(map(_text, part.sources)))
        for part in found.parts
    ]
    output.print_table(("part", "bytes", "limit", "", "source"), rows)
    output.print_line(f"\n{len(found.text.encode()):,} bytes in all, {found.sha256[:12]}.")
    if found.compact_instructions:
        output.print_line(f"Summaries are told: {output.escape_line(' '.join(found.compact_instructions.split()))}")


def _part(part: Part) -> dict[str, object]:
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
    """Return a path that may not be UTF-8 as text that JSON can hold."""
    return words.encode("utf-8", "replace").decode()
