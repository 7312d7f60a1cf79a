"""Settings in layers: which file says what, what of it counts, and what waits until the workspace is trusted.

Lists (rules, hooks, folders, environment) are gathered from all layers, so no file can take away what another denies. Of everything else
the highest layer's word counts. What comes with a workspace that is not trusted can only deny and ask.
"""

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.config.former_name import former_keys, warn_former
from backstay.config.json_document import is_missing
from backstay.config.last_good import LastGood
from backstay.config.layer_file import HooksSection, LayerFile, environment_of, read_layer
from backstay.config.locations import MANAGED, SettingsFile, data_folder, home_dir, places
from backstay.config.mcp_section import ProjectServers, project_servers
from backstay.config.permissions_section import UnknownMode, looser
from backstay.config.provenance import Entry, Outcome, entries_of, why
from backstay.config.settings import Settings, settings_over
from backstay.config.trust.inventory import SERVERS, WorkspaceInventory, survey
from backstay.config.trust.trust_store import TrustStore, WorkspaceTrust, changes
from backstay.config.trust.warnings import exposed, held_words, left_out_words, odd_root
from backstay.sandbox.folders import project_root
from backstay.system.files import Stamp, stamp_at
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule, RuleSource
from backstay.vocab.specs import Mode


class HookLayer(Struct, frozen=True, kw_only=True):
    """The hooks of one file that may run."""

    section: HooksSection
    """The `hooks` object as it stands in the file."""
    source: RuleSource
    root: str
    file: str


class Layered(Struct, frozen=True, kw_only=True, dict=True):
    """What all the settings files of a run come to."""

    settings: Settings
    rules: tuple[Rule, ...]
    """Every rule that counts, highest layer first; a list, not an order: deny beats ask beats allow."""
    hooks: tuple[HookLayer, ...]
    env: Mapping[str, str]
    """For the programs that tools and hooks start; never for Backstay itself."""
    mode: Mode | None
    """The mode that a new session begins in; None when no file says one."""
    mode_source: RuleSource | None
    """Whose word `mode` is. One of `managed` goes before the command line."""
    bypass_forbidden: str
    """The file that forbids `bypassPermissions`; empty when none does."""
    folders: tuple[str, ...]
    """Folders beside the working folder, absolute."""
    trust: WorkspaceTrust
    files: tuple[LayerFile, ...]
    """The files that are there, highest first, counted or not: each value's source."""
    origins: Mapping[str, str]
    """Where a value that only one file can decide comes from: `mode`, `env.NAME`, `chat.KEY` ..."""
    warnings: tuple[str, ...]
    project_servers: ProjectServers = field(default_factory=ProjectServers)
    """Which servers of the project's `.mcp.json` are wanted."""
    outcome: Outcome = field(default_factory=Outcome)
    keys_beside: frozenset[str] = frozenset()
    """Names of variables that stay keys, though no file that counts names them: in those that `--bare` leaves out, and former ones."""
    fingerprint: Mapping[str, Stamp] = field(default_factory=dict)
    """The files that were looked for, as they were just before they were read."""

    @functools.cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every value that a file says, counted or not, highest file first."""
        return entries_of(self.files, self.outcome)

    def why(self, key: str) -> tuple[Entry, ...]:
        """Tell where a value, such as `permissions.allow` or `chat.default_model`, comes from, and what was overridden or left out.

        Highest file first, and what holds without any file last. A section, such as `providers`, tells of everything in it. Raise
        `UserError` for what is no setting.
        """
        return why(self.entries, key)

    @property
    def notice(self) -> str:
        """One line about what was left out because nobody trusts it as it is; empty when nothing was."""
        return left_out_words(self.trust) or held_words(self.trust)


async def load_layers(
    cwd: str | Path,
    *,
    given: str | Path | None = None,
    trust: bool | None = None,
    bare: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Layered:
    """Read the settings of a run in `cwd`; `given` is the file of `--settings`. See `read_layers`."""
    work = functools.partial(read_layers, Path(cwd), given=given, trust=trust, bare=bare, environment=environment)
    return await anyio.to_thread.run_sync(work)


def read_layers(
    cwd: Path,
    *,
    given: str | Path | None = None,
    trust: bool | None = None,
    bare: bool = False,
    environment: Mapping[str, str] = os.environ,
    managed: Path = MANAGED,
    vouched: WorkspaceInventory | None = None,
) -> Layered:
    """Read the settings of a run in `cwd`, each file once: what is judged is what is used.

    `trust`: True trusts the workspace for this run, False does not, None does what was recorded. `bare` reads only what is managed,
    and of the person's own files which variables hold keys.
    `vouched` is what the workspace brought along when `trust` was said: that word is not about what has come since.
    Raise `UserError` for a broken file whose denials nobody remembers, and for a wrong value in a file that counts.
    """
    cwd = cwd.expanduser().absolute()
    root, data = project_root(cwd), data_folder(environment)
    wanted = places(
        root, given=None if given is None else Path(given), bare=bare, environment=environment, managed=managed
    )
    looked_for = (*(each.path for each in wanted), root / SERVERS, TrustStore(data).path)
    seen_before = {os.fspath(path): stamp_at(path) for path in looked_for}
    notes: list[str] = []
    files = tuple(_read(wanted, LastGood(data), notes))
    own = tuple(file for file in files if not file.place.of_project)
    brought = tuple(file for file in files if file.place.of_project)
    strictest = _mode(own, "default")[0] or "default"
    seen = survey(root, cwd, brought, own=own, home=home_dir(environment), mode=strictest, bare=bare)
    judged = _trust(TrustStore(data), seen, trust, vouched or seen, bare=bare, notes=notes)
    if brought or judged.survey.claims:
        notes += odd_root(Path(seen.root), home_dir(environment))
    notes += warn_former(root, environment, bare=bare)
    beside = _keys_beside(root, wanted, LastGood(data), environment) if bare else frozenset()
    keys = beside | former_keys(environment)
    return replace(_merged(files, judged, cwd, notes), fingerprint=seen_before, keys_beside=keys)


def _read(wanted: Sequence[SettingsFile], last_good: LastGood, notes: list[str]) -> Iterator[LayerFile]:
    """The files that are there. One that is the same file as another counts once, as the person's."""
    found: list[LayerFile] = []
    for place in wanted:
        if place.source != "flag" and is_missing(place.path):
            continue
        file = _read_one(place, last_good)
        if file.text is not None and place.source != "flag":
            notes += filter(None, (last_good.remember(file),))
        found.append(file)
    own = {file.text.inode for file in found if file.text is not None and not file.place.of_project}
    yield from (each for each in found if not (each.place.of_project and each.text and each.text.inode in own))


