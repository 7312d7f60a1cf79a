"""The benchmarks still run. What they measure is nobody's business here."""

import json

import pytest

from benchmarks.frame import Aim, Figure, Row
from benchmarks.peers import Peers
from benchmarks.suite import BENCHMARKS, run
from benchmarks.table import as_json, table


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_in_small(name: str) -> None:
    rows = run(name, Peers(None, "not in a test"), quick=True)
    assert rows
    assert table(rows).endswith("Nothing here is held to an aim.")


def test_the_table_says_for_each_aim_whether_it_is_met() -> None:
    rows = [
        Row(what="one", figure=Figure((1.0, 2.0, 3.0), "ms"), aim=Aim(most=2), beside={"a peer": Figure((4.0,), "ms")}),
        Row(what="two", figure=Figure((1.0,), "/s"), aim=Aim(least=2), note="slow"),
        Row(what="three", note="there is nothing to measure"),
    ]
    assert table(rows).splitlines() == [
        "what   Backstay      aim            met  beside it",
        "-----  ------------  -------------  ---  ---------------------------",
        "one    2 ms (1-3)    at most 2 ms   yes  a peer 4 ms",
        "two    1 /s          at least 2 /s  NO   slow",
        "three  not measured                      there is nothing to measure",
        "",
        "1 of 2 aims are met; not met: two.",
    ]


def test_the_json_holds_every_measurement() -> None:
    row = Row(what="one", figure=Figure((1.0, 2.0, 3.0), "ms"), aim=Aim(most=2))
    assert json.loads(as_json([row], ["a machine"])) == {
        "machine": ["a machine"],
        "rows": [
            {
                "what": "one",
                "backstay": {"median": 2.0, "unit": "ms", "values": [1.0, 2.0, 3.0]},
                "aim": "at most 2",
                "met": True,
                "beside": {},
                "note": "",
            }
        ],
    }


def test_without_peers_there_is_nothing_beside() -> None:
    assert Peers(None).measure("turns") == {}
