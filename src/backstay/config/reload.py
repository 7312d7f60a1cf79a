"""Keep applying what settings files denied when a session began, also when they change."""

from collections.abc import Iterator

from msgspec.structs import replace

from backstay.config.kept_denials import DECIDING
from backstay.config.layers import HookLayer, Layered
from backstay.logic.decide.policy import looser


def keep_denials(before: Layered, now: Layered) -> Layered:
    """Return `now` with everything that `before` denied, asked about and had guarded.

    The model itself can change files between two turns: a file that it empties, or takes back with git, must not free it.
    Hooks of a workspace that is trusted no longer stay with the survey they were trusted by, so that a change is seen before they run.
    """
    rules = tuple(rule for rule in before.rules if rule.decision != "allow" and rule not in now.rules)
    hooks = tuple(_guards_lost(before, now))
    trust = now.trust if now.trust.trusted else replace(now.trust, before=before.trust.vouched)
    found = replace(
        now,
        rules=(*now.rules, *rules),
        hooks=(*now.hooks, *hooks),
        trust=trust,
        bypass_forbidden=now.bypass_forbidden or before.bypass_forbidden,
        warnings=(*now.warnings, *_describe_kept([*map(str, rules), *(f"hooks of {each.file}" for each in hooks)])),
    )
    if not _loses_managed_mode(before, now):
        return found
    return replace(found, mode=before.mode, mode_source="managed", mode_file=before.mode_file)


def _guards_lost(before: Layered, now: Layered) -> Iterator[HookLayer]:
    """Yield the hooks that can stop something and are not among those of `now`."""
    for layer in before.hooks:
        known = [each.section for each in now.hooks if each.file == layer.file]
        lost = {
            event: said
            for event, said in layer.section.items()
            if event in DECIDING and not any(section.get(event) == said for section in known)
        }
        if lost:
            yield replace(layer, section=lost)


def _loses_managed_mode(before: Layered, now: Layered) -> bool:
    """Return whether a managed mode would be looser, or gone."""
    if before.mode_source != "managed" or before.mode is None:
        return False
    return now.mode_source != "managed" or now.mode is None or looser(now.mode, before.mode)


def _describe_kept(kept: list[str]) -> Iterator[str]:
    if kept:
        words = f"{', '.join(kept[:_SOME])}{f' and {len(kept) - _SOME} more' if len(kept) > _SOME else ''}"
        yield f"Settings have changed, and still hold in this session as they did: {words}. A new session is free of them."


_SOME = 3
