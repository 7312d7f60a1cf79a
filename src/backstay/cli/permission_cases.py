"""Cases for the policy, a JSON object a line: what would be decided about a call, under these rules, at that place."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from io import BufferedReader
from time import perf_counter
from typing import Final, Literal, cast

import msgspec

from backstay.config.key_table import nearest
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
from backstay.wire.json_text import json_line


class DescribedFiles:
    """A file system that is only described."""

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
        """Where a path leads with every link followed; empty when links run in a circle."""
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
        """Where paths lead."""
        return {path: self.follow(path) for path in paths if path}

    def match(self, glob: str) -> tuple[str, ...]:
        """The paths that a pattern matches, links followed; what `git` has tracked is every file."""
        if (lookup := lookup_of(glob)) is not None:
            if lookup.which in ("handed", "revision"):
                return ()
            folders = self.match(lookup.folder) if lookup.each else (lookup.folder,)
            return tuple(path for folder in folders for path in self._below(folder, lookup))
        parts = glob.split("/")
        deep = parts.index("**") if "**" in parts else len(parts)
        text = "/".join(_segment(part, hidden=at > deep) for at, part in enumerate(parts))
        pattern = re.compile(text.replace("(?:.*/)?/", "(?:.*/)?"), re.DOTALL)
        return tuple(sorted({self.follow(path) for path in self._paths if pattern.fullmatch(path)}))

    def _below(self, folder: str, lookup: Lookup) -> Iterator[str]:
        """What is described below a folder, there or where it leads, that a lookup is about."""
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
"""Where a line that does not say is assumed to happen."""

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
_BROUGHT: Final = ("project", "local")
"""Sources that a workspace brings along."""


class CasePlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a call would happen."""

    cwd: str = CWD
    home: str = HOME
    os: str = "linux"
    shell: str = "bash"
    roots: tuple[str, ...] = ()
    fixture: dict[str, object] | None = None
    """A file system: paths, from the working folder, and what is there: a text, or `symlink:TARGET`."""

    @property
    def system(self) -> Literal["linux", "darwin", "windows"]:
        """The kind of system, which says how names are compared. Raise `UserError` for one that is not known."""
        try:
            return _SYSTEMS[self.os.lower()]
        except KeyError:
            raise UserError(f"ctx.os is {self.os!r}, which is not known. Known are {', '.join(_SYSTEMS)}.") from None

    def check(self) -> None:
        """Raise `UserError` when it cannot be said what lies in the workspace."""
        for name, path in (("cwd", self.cwd), ("home", self.home), *(("roots", root) for root in self.roots)):
            if not _ABSOLUTE.match(path):
                raise UserError(f"ctx.{name} is {path!r}, which is no absolute path.")


class HookCaseRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a hook ended."""

    event: str = "PreToolUse"
    exit: int = 0
    stdout: object = ""
    stderr: str = ""
    timeout: bool | float = False
    onFailure: Literal["block", "continue"] = "continue"


class RuleSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of a line, and the mode."""

    mode: Mode | Literal["auto", "manual"] = "default"
    """Two that other programs have count as `default`."""
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    trusted: bool = True
    source: str = "flag"
    scope: FsScope = "project"
    hook: HookCaseRun | None = None


_NOBODY: Final = msgspec.Raw(b"null")


class CaseLine(msgspec.Struct, frozen=True, kw_only=True):
    """One case; `ok`, `kind` and `category` are there when somebody wrote down what is right."""

    tool: str
    args: dict[str, object] = {}
    id: msgspec.Raw = _NOBODY
    rule_set: RuleSet = RuleSet()
    ctx: CasePlace | None = None
    ok: tuple[str, ...] = ()
    kind: str = ""
    category: str = ""


