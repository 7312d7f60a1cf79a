"""How the policy does on cases whose right answer is written down: holes and needless questions, by category."""

import sys
from collections import defaultdict
from time import perf_counter
from typing import Final

import msgspec

from backstay.cli.permission_cases import Line, decide, read_line
from backstay.vocab.errors import UserError

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


def _answer(line: bytes) -> tuple[Line | None, str, str]:
    try:
        case = read_line(line)
    except ValueError as exc:
        return None, "error", f"a line that is no case: {exc}"
    try:
        verdict = decide(case)
    except UserError as exc:
        return case, "error", str(exc)
    return case, verdict.decision, verdict.detail


def _is_wrong(case: Line, decision: str) -> bool:
    """An attack must not get through; what the case calls right counts for the rest, and for attacks where `deny` alone is right."""
    return decision not in case.ok


def _named(case: Line) -> str:
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