def _keys_beside(
    root: Path, wanted: Sequence[SettingsFile], last_good: LastGood, environment: Mapping[str, str]
) -> frozenset[str]:
    """The keys that the person's files name, though nothing else in them counts."""
    every = places(root, given=None, bare=False, environment=environment)
    own = (each for each in every if each.source == "person" and each not in wanted)
    return frozenset().union(*map(last_good.keys_of, own))


def _read_one(place: SettingsFile, last_good: LastGood) -> LayerFile:
    try:
        return read_layer(place)
    except UserError as exc:
        if place.source == "flag" or isinstance(exc, UnknownMode):
            raise
        kept = last_good.recall(place, str(exc))
        if kept is not None:
            return kept
        raise UserError(
            f"{exc} What this file denied before is not known, so nothing is started. "
            "Mend it, move it away, or run without settings: --bare."
        ) from exc


def _trust(
    book: TrustStore,
    seen: WorkspaceInventory,
    wanted: bool | None,
    vouched: WorkspaceInventory,
    *,
    bare: bool,
    notes: list[str],
) -> WorkspaceTrust:
    others = changes(vouched.seen, seen.seen, bare=bare) if wanted else ()
    if wanted is not None and not others:
        return WorkspaceTrust(state="trusted" if wanted else "untrusted", survey=seen, for_run=wanted)
    try:
        found = book.look_up(seen, bare=bare)
    except UserError as exc:
        notes.append(f"{exc} Until then no workspace is trusted.")
        return WorkspaceTrust(state="untrusted", survey=seen)
    return replace(found, state="changed", changed=others) if others and not found.trusted else found


# --- putting together ----------------------------------------------------------------------------------------------------------------


class _Merge(Struct):
    """What is gathered while the layers are gone through."""

    notes: list[str]
    origins: dict[str, str] = field(default_factory=dict)


