"""Merge the settings files: which file sets what, what of it applies, and what waits until the workspace is trusted.

Lists (rules, hooks, folders, environment) are gathered from all layers, so no file can take away what another denies. Of everything else
the highest layer's word counts. What comes with a workspace that is not trusted can only deny and ask.
The keys that settings name are one list.
"""

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.config.entries import Judgement, SettingsEntry, explain, forbids_bypass, judge, own_mode, why_not
from backstay.config.former_name import former_keys, warn_former
from backstay.config.kept_denials import DenialCopies
from backstay.config.key_lookup import find_key
from backstay.config.layer_file import HooksSection, LayerFile, read_layer
from backstay.config.locations import MANAGED, ProjectPaths, SettingsFile, places
from backstay.config.permissions_section import UnknownMode
from backstay.config.secret import Secret, find_hook_variables, variables
from backstay.config.settings import Settings, fold_settings
from backstay.config.trust.inventory import SERVERS, WorkspaceInventory, survey
from backstay.config.trust.trust_store import (
    TrustStore,
    WorkspaceTrust,
    changes,
    describe_held,
    describe_left_out,
    warn_if_exposed,
    warn_of_odd_root,
)
from backstay.stores.open import key_of
from backstay.system.files import Stamp, is_missing, stamp_at
from backstay.vocab.env_keys import Keys
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


class ProjectServers(Struct, frozen=True, kw_only=True):
    """Which servers of the project's `.mcp.json` are wanted."""

    every: bool = False
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    """Also those that only a project that is not trusted disables."""

    def wants(self, name: str) -> bool:
        """Return whether a server is wanted; what is disabled is not."""
        return name not in self.disabled and (self.every or name in self.enabled)


class Layered(Struct, frozen=True, kw_only=True):
    """The settings of a run: what all files come to, and every value of each file."""

    paths: ProjectPaths
    settings: Settings
    rules: tuple[Rule, ...]
    """Every rule that counts, highest layer first; a list, not an order: deny beats ask beats allow."""
    hooks: tuple[HookLayer, ...]
    env: Mapping[str, str]
    """For the programs that tools and hooks start; never for Backstay itself."""
    mode: Mode | None
    """The mode that a new session begins in; None when no file says one."""
    mode_source: RuleSource | None
    """Who wrote that. A mode of `managed` goes before the command line."""
    mode_file: str
    """The file that says it."""
    bypass_forbidden: str
    """The file that forbids `bypassPermissions`; empty when none does."""
    folders: tuple[str, ...]
    """Folders beside the working folder, absolute."""
    trust: WorkspaceTrust
    files: tuple[LayerFile, ...]
    """The files that are there, highest first, counted or not."""
    entries: tuple[SettingsEntry, ...]
    """Every value that a file holds, counted or not, highest file first."""
    warnings: tuple[str, ...]
    project_servers: ProjectServers
    keys_beside: frozenset[str] = frozenset()
    """Names of variables that stay keys, though no file that counts names them: in those that `--bare` leaves out, and former ones."""
    fingerprint: Mapping[str, Stamp] = field(default_factory=dict)
    """The files that were looked for, as they were just before they were read."""

    def why(self, key: str) -> tuple[SettingsEntry, ...]:
        """Return where a value, such as `permissions.allow` or `chat.default_model`, comes from, and what was overridden or left out.

        Highest file first, and the default last. Of a section, such as `providers`, return everything in it. Raise `UserError` for
        what is no setting.
        """
        return explain(self.entries, key)

    @property
    def counted_files(self) -> tuple[LayerFile, ...]:
        """The files that count, highest first: those of the workspace only when it is trusted."""
        return tuple(file for file in self.files if self.trust.trusted or not file.place.of_project)

    @property
    def notice(self) -> str:
        """One line about what was left out for lack of trust; empty when nothing was."""
        return describe_left_out(self.trust) or describe_held(self.trust)


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
    Raise `UserError` for a broken file whose denials are not known, and for a wrong value in a file that counts.
    """
    paths = ProjectPaths.of(cwd, environment)
    cwd, root, data = paths.cwd, paths.root, paths.data
    wanted = places(
        root, given=None if given is None else Path(given), bare=bare, environment=environment, managed=managed
    )
    looked_for = (*(each.path for each in wanted), root / SERVERS, TrustStore(data).path)
    seen_before = {os.fspath(path): stamp_at(path) for path in looked_for}
    notes: list[str] = []
    files = tuple(_read(wanted, DenialCopies(data), notes))
    own = tuple(file for file in files if not file.place.of_project)
    brought = tuple(file for file in files if file.place.of_project)
    mode = own_mode(files)
    seen = survey(root, cwd, brought, own=own, home=paths.home, mode=mode, bare=bare, environment=environment)
    judged = _trust(TrustStore(data), seen, trust, vouched or seen, bare=bare, notes=notes)
    if brought or judged.survey.claims:
        notes += warn_of_odd_root(Path(seen.root), paths.home)
    notes += warn_former(root, environment, bare=bare)
    beside = _keys_beside(root, wanted, DenialCopies(data), environment) if bare else frozenset()
    keys = beside | former_keys(environment)
    return replace(_fold(files, judged, paths, notes), fingerprint=seen_before, keys_beside=keys)


def _read(wanted: Sequence[SettingsFile], denial_copies: DenialCopies, notes: list[str]) -> Iterator[LayerFile]:
    """Yield the files that are there. One that is the same file as another counts once, as the person's."""
    found: list[LayerFile] = []
    for place in wanted:
        if place.source != "flag" and is_missing(place.path):
            continue
        file = _read_one(place, denial_copies)
        if file.text is not None and place.source != "flag":
            notes += filter(None, (denial_copies.remember(file),))
        found.append(file)
    own = {file.text.inode for file in found if file.text is not None and not file.place.of_project}
    yield from (each for each in found if not (each.place.of_project and each.text and each.text.inode in own))


