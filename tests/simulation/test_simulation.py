"""The deterministic simulation: worlds of crashes, faults and zombies, each from one seed. `make torture` has 100,000 of them."""

import pytest

from backstay.testing.crash.stage import inline_sqlite_store
from tests.simulation.simulate import main, simulate

WORLDS = 2_000
TURNS = (1, 1, 2, 3)
"""Of the worlds, in turn. Every fourth world has hooks: of each length there are some with and some without."""
CHUNK = 50
"""Worlds of one test."""


@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_no_world_breaks_a_promise(first: int) -> None:
    verdicts = [simulate(seed, turns=TURNS[seed // 4 % len(TURNS)]) for seed in range(first, first + CHUNK)]

    assert [verdict.words() for verdict in verdicts if verdict.wrong] == []


@pytest.mark.parametrize("first", range(100_000, 100_020, 10))
def test_no_long_world_breaks_a_promise(first: int) -> None:
    verdicts = [simulate(seed) for seed in range(first, first + 10)]

    assert [verdict.words() for verdict in verdicts if verdict.wrong] == []


def test_no_world_on_sqlite_breaks_a_promise() -> None:
    verdicts = [simulate(seed, turns=4, open_store=inline_sqlite_store) for seed in range(20)]

    assert [verdict.words() for verdict in verdicts if verdict.wrong] == []


def test_the_same_seed_gives_the_same_world() -> None:
    first, other = ([simulate(seed, turns=8) for seed in range(10)] for _ in range(2))

    assert first == other
    assert len({verdict.digest for verdict in first}) == 10


def test_a_world_can_be_watched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--turns", "4", "-v"]) == 0

    told = capsys.readouterr().out
    assert "seed 3: 4 turns" in told
    assert "opens sim" in told
