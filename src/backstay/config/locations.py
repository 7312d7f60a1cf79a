"""List the settings files that there may be, highest first, and who wrote each."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from backstay.system.folders import project_root
from backstay.vocab.rules import RuleSource

MANAGED: Final = Path("/etc/backstay/settings.json")
"""Managed settings: highest precedence, read even with `--bare`."""
ALSO_MANAGED: Final = "BACKSTAY_MANAGED_SETTINGS"
"""Environment: a second file of that kind, below the first, so that it can add and never take away."""
OF_PROJECT: Final[tuple[RuleSource, ...]] = ("project", "local")
Family = Literal["backstay", "claude"]


class SettingsFile(Struct, frozen=True, kw_only=True):
    """A place where a settings file may be."""

    path: Path
    source: RuleSource
    root: str
    """The folder that a pattern beginning with `/` starts at."""
    family: Family = "backstay"

    @property
    def of_project(self) -> bool:
        """True when it comes with the workspace: then it can allow nothing before that is trusted."""
        return self.source in OF_PROJECT


def places(
    root: Path, *, given: Path | None, bare: bool, environment: Mapping[str, str], managed: Path = MANAGED
) -> tuple[SettingsFile, ...]:
    """Return the settings files of a run in the project `root`, highest first."""
    found = [settings_file(managed, "managed")]
    if also := environment.get(ALSO_MANAGED):
        found.append(settings_file(Path(also).expanduser().absolute(), "managed"))
    if bare:
        return tuple(found)
    if given is not None:
        found.append(settings_file(given.expanduser().absolute(), "flag"))
    found += _of_project(root)
    found.append(settings_file(config_dir(environment) / "settings.json", "person"))
    found.append(settings_file(claude_dir(environment) / "settings.json", "person", "claude"))
    return tuple(found)


def config_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of a person's settings: `BACKSTAY_CONFIG_DIR`, else under the user's configuration folder."""
    if given := environment.get("BACKSTAY_CONFIG_DIR"):
        return Path(given).expanduser().absolute()
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser().absolute() / "backstay"


def home_dir(environment: Mapping[str, str]) -> Path:
    """Return the person's home folder."""
    return Path(environment.get("HOME") or os.path.expanduser("~"))


def claude_dir(environment: Mapping[str, str]) -> Path:
    """Return the folder of the person's settings for another program that are read too: `CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    given = environment.get("CLAUDE_CONFIG_DIR")
    return Path(given).expanduser().absolute() if given else home_dir(environment) / ".claude"


def data_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of Backstay's own files in an environment."""
    if given := environment.get("BACKSTAY_DATA_DIR"):
        return Path(given).expanduser().absolute()
    base = environment.get("XDG_DATA_HOME")
    return (Path(base).expanduser().absolute() if base else home_dir(environment) / ".local" / "share") / "backstay"


class ProjectPaths(Struct, frozen=True, kw_only=True):
    """The folders of a project and of the person. Made once for a session, when its settings are read, and passed whole."""

    cwd: Path
    """The working folder, absolute."""
    root: Path
    """The root of the repository, or the working folder outside of any."""
    repository: Path | None
    """The root of the repository; None outside of any."""
    home: Path
    config: Path
    """The person's folder for Backstay's settings."""
    claude: Path
    """The person's folder for another program, which is read along."""
    data: Path
    """Backstay's own files."""

    @classmethod
    def of(cls, cwd: str | Path, environment: Mapping[str, str] = os.environ) -> "ProjectPaths":
        """Find the paths of a run in `cwd`."""
        cwd = Path(cwd).expanduser().absolute()
        root = project_root(cwd)
        return cls(
            cwd=cwd,
            root=root,
            repository=root if (root / ".git").exists() else None,
            home=home_dir(environment),
            config=config_dir(environment),
            claude=claude_dir(environment),
            data=data_folder(environment),
        )


def settings_file(path: Path, source: RuleSource, family: Family = "backstay") -> SettingsFile:
    """Return a settings file whose patterns begin at its own folder."""
    return SettingsFile(path=path, source=source, root=str(path.parent), family=family)


def _of_project(root: Path) -> Iterator[SettingsFile]:
    families: tuple[tuple[str, Family], ...] = ((".backstay", "backstay"), (".claude", "claude"))
    for folder, family in families:
        for name, source in _NAMES:
            yield SettingsFile(path=root / folder / name, source=source, root=str(root), family=family)


_NAMES: Final[tuple[tuple[str, RuleSource], ...]] = (("settings.local.json", "local"), ("settings.json", "project"))
