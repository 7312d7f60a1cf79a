"""Several real processes on one store, and on one session."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torture.forks import Forks
from tests.torture.kill9 import store_url
from tests.torture.orders import Order, What, Word

CROWD = 20


@pytest.fixture
def forks() -> Iterator[Forks]:
    with Forks() as started:
        yield started


def order(place: Path, life: int, what: What, session: str = "s1", **options: object) -> Order:
    known: dict[str, object] = {"url": store_url(place / "store"), "folder": str(place), "turns": 1}
    return Order(life=life, what=what, session=session, **{**known, **options})  # type: ignore[arg-type]  # a test names them


def gather(forks: Forks, lives: int) -> list[Word]:
    """Everything that is said until so many lives are over."""
    words: list[Word] = []
    while sum(word.kind == "dead" for word in words) < lives:
        words.append(forks.next())
    return words


def wait_for_event(forks: Forks, name: str) -> Word:
    while True:
        word = forks.next()
        assert word.kind in ("born", "event"), word
        if word.text == name:
            return word


def test_a_second_process_is_told_who_holds_the_session_before_any_model_call(forks: Forks, tmp_path: Path) -> None:
    forks.start(order(tmp_path, 1, "hold", turns=500))
    wait_for_event(forks, "TurnCompleted")
    owner = forks.pids[1]

    forks.start(order(tmp_path, 2, "join"))
    heard = [word for word in forks.until_dead(2) if word.kind in ("event", "refused")]

    assert [word.kind for word in heard] == ["refused"]  # no event of its own, so no model call either
    assert heard[0].text.startswith("SessionBusy")
    assert f"pid {owner}" in heard[0].text


def test_a_dead_owner_is_taken_over_at_once(forks: Forks, tmp_path: Path) -> None:
    forks.start(order(tmp_path, 1, "hold", turns=500))
    wait_for_event(forks, "ToolStarted")
    forks.signal(1, signal.SIGKILL)
    for _ in forks.until_dead(1):
        pass

    forks.start(order(tmp_path, 2, "talk", finish=True))
    heard = list(forks.until_dead(2))

    assert [word for word in heard if word.kind in ("refused", "trouble", "waits")] == []
    assert next(word.text for word in heard if word.kind == "event") == "Opened"
    assert heard[-2].kind == "end"


def test_twenty_processes_that_start_at_once_on_one_store_do_not_disturb_each_other(
    forks: Forks, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    for life in range(1, CROWD + 1):
        (tmp_path / f"{life}").mkdir()
        own = str(tmp_path / f"{life}")
        forks.start(order(tmp_path, life, "join", f"s{life}", folder=own, gate=str(gate)))
    gate.touch()

    words = gather(forks, CROWD)

    assert [word.text for word in words if word.kind in ("refused", "trouble", "lost")] == []
    assert {word.life for word in words if word.kind == "end"} == set(range(1, CROWD + 1))
    assert {word.text for word in words if word.kind == "dead"} == {"0"}


def test_of_twenty_processes_on_one_session_each_gets_it_or_is_told_who_has_it(forks: Forks, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    for life in range(1, CROWD + 1):
        forks.start(order(tmp_path, life, "join", gate=str(gate)))
    gate.touch()

    words = gather(forks, CROWD)

    refused = [word.text for word in words if word.kind == "refused"]
    assert [text for text in refused if not text.startswith("SessionBusy")] == []
    assert len(refused) + sum(word.kind == "end" for word in words) == CROWD
    assert [word.text for word in words if word.kind in ("trouble", "lost")] == []
    assert {word.text for word in words if word.kind == "dead"} == {"0"}
