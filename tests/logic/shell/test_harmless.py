"""What runs without a question, and what never does."""

import json
from pathlib import Path

import pytest

from tests.logic.shell.harmless import HARMLESS, NOT_HARMLESS
from tests.logic.shell.reader import GROUND, is_free

CASES = Path(__file__).parents[4] / "shared" / "cases" / "permissions.jsonl"


@pytest.mark.parametrize("text", HARMLESS)
def test_a_command_that_only_reads_is_known_to(text: str) -> None:
    assert is_free(text)


@pytest.mark.parametrize("text", NOT_HARMLESS)
def test_a_command_that_does_more_is_never_taken_for_one_that_reads(text: str) -> None:
    assert not is_free(text)


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_no_attack_of_the_shared_cases_passes_for_reading() -> None:
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").strip().split("\n")]
    free = [
        case["id"]
        for case in cases
        if case["tool"] == "Bash" and case["kind"] == "attack" and not case.get("ctx") and not case["rule_set"]["deny"]
        if case["rule_set"].get("trusted", True) and "hook" not in case["rule_set"]
        if is_free(case["args"]["command"])
    ]
    assert free == []


def test_the_working_folder_itself_is_inside() -> None:
    assert is_free("ls /repo", GROUND)
    assert not is_free("ls /repo-evil", GROUND)
