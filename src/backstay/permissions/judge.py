"""Decide whether a call may run: the one policy point.

Every call passes here: of built-in tools, of MCP servers and plugins, of children, rewritten by a hook or by the person. Order: hooks,
deny, ask, what plan denies, allow, the mode's default; every deny is final. What is found about each part of a call is
collected first; then mode, hook and grants answer the questions that they may answer; what is left decides.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.hooks.merge import HookVerdict
from backstay.logic.text import HIDDEN
from backstay.permissions.arguments import MOST_VALUES, Compared, compare, matches_text
from backstay.permissions.call_site import Access, CallSite, Command, Script, fingerprint
from backstay.permissions.judge_files import FileAccess, judge_access
from backstay.permissions.judge_shell import judge_script
from backstay.permissions.judge_web import judge_fetch, judge_lookup
from backstay.permissions.judgement import Finding, Hold, JudgeContext, Part, Verdict, strictest
from backstay.permissions.path_rules import literal_end, path_pattern
from backstay.permissions.paths import FREE_TO_READ
from backstay.permissions.rule_index import index_rules, is_about, naming
from backstay.permissions.searches import read_by, search_of
from backstay.permissions.sensitive_paths import glob_meets, sensitive
from backstay.permissions.suggested_rules import MOST, is_whole_command, naming_offer
from backstay.permissions.tool_kinds import Call, beyond, file_accesses, form_of, spec_of, text_of
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from backstay.vocab.specs import FsScope, Mode, Taint

USUAL_AGENT: Final = "general-purpose"
"""The child that a call without a name means."""
_SEPARATORS: Final = re.compile(r"[/\\]")


def judge_other(context: JudgeContext, text: str | None) -> list[Finding]:
    """Return what the policy says about a call by its tool, and by the one argument that a pattern may be about."""
    name = context.call.tool.name
    ruled = [finding for finding in (_judge_named_agent(context, text),) if finding is not None]
    if context.form.kind == "person":
        return [*ruled, Finding(name, "ask", "tool", "it asks the person something", "hard")]
    if planned := _judge_in_plan_mode(context):
        return [*ruled, planned]
    if rule := _find_allow_rule(context, text):
        return [*ruled, Finding(name, "allow", "rule", f"allowed by the rule {str(rule)!r}")]
    return [*ruled, _by_kind(context)]


def _judge_named_agent(context: JudgeContext, text: str | None) -> Finding | None:
    """Apply the rules that deny or ask about a subagent or a skill by its name."""
    name = context.call.tool.name
    if not context.form.is_read:
        return None  # its arguments were compared already
    for side in (context.rules.deny, context.rules.ask):
        for rule in side.every:
            if rule.pattern is not None and is_about(rule, name) and _may_be_about(rule.pattern, context, text):
                if rule.decision == "deny":
                    return Finding(name, "deny", "rule", f"denied by the rule {str(rule)!r}")
                return Finding(name, "ask", "rule", f"the rule {str(rule)!r} asks", "hard")
    return None


def _may_be_about(pattern: str, context: JudgeContext, text: str | None) -> bool:
    text = None if text is None else text.strip()
    if not text and context.form.kind == "agent" and context.call.args.get(context.form.main) in (None, text):
        text = USUAL_AGENT
    return (
        text is None
        or matches_text(pattern, _skill_text(context, text), folds=True)
        or matches_text(pattern, text, folds=True)
    )


def _find_allow_rule(context: JudgeContext, text: str | None) -> Rule | None:
    for rule in context.rules.allow.every:
        if not is_about(rule, context.call.tool.name):
            continue
        if rule.pattern is None:
            return rule
        if text is not None and context.form.kind != "mcp" and _covers(rule.pattern, context, text):
            return rule
    return None


def _covers(pattern: str, context: JudgeContext, text: str) -> bool:
    if not context.form.is_read and pattern != text and _climbs(text):
        return False
    return matches_text(pattern, _skill_text(context, text))


def _climbs(text: str) -> bool:
    """Return whether a text may be a path with a way out of what a pattern seems to name."""
    return ".." in _SEPARATORS.split(text)


def _skill_text(context: JudgeContext, text: str) -> str:
    """Return a skill's name with what it is given, as rules write it: `Skill(deploy staging)`."""
    given = context.call.args.get("args")
    return f"{text} {given}" if context.form.kind == "skill" and isinstance(given, str) and given else text


