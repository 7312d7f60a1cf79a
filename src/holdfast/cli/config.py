"""`holdfast config`: which settings files there are, and what they come to."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import telling
from holdfast.cli.trusting import here, legible, shown, trust_object

if TYPE_CHECKING:
    from holdfast.config.layer_file import LayerFile
    from holdfast.config.layers import Layered
    from holdfast.config.places import Place
    from holdfast.vocab.rules import Rule

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
given_file = click.option(
    "--settings", type=click.Path(dir_okay=False), metavar="FILE", help="Settings over the person's own."
)


@click.group("config")
def command() -> None:
    """Show the settings files and what they come to."""


@command.command()
@given_file
@as_json
@here
def path(cwd: Path, settings: str | None, as_json: bool) -> int:
    """List the settings files, highest first, and whether each is there."""
    import os

    from holdfast.config.json_text import is_missing
    from holdfast.config.places import places
    from holdfast.workspaces.project import project_root

    root = project_root(cwd.absolute())
    found = places(root, given=None if settings is None else Path(settings), bare=False, environment=os.environ)
    rows = [(each, not is_missing(each.path)) for each in found]
    if as_json:
        telling.say_json([{**_place(each), "exists": there} for each, there in rows])
    else:
        table = [(each.source, str(each.path), "there" if there else "missing") for each, there in rows]
        telling.say_table(("who", "file", ""), table)
    return 0


@command.command()
@given_file
@click.option("--trust", is_flag=True, help="As with --trust.")
@as_json
@here
def show(cwd: Path, settings: str | None, trust: bool, as_json: bool) -> int:
    """Show what the settings come to, where each value comes from, and what is left out."""
    from holdfast.config.layers import read_layers

    found = read_layers(cwd, given=settings, trust=trust or None)
    if as_json:
        telling.say_json(_object(found))
        return 0
    for line in _lines(found):
        telling.say(line)
    for words in filter(None, (*found.warnings, found.notice)):
        telling.complain(telling.harmless(words))
    return 0


def _object(found: "Layered") -> dict[str, object]:
    return {
        "files": [{**_place(file.place), "state": _state(file, found)} for file in found.files],
        "mode": found.mode,
        "bypass_forbidden_by": found.bypass_forbidden or None,
        "rules": [_rule(rule) for rule in found.rules],
        "hooks": [{"events": sorted(each.section), "source": each.source, "file": each.file} for each in found.hooks],
        "env": sorted(found.env),
        "folders": found.folders,
        "settings": _values(found),
        "origins": dict(found.origins),
        "trust": trust_object(found.trust),
        "warnings": (*found.warnings, *filter(None, (found.notice,))),
    }


def _values(found: "Layered") -> dict[str, object]:
    """The settings, without what only a provider may see."""
    said = found.settings
    return {
        "chat": {
            name: value for name in said.chat.__struct_fields__ if (value := getattr(said.chat, name)) is not None
        },
        "models": sorted(said.models),
        "providers": {
            name: {"type": each.type, "base_url": shown(each.base_url), "model": each.model}
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
    yield f"Mode: {found.mode or 'default'}{_from(found, 'mode')}"
    for title, rows in (
        ("Rules", [f"{rule.decision:5} {shown(str(rule))}  ({rule.source})" for rule in found.rules]),
        ("Hooks", [f"{', '.join(map(shown, sorted(each.section)))}  ({legible(each.file)})" for each in found.hooks]),
        ("Environment", [f"{shown(name)}{_from(found, f'env.{name}')}" for name in sorted(found.env)]),
        ("Folders", [legible(each) for each in found.folders]),
        ("Settings", [f"{shown(name)} = {shown(str(value))}{_from(found, name)}" for name, value in _flat(found)]),
    ):
        if rows:
            yield f"\n{title}:"
            yield from (f"  {row}" for row in rows)


def _flat(found: "Layered") -> Iterator[tuple[str, object]]:
    """The values that a file has said, each under its whole name."""
    for name, value in _values(found).items():
        inner = value if isinstance(value, dict) else {}
        yield from ((f"{name}.{key}", each) for key, each in inner.items() if f"{name}.{key}" in found.origins)
        if not inner and name in found.origins:
            yield name, value
    yield from ((name, "...") for name in found.origins if name.startswith("models."))


def _from(found: "Layered", name: str) -> str:
    return f"  ({legible(found.origins[name])})" if name in found.origins else ""


def _state(file: "LayerFile", found: "Layered") -> str:
    if file.broken:
        return "broken"
    return "only what it denies" if file.place.of_project and not found.trust.trusted else "read"


def _place(place: "Place") -> dict[str, object]:
    return {"path": legible(str(place.path)), "source": place.source, "family": place.family}


def _rule(rule: "Rule") -> dict[str, object]:
    return {"decision": rule.decision, "rule": str(rule), "source": rule.source, "root": rule.root}