class _Why(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    detail: str


class CaseAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A verdict as it is printed."""

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
    id: msgspec.Raw = _NOBODY


def check_lines() -> int:
    """Answer each line of standard input with a line, in order; tell the pace on standard error."""
    out, count, began = sys.stdout.buffer, 0, perf_counter()
    for lines in _arriving(cast(BufferedReader, sys.stdin.buffer)):
        answers = [answer_line(line) + b"\n" for line in lines if line.strip()]
        out.write(b"".join(answers))
        out.flush()  # whoever sends line by line waits for the answer
        count += len(answers)
    took = max(perf_counter() - began, 1e-9)
    print(f"{count} calls in {took:.2f} s: {count / took:,.0f} a second", file=sys.stderr)
    return 0


def _arriving(source: BufferedReader) -> Iterator[list[bytes]]:
    """Whole lines as they come in, as many at once as there are."""
    rest = list[bytes]()
    while chunk := source.read1(_CHUNK):
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        if lines:
            yield [b"".join(rest), *lines[:-1]]
            rest = [lines[-1]]
    yield [b"".join(rest)]


def answer_line(line: bytes) -> bytes:
    """The verdict on one line; a line that is no case is answered too."""
    try:
        case = read_line(line)
    except (ValueError, RecursionError) as exc:  # not JSON, or not what a line must have
        return _unjudged(_id_of(line), f"This line is not a case: {exc}")
    try:
        return json_line(printed(decide(case), case.id))
    except UserError as exc:
        return _unjudged(case.id, str(exc))
    except UnicodeEncodeError as exc:
        return _unjudged(case.id, f"The answer has text that cannot be written: {exc.reason}.")


def _unjudged(id: msgspec.Raw, error: str) -> bytes:
    """What cannot be judged is not allowed."""
    return json_line(_Error(id=id, error=error, reason=_Why(kind="error", detail=error)))


def read_line(line: bytes) -> CaseLine:
    """Read a case. Raise `ValueError` when it is none, or has a key that only a mistake explains. Notes under other keys are left alone."""
    found = _lines.decode(line)
    for key in _keys.decode(line):
        if key not in CaseLine.__struct_fields__ and (meant := _meant(key)):
            raise ValueError(f"it has the key {key!r}, which is not known. Did you mean {meant!r}?")
    return found


@lru_cache(maxsize=256)
def _meant(key: str) -> str:
    return nearest(key.casefold(), (*CaseLine.__struct_fields__, "rules")).replace("rules", "rule_set")


_lines: Final = msgspec.json.Decoder(CaseLine)
_keys: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def printed(verdict: Verdict, id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET) -> CaseAnswer:
    """A verdict as it is printed."""
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
    """Weigh a case, with what its hook wants changed."""
    said, place = case.rule_set, case.ctx or CasePlace()
    place.check()
    if said.source not in _SOURCES:  # whoever that is, nobody trusts them
        said = msgspec.structs.replace(said, source="project", trusted=False)
    rules, mode = rules_of(said, place), mode_of(said)
    tool = spec_of(case.tool)

    def weighed(args: dict[str, object], hook: HookVerdict | None = None) -> Verdict:
        call = Call(tool, args)
        call_site = call_site_of(place, call, rules, trusted=said.trusted)
        return judge_call(call, call_site, rules, mode=mode, scope=said.scope, hook=hook)

    hook = _heard(said.hook) if said.hook is not None else None
    if hook is not None and not said.trusted and _SOURCES[said.source] in _BROUGHT:
        hook = hook if hook.decision in ("deny", "ask") or hook.blocked else None  # it would not have been run
    if hook is None or said.hook is None:
        return weighed(case.args)
    changed = msgspec.json.decode(hook.args, type=dict[str, object]) if hook.args else case.args
    if said.hook.event == "PermissionRequest":
        first = weighed(case.args)
        return weighed(changed, hook) if first.decision == "ask" else first
    return weighed(changed, hook)


def _heard(run: HookCaseRun) -> HookVerdict | None:
    """What a hook said; one of another moment says nothing about a call. Raise `UserError` for a moment that is not known."""
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


def rules_of(said: RuleSet, place: CasePlace) -> tuple[Rule, ...]:
    """The rules of a line. Raise `UserError` for what is none."""
    source = _SOURCES[said.source]
    root = f"{place.home}/.claude" if source == "person" else place.cwd
    return _rules(said.deny, said.ask, said.allow, source, root)


@lru_cache(maxsize=512)
def _rules(
    deny: tuple[str, ...], ask: tuple[str, ...], allow: tuple[str, ...], source: RuleSource, root: str
) -> tuple[Rule, ...]:
    return (
        *(Rule.parse("deny", text, source=source, root=root) for text in deny),
        *(Rule.parse("ask", text, source=source, root=root) for text in ask),
        *(Rule.parse("allow", text, source=source, root=root) for text in allow),
    )


def mode_of(said: RuleSet) -> Mode:
    """The mode that holds: a repository may make things stricter, not looser."""
    if said.mode == "auto" or said.mode == "manual":  # noqa: PLR1714 - so the types can tell
        return "default"
    brought = said.source in ("project", "local")
    if brought and said.mode == "bypassPermissions":
        return "default"
    return "default" if brought and not said.trusted and said.mode == "acceptEdits" else said.mode


def call_site_of(place: CasePlace, call: Call, rules: tuple[Rule, ...], *, trusted: bool) -> CallSite:
    """The ground of a call, with what its file system says about the paths of the call."""
    call_site = CallSite(
        cwd=place.cwd, home=place.home, roots=place.roots, os=place.system, shell=place.shell, trusted=trusted
    )
    if not place.fixture:
        return msgspec.structs.replace(call_site, described=True)
    files = DescribedFiles(place.fixture, place.cwd, place.home, place.system)
    paths, globs = paths_to_resolve(call, call_site, rules)
    return msgspec.structs.replace(
        call_site,
        links=files.links(paths),
        globs={glob: files.match(glob) for glob in globs},
    )


def _id_of(line: bytes) -> msgspec.Raw:
    """The id of a line that is no case; of one that is no JSON either, if it stands first."""
    try:
        return msgspec.json.decode(line, type=_Id).id
    except (ValueError, RecursionError):
        found = _ID_FIRST.match(line)
        return msgspec.Raw(found[1]) if found else _NOBODY


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
        if _is_wrong(case, decision):
            tally[0] += 1
            misses.append(f"  {_named(case)} {case.tool}: {decision}, right: {'/'.join(case.ok)} ({detail})")
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


def _is_wrong(case: CaseLine, decision: str) -> bool:
    """An attack must not get through; what the case calls right counts for the rest, and for attacks where `deny` alone is right."""
    return decision not in case.ok


def _named(case: CaseLine) -> str:
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