def _judge_in_plan_mode(context: JudgeContext) -> Finding | None:
    tool = context.call.tool
    if context.mode != "plan" or tool.effect == "pure" or context.form.kind in ("agent", "notes", "skill"):
        return None
    if context.form.kind == "mcp":
        return Finding(tool.name, "ask", "mode", "it may change things, and the mode is plan", "hard")
    return Finding(tool.name, "deny", "mode", f"{tool.name} may change things, and the mode is plan")


def _by_kind(context: JudgeContext) -> Finding:
    tool = context.call.tool
    name = tool.name
    match context.form.kind:
        case "notes":
            return Finding(name, "allow", "tool", "it keeps notes of the session, nothing else")
        case "agent" if not tool.asks:
            return Finding(name, "allow", "tool", "what the child does is judged call by call")
        case "mcp":
            return Finding(name, "ask", "tool", "it belongs to a server that nobody allowed", "soft", (name,))
        case "skill":
            return Finding(name, "ask", "tool", "a skill tells the model what to do", "soft")
    if tool.asks:
        return Finding(name, "ask", "tool", f"{name} always asks", "firm")
    if tool.effect == "pure" or tool.touches == "reads":
        return Finding(name, "allow", "mode", f"{name} only reads")
    if tool.touches == "host":
        return Finding(name, "allow", "tool", "the program that opened the session brought this tool")
    doing = {"edits": "writes files", "web": "goes to the web"}.get(tool.touches, "runs programs")
    return Finding(name, "ask", "tool", f"{name} {doing}, and nobody can say which", "soft")


def taints_of_call(context: JudgeContext, script: Script | None) -> dict[Taint, str]:
    """Return the taints of one call, and what brings each, in words."""
    tool = context.call.tool
    found: dict[Taint, str] = dict.fromkeys(tool.taints, f"the tool {tool.name}")
    kind = context.form.kind
    if kind == "mcp":
        found["untrusted"] = f"the tool {tool.name}"
        if tool.effect != "pure":
            found["outside"] = f"the tool {tool.name}"
    if kind in ("fetch", "lookup"):
        found["untrusted"] = found["outside"] = f"the tool {tool.name}"
    if not context.call_site.trusted and kind in ("read", "search", "shell"):
        found["untrusted"] = "a workspace that is not trusted"
    if script is not None:
        for command in dict.fromkeys(script.commands):
            found |= _taints_of_files(context, command.accesses, command)
        if reaching := [command for command in script.commands if command.network]:
            found["untrusted"] = found["outside"] = f"{_name_program(reaching[0])} uses the network"
    elif kind in ("read", "edit", "patch", "search") and not beyond(context.call, context.form):
        accesses = file_accesses(context.call, context.form, context.call_site) or ()
        found |= _taints_of_files(context, accesses, None)
        shows = [each for each in accesses if each.kind == "read" and kind == "search" and _shows_named(context, each)]
        if shows:
            found["private"] = f"files below {shows[0].path!r}"
    return found


def meeting(now: Mapping[Taint, str]) -> str:
    """Say that the three would meet, and what brings each; what the call does not bring, the session has met before."""
    words, private, out = (now.get(each, _BEFORE) for each in ("untrusted", "private", "outside"))
    return f"words of strangers ({words}), private data ({private}) and a way out ({out}) would meet in this session"


_BEFORE: Final = "met before in this session"


def _name_program(command: Command) -> str:
    words = command.layers[-1].words if command.layers else ()
    return repr(words[0]) if words and words[0] else "a command"


