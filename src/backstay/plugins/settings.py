"""Which plugins the settings switch on and off, and which marketplaces they know: `enabledPlugins` and `extraKnownMarketplaces`."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from backstay.config.json_document import JsonReader
from backstay.config.layer_file import LayerFile
from backstay.plugins.ids import PluginId, check_name
from backstay.plugins.install.sources import EntrySource, Source, UrlSource, check_url, entry_source
from backstay.vocab.errors import UserError

ENABLED: Final = "enabledPlugins"
MARKETPLACES: Final = "extraKnownMarketplaces"
_ABOVE: Final = ("managed", "flag")
"""Whose word goes before that of the workspace."""


class Enabling(Struct, frozen=True, kw_only=True):
    """What the settings files say about plugins."""

    enabled: Mapping[str, bool] = field(default_factory=dict)
    """What counts without the workspace."""
    of_project: Mapping[str, bool] = field(default_factory=dict)
    """What the workspace's files say. It counts over `enabled` when the workspace is trusted, and not at all otherwise."""
    marketplaces: Mapping[str, Source] = field(default_factory=dict)
    """Marketplaces that the person's files name."""
    project_marketplaces: Mapping[str, Source] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def counts(self, *, trusted: bool) -> dict[str, bool]:
        """What is on and what is off."""
        return {**self.enabled, **self.of_project} if trusted else dict(self.enabled)


def read_enabling(files: Sequence[LayerFile]) -> Enabling:
    """Read both sections of settings files that are in order, highest first. Nothing raises: what is wrong is a problem with its place.

    The person's settings for another program are left out: its plugins are not installed here.
    """
    fixed: dict[str, bool] = {}
    own: dict[str, bool] = {}
    project: dict[str, bool] = {}
    known: dict[str, Source] = {}
    brought: dict[str, Source] = {}
    problems: list[str] = []
    for file in files:
        if file.text is None or (file.place.family == "claude" and not file.place.of_project):
            continue
        into = fixed if file.place.source in _ABOVE else project if file.place.of_project else own
        for name, on in _section(file, problems).items():
            into.setdefault(name, on)
        for name, source in _marketplaces(file, problems).items():
            (brought if file.place.of_project else known).setdefault(name, source)
    return Enabling(
        enabled={**own, **fixed},
        of_project={name: on for name, on in project.items() if name not in fixed},
        marketplaces=known,
        project_marketplaces={name: source for name, source in brought.items() if name not in known},
        problems=tuple(problems),
    )


def _section(file: LayerFile, problems: list[str]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, on in _read(file, ENABLED, problems).items():
        place = file.text.place((ENABLED, name)) if file.text is not None else file.path
        try:
            if "@" in name:
                PluginId.parse(name)
            else:
                check_name(name, "plugin")
        except UserError as exc:
            problems.append(f"{place}: {ENABLED}: {exc}")
            continue
        if not isinstance(on, bool):
            problems.append(f"{place}: {ENABLED}.{name}: It is neither true nor false; the plugin is left off.")
        found[name] = on is True
    return found


def _marketplaces(file: LayerFile, problems: list[str]) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for name, said in _read(file, MARKETPLACES, problems).items():
        place = file.text.place((MARKETPLACES, name)) if file.text is not None else file.path
        try:
            inner = said.get("source", said) if isinstance(said, dict) else said
            found[check_name(name, "marketplace")] = _marketplace_source(inner)
        except UserError as exc:
            problems.append(f"{place}: {MARKETPLACES}.{name}: {exc}")
    return found


def _marketplace_source(said: object) -> Source:
    if not isinstance(said, dict) or not all(isinstance(each, str) for each in said.values()):
        raise UserError('A source is an object like {"source": "github", "repo": "OWNER/REPO"}.')
    known = {key: value for key, value in said.items() if key in EntrySource.__struct_fields__}
    if "source" not in known:
        raise UserError("It has no source.")
    if known["source"] == "url":  # the address of the file itself, unlike in a marketplace's own entries
        return UrlSource(url=check_url(known.get("url", ""), ("https", "http")))
    return entry_source(EntrySource(**known), local=False)


def _read(file: LayerFile, key: str, problems: list[str]) -> dict[str, object]:
    if file.text is None:
        return {}
    reader = JsonReader(file.text)
    try:
        said = reader.members(file.text.content, ())
        return reader.convert(said[key], dict[str, object], (key,)) if key in said else {}
    except UserError as exc:
        problems.append(str(exc))
        return {}
