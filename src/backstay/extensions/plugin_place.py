"""What the settings of a run make of the plugins that are installed: what a session has."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct

from backstay.config.layers import Layered
from backstay.config.places import data_folder
from backstay.config.settings import config_dir
from backstay.extensions.install_sources import Source
from backstay.extensions.marketplace_known import KnownBook, known_with
from backstay.extensions.plugin_loading import Loaded, load_plugins
from backstay.extensions.plugin_settings import Enabling, read_enabling
from backstay.vocab.errors import UserError
from backstay.workspaces.project import project_root


class PluginPlace(Struct, frozen=True, kw_only=True):
    """Where plugins are kept, and what the settings there say about them."""

    data: Path
    settings: Path
    """The person's own file."""
    project: Path
    """The root of the project."""
    enabling: Enabling
    trusted: bool

    @classmethod
    def of(cls, layered: Layered, cwd: Path, environment: Mapping[str, str] = os.environ) -> "PluginPlace":
        """The place of a run whose settings were read already."""
        return cls(
            data=data_folder(environment),
            settings=config_dir(environment) / "settings.json",
            project=project_root(cwd.expanduser().absolute()),
            enabling=read_enabling(layered.files),
            trusted=layered.trust.trusted,
        )

    def load(self) -> Loaded:
        """The plugins that are switched on here. Fast when there are none."""
        if not self.enabling.enabled and not self.enabling.of_project:
            return Loaded(problems=self.enabling.problems)
        problems = list(self.enabling.problems)
        try:
            known: Collection[str] = known_with(KnownBook(self.data), self.marketplaces())
        except UserError as exc:  # then none is known: what comes from one is not loaded
            problems.append(str(exc))
            known = self.marketplaces()
        found = load_plugins(
            self.enabling.enabled,
            known,
            self.data,
            self.trusted,
            of_project=self.enabling.of_project,
            project=str(self.project),
        )
        return Loaded(plugins=found.plugins, problems=(*problems, *found.problems), held_back=found.held_back)

    def marketplaces(self) -> dict[str, Source]:
        """The marketplaces that the settings name; those of the workspace only when it is trusted."""
        brought = self.enabling.project_marketplaces if self.trusted else {}
        return {**brought, **self.enabling.marketplaces}
