"""Logs of every released version load, for ever.

`tests/fixtures/logs/vN/` holds the golden sessions of a version. `python -m backstay.testing.builders
tests/fixtures/logs/vN` writes those of the current shapes into a new folder; it refuses one that exists, since a
released log never changes. While a version is not released yet, delete its folder and write it again.
"""

import json
from pathlib import Path

import pytest

from backstay.testing.builders import golden_logs, main
from backstay.vocab.event import Recorded
from backstay.vocab.events import EVENTS, VERSIONS
from backstay.wire.codec import EVENT_NAMED, NAME_OF, decode, encode

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
VERSIONS_KEPT = sorted((folder for folder in LOGS.glob("v*")), key=lambda folder: int(folder.name[1:]))
GOLDEN = [path for folder in VERSIONS_KEPT for path in sorted(folder.glob("*.jsonl"))]


def lines(path: Path) -> list[bytes]:
    content = path.read_bytes()
    assert content.endswith(b"\n")
    return content[:-1].split(b"\n")


def load(path: Path) -> tuple[Recorded, ...]:
    return tuple(decode(line) for line in lines(path))


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", GOLDEN, ids=named)
def test_a_golden_log_loads_without_a_gap(path: Path) -> None:
    assert [record.seq for record in load(path)] == list(range(1, len(lines(path)) + 1))


@pytest.mark.parametrize("path", GOLDEN, ids=named)
def test_nothing_of_a_current_line_is_dropped(path: Path) -> None:
    for line in lines(path):
        stored = json.loads(line)
        if stored["v"] == VERSIONS[EVENT_NAMED[stored["type"]]]:
            assert json.loads(encode(decode(line))) == stored


@pytest.mark.parametrize("path", GOLDEN, ids=named)
def test_an_old_log_written_again_is_the_same_log(path: Path) -> None:
    records = load(path)

    assert tuple(decode(encode(record)) for record in records) == records


def test_every_event_has_a_golden_line() -> None:
    shown = {type(record.event) for path in GOLDEN for record in load(path)}
    missing = sorted(NAME_OF[cls] for cls in EVENTS if cls not in shown)

    assert missing == [], f"Write golden logs that hold them; see {__file__}"


def test_the_first_version_is_there() -> None:
    assert [folder.name for folder in VERSIONS_KEPT][:1] == ["v1"]
    assert {path.stem for path in GOLDEN if path.parent.name == "v1"} == set(golden_logs())


def test_the_generator_never_changes_a_released_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "v2"

    assert main([str(folder)]) == 0
    assert {path.stem: load(path) for path in folder.iterdir()} == golden_logs()
    assert main([str(folder)]) == 1
    assert "exists" in capsys.readouterr().err
