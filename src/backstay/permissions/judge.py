"""The one policy point: may this call run?

Every call passes here: of built-in tools, of MCP servers and plugins, of children, rewritten by a hook or by the person. Order: hooks,
deny, ask, what plan denies, allow, the mode's default; a deny is final, whoever says it. What is found about each part of a call is
collected first; then mode, hook and grants answer the questions that they may answer; what is left decides.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.hooks.merge import HookVerdict
from backstay.logic.text.invisible import HIDDEN
from backstay.permissions.arguments import MOST_VALUES, Compared, compare, texts_in
from backstay.permissions.bounds import beyond
from backstay.permissions.call_site import Access, CallSite, Command, Script
from backstay.permissions.case import JudgeContext
from backstay.permissions.fingerprint import fingerprint
from backstay.permissions.judge_files import FileAccess, weigh_touch
from backstay.permissions.judge_other import weigh_other
from backstay.permissions.judge_shell import weigh_script
from backstay.permissions.judge_web import weigh_fetch, weigh_lookup
from backstay.permissions.rule_index import naming, open_book
from backstay.permissions.searches import read_by, search_of
from backstay.permissions.sensitive_paths import sensitive
from backstay.permissions.suggested_rules import MOST, is_whole_command, naming_offer
from backstay.permissions.taint import brought, meeting
from backstay.permissions.tool_kinds import Call, file_accesses, form_of, spec_of, text_of
from backstay.permissions.verdict import Finding, Hold, Part, Verdict, strictest
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from backstay.vocab.specs import FsScope, Mode, Taint

_NOTHING: Final = Finding("nothing", "allow", "mode", "it does nothing")


class Consents(msgspec.Struct, frozen=True):
    """Who may answer the questions about a call without asking."""

    mode: Mode
    hook: HookVerdict | None = None
    granted: bool = False
    """This very call was granted before."""
    approved: bool = False
    """A person said yes to this very call just now."""


def resolve_asks(findings: list[Finding], consents: Consents) -> list[Finding]:
    """Answer each question that somebody may answer. What is denied stays denied."""
    return [finding if finding.decision != "ask" else _answered(finding, consents) for finding in findings]


def conclude(case: JudgeContext, settled: list[Finding], taints: frozenset[Taint]) -> Verdict:
    """The verdict: the strictest of what is left."""
    last = strictest(settled or [_NOTHING])
    decision, detail, reason = last.decision, last.detail, last.reason
    asks = decision == "ask"
    unasked = asks and case.mode == "dontAsk"
    if unasked:
        decision, detail = "deny", f"{detail}; and the mode never asks"
    return Verdict(
        decision=decision,
        reason=reason,
        detail=detail,
        parts=_parts(settled),
        offers=_offers(settled) if asks else (),
        unasked=unasked,
        taints=tuple(sorted(taints)),
        needs_person=case.form.kind == "person",
    )


def _answered(finding: Finding, consents: Consents) -> Finding:
    if consents.approved:
        return replace(finding, decision="allow", reason="grant", detail="a person allowed this call")
    if consents.granted and finding.hold != "hard":
        return replace(finding, decision="allow", reason="grant", detail="allowed for this session")
    if consents.mode == "bypassPermissions" and finding.hold != "hard":
        return replace(finding, decision="allow", reason="mode", detail="the mode bypasses permissions")
    hook = consents.hook
    if hook is not None and hook.decision == "allow" and not hook.blocked and finding.hold == "soft":
        said = f": {hook.reason}" if hook.reason else ""
        return replace(finding, decision="allow", reason="hook", detail=f"a hook allowed it{said}")
    return finding


def _parts(settled: list[Finding]) -> tuple[Part, ...]:
    return tuple(dict.fromkeys(finding.part for finding in settled))


def _offers(settled: list[Finding]) -> tuple[str, ...]:
    """One rule for each question; none when a question cannot be answered by a rule, or when they are too many to look at."""
    offers: dict[str, None] = {}
    for finding in settled:
        if finding.decision == "ask":
            if not finding.offers:
                return ()
            offers[finding.offers[0]] = None
    return tuple(offers) if len(offers) <= MOST else ()


_BIDI: Final = "\u202a-\u202e\u2066-\u2069"
_TAGS: Final = "\U000e0000-\U000e007f"
_ESCAPE: Final = "\x1b\x9b"
_CONTENT: Final = re.compile(f"[{_BIDI}{_TAGS}{_ESCAPE}]")
_CONTENT_KEYS: Final = frozenset(
    ("content", "new_string", "old_string", "new_source", "patch", "input", "edits", "todos")
)
"""Arguments that become the text of files: marks that scripts and emoji need are at home there."""


def hidden_in(args: dict[str, object]) -> str:
    """What is hidden in the arguments of a call, in words; empty when nothing is."""
    for key, content in args.items():
        pattern = _CONTENT if key in _CONTENT_KEYS else HIDDEN
        for text in texts_in(content):
            if found := pattern.search(
                text.replace("\r\n", "\n")
            ):  # an end of a line as Windows writes it hides nothing
                return f"{key!r} has the invisible character U+{ord(found[0]):04X}: call again without it"
    return ""


_TRIFECTA: Final[frozenset[Taint]] = frozenset(("untrusted", "private", "outside"))


def judge_call(
    call: Call,
    ground: CallSite,
    rules: Sequence[Rule],
    *,
    mode: Mode,
    scope: FsScope = "project",
    grants: frozenset[str] = frozenset(),
    granted: Sequence[Rule] = (),
    taint: frozenset[Taint] = frozenset(),
    hook: HookVerdict | None = None,
    approved: str = "",
) -> Verdict:
    """Allow, ask or deny one call. Deny beats ask beats allow.

    `grants` are fingerprints of calls that may run again, `granted` the rules of the session, `taint` what the session has met,
    `approved` the fingerprint of the call that a person said yes to just now.
    """
    written = (*rules, *granted)
    case = JudgeContext(call, form_of(call), ground, open_book(written, trusted=ground.trusted), mode, scope)
    script = script_of(case)
    own = _fingerprint(call) if grants or approved else ""
    consents = Consents(mode, hook, granted=own in grants, approved=bool(own) and own == approved)
    settled = _settled(case, script, consents)
    brings = brought(case, script)
    taints = frozenset(brings)
    if taints and taint | taints == _TRIFECTA and not consents.approved:
        settled.append(Finding(call.tool.name, "ask", "taint", meeting(brings), "hard"))
        return conclude(case, settled, taints)
    verdict = conclude(case, settled, taints)
    if verdict.offers or not (verdict.decision == "ask" or verdict.unasked):
        return verdict
    for texts in _missing(case, script, settled):
        added = [Rule.parse("allow", text, source="person") for text in texts]
        book = open_book((*written, *added), trusted=ground.trusted)
        again = _settled(msgspec.structs.replace(case, book=book), script, consents)
        if all(finding.decision == "allow" for finding in again):
            return msgspec.structs.replace(verdict, remedies=texts)
    return verdict


def _settled(case: JudgeContext, script: Script | None, consents: Consents) -> list[Finding]:
    return resolve_asks([*findings_about(case, script), *_hidden(case), *_hooked(case, consents.hook)], consents)


def findings_about(case: JudgeContext, script: Script | None) -> list[Finding]:
    """What the rules and the mode say about each part of a call; `script` is the command of one that has a command."""
    if words := beyond(case.call, case.form):
        return [*_named(case, whole=True), _too_large(case, words)]
    return [*_named(case), *_looked_into(case, script)]


def _missing(case: JudgeContext, script: Script | None, settled: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    """Rules that could answer all questions about a call if the person wrote them; none that are too many to look at."""
    asked = [finding for finding in settled if finding.decision == "ask"]
    if any(finding.hold == "hard" for finding in asked):
        return
    offered = [finding.offers[0] for finding in asked if finding.offers]
    named = [*_naming(case, script)] if any(finding.reason == "sensitive" for finding in asked) else []
    text = text_of(case.call, case.form) or ""
    exact = [f"Bash({text})"] if script is not None and is_whole_command(text, script) else []
    files = [each for each in offered if not each.startswith("Bash(")]
    for texts in ((*offered, *named), (*exact, *files, *named) if exact else ()):
        if 0 < len(found := tuple(dict.fromkeys(texts))) <= MOST:
            yield found


def _naming(case: JudgeContext, script: Script | None) -> Iterator[str]:
    """Rules that name the sensitive files of a call, which no wider rule allows."""
    touched: Iterable[tuple[Access, Command | None]]
    if script is not None:
        touched = ((access, command) for command in script.commands for access in command.accesses)
    else:
        accesses = file_accesses(case.call, case.form, case.ground) if case.form.kind in _OF_FILES else ()
        touched = ((access, None) for access in accesses or ())
    for access, command in touched:
        paths = [*case.ground.globs.get(access.path, ())] if access.glob else [*filter(None, (access.path,))]
        if (search := search_of(access, command, case.ground)) is not None:
            paths += read_by(search, case.ground) or ()
        for spot in map(case.locate, paths):
            if sensitive(spot.all, case.ground):
                tool = "Edit" if access.kind in ("write", "remove") else "Read"
                yield from filter(None, (naming_offer(tool, spot, case.ground),))


_OF_FILES: Final = ("read", "edit", "patch", "search")


def _fingerprint(call: Call) -> str:
    try:
        return fingerprint(call.tool.name, msgspec.json.encode(call.args).decode())
    except (UnicodeEncodeError, RecursionError):  # half a character, nested without end: nobody can have granted it
        return ""


def script_of(case: JudgeContext) -> Script | None:
    """The command of a call that has one, read; None when it is too long to be read."""
    text = text_of(case.call, case.form) if case.form.kind == "shell" else None
    if text is None or beyond(case.call, case.form):
        return None
    from backstay.permissions.shell import read_command  # noqa: PLC0415 - the grammar loads when the first command is read

    return read_command(text, case.ground)


def _named(case: JudgeContext, *, whole: bool = False) -> list[Finding]:
    """Rules that deny or ask about every call of a tool, or about its arguments. With `whole`, only the former."""
    sides = [(naming(side, case.call.tool.name) if side.every else ()) for side in (case.book.deny, case.book.ask)]
    rules = [rule for side in sides for rule in side if rule.pattern is None or not whole]
    return [finding for rule in rules if (finding := _by_rule(rule, case, len(rules))) is not None]


def _by_rule(rule: Rule, case: JudgeContext, among: int) -> Finding | None:
    name = case.call.tool.name
    found = _EVERY
    if rule.pattern is not None:
        found = compare(rule, case.call.args, case.ground, by_name=case.form.is_read, most=MOST_VALUES // among)
    match found.match:
        case "no":
            return None
        case "maybe":
            detail = f"{found.why}, which cannot be compared with the rule {str(rule)!r}"
            return Finding(name, "ask", "rule", detail, "hard")
        case "yes" if rule.decision == "deny":
            return Finding(name, "deny", "rule", f"denied by the rule {str(rule)!r}")
        case _:
            return Finding(name, "ask", "rule", f"the rule {str(rule)!r} asks", "hard")


_EVERY: Final = Compared("yes")


def _looked_into(case: JudgeContext, script: Script | None) -> list[Finding]:
    text = text_of(case.call, case.form)
    match case.form.kind:
        case "shell":
            return weigh_script(case, text, script) if text is not None and script is not None else [_unclear(case)]
        case "read" | "edit" | "patch" | "search":
            accesses = file_accesses(case.call, case.form, case.ground)
            return [weigh_touch(case, FileAccess(each)) for each in accesses] if accesses else [_unclear(case)]
        case "fetch":
            return [weigh_fetch(case, text)] if text is not None else [_unclear(case)]
        case "lookup":
            return [weigh_lookup(case, text)]
        case _:
            return weigh_other(case, text)


def _unclear(case: JudgeContext) -> Finding:
    detail = f"the arguments of {case.call.tool.name} do not say what it would do"
    return Finding(case.call.tool.name, "ask", "arguments", detail, "hard" if case.form.kind == "shell" else "firm")


def _too_large(case: JudgeContext, words: str) -> Finding:
    """What is denied or asked about may be in it; where nothing is, whoever bypasses permissions may run it."""
    side = case.book
    about = side.guards or any(naming(each, case.call.tool.name) for each in (side.deny, side.ask))
    held: Hold = "hard" if about or case.mode == "plan" else "firm"
    return Finding(case.call.tool.name, "ask", "arguments", f"the call is too large to be judged: {words}", held)


def _hidden(case: JudgeContext) -> list[Finding]:
    found = hidden_in(case.call.args)
    return [Finding(case.call.tool.name, "ask", "arguments", found, "firm")] if found else []


def _hooked(case: JudgeContext, hook: HookVerdict | None) -> list[Finding]:
    if hook is None:
        return []
    said = f": {hook.reason}" if hook.reason else ""
    if hook.decision == "deny" or hook.blocked:
        return [Finding(case.call.tool.name, "deny", "hook", f"a hook refused the call{said}")]
    if hook.decision == "ask":
        return [Finding(case.call.tool.name, "ask", "hook", f"a hook wants the call to be asked for{said}", "hard")]
    return []


def rule_about(rule_text: str, tool: str, args: Mapping[str, object], ground: CallSite) -> bool:
    """Whether a rule, as it is written, is about a call. What cannot be read or told is a yes.

    It is read as one that denies would be: at every layer of a command, for every file that a command touches, in any spelling.
    """
    try:
        rule = Rule.parse("deny", rule_text)
    except UserError:
        return True
    call = Call(spec_of(tool), dict(args))
    book = open_book((rule,), trusted=True)
    case = JudgeContext(call, form_of(call), ground, book, "default", "project")
    unclear = bool(naming(book.deny, tool)) or (case.form.kind == "shell" and book.guards)
    return any(_says_yes(finding, unclear) for finding in findings_about(case, script_of(case)))


def _says_yes(finding: Finding, unclear: bool) -> bool:
    if finding.reason == "rule":
        return finding.decision != "allow"
    if finding.reason == "arguments":
        return unclear
    return finding.reason in ("shell", "path") and finding.hold == "hard"
