"""The coverage of the contracts is counted from the tests themselves, and the document that lists it is fresh."""

import json
from pathlib import Path

import pytest

from backstay.testing.contracts import (
    Claim,
    ClaimScan,
    Contract,
    cover,
    load_contracts,
    main,
    render_document,
    render_json,
    render_table,
    scan,
)

CHECKOUT = Path(__file__).parents[2]
NO_LITERAL = 'name contracts by literal ids: @pytest.mark.contract("RB-43")'


def write(folder: Path, name: str, source: str) -> Path:
    tests = folder / "tests"
    path = tests / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return tests


def test_every_contract_is_listed_once_and_in_order() -> None:
    expected = [
        f"{family}{n}"
        for family, count in (("RB-", 117), ("RV-", 49), ("ST-", 46), ("RV-B", 22))
        for n in range(1, count + 1)
    ]

    assert [contract.id for contract in load_contracts()] == expected


def test_every_contract_has_a_title_of_one_short_line() -> None:
    assert [c.id for c in load_contracts() if not 0 < len(c.title.strip()) <= 120 or "\n" in c.title] == []


def test_the_family_is_what_stands_before_the_number() -> None:
    families = {id: Contract(id=id, title="", api="").family for id in ("RB-117", "RV-4", "ST-46", "RV-B22")}

    assert families == {"RB-117": "RB", "RV-4": "RV", "ST-46": "ST", "RV-B22": "RV-B"}


def test_marks_are_found_on_functions_classes_and_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        "runtime/test_loop.py",
        """
import pytest
from pytest import mark

pytestmark = [pytest.mark.anyio, pytest.mark.contract("RB-1")]

@pytest.mark.contract("RB-2", "RB-3")
def test_two(): ...

@mark.contract("RB-4")
async def test_async(): ...

@pytest.mark.contract("RB-5")
class TestGroup:
    pytestmark = pytest.mark.contract("RB-6")

    @pytest.mark.contract("RB-7")
    def test_inner(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.contract("RB-8"))])
def test_parameters(x): ...

@pytest.mark.skipif(True, reason="elsewhere it runs")
@pytest.mark.contract("RB-9")
def test_conditional(): ...
""",
    )
    tests = write(tmp_path, "test_other.py", 'import pytest\npytestmark: object = pytest.mark.contract("ST-1")\n')

    file = "tests/runtime/test_loop.py"
    assert scan(tests) == ClaimScan(
        claims=(
            Claim("RB-1", file),
            Claim("RB-2", f"{file}::test_two"),
            Claim("RB-3", f"{file}::test_two"),
            Claim("RB-4", f"{file}::test_async"),
            Claim("RB-5", f"{file}::TestGroup"),
            Claim("RB-6", f"{file}::TestGroup"),
            Claim("RB-7", f"{file}::TestGroup::test_inner"),
            Claim("RB-8", f"{file}::test_parameters"),
            Claim("RB-9", f"{file}::test_conditional"),
            Claim("ST-1", "tests/test_other.py"),
        ),
        errors=(),
    )


@pytest.mark.parametrize(
    "source",
    [
        '@pytest.mark.skip\n@pytest.mark.contract("RB-1")\ndef test_a(): ...',
        '@pytest.mark.xfail(reason="not yet")\n@pytest.mark.contract("RB-1")\ndef test_a(): ...',
        '@pytest.mark.skip(reason="x")\nclass TestA:\n    @pytest.mark.contract("RB-1")\n    def test_a(self): ...',
        'pytestmark = pytest.mark.skip\n@pytest.mark.contract("RB-1")\ndef test_a(): ...',
        "text = '@pytest.mark.contract(\"RB-1\")'",
        '@other.contract("RB-1")\ndef test_a(): ...',
    ],
)
def test_what_does_not_run_proves_nothing(tmp_path: Path, source: str) -> None:
    assert scan(write(tmp_path, "test_a.py", source)) == ClaimScan(claims=(), errors=())


@pytest.mark.parametrize(
    ("name", "source", "error"),
    [
        ("test_a.py", "@pytest.mark.contract\ndef test_a(): ...", f"tests/test_a.py:1: {NO_LITERAL}"),
        ("test_a.py", "@pytest.mark.contract()\ndef test_a(): ...", f"tests/test_a.py:1: {NO_LITERAL}"),
        ("test_a.py", '@pytest.mark.contract("RB-1", ID)\ndef test_a(): ...', f"tests/test_a.py:1: {NO_LITERAL}"),
        ("test_a.py", '@pytest.mark.contract(id="RB-1")\ndef test_a(): ...', f"tests/test_a.py:1: {NO_LITERAL}"),
        (
            "test_a.py",
            '@pytest.mark.contract("RB-1")\ndef helper(): ...',
            "tests/test_a.py:1: 'helper' is not a test that pytest collects, so it proves nothing",
        ),
        (
            "builders.py",
            '@pytest.mark.contract("RB-1")\ndef test_a(): ...',
            "tests/builders.py:1: 'test_a' is not a test that pytest collects, so it proves nothing",
        ),
    ],
)
def test_a_mark_that_cannot_count_is_an_error(tmp_path: Path, name: str, source: str, error: str) -> None:
    assert scan(write(tmp_path, name, source)) == ClaimScan(claims=(), errors=(error,))


