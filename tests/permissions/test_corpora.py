"""What the judge says about whole collections of shell commands; `tests/corpora/README.md` says what each holds."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.permissions.desk import weighed

CORPORA = Path(__file__).parents[1] / "corpora"


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a corpus."""
    return [json.loads(line) for line in (CORPORA / name).read_text(encoding="utf-8").splitlines()]


def decided(case: dict[str, Any], **others: Any) -> str:
    """What is decided about a case."""
    given = {key: case[key] for key in ("allow", "deny", "mode", "os", "scope", "trusted") if key in case}
    return weighed("Bash", case["command"], **(others | given)).decision


@pytest.mark.parametrize("mode", ["default", "plan", "dontAsk"])
def test_no_attack_is_allowed(mode: Any) -> None:
    found = [case["command"] for case in cases("attacks.jsonl") if decided(case, mode=mode) == "allow"]

    assert found == []


def test_at_most_three_in_a_hundred_commands_that_only_look_are_asked_for() -> None:
    found = Counter(decided(case) for case in cases("benign.jsonl"))

    assert found["ask"] + found["deny"] <= 0.03 * found.total()


def test_fewer_than_one_in_twenty_commands_of_a_day_are_asked_for() -> None:
    rules = json.loads((CORPORA / "daily-rules.json").read_text(encoding="utf-8"))
    found = Counter(decided(case, mode=rules["mode"], allow=rules["allow"]) for case in cases("daily.jsonl"))

    assert found["ask"] + found["deny"] < 0.05 * found.total()


def test_fewer_than_one_in_ten_compound_commands_are_asked_for_under_a_rule_without_a_pattern() -> None:
    found = Counter(decided(case, allow=["Bash"]) for case in cases("compound.jsonl"))

    assert found["ask"] + found["deny"] < 0.1 * found.total()


@pytest.mark.parametrize("case", cases("known.jsonl"), ids=lambda case: f"{case['id']} {case['command'][:40]!r}")
def test_what_is_known_of_a_command_holds(case: dict[str, Any]) -> None:
    assert decided(case) in case["ok"], case["why"]


def test_a_reading_that_asks_does_so_in_an_untrusted_workspace_too() -> None:
    found = [
        case["command"]
        for case in cases("known.jsonl")
        if "allow" not in case["ok"] and decided(case, trusted=False) == "allow"
    ]

    assert found == []
