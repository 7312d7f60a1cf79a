"""The one policy point: may this call run?"""

from backstay.permissions.fingerprint import fingerprint, rules_digest
from backstay.permissions.judge import rule_about, weigh
from backstay.permissions.paths_to_resolve import Withheld, hidden, paths_of, withheld
from backstay.permissions.tool_kinds import Call, spec_of
from backstay.permissions.verdict import Part, Reason, Verdict

__all__ = [
    "Call",
    "Part",
    "Reason",
    "Verdict",
    "Withheld",
    "fingerprint",
    "hidden",
    "paths_of",
    "rule_about",
    "rules_digest",
    "spec_of",
    "weigh",
    "withheld",
]