def _shows_named(context: JudgeContext, access: Access) -> bool:
    """Return whether a search would show a sensitive file below a folder because a rule of the person names it."""
    folder, side = context.locate(access.path).lexical, context.rules.allow
    looks_at_hidden = bool(context.call.args.get("hidden") or context.call.args.get("glob"))
    rules = [rule for rule in (*side.reads, *side.edits) if rule.source not in ("project", "local", "default")]
    return any(
        sensitive((named,), context.call_site)
        and path_pattern(rule, context.call_site).may_reach_below(folder)
        and (looks_at_hidden or "/." not in named.removeprefix(folder))
        for rule in rules
        if (named := literal_end(rule, context.call_site))
    )


def _taints_of_files(context: JudgeContext, accesses: Iterable[Access], command: Command | None) -> dict[Taint, str]:
    found: dict[Taint, str] = {}
    for access in accesses:
        if not access.known:
            continue
        resolved = context.locate(access.path)
        changes = access.kind in ("write", "remove")
        if changes and not resolved.inside and resolved.lexical not in FREE_TO_READ:
            found["outside"] = f"{access.path!r} lies outside the workspace"
        if access.kind == "read" and (
            sensitive(resolved.all, context.call_site) or _shows_sensitive(context, access, command)
        ):
            found["private"] = f"{access.path!r}"
    return found


def _shows_sensitive(context: JudgeContext, access: Access, command: Command | None) -> bool:
    """Return whether a command reads something sensitive that it does not name, or may."""
    search = None if command is None else search_of(access, command, context.call_site)
    below = read_by(search, context.call_site) if search is not None else ()
    named = context.call_site.globs.get(access.path) if access.glob else ()
    if below is None or below or any(sensitive(context.locate(path).all, context.call_site) for path in named or ()):
        return True
    looked = context.call_site.described or named is not None
    return access.glob and not named and glob_meets("sensitive", access.path, context.call_site, looked=looked)


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
    """Answer the questions that the mode, a hook, a grant or an approval may answer. Denials stay."""
    return [finding if finding.decision != "ask" else _answer(finding, consents) for finding in findings]


def conclude(context: JudgeContext, settled: list[Finding], taints: frozenset[Taint]) -> Verdict:
    """Return the verdict: the strictest of what is left."""
    last = strictest(settled or [_NOTHING])
    decision, detail, reason = last.decision, last.detail, last.reason
    asks = decision == "ask"
    unasked = asks and context.mode == "dontAsk"
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
        needs_person=context.form.kind == "person",
    )


def _answer(finding: Finding, consents: Consents) -> Finding:
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
    """Return one rule for each question; none when a rule cannot answer one of them, or when they are too many to look at."""
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


def find_hidden_text(args: dict[str, object]) -> str:
    """Return what is hidden in the arguments of a call, in words; empty when nothing is."""
    for key, content in args.items():
        pattern = _CONTENT if key in _CONTENT_KEYS else HIDDEN
        for text in _texts_in(content):
            if found := pattern.search(
                text.replace("\r\n", "\n")
            ):  # an end of a line as Windows writes it hides nothing
                return f"{key!r} has the invisible character U+{ord(found[0]):04X}: call again without it"
    return ""


def _texts_in(content: object) -> Iterator[str]:
    """Yield every text in a value, the names in objects left out."""
    todo = [content]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            todo += each.values()
        elif isinstance(each, list):
            todo += each


_TRIFECTA: Final[frozenset[Taint]] = frozenset(("untrusted", "private", "outside"))


