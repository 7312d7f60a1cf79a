"""Whether a rule is about a call, whatever the rule then says: for the `if` of hooks."""

from collections.abc import Mapping

from backstay.logic.acts import Ground
from backstay.logic.permissions.book import naming, open_book
from backstay.logic.permissions.calls import Call, form_of, spec_of
from backstay.logic.permissions.case import Case
from backstay.logic.permissions.verdict import Finding
from backstay.logic.permissions.weigh import findings_about, script_of
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule


def rule_about(rule_text: str, tool: str, args: Mapping[str, object], ground: Ground) -> bool:
    """Whether a rule, as it is written, is about a call. What cannot be read or told is a yes.

    It is read as one that denies would be: at every layer of a command, for every file that a command touches, in any spelling.
    """
    try:
        rule = Rule.parse("deny", rule_text)
    except UserError:
        return True
    call = Call(spec_of(tool), dict(args))
    book = open_book((rule,), trusted=True)
    case = Case(call, form_of(call), ground, book, "default", "project")
    unclear = bool(naming(book.deny, tool)) or (case.form.kind == "shell" and book.guards)
    return any(_says_yes(finding, unclear) for finding in findings_about(case, script_of(case)))


def _says_yes(finding: Finding, unclear: bool) -> bool:
    if finding.reason == "rule":
        return finding.decision != "allow"
    if finding.reason == "arguments":
        return unclear
    return finding.reason in ("shell", "path") and finding.hold == "hard"
