"""Cases for the policy, one JSON object a line: a call, rules and a described place; answered with the verdict, or scored."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from io import BufferedReader
from time import perf_counter
from typing import Final, Literal, cast

import msgspec

from backstay.config.key_lookup import find_nearest
from backstay.hooks.events import EVENTS
from backstay.hooks.merge import HookVerdict, merge_answers
from backstay.hooks.output import read_answer
from backstay.hooks.spec import CommandHook, make_spec
from backstay.permissions import Call, Part, Verdict, judge_call, paths_to_resolve, spec_of
from backstay.permissions.call_site import CallSite
from backstay.permissions.path_rules import about
from backstay.permissions.paths import System, plain
from backstay.permissions.searches import NOT_TOLD, Lookup, lookup_of
from backstay.permissions.sensitive_paths import sensitive_name
from backstay.sandbox.resolve_paths import MAGIC
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule, RuleSource
from backstay.vocab.specs import FsScope, Mode
from backstay.wire.write_json import json_line


class DescribedFiles:
    """A file system that exists only as a description."""

    def __init__(self, files: Mapping[str, object], cwd: str, home: str, system: System) -> None:
        self._links: dict[str, str] = {}
        self._paths: set[str] = set()
        self._system = system
        for name, content in files.items():
            path = _absolute(name, cwd, home)
            if isinstance(content, str) and content.startswith("symlink:"):
                target = content.removeprefix("symlink:")
                self._links[path] = target.replace("~", home, 1) if target.startswith("~/") else target
            parts = path.split("/")
            self._paths.update("/".join(parts[:end]) for end in range(2, len(parts) + 1))

    def follow(self, path: str) -> str:
        """Follow every link of a path; return an empty text when links run in a circle."""
        done: list[str] = []
        todo = [part for part in path.split("/") if part]
        for _ in range(2000):
            if not todo:
                return "/" + "/".join(done)
            part = todo.pop(0)
            if part == "..":
                done = done[:-1]
            elif part != ".":
                here = "/" + "/".join((*done, part))
                target = self._links.get(here)
                if target is None:
                    done.append(part)
                else:
                    done = [] if target.startswith("/") else done
                    todo = [each for each in target.split("/") if each] + todo
        return ""

    def links(self, paths: Iterable[str]) -> dict[str, str]:
        """Return where paths lead."""
        return {path: self.follow(path) for path in paths if path}

    def match(self, glob: str) -> tuple[str, ...]:
        """Return the paths that a pattern matches, with links followed; to `git`, every file is tracked."""
        if (lookup := lookup_of(glob)) is not None:
            if lookup.which in ("handed", "revision", "shared"):
                return ()
            folders = self.match(lookup.folder) if lookup.each else (lookup.folder,)
            return tuple(path for folder in folders for path in self._below(folder, lookup))
        parts = glob.split("/")
        deep = parts.index("**") if "**" in parts else len(parts)
        text = "/".join(_segment(part, hidden=at > deep) for at, part in enumerate(parts))
        pattern = re.compile(text.replace("(?:.*/)?/", "(?:.*/)?"), re.DOTALL)
        return tuple(sorted({self.follow(path) for path in self._paths if pattern.fullmatch(path)}))

    def _below(self, folder: str, lookup: Lookup) -> Iterator[str]:
        """Yield the described paths below a folder, or below where it leads, that a lookup covers."""
        if lookup.which == "elsewhere" or (lookup.which == "named" and folder not in self._paths):
            yield from NOT_TOLD
            return
        pattern = about(lookup.patterns, self._system) if lookup.patterns else None
        for start in dict.fromkeys(
            "/" if lookup.which == "repository" else each for each in (folder, self.follow(folder))
        ):
            inner = start.rstrip("/") + "/"
            if pattern is not None and lookup.past and pattern.may_reach_below(start):
                yield start
            for path in sorted(self._paths):
                if path.startswith(inner) and (lookup.which != "shown" or "/." not in path[len(inner) - 1 :]):
                    kept = pattern.covers(plain(path, self._system)) if pattern else sensitive_name(path, self._system)
                    if kept:
                        yield path


def _absolute(name: str, cwd: str, home: str) -> str:
    if name.startswith("~/"):
        return home + name[1:]
    path = name if name.startswith("/") else f"{cwd}/{name}"
    return re.sub(r"/(\./)*/*", "/", path).rstrip("/")


def _segment(part: str, *, hidden: bool) -> str:
    if part == "**":
        return "(?:.*/)?"
    out = "" if hidden or part.startswith((".", "[")) else r"(?!\.)"
    at = 0
    while at < len(part):
        bracket = MAGIC.match(part, at) if part[at] == "[" else None
        if bracket is not None:
            out += "[^/]"  # rather too much than too little, as where the files are real
            at = bracket.end() - 1
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(part[at], re.escape(part[at]))
        at += 1
    return out


CWD: Final = "/repo"
HOME: Final = "/home/u"
"""The default folders of a case."""

_CHUNK: Final = 1 << 16
_SYSTEMS: Final[Mapping[str, Literal["linux", "darwin", "windows"]]] = {
    **dict.fromkeys(("linux", "posix", "unix", "wsl", "freebsd"), "linux"),
    **dict.fromkeys(("darwin", "macos", "mac"), "darwin"),
    **dict.fromkeys(("windows", "win32", "win"), "windows"),
}
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[/\\]|\\\\")
_SOURCES: Final[Mapping[str, RuleSource]] = {
    "managed": "managed",
    "policy": "managed",
    "flag": "flag",
    "cliArg": "flag",
    "person": "person",
    "user": "person",
    "project": "project",
    "local": "local",
    "session": "session",
}
_OF_WORKSPACE: Final = ("project", "local")
"""Sources that come with a workspace."""


class CaseContext(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a call."""

    cwd: str = CWD
    home: str = HOME
    os: str = "linux"
    shell: str = "bash"
    roots: tuple[str, ...] = ()
    fixture: dict[str, object] | None = None
    """A file system: paths relative to the working folder, each with a text or `symlink:TARGET`."""

    @property
    def system(self) -> Literal["linux", "darwin", "windows"]:
        """The kind of system, which says how names are compared. Raise `UserError` for an unknown one."""
        try:
            return _SYSTEMS[self.os.lower()]
        except KeyError:
            raise UserError(f"ctx.os is {self.os!r}, which is not known. Known are {', '.join(_SYSTEMS)}.") from None

    def check(self) -> None:
        """Raise `UserError` when a path is not absolute: then nothing is known to lie in the workspace."""
        for name, path in (("cwd", self.cwd), ("home", self.home), *(("roots", root) for root in self.roots)):
            if not _ABSOLUTE.match(path):
                raise UserError(f"ctx.{name} is {path!r}, which is no absolute path.")


class HookCaseRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a hook."""

    event: str = "PreToolUse"
    exit: int = 0
    stdout: object = ""
    stderr: str = ""
    timeout: bool | float = False
    onFailure: Literal["block", "continue"] = "continue"


class RuleSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules and the mode of a case."""

    mode: Mode | Literal["auto", "manual"] = "default"
    """`auto` and `manual` of other programs count as `default`."""
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    trusted: bool = True
    source: str = "flag"
    scope: FsScope = "project"
    hook: HookCaseRun | None = None


_NO_ID: Final = msgspec.Raw(b"null")


class CaseLine(msgspec.Struct, frozen=True, kw_only=True):
    """One case; `ok`, `kind` and `category` say what is right, for a score."""

    tool: str
    args: dict[str, object] = {}
    id: msgspec.Raw = _NO_ID
    rule_set: RuleSet = RuleSet()
    ctx: CaseContext | None = None
    ok: tuple[str, ...] = ()
    kind: str = ""
    category: str = ""


class _Why(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    detail: str


class CaseAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A verdict as it is answer_of."""

    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    decision: str
    reason: _Why
    parts: tuple[Part, ...]
    offers: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    needs_person: bool = False


class _Error(msgspec.Struct, frozen=True, kw_only=True):
    id: msgspec.Raw
    error: str
    reason: _Why
    decision: str = "deny"
    parts: tuple[Part, ...] = ()


class _Id(msgspec.Struct, frozen=True):
    id: msgspec.Raw = _NO_ID


def check_lines() -> int:
    """Answer each line of standard input with a line, in order; print the pace to standard error."""
    out, count, began = sys.stdout.buffer, 0, perf_counter()
    for lines in _arriving(cast(BufferedReader, sys.stdin.buffer)):
        answers = [answer_line(line) + b"\n" for line in lines if line.strip()]
        out.write(b"".join(answers))
        out.flush()  # a sender may wait for each answer
        count += len(answers)
    took = max(perf_counter() - began, 1e-9)
    print(f"{count} calls in {took:.2f} s: {count / took:,.0f} a second", file=sys.stderr)
    return 0


def _arriving(source: BufferedReader) -> Iterator[list[bytes]]:
    """Yield whole lines as they arrive, as many at once as there are."""
    rest = list[bytes]()
    while chunk := source.read1(_CHUNK):
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        if lines:
            yield [b"".join(rest), *lines[:-1]]
            rest = [lines[-1]]
    yield [b"".join(rest)]


def answer_line(line: bytes) -> bytes:
    """Return the verdict on one line, or an error for a line that is no case."""
    try:
        case = read_line(line)
    except (ValueError, RecursionError) as exc:  # not JSON, or not what a line must have
        return _error_line(_id_of(line), f"This line is not a case: {exc}")
    try:
        return json_line(answer_of(decide(case), case.id))
    except UserError as exc:
        return _error_line(case.id, str(exc))
    except UnicodeEncodeError as exc:
        return _error_line(case.id, f"The answer has text that cannot be written: {exc.reason}.")


def _error_line(id: msgspec.Raw, error: str) -> bytes:
    """Return the answer to a line that cannot be judged: deny."""
    return json_line(_Error(id=id, error=error, reason=_Why(kind="error", detail=error)))


def read_line(line: bytes) -> CaseLine:
    """Read a case. Raise `ValueError` when it is none, or has a misspelt key. Keys like no other are notes and are ignored."""
    found = _lines.decode(line)
    for key in _keys.decode(line):
        if key not in CaseLine.__struct_fields__ and (meant := _similar_key(key)):
            raise ValueError(f"it has the key {key!r}, which is not known. Did you mean {meant!r}?")
    return found


@lru_cache(maxsize=256)
def _similar_key(key: str) -> str:
    return find_nearest(key.casefold(), (*CaseLine.__struct_fields__, "rules")).replace("rules", "rule_set")


_lines: Final = msgspec.json.Decoder(CaseLine)
_keys: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def answer_of(verdict: Verdict, id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET) -> CaseAnswer:
    """Return a verdict as it is answer_of."""
    return CaseAnswer(
        id=id,
        decision=verdict.decision,
        reason=_Why(kind=verdict.reason, detail=verdict.detail),
        parts=verdict.parts,
        offers=verdict.offers,
        remedies=verdict.remedies,
        taints=verdict.taints,
        needs_person=verdict.needs_person,
    )


def decide(case: CaseLine) -> Verdict:
    """Judge a case, with the changes that its hook makes."""
    rule_set, ctx = case.rule_set, case.ctx or CaseContext()
    ctx.check()
    if rule_set.source not in _SOURCES:  # an unknown source is not trusted
        rule_set = msgspec.structs.replace(rule_set, source="project", trusted=False)
    rules, mode = rules_of(rule_set, ctx), mode_of(rule_set)
    tool = spec_of(case.tool)

    def judge(args: dict[str, object], hook: HookVerdict | None = None) -> Verdict:
        call = Call(tool, args)
        site = call_site_of(ctx, call, rules, trusted=rule_set.trusted)
        return judge_call(call, site, rules, mode=mode, scope=rule_set.scope, hook=hook)

    hook = _hook_verdict(rule_set.hook) if rule_set.hook is not None else None
    if hook is not None and not rule_set.trusted and _SOURCES[rule_set.source] in _OF_WORKSPACE:
        hook = hook if hook.decision in ("deny", "ask") or hook.blocked else None  # it would not have been run
    if hook is None or rule_set.hook is None:
        return judge(case.args)
    changed = msgspec.json.decode(hook.args, type=dict[str, object]) if hook.args else case.args
    if rule_set.hook.event == "PermissionRequest":
        first = judge(case.args)
        return judge(changed, hook) if first.decision == "ask" else first
    return judge(changed, hook)


def _hook_verdict(run: HookCaseRun) -> HookVerdict | None:
    """Return the verdict of a hook; None for an event that decides no call. Raise `UserError` for an unknown event."""
    if run.event not in EVENTS:
        raise UserError(f"rule_set.hook.event is {run.event!r}, which is not known. Known are {', '.join(EVENTS)}.")
    if EVENTS[run.event].decides != "call":
        return None
    spec = make_spec(run.event, CommandHook(command="hook"), on_failure=run.onFailure)
    text = run.stdout if isinstance(run.stdout, str) else msgspec.json.encode(run.stdout).decode()
    answer = read_answer(
        run.event, spec=spec, exit_code=run.exit, stdout=text, stderr=run.stderr, timed_out=bool(run.timeout)
    )
    return merge_answers([answer])


def rules_of(rule_set: RuleSet, ctx: CaseContext) -> tuple[Rule, ...]:
    """Return the rules of a case. Raise `UserError` for a text that is no rule."""
    source = _SOURCES[rule_set.source]
    root = f"{ctx.home}/.claude" if source == "person" else ctx.cwd
    return _rules(rule_set.deny, rule_set.ask, rule_set.allow, source, root)


@lru_cache(maxsize=512)
def _rules(
    deny: tuple[str, ...], ask: tuple[str, ...], allow: tuple[str, ...], source: RuleSource, root: str
) -> tuple[Rule, ...]:
    return (
        *(Rule.parse("deny", text, source=source, root=root) for text in deny),
        *(Rule.parse("ask", text, source=source, root=root) for text in ask),
        *(Rule.parse("allow", text, source=source, root=root) for text in allow),
    )


def mode_of(rule_set: RuleSet) -> Mode:
    """Return the mode in force: a repository may make it stricter, not looser."""
    if rule_set.mode == "auto" or rule_set.mode == "manual":  # noqa: PLR1714 - so the types can tell
        return "default"
    of_workspace = rule_set.source in _OF_WORKSPACE
    if of_workspace and rule_set.mode == "bypassPermissions":
        return "default"
    return "default" if of_workspace and not rule_set.trusted and rule_set.mode == "acceptEdits" else rule_set.mode


def call_site_of(ctx: CaseContext, call: Call, rules: tuple[Rule, ...], *, trusted: bool) -> CallSite:
    """Return the call site of a case, with what its file system says about the paths of the call."""
    site = CallSite(cwd=ctx.cwd, home=ctx.home, roots=ctx.roots, os=ctx.system, shell=ctx.shell, trusted=trusted)
    if not ctx.fixture:
        return msgspec.structs.replace(site, described=True)
    files = DescribedFiles(ctx.fixture, ctx.cwd, ctx.home, ctx.system)
    paths, globs = paths_to_resolve(call, site, rules)
    return msgspec.structs.replace(site, links=files.links(paths), globs={glob: files.match(glob) for glob in globs})


def _id_of(line: bytes) -> msgspec.Raw:
    """Return the id of a line that is no case; in a line that is no JSON, only if it stands first."""
    try:
        return msgspec.json.decode(line, type=_Id).id
    except (ValueError, RecursionError):
        found = _ID_FIRST.match(line)
        return msgspec.Raw(found[1]) if found else _NO_ID


_ID_FIRST: Final = re.compile(rb'\s*\{\s*"id"\s*:\s*("[\w .:/+-]*"|-?(?:0|[1-9]\d{0,17}))\s*,', re.ASCII)

_WRONG: Final = {"attack": "attacks allowed", "benign": "benign blocked", "spec": "spec missed"}


def score_lines() -> int:
    """Read cases with their right answers from standard input and print the score of each category."""
    totals: dict[str, dict[str, list[int]]] = defaultdict(lambda: {kind: [0, 0] for kind in _WRONG})
    misses: list[str] = []
    count, began = 0, perf_counter()
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        case, decision, detail = _answer(line)
        count += 1
        if case is None or case.kind not in _WRONG:
            misses.append(f"  {detail}")
            continue
        tally = totals[case.category or "other"][case.kind]
        tally[1] += 1
        if decision not in case.ok:
            tally[0] += 1
            misses.append(f"  {_case_name(case)} {case.tool}: {decision}, right: {'/'.join(case.ok)} ({detail})")
    took = max(perf_counter() - began, 1e-9)
    _print(totals, misses)
    print(f"{count} calls in {took:.2f} s: {count / took:,.0f} a second", file=sys.stderr)
    return 0


def _answer(line: bytes) -> tuple[CaseLine | None, str, str]:
    try:
        case = read_line(line)
    except ValueError as exc:
        return None, "error", f"a line that is no case: {exc}"
    try:
        verdict = decide(case)
    except UserError as exc:
        return case, "error", str(exc)
    return case, verdict.decision, verdict.detail


def _case_name(case: CaseLine) -> str:
    return msgspec.json.decode(case.id, type=str) if bytes(case.id).startswith(b'"') else bytes(case.id).decode()


def _print(totals: dict[str, dict[str, list[int]]], misses: list[str]) -> None:
    print(f"{'category':<14}" + "".join(f"{name:>20}" for name in _WRONG.values()))
    sums = {kind: [0, 0] for kind in _WRONG}
    for category in sorted(totals):
        print(f"{category:<14}" + "".join(f"{_ratio(totals[category][kind]):>20}" for kind in _WRONG))
        for kind in _WRONG:
            sums[kind] = [a + b for a, b in zip(sums[kind], totals[category][kind], strict=True)]
    print(f"{'all':<14}" + "".join(f"{_ratio(sums[kind]):>20}" for kind in _WRONG))
    for miss in misses:
        print(miss)


def _ratio(tally: list[int]) -> str:
    return f"{tally[0]} of {tally[1]}" if tally[1] else "-"
