"""Permissions: decide whether a call may run. `judge_call` is the one policy point."""

from backstay.permissions.call_site import fingerprint, rules_digest
from backstay.permissions.judge import judge_call, rule_about
from backstay.permissions.judgement import Part, Reason, Verdict
from backstay.permissions.paths_to_resolve import Withheld, is_hidden, paths_to_resolve, withheld
from backstay.permissions.tool_kinds import Call, spec_of

__all__ = [
    "Call",
    "Part",
    "Reason",
    "Verdict",
    "Withheld",
    "fingerprint",
    "is_hidden",
    "judge_call",
    "paths_to_resolve",
    "rule_about",
    "rules_digest",
    "spec_of",
    "withheld",
]
