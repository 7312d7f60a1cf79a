"""What binds a grant to exactly one call, and a verdict to the rules it was made by."""

import hashlib
from collections.abc import Sequence

import msgspec

from backstay.vocab.rules import Rule


def fingerprint(name: str, args: str) -> str:
    """What binds a grant to exactly this call: the tool's name and a digest of its arguments."""
    try:
        canonical = msgspec.json.encode(msgspec.json.decode(args), order="deterministic")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        canonical = args.encode("utf-8", "surrogatepass")
    return f"{name}#{hashlib.sha256(canonical).hexdigest()[:32]}"


def rules_digest(rules: Sequence[Rule]) -> str:
    """A short name for a set of rules."""
    return hashlib.sha256(msgspec.json.encode(tuple(rules))).hexdigest()[:12] if rules else ""
