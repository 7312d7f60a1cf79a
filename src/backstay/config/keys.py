"""Which settings there are, looked up by where they stand in a file."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from backstay.config.key import Key
from backstay.config.key_table import KEYS

KNOWN_ELSEWHERE: Final = frozenset(
    (
        *("agent", "allowManagedMcpServersOnly", "allowManagedPermissionRulesOnly", "allowedMcpServers"),
        *("alwaysThinkingEnabled", "apiKeyHelper", "attribution", "autoMemoryEnabled", "autoUpdatesChannel"),
        *("availableModels", "awsAuthRefresh", "awsCredentialExport", "blockedMarketplaces", "cleanupPeriodDays"),
        *("companyAnnouncements", "defaultShell", "deniedMcpServers", "editorMode", "effortLevel", "fastMode"),
        *("fileSuggestion", "forceLoginMethod", "forceLoginOrgUUID", "includeCoAuthoredBy", "includeGitInstructions"),
        *("otelHeadersHelper", "outputStyle", "plansDirectory", "prefersReducedMotion", "preset"),
        *("respectGitignore", "sandbox", "showTurnDuration", "skipWebFetchPreflight", "spinnerTipsEnabled"),
        *("spinnerTipsOverride", "spinnerVerbs", "statusLine", "strictKnownMarketplaces", "teammateMode"),
        *("terminalProgressBarEnabled", "theme", "verbose", "voiceEnabled", "worktree"),
    )
)
"""Keys of other programs' settings that mean nothing here: they are let stand without a warning."""
PERMISSIONS_ELSEWHERE: Final = ("disableAutoMode", "skipDangerousModePermissionPrompt", "skipAutoPermissionPrompt")
"""The same below `permissions`."""
_BY_FIRST: Final = {
    name: tuple(key for key in KEYS if name in (key.parts[0], key.also))
    for name in {key.parts[0] for key in KEYS} | {key.also for key in KEYS if key.also}
}
"""The keys by how they may begin, so that a file with many names is looked through quickly."""


def find_key(where: Sequence[str]) -> Key | None:
    """The setting that stands under `where`, by either spelling; None when there is none there."""
    return _find(tuple(where)) if where and where[0] in _BY_FIRST and where[-1] else None


def names_below(where: Sequence[str]) -> tuple[str, ...]:
    """What may stand in the object under `where`, in every spelling; `*` when anything may."""
    return _below(tuple(where))


def canonical(where: Sequence[str]) -> tuple[str, ...]:
    """`where` with the usual spelling of its last part."""
    key = find_key(where)
    return (*where[:-1], key.parts[-1]) if key is not None and key.also and where[-1] == key.also else tuple(where)


@lru_cache(maxsize=1024)
def _find(where: tuple[str, ...]) -> Key | None:
    for key in _BY_FIRST.get(where[0], ()):
        parts = key.parts
        fits = len(parts) == len(where) and all(map(_fits, parts[:-1], where[:-1]))
        if fits and (_fits(parts[-1], where[-1]) or where[-1] == key.also):
            return key
    return None


@lru_cache(maxsize=256)
def _below(where: tuple[str, ...]) -> tuple[str, ...]:
    size = len(where)
    found: dict[str, None] = {}
    for key in _BY_FIRST.get(where[0], ()) if where else KEYS:
        parts = key.parts
        if len(parts) > size and all(map(_fits, parts, where)):
            found[parts[size]] = None
            if key.also and len(parts) == size + 1:
                found[key.also] = None
    return tuple(found)


def _fits(part: str, word: str) -> bool:
    return part in ("*", word)


def is_elsewhere(where: Sequence[str]) -> bool:
    """Whether another program knows a key that means nothing here."""
    first, *rest = where
    return first in KNOWN_ELSEWHERE or (
        first == "permissions" and rest[:1] in ([each] for each in PERMISSIONS_ELSEWHERE)
    )


def nearly(word: str, known: Iterable[str]) -> str:
    """The known name that a slip of the pen was likely meant to be, in whatever capitals; empty when none is near."""
    folded = {each.casefold(): each for each in known}
    near = nearest(word.casefold(), folded) or nearest(word.casefold(), folded, cutoff=0.6)
    return folded.get(near, "")


def is_nearly_permissions(name: str) -> bool:
    """Whether a key that nobody knows is nearly spelled `permissions`."""
    known = names_below(())
    return name not in known and name not in KNOWN_ELSEWHERE and nearly(name, known) == "permissions"


def restricting(where: Sequence[str]) -> str:
    """The key of `permissions` that can only restrict, and that is meant by a misspelled name at `where`; empty when there is none.

    Either of the two names may be misspelled: that of the section, that of the key, or both.
    """
    if len(where) != 2 or not (where[0] == "permissions" or is_nearly_permissions(where[0])):
        return ""
    known = names_below(("permissions",))
    if where[1] in known:
        meant = where[1] if where[0] != "permissions" else ""
    else:
        meant = "" if is_elsewhere(("permissions", where[1])) else nearly(where[1], known)
    return meant if meant in _RESTRICTING else ""


_RESTRICTING: Final = ("deny", "ask", "defaultMode", "disableBypassPermissionsMode")


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """The known word that was most likely meant; empty when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for what is wrong

    if len(word) > _LONGEST:
        return ""
    return next(iter(get_close_matches(word, [each for each in known if each != "*"], n=1, cutoff=cutoff)), "")


_LONGEST: Final = 80