def test_a_file_that_cannot_be_parsed_is_an_error(tmp_path: Path) -> None:
    found = scan(write(tmp_path, "test_a.py", "def"))

    assert found.claims == ()
    assert [error.partition(": cannot be read")[0] for error in found.errors] == ["tests/test_a.py"]


def test_an_unknown_contract_is_an_error() -> None:
    coverage = cover(load_contracts(), ClaimScan((Claim("RB-118", "tests/test_a.py::test_a"),), ()))

    assert coverage.errors == ("tests/test_a.py::test_a: there is no contract 'RB-118'",)
    assert coverage.required == (0, 212)


def test_the_last_line_counts_the_required_set_and_our_own_rules_stand_apart() -> None:
    claims = (Claim("RB-1", "a"), Claim("RB-1", "b"), Claim("RV-2", "a"), Claim("RV-B1", "a"))

    table = render_table(cover(load_contracts(), ClaimScan(claims, ())))

    assert table.splitlines() == [
        "family  proved   all",
        "RB           1   117",
        "RV           1    49",
        "ST           0    46",
        "RV-B (ours, beyond the required set): 1 of 22",
        "covered 2 of 212",
    ]


def test_json_has_everything() -> None:
    contracts = (Contract(id="ST-1", title="Idle", api="x"),)

    report = json.loads(render_json(cover(contracts, ClaimScan((Claim("ST-1", "a"),), ("bad",)))))

    assert report == {
        "covered": 1,
        "required": 1,
        "families": {
            "RB": {"covered": 0, "total": 0},
            "RV": {"covered": 0, "total": 0},
            "ST": {"covered": 1, "total": 1},
            "RV-B": {"covered": 0, "total": 0},
        },
        "contracts": {"ST-1": {"title": "Idle", "api": "x", "tests": ["a"]}},
        "errors": ["bad"],
    }


def test_the_command_fails_for_a_wrong_claim_and_still_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = write(tmp_path, "test_a.py", '@pytest.mark.contract("RB-1", "XX-1")\ndef test_a(): ...')

    status = main(["--tests", str(tests)])

    printed = capsys.readouterr()
    assert status == 1
    assert printed.err == "error: tests/test_a.py::test_a: there is no contract 'XX-1'\n"
    assert printed.out.splitlines()[-1] == "covered 1 of 212"


def test_the_command_lists_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = write(tmp_path, "test_a.py", '@pytest.mark.contract("RB-1")\ndef test_a(): ...')

    status = main(["--tests", str(tests), "--missing"])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert len([line for line in lines if line.startswith(("RB-", "RV-", "ST-"))]) == 233 + 1  # and the line of RV-B
    assert not [line for line in lines if line.startswith("RB-1 ")]
    assert lines[-1] == "covered 1 of 212"


def test_the_command_writes_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = write(tmp_path, "test_a.py", '@pytest.mark.contract("RB-1")\ndef test_a(): ...')
    document = tmp_path / "docs" / "contracts.md"

    status = main(["--tests", str(tests), "--write-docs", str(document)])

    assert status == 0
    assert capsys.readouterr().out.splitlines()[-1] == "covered 1 of 212"
    assert document.read_text(encoding="utf-8") == render_document(cover(load_contracts(), scan(tests)))
    assert "| `session.run(text)` | `tests/test_a.py::test_a` |" in document.read_text(encoding="utf-8")


def test_the_command_says_when_there_are_no_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tests", str(tmp_path / "nowhere")]) == 1
    assert "--tests DIR" in capsys.readouterr().err


def test_the_tests_of_this_checkout_claim_only_what_exists() -> None:
    assert cover(load_contracts(), scan(CHECKOUT / "tests")).errors == ()


def test_the_document_is_fresh() -> None:
    fresh = render_document(cover(load_contracts(), scan(CHECKOUT / "tests")))

    assert (CHECKOUT / "docs" / "contracts.md").read_text(encoding="utf-8") == fresh, (
        "docs/contracts.md is stale. Run `make docs`, "
        "or `python -m backstay.testing.contracts --write-docs docs/contracts.md`."
    )
