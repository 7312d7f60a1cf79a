"""The one policy point: may this call run?"""

from backstay.logic.permissions.calls import Call, spec_of
from backstay.logic.permissions.grants import fingerprint, rules_digest
from backstay.logic.permissions.looking import Withheld, hidden, paths_of, withheld
from backstay.logic.permissions.rule_about import rule_about
from backstay.logic.permissions.verdict import Part, Reason, Verdict
from backstay.logic.permissions.weigh import weigh

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