def _merged(files: tuple[LayerFile, ...], trust: WorkspaceTrust, cwd: Path, notes: list[str]) -> Layered:
    counted = tuple(file for file in files if trust.trusted or not file.place.of_project)
    merge = _Merge(notes=notes)
    for file in files:
        merge.notes += file.slips
        if file in counted or file.broken:  # the rest of an untrusted workspace's file is nobody's concern
            merge.notes += (*file.warnings, *exposed(file))
    settings = _settings(counted, merge)
    mode, mode_file = _mode_of_all(files, trust, merge)
    forbidden = next((file.path for file in files if file.permissions.no_bypass), "")
    if mode == "bypassPermissions" and forbidden:
        merge.notes.append(f"{forbidden} forbids bypassPermissions, so the mode is default.")
        mode = "default"
    if mode_file is not None:
        merge.origins["mode"] = mode_file.path
    hooks = tuple(_hooks(counted))
    outcome = Outcome(
        trusted=trust.trusted,
        mode_file="" if mode_file is None else mode_file.path,
        hook_files=frozenset(each.file for each in hooks),
    )
    return Layered(
        settings=settings,
        rules=tuple(dict.fromkeys(_rules(files, trust))),
        hooks=hooks,
        env=_env(counted, merge),
        mode=mode,
        mode_source=None if mode_file is None else mode_file.place.source,
        bypass_forbidden=forbidden,
        folders=tuple(dict.fromkeys(_folders(counted, cwd, merge))),
        trust=trust,
        files=files,
        origins=merge.origins,
        project_servers=project_servers(files, counted),
        outcome=outcome,
        warnings=tuple(dict.fromkeys((*merge.notes, *settings.warnings))),
    )


def _settings(counted: Sequence[LayerFile], merge: _Merge) -> Settings:
    found = Settings()
    for file in reversed(counted):
        if file.text is None:
            continue
        before, found = found, settings_over(found, file.text, elsewhere=file.place.family == "claude")
        merge.origins.update(dict.fromkeys(_differences(before, found), file.path))
    return found


def _differences(before: Settings, after: Settings) -> Iterator[str]:
    """The names of what the second settings have otherwise."""
    for section in ("fallback", "auto_compact", "retries", "current_provider", "model", "language"):
        if getattr(before, section) != getattr(after, section):
            yield section
    for section in ("chat", "task_context", "memory"):
        one, other = getattr(before, section), getattr(after, section)
        yield from (f"{section}.{name}" for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name))
    for section in ("models", "providers"):
        below = getattr(before, section)
        yield from (f"{section}.{name}" for name, each in getattr(after, section).items() if below.get(name) != each)


def _rules(files: Sequence[LayerFile], trust: WorkspaceTrust) -> Iterator[Rule]:
    for file in files:
        for rule in file.permissions.rules:
            if rule.decision != "allow" or trust.trusted or not file.place.of_project:
                yield rule


def _mode(files: Sequence[LayerFile], usual: Mode | None) -> tuple[Mode | None, LayerFile | None]:
    for file in files:
        if file.permissions.mode is not None:
            return file.permissions.mode, file
    return usual, None


def _mode_of_all(
    files: Sequence[LayerFile], trust: WorkspaceTrust, merge: _Merge
) -> tuple[Mode | None, LayerFile | None]:
    """The highest layer's mode. One that comes with the workspace never asks nobody, and before trust only makes stricter."""
    own, _ = _mode([file for file in files if not file.place.of_project], "default")
    able: list[LayerFile] = []
    for file in files:
        wanted = file.permissions.mode
        if file.place.of_project and wanted == "bypassPermissions":
            if trust.trusted:
                merge.notes.append(f"{file.path}: bypassPermissions cannot come with a workspace; it is left out.")
        elif not (file.place.of_project and wanted and not trust.trusted and looser(wanted, own or "default")):
            able.append(file)
    return _mode(able, None)


def _hooks(counted: Sequence[LayerFile]) -> Iterator[HookLayer]:
    """The hooks that may run. A file may switch off its own and those of layers that it stands for, never the person's or managed ones."""
    off = [file for file in counted if file.hooks_off]
    for file in counted:
        if file.hooks and not any(_switches_off(each.place, file.place) for each in off):
            yield HookLayer(section=file.hooks, source=file.place.source, root=file.place.root, file=file.path)


def _switches_off(switch: SettingsFile, hooks: SettingsFile) -> bool:
    if switch.path == hooks.path or switch.source == "managed":
        return True
    if switch.of_project:
        return hooks.of_project
    if switch.family == "claude":
        return hooks.family == "claude"
    return hooks.source != "managed" and (switch.source == "flag" or hooks.source != "flag")


def _env(counted: Sequence[LayerFile], merge: _Merge) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in reversed(counted):
        said = environment_of(file)
        found |= said
        merge.origins.update((f"env.{name}", file.path) for name in said)
    return found


def _folders(counted: Sequence[LayerFile], cwd: Path, merge: _Merge) -> Iterator[str]:
    for file in counted:
        base = Path(file.place.root) if file.place.of_project else cwd
        for written in file.permissions.folders:
            path = os.path.abspath(base / os.path.expanduser(written)) if "\0" not in written else ""
            if path and os.path.isdir(path):
                yield path
            else:
                merge.notes.append(f"{file.path}: additionalDirectories has {written!r}, which is no folder.")
