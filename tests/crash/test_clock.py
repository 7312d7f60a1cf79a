"""The obedient clock."""

import anyio
import anyio.lowlevel
import pytest

from backstay.testing.clock import START, ObedientClock


async def test_time_moves_only_when_told() -> None:
    clock = ObedientClock()
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sleep, "late", 10)
        tasks.start_soon(sleep, "early", 5)
        await anyio.wait_all_tasks_blocked()
        assert (clock.now(), clock.sleepers, woken) == (START, 2, [])
        clock.advance(5)
        await anyio.wait_all_tasks_blocked()
        assert (clock.now(), clock.sleepers, woken) == (START + 5_000_000, 1, ["early"])
        assert clock.advance_to_next()
    assert (clock.now(), woken, clock.advance_to_next()) == (START + 10_000_000, ["early", "late"], False)


async def test_a_clock_that_hurries_lets_nothing_take_time() -> None:
    clock = ObedientClock(hurries=True)
    woken: list[int] = []

    async def sleep(seconds: int) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with anyio.create_task_group() as tasks:
        for seconds in (3_000, 1_000, 2_000):
            tasks.start_soon(sleep, seconds)

    assert woken == [1_000, 2_000, 3_000]
    assert clock.now() == START + 3_000 * 1_000_000


async def test_a_sleeper_that_is_cancelled_is_forgotten() -> None:
    clock = ObedientClock()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clock.sleep, 5)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert clock.sleepers == 0


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_time_is_no_wait(seconds: float) -> None:
    clock = ObedientClock()
    with anyio.fail_after(5):
        await clock.sleep(seconds)
    assert clock.now() == START


def test_the_seed_decides_the_nonces() -> None:
    def nonces(seed: int) -> list[str]:
        clock = ObedientClock(seed=seed)
        return [clock.nonce() for _ in range(3)]

    assert nonces(1) == nonces(1)
    assert nonces(1) != nonces(2)
    assert all(len(nonce) == 5 and nonce.isalnum() and nonce.islower() for nonce in nonces(1) if not nonce.isdigit())