def judge_call(
    call: Call,
    call_site: CallSite,
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
    context = JudgeContext(call, form_of(call), call_site, index_rules(written, trusted=call_site.trusted), mode, scope)
    script = script_of(context)
    own = _fingerprint(call) if grants or approved else ""
    consents = Consents(mode, hook, granted=own in grants, approved=bool(own) and own == approved)
    settled = _judge_parts(context, script, consents)
    brings = taints_of_call(context, script)
    taints = frozenset(brings)
    if taints and taint | taints == _TRIFECTA and not consents.approved:
        settled.append(Finding(call.tool.name, "ask", "taint", meeting(brings), "hard"))
        return conclude(context, settled, taints)
    verdict = conclude(context, settled, taints)
    if verdict.offers or not (verdict.decision == "ask" or verdict.unasked):
        return verdict
    for texts in _missing(context, script, settled):
        added = [Rule.parse("allow", text, source="person") for text in texts]
        rule_index = index_rules((*written, *added), trusted=call_site.trusted)
        again = _judge_parts(msgspec.structs.replace(context, rules=rule_index), script, consents)
        if all(finding.decision == "allow" for finding in again):
            return msgspec.structs.replace(verdict, remedies=texts)
    return verdict


def _judge_parts(context: JudgeContext, script: Script | None, consents: Consents) -> list[Finding]:
    return resolve_asks(
        [*findings_about(context, script), *_judge_hidden_text(context), *_judge_hook(context, consents.hook)], consents
    )


def findings_about(context: JudgeContext, script: Script | None) -> list[Finding]:
    """Return what the rules and the mode say about each part of a call; `script` is the command of one that has a command."""
    if words := beyond(context.call, context.form):
        return [*_judge_by_name(context, whole=True), _too_large(context, words)]
    return [*_judge_by_name(context), *_judge_by_kind(context, script)]


def _missing(context: JudgeContext, script: Script | None, settled: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    """Yield rules that would answer all questions about a call if the person wrote them; none that are too many to look at."""
    asked = [finding for finding in settled if finding.decision == "ask"]
    if any(finding.hold == "hard" for finding in asked):
        return
    offered = [finding.offers[0] for finding in asked if finding.offers]
    named = [*_naming(context, script)] if any(finding.reason == "sensitive" for finding in asked) else []
    text = text_of(context.call, context.form) or ""
    exact = [f"Bash({text})"] if script is not None and is_whole_command(text, script) else []
    files = [each for each in offered if not each.startswith("Bash(")]
    for texts in ((*offered, *named), (*exact, *files, *named) if exact else ()):
        if 0 < len(found := tuple(dict.fromkeys(texts))) <= MOST:
            yield found


def _naming(context: JudgeContext, script: Script | None) -> Iterator[str]:
    """Return rules that name the sensitive files of a call, which no wider rule allows."""
    touched: Iterable[tuple[Access, Command | None]]
    if script is not None:
        touched = ((access, command) for command in script.commands for access in command.accesses)
    else:
        accesses = (
            file_accesses(context.call, context.form, context.call_site) if context.form.kind in _OF_FILES else ()
        )
        touched = ((access, None) for access in accesses or ())
    for access, command in touched:
        paths = [*context.call_site.globs.get(access.path, ())] if access.glob else [*filter(None, (access.path,))]
        if (search := search_of(access, command, context.call_site)) is not None:
            paths += read_by(search, context.call_site) or ()
        for resolved in map(context.locate, paths):
            if sensitive(resolved.all, context.call_site):
                tool = "Edit" if access.kind in ("write", "remove") else "Read"
                yield from filter(None, (naming_offer(tool, resolved, context.call_site),))


_OF_FILES: Final = ("read", "edit", "patch", "search")


def _fingerprint(call: Call) -> str:
    try:
        return fingerprint(call.tool.name, msgspec.json.encode(call.args).decode())
    except (UnicodeEncodeError, RecursionError):  # half a character, nested without end: nobody can have granted it
        return ""


def script_of(context: JudgeContext) -> Script | None:
    """Return the command of a call that has one, read; None when it is too long to be read."""
    text = text_of(context.call, context.form) if context.form.kind == "shell" else None
    if text is None or beyond(context.call, context.form):
        return None
    from backstay.permissions.shell import read_command  # noqa: PLC0415 - the grammar loads when the first command is read

    return read_command(text, context.call_site)


def _judge_by_name(context: JudgeContext, *, whole: bool = False) -> list[Finding]:
    """Apply the rules that deny or ask about every call of a tool, or about its arguments. With `whole`, only the former."""
    sides = [
        (naming(side, context.call.tool.name) if side.every else ()) for side in (context.rules.deny, context.rules.ask)
    ]
    rules = [rule for side in sides for rule in side if rule.pattern is None or not whole]
    return [finding for rule in rules if (finding := _by_rule(rule, context, len(rules))) is not None]


def _by_rule(rule: Rule, context: JudgeContext, among: int) -> Finding | None:
    name = context.call.tool.name
    found = _EVERY
    if rule.pattern is not None:
        found = compare(
            rule, context.call.args, context.call_site, by_name=context.form.is_read, most=MOST_VALUES // among
        )
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


def _judge_by_kind(context: JudgeContext, script: Script | None) -> list[Finding]:
    text = text_of(context.call, context.form)
    match context.form.kind:
        case "shell":
            return (
                judge_script(context, text, script) if text is not None and script is not None else [_unclear(context)]
            )
        case "read" | "edit" | "patch" | "search":
            accesses = file_accesses(context.call, context.form, context.call_site)
            return [judge_access(context, FileAccess(each)) for each in accesses] if accesses else [_unclear(context)]
        case "fetch":
            return [judge_fetch(context, text)] if text is not None else [_unclear(context)]
        case "lookup":
            return [judge_lookup(context, text)]
        case _:
            return judge_other(context, text)


def _unclear(context: JudgeContext) -> Finding:
    detail = f"the arguments of {context.call.tool.name} do not say what it would do"
    return Finding(
        context.call.tool.name, "ask", "arguments", detail, "hard" if context.form.kind == "shell" else "firm"
    )


def _too_large(context: JudgeContext, words: str) -> Finding:
    """Ask about a call too large to judge; bypassing answers that only where no rule denies or asks."""
    side = context.rules
    about = side.guards or any(naming(each, context.call.tool.name) for each in (side.deny, side.ask))
    held: Hold = "hard" if about or context.mode == "plan" else "firm"
    return Finding(context.call.tool.name, "ask", "arguments", f"the call is too large to be judged: {words}", held)


def _judge_hidden_text(context: JudgeContext) -> list[Finding]:
    found = find_hidden_text(context.call.args)
    return [Finding(context.call.tool.name, "ask", "arguments", found, "firm")] if found else []


def _judge_hook(context: JudgeContext, hook: HookVerdict | None) -> list[Finding]:
    if hook is None:
        return []
    said = f": {hook.reason}" if hook.reason else ""
    if hook.decision == "deny" or hook.blocked:
        return [Finding(context.call.tool.name, "deny", "hook", f"a hook refused the call{said}")]
    if hook.decision == "ask":
        return [Finding(context.call.tool.name, "ask", "hook", f"a hook wants the call to be asked for{said}", "hard")]
    return []


def rule_about(rule_text: str, tool: str, args: Mapping[str, object], call_site: CallSite) -> bool:
    """Return whether a rule, as it is written, is about a call. What cannot be read or told is a yes.

    It is read as one that denies would be: at every layer of a command, for every file that a command touches, in any spelling.
    """
    try:
        rule = Rule.parse("deny", rule_text)
    except UserError:
        return True
    call = Call(spec_of(tool), dict(args))
    rule_index = index_rules((rule,), trusted=True)
    context = JudgeContext(call, form_of(call), call_site, rule_index, "default", "project")
    unclear = bool(naming(rule_index.deny, tool)) or (context.form.kind == "shell" and rule_index.guards)
    return any(_says_yes(finding, unclear) for finding in findings_about(context, script_of(context)))


def _says_yes(finding: Finding, unclear: bool) -> bool:
    if finding.reason == "rule":
        return finding.decision != "allow"
    if finding.reason == "arguments":
        return unclear
    return finding.reason in ("shell", "path") and finding.hold == "hard"
