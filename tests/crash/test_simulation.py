"""The deterministic simulation: worlds of crashes, faults and zombies, each from one seed. `make torture` has 100,000 of them."""

import pytest

from holdfast.testing.crash_stage import inline_sqlite_store
from holdfast.testing.simulation import main, simulate

CHUNK = 50
"""Worlds of one test."""


@pytest.mark.parametrize("first", range(0, 250, CHUNK))
def test_no_world_breaks_a_promise(first: int) -> None:
    verdicts = [simulate(seed, turns=4) for seed in range(first, first + CHUNK)]

    assert [verdict.words() for verdict in verdicts if verdict.wrong] == []


@pytest.mark.parametrize("first", range(100_000, 100_040, 20))
def test_no_long_world_breaks_a_promise(first: int) -> None:
    verdicts = [simulate(seed) for seed in range(first, first + 20)]

    assert [verdict.words() for verdict in verdicts if verdict.wrong] == []


def test_no_world_on_sqlite_breaks_a_promise() -> None:
    verdicts = [simulate(seed, turns=4, open_store=inline_sqlite_store) for seed in range(20)]

    assert [verdict.words() for verdict in verdicts if verdict.wrong] == []


def test_the_same_seed_gives_the_same_world() -> None:
    first, other = ([simulate(seed, turns=8) for seed in range(20)] for _ in range(2))

    assert first == other
    assert len({verdict.digest for verdict in first}) == 20


def test_a_world_can_be_watched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--turns", "4", "-v"]) == 0

    told = capsys.readouterr().out
    assert "seed 3: 4 turns" in told
    assert "opens sim" in told