def _keys_beside(
    root: Path, wanted: Sequence[SettingsFile], denial_copies: DenialCopies, environment: Mapping[str, str]
) -> frozenset[str]:
    """Return the keys that the person's files name, though nothing else in them counts."""
    every = places(root, given=None, bare=False, environment=environment)
    own = (each for each in every if each.source == "person" and each not in wanted)
    return frozenset().union(*map(denial_copies.keys_of, own))


def _read_one(place: SettingsFile, denial_copies: DenialCopies) -> LayerFile:
    try:
        return read_layer(place)
    except UserError as exc:
        if place.source == "flag" or isinstance(exc, UnknownMode):
            raise
        kept = denial_copies.recall(place, str(exc))
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


# --- what counts ---------------------------------------------------------------------------------------------------------------------


def _fold(files: tuple[LayerFile, ...], trust: WorkspaceTrust, paths: ProjectPaths, notes: list[str]) -> Layered:
    found = judge(files, trusted=trust.trusted)
    for file in files:
        notes += file.slips
        if trust.trusted or not file.place.of_project or file.broken:  # nothing else of an untrusted file is used
            notes += (*file.warnings, *warn_if_exposed(file))
    settings = fold_settings(found) if files else Settings()
    mode_file = found.mode_file
    mode = None if mode_file is None else mode_file.permissions.mode
    forbidden = forbids_bypass(files)
    if mode == "bypassPermissions" and forbidden:
        notes.append(f"{forbidden} forbids bypassPermissions, so the mode is default.")
        mode = "default"
    guarded = {each.file for each in found.select("hooks.*")}
    folders = tuple(dict.fromkeys(_folders(files, trust, paths.cwd, notes)))
    return Layered(
        paths=paths,
        settings=settings,
        rules=tuple(dict.fromkeys(_rules(files, trust))),
        hooks=tuple(
            HookLayer(section=file.hooks, source=file.place.source, root=file.place.root, file=file.path)
            for file in files
            if file.path in guarded
        ),
        env={each.where[1]: str(each.raw) for each in found.select("env.*")},
        mode=mode,
        mode_source=None if mode_file is None else mode_file.place.source,
        mode_file="" if mode_file is None else mode_file.path,
        bypass_forbidden=forbidden,
        folders=folders,
        trust=trust,
        files=files,
        entries=tuple(found.entries),
        project_servers=_read_project_servers(found),
        warnings=tuple(dict.fromkeys((*notes, *settings.warnings))),
    )


def _rules(files: Sequence[LayerFile], trust: WorkspaceTrust) -> Iterator[Rule]:
    for file in files:
        yield from (
            rule for rule in file.permissions.rules if _is_settable(f"permissions.{rule.decision}", file, trust)
        )


def _is_settable(key: str, file: LayerFile, trust: WorkspaceTrust) -> bool:
    """Return whether a file may set a key, as its entries are judged too."""
    row = find_key(key.split("."))
    return row is not None and not why_not(row, file.place, trusted=trust.trusted)


def _folders(files: Sequence[LayerFile], trust: WorkspaceTrust, cwd: Path, notes: list[str]) -> Iterator[str]:
    for file in files:
        base = Path(file.place.root) if file.place.of_project else cwd
        settable = _is_settable("permissions.additionalDirectories", file, trust)
        for name in file.permissions.folders if settable else ():
            path = os.path.abspath(base / os.path.expanduser(name)) if "\0" not in name else ""
            if path and os.path.isdir(path):
                yield path
            else:
                notes.append(f"{file.path}: additionalDirectories has {name!r}, which is no folder.")


def _read_project_servers(found: Judgement) -> ProjectServers:
    every = [each.raw for each in found.select("enableAllProjectMcpServers")]
    return ProjectServers(
        every=every == [True],
        enabled=tuple(dict.fromkeys(str(each.raw) for each in found.select("enabledMcpjsonServers"))),
        disabled=tuple(dict.fromkeys(str(each.raw) for each in found.select("disabledMcpjsonServers"))),
    )


# --- keys ---------------------------------------------------------------------------------------------------------------------------


_OF_STORE: Final = re.compile(r"[?&]key=env:([A-Za-z_][A-Za-z0-9_]*)")


def collect_keys(settings: Settings | None, layered: Layered | None = None, store_url: str = "") -> Keys:
    """Return the keys that `settings`, every file of `layered` that counts, and the store's address name.

    The key of a profile that a higher file replaced is still a key. What an untrusted workspace names does not count: it could name any
    variable, and keep it from programs that need it. Of a broken file what it named when it could last be read counts. A store's key that
    is in a file or the keyring is fetched there, which may take a while.
    """
    named = set(_OF_STORE.findall(unquote(store_url)))
    texts = [key] if (key := key_of(store_url).strip()) else []
    for secret in () if settings is None else _secrets(settings):
        if secret.is_plain:
            texts.append(secret.reveal())
        elif name := secret.variable:
            named.add(name)
    if layered is not None:
        named |= layered.keys_beside.union(*(file.keys for file in layered.counted_files))
    for profile in () if settings is None else settings.providers.values():
        named |= set(variables(profile.options))
    sections = () if layered is None else (layer.section for layer in layered.hooks)
    sent = (name for section in sections for name in find_hook_variables(section))
    return Keys(frozenset(named), tuple(texts), frozenset(sent))


def _secrets(settings: Settings) -> Iterator[Secret]:
    for profile in settings.providers.values():
        yield from profile.headers.values()
        if profile.api_key is not None:
            yield profile.api_key
