"""Check a diagnostic log: payloads and answers of requests, results of calls, references.

A model call that failed, was interrupted or died with its process need not have an answer, and what is open at the end may still get one.
Payloads that the trace lost are a note and not an issue.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from backstay.export.diagnostic.external_payloads import PayloadError, Resolver
from backstay.export.diagnostic.lines import LOST, LOST_CALL
from backstay.export.diagnostic.messages import Fields

NATIVE: Final = ("response", "stream_event")
"""Kinds of native payloads that are an answer."""
_ENDS: Final = frozenset(("assistant", "session_shutdown", "session_init", "error", "pre_run", "provider_request"))
"""Events that come only after a model call is over."""

Key = tuple[str, object, str]


class Issue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A problem of a diagnostic log."""

    code: str
    message: str
    event_index: int | None = None
    execution_id: str | None = None
    round: int | None = None
    tool_call_id: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check."""

    ok: bool
    issues: tuple[Issue, ...]
    notes: tuple[str, ...] = ()


def check(lines: Sequence[Fields], resolver: Resolver | None = None) -> Report:
    """Check the lines of a diagnostic log, and their payloads if there is a resolver."""
    seen = CallsSeen()
    issues: list[Issue] = []
    for index, line in enumerate(lines):
        bad = _bad_payload(line, index, resolver) if resolver is not None else None
        if bad is not None:
            issues.append(bad)
        seen.take(index, line, is_whole=bad is None)
    issues += seen.issues()
    return Report(ok=not issues, issues=tuple(issues), notes=tuple(seen.notes()))


class CallsSeen:
    """Check that model calls and tools have their lines."""

    def __init__(self, *, in_order: bool = False) -> None:
        """With `in_order`, all lines of a turn come before the end of the next turn: then the turn is forgotten, if it has no issue."""
        self._in_order = in_order
        self._before = ""
        """The last turn that ended."""
        self._requests: dict[Key, list[int]] = {}
        self._native: Counter[Key] = Counter()
        self._raw: Counter[Key] = Counter()
        self._normalized: Counter[Key] = Counter()
        self._failed: Counter[Key] = Counter()
        self._lost: dict[Key, str] = {}
        self._excused: set[Key] = set()
        self._calls: dict[tuple[str, str], int] = {}
        self._results: dict[tuple[str, str], int] = {}
        self._ended: set[str] = set()
        self._given_up: set[str] = set()
        self._last_end = -1
        self._lost_lines = 0

    def take(self, index: int, line: Fields, *, is_whole: bool = True) -> None:
        """Take the next line."""
        key, event = _key(line), line.get("event")
        if event in _ENDS and line.get("code") != LOST:
            self._last_end = index
        match event:
            case "provider_request":
                self._requests.setdefault(key, []).append(index)
            case "provider_native_raw_payload":
                self._native[key] += line.get("payloadKind") in NATIVE
            case "provider_response_raw":
                self._raw[key] += 1
            case "provider_response_normalized":
                self._normalized[key] += is_whole
                if line.get("stopReason") == "interrupted":
                    self._excused.add(key)
            case "tool_execution_request" | "tool_execution_result":
                calls = self._calls if event == "tool_execution_request" else self._results
                calls.setdefault((key[0], str(line.get("toolCallId"))), index)
            case "assistant":
                self._end(key[0])
            case "error":
                self._error(key, line)
            case _:
                pass

    def _error(self, key: Key, line: Fields) -> None:
        code = line.get("code")
        if code == LOST:
            lines = line.get("lines")
            self._lost_lines += lines if isinstance(lines, int) else 0
            if line.get("requestId"):
                self._lost[key] = str(line.get("message"))
        elif "round" in line:
            self._failed[key] += 1
            if code == LOST_CALL:
                self._given_up.add(key[0])
        else:
            if line.get("outcome") == "abandoned":
                self._given_up.add(key[0])
            self._end(key[0])

    def _end(self, turn: str) -> None:
        self._ended.add(turn)
        if self._in_order and turn != self._before:
            self._forget(self._before)
            self._before = turn

    def _forget(self, turn: str) -> None:
        """Drop what has no issue of a turn that is over."""
        for key in [key for key in self._requests if key[0] == turn]:
            if not any(self._request(key, self._requests[key])):
                del self._requests[key]
                for counts in (self._native, self._raw, self._normalized, self._failed):
                    del counts[key]
                self._excused.discard(key)
        for call in [call for call in self._calls if call[0] == turn and call in self._results]:
            del self._calls[call], self._results[call]
        if not any(call[0] == turn for call in (*self._calls, *self._results)):
            self._ended.discard(turn)
            self._given_up.discard(turn)

    def issues(self) -> Iterator[Issue]:
        """Yield the issues of the lines so far."""
        for key, indexes in self._requests.items():
            yield from self._request(key, indexes)
        for call, index in self._calls.items():
            if call not in self._results and call[0] in self._ended - self._given_up:
                yield _tool("TOOL_RESULT_MISSING", f"The call {call[1]!r} has no result.", call, index)
        for call, index in self._results.items():
            if call not in self._calls:
                yield _tool("TOOL_REQUEST_MISSING", f"The result of {call[1]!r} has no request.", call, index)

    def _request(self, key: Key, indexes: list[int]) -> Iterator[Issue]:
        due = len(indexes) - self._failed[key]
        if due <= 0 or self._is_open(key, indexes):
            return
        if self._normalized[key] < due:
            yield _issue(
                "PROVIDER_RESPONSE_NORMALIZED_MISSING", "The request has no normalised answer.", key, indexes[-1]
            )
        if key in self._lost or key in self._excused:
            return
        if not self._native[key]:
            yield _issue("PROVIDER_NATIVE_RAW_PAYLOAD_MISSING", "The request has no native payload.", key, indexes[-1])
        if not self._raw[key]:
            yield _issue("PROVIDER_RESPONSE_RAW_MISSING", "The request has no raw answer.", key, indexes[-1])

    def _is_open(self, key: Key, indexes: list[int]) -> bool:
        """Return whether the answer may still come: no line after the request shows that the call is over."""
        return not self._normalized[key] and indexes[-1] >= self._last_end

    def notes(self) -> Iterator[str]:
        """Yield what is worth a note and no issue."""
        if self._lost_lines:
            yield f"Lost from the trace: {self._lost_lines} lines."
        for why, count in Counter(self._lost.values()).items():
            yield f"Lost: the payloads of {count} model call{'s' if count > 1 else ''}. {why}"
        for key, indexes in self._requests.items():
            if self._is_open(key, indexes) and not self._failed[key]:
                yield f"The request of round {key[1]} has no answer yet."


def _bad_payload(line: Fields, index: int, resolver: Resolver) -> Issue | None:
    try:
        resolver.verify(line)
    except PayloadError as exc:
        replayed = line.get("event") == "history_mutation"
        code = "UNRESOLVED_REPLAY_PAYLOAD" if replayed else "PAYLOAD_REFERENCE_INVALID"
        return _issue(code, f"{exc.problem}: {exc}", _key(line), index)
    return None


def _key(line: Fields) -> Key:
    return str(line.get("executionId", "")), line.get("round"), str(line.get("requestId", ""))


def _issue(code: str, message: str, key: Key, index: int) -> Issue:
    number = key[1] if isinstance(key[1], int) else None
    return Issue(code=code, message=message, event_index=index, execution_id=key[0] or None, round=number)


def _tool(code: str, message: str, call: tuple[str, str], index: int) -> Issue:
    return Issue(code=code, message=message, event_index=index, execution_id=call[0] or None, tool_call_id=call[1])


def in_words(issues: Iterable[Issue]) -> tuple[str, ...]:
    """Return issues for a person to read."""
    return tuple(f"{issue.code}: {issue.message}{_where(issue)}" for issue in issues)


def _where(issue: Issue) -> str:
    place = [f"line {issue.event_index + 1}"] if issue.event_index is not None else []
    if issue.round is not None:
        place.append(f"round {issue.round}")
    return f" ({', '.join(place)})" if place else ""
