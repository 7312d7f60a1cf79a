"""The one policy point: may this call run?"""

from holdfast.logic.permissions.calls import Call, spec_of
from holdfast.logic.permissions.grants import fingerprint, rules_digest
from holdfast.logic.permissions.looking import Withheld, hidden, paths_of, withheld
from holdfast.logic.permissions.rule_about import rule_about
from holdfast.logic.permissions.verdict import Part, Reason, Verdict
from holdfast.logic.permissions.weigh import weigh

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
