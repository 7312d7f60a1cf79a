"""Find a settings key, list those below a name, and guess which one a misspelled name means."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from backstay.config.key_table import KEYS, Key

KNOWN_ELSEWHERE: Final = frozenset(
    """
    agent allowManagedMcpServersOnly allowManagedPermissionRulesOnly allowedMcpServers alwaysThinkingEnabled
    apiKeyHelper attribution autoMemoryEnabled autoUpdatesChannel availableModels awsAuthRefresh awsCredentialExport
    blockedMarketplaces cleanupPeriodDays companyAnnouncements defaultShell deniedMcpServers editorMode effortLevel
    fastMode fileSuggestion forceLoginMethod forceLoginOrgUUID includeCoAuthoredBy includeGitInstructions
    otelHeadersHelper outputStyle plansDirectory prefersReducedMotion preset respectGitignore sandbox
    showTurnDuration skipWebFetchPreflight spinnerTipsEnabled spinnerTipsOverride spinnerVerbs statusLine
    strictKnownMarketplaces teammateMode terminalProgressBarEnabled theme verbose voiceEnabled worktree
    """.split()
)
"""Keys of other programs' settings that mean nothing here: they are let stand without a warning."""
PERMISSIONS_ELSEWHERE: Final = ("disableAutoMode", "skipDangerousModePermissionPrompt", "skipAutoPermissionPrompt")
"""The same below `permissions`."""
_BY_FIRST: Final = {
    name: tuple(key for key in KEYS if name in (key.parts[0], key.alias))
    for name in {key.parts[0] for key in KEYS} | {key.alias for key in KEYS if key.alias}
}
"""The keys by how they may begin, so that a file with many names is looked through quickly."""


def find_key(where: Sequence[str]) -> Key | None:
    """Return the setting that stands under `where`, by either spelling; None when there is none there."""
    return _find(tuple(where)) if where and where[0] in _BY_FIRST else None


def keys_below(where: Sequence[str]) -> tuple[Key, ...]:
    """Return the settings that may stand in the object under `where`, at any depth."""
    return _below(tuple(where))


def names_below(where: Sequence[str]) -> tuple[str, ...]:
    """Return what may stand in the object under `where`, in every spelling; `*` when anything may."""
    size = len(where)
    found: dict[str, None] = {}
    for key in keys_below(where):
        found[key.parts[size]] = None
        if key.alias and len(key.parts) == size + 1:
            found[key.alias] = None
    return tuple(found)


def is_shared(name: str) -> bool:
    """Return whether a top-level key, or something below it, is read from other programs' files too."""
    return any(key.claude_files != "no" for key in _BY_FIRST.get(name, ()))


def canonical(where: Sequence[str]) -> tuple[str, ...]:
    """Return `where` with the usual spelling of its last part."""
    key = find_key(where)
    return (*where[:-1], key.parts[-1]) if key is not None and key.alias and where[-1] == key.alias else tuple(where)


@lru_cache(maxsize=1024)
def _find(where: tuple[str, ...]) -> Key | None:
    for key in _BY_FIRST.get(where[0], ()):
        parts = key.parts
        fits = len(parts) == len(where) and all(map(_fits, parts[:-1], where[:-1]))
        if fits and (_fits(parts[-1], where[-1]) or where[-1] == key.alias):
            return key
    return None


@lru_cache(maxsize=256)
def _below(where: tuple[str, ...]) -> tuple[Key, ...]:
    candidates = _BY_FIRST.get(where[0], ()) if where else KEYS
    return tuple(key for key in candidates if len(key.parts) > len(where) and all(map(_fits, key.parts, where)))


def _fits(part: str, word: str) -> bool:
    return part in ("*", word)


def is_elsewhere(where: Sequence[str]) -> bool:
    """Return whether another program knows a key that means nothing here."""
    first, *rest = where
    return first in KNOWN_ELSEWHERE or (
        first == "permissions" and rest[:1] in ([each] for each in PERMISSIONS_ELSEWHERE)
    )


def guess_name(word: str, known: Iterable[str]) -> str:
    """Return the known name that a misspelled one likely means, in any capitals; empty when none is near."""
    folded = {each.casefold(): each for each in known}
    near = find_nearest(word.casefold(), folded) or find_nearest(word.casefold(), folded, cutoff=FAR)
    return folded.get(near, "")


def find_nearest(word: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """Return the known word that was most likely meant; empty when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for what is wrong

    if len(word) > _LONGEST:
        return ""
    return next(iter(get_close_matches(word, [each for each in known if each != "*"], n=1, cutoff=cutoff)), "")


_LONGEST: Final = 80
FAR: Final = 0.6
"""How near two words must be at least for one to be taken for the other."""
