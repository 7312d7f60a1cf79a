"""Say which contracts the tests prove.

A test names what it proves with `@pytest.mark.contract("RB-43")`. This module reads the tests without running them:

    python -m backstay.testing.contracts                            # a table, and last `covered N of 212`
    python -m backstay.testing.contracts --missing                  # also the contracts that no test proves
    python -m backstay.testing.contracts --write-docs docs/contracts.md
"""

import argparse
import ast
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path

from msgspec import Struct

FAMILIES = {
    "RB": "the session and the library around it",
    "RV": "the session as a durable conversation",
    "ST": "the lifecycle of a session",
    "RV-B": "what Backstay adds to RV",
}
ADDED = "RV-B"
"""The family that is counted apart: rules of our own beyond the required set."""


class Contract(Struct, frozen=True, kw_only=True):
    """One promise, in one line."""

    id: str
    title: str
    api: str
    """The Python name or the command that serves it; empty while nothing does."""

    @property
    def family(self) -> str:
        """The letters before the number: `RB`, `RV`, `ST` or `RV-B`."""
        return self.id.rstrip("0123456789").rstrip("-")


class Claim(Struct, frozen=True, order=True):
    """A test that says it proves a contract."""

    contract: str
    test: str
    """As pytest names it: `tests/test_a.py::TestB::test_c`; a class or a file stands for all its tests."""


class ClaimScan(Struct, frozen=True):
    """The claims of a folder of tests, and what is wrong with them."""

    claims: tuple[Claim, ...]
    errors: tuple[str, ...]


class ContractCoverage(Struct, frozen=True):
    """The contracts, and for each the tests that prove it."""

    contracts: tuple[Contract, ...]
    tests: Mapping[str, tuple[str, ...]]
    errors: tuple[str, ...]

    def of(self, *families: str) -> tuple[int, int]:
        """Count the proved contracts and all contracts of some families."""
        members = [contract for contract in self.contracts if contract.family in families]
        return sum(1 for contract in members if self.tests[contract.id]), len(members)

    @property
    def required(self) -> tuple[int, int]:
        """Count the proved contracts and all contracts of the required set."""
        return self.of(*(family for family in FAMILIES if family != ADDED))


def load_contracts() -> tuple[Contract, ...]:
    """Read the contracts that ship with the package, in order."""
    text = resources.files(__package__).joinpath("contracts.toml").read_text(encoding="utf-8")
    return tuple(Contract(id=id, title=entry["title"], api=entry["api"]) for id, entry in tomllib.loads(text).items())


def scan(folder: Path) -> ClaimScan:
    """Collect the claims of every test file below `folder`, without importing any."""
    claims: set[Claim] = set()
    errors: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder.parent).as_posix()
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"), filename=name)
        except (SyntaxError, UnicodeDecodeError) as exc:
            errors.append(f"{name}: cannot be read: {exc}")
            continue
        is_collected = path.name.startswith("test_") or path.stem.endswith("_test")
        for mark in _marks(tree, name, is_collected=is_collected):
            claims.update(Claim(id, mark.test) for id in mark.ids if not mark.problem)
            if mark.problem:
                errors.append(f"{name}:{mark.line}: {mark.problem}")
    return ClaimScan(tuple(sorted(claims)), tuple(errors))


def cover(contracts: Sequence[Contract], found: ClaimScan) -> ContractCoverage:
    """Match claims with contracts; a claim for a contract that does not exist is an error."""
    tests: dict[str, list[str]] = {contract.id: [] for contract in contracts}
    errors = list(found.errors)
    for claim in found.claims:
        if claim.contract in tests:
            tests[claim.contract].append(claim.test)
        else:
            errors.append(f"{claim.test}: there is no contract {claim.contract!r}")
    return ContractCoverage(tuple(contracts), {id: tuple(names) for id, names in tests.items()}, tuple(errors))


def render_table(coverage: ContractCoverage) -> str:
    """Write the counts by family; the last line is always `covered N of M`."""
    lines = ["family  proved   all"]
    for family in FAMILIES:
        if family != ADDED:
            done, all_of_them = coverage.of(family)
            lines.append(f"{family:<6}  {done:>6}  {all_of_them:>4}")
    lines.append("{} (ours, beyond the required set): {} of {}".format(ADDED, *coverage.of(ADDED)))
    lines.append("covered {} of {}".format(*coverage.required))
    return "\n".join(lines)


def render_json(coverage: ContractCoverage) -> str:
    """Write everything as one JSON object."""
    done, all_of_them = coverage.required
    families = {family: dict(zip(("covered", "total"), coverage.of(family), strict=True)) for family in FAMILIES}
    contracts = {
        each.id: {"title": each.title, "api": each.api, "tests": coverage.tests[each.id]} for each in coverage.contracts
    }
    report = {
        "covered": done,
        "required": all_of_them,
        "families": families,
        "contracts": contracts,
        "errors": coverage.errors,
    }
    return json.dumps(report, indent=2, ensure_ascii=False)


def render_document(coverage: ContractCoverage) -> str:
    """Write `docs/contracts.md`: each contract, what serves it, and the tests that prove it."""
    lines = [
        "# Contracts",
        "",
        "What Backstay promises, one line each, with the API or command that serves it and the tests that prove it.",
        "Generated by `make docs`; do not edit.",
        "",
        "Proved: {} of {} required, and {} of {} of our own.".format(*coverage.required, *coverage.of(ADDED)),
    ]
    for family, subject in FAMILIES.items():
        lines += ["", f"## {family}: {subject}", "", "| id | contract | API | tests |", "|---|---|---|---|"]
        lines += [_row(each, coverage.tests[each.id]) for each in coverage.contracts if each.family == family]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 means that a claim is wrong."""
    options = _parse(arguments)
    folder: Path = options.tests
    if not folder.is_dir():
        print(f"There is no folder {str(folder)!r}; name the tests with --tests DIR.", file=sys.stderr)
        return 1
    coverage = cover(load_contracts(), scan(folder.resolve()))
    for error in coverage.errors:
        print(f"error: {error}", file=sys.stderr)
    if options.write_docs:
        options.write_docs.parent.mkdir(parents=True, exist_ok=True)
        options.write_docs.write_text(render_document(coverage), encoding="utf-8")
    if options.json:
        print(render_json(coverage))
    else:
        if options.missing:
            for contract in coverage.contracts:
                if not coverage.tests[contract.id]:
                    print(f"{contract.id:<7} {contract.title}")
        print(render_table(coverage))
    return 1 if coverage.errors else 0


class _Mark(Struct, frozen=True, kw_only=True):
    ids: tuple[str, ...]
    test: str
    line: int
    problem: str = ""


_NO_LITERAL = 'name contracts by literal ids: @pytest.mark.contract("RB-43")'
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _marks(node: ast.Module | ast.ClassDef, name: str, *, is_collected: bool) -> Iterator[_Mark]:
    """Find the marks of a file or a class and of everything inside; what pytest skips proves nothing."""
    own = [] if isinstance(node, ast.ClassDef) else [*_pytestmarks(node)]
    yield from _read(own, name, is_collected=is_collected)
    if _is_skipped(own):
        return
    for each in node.body:
        if not isinstance(each, _Definition):
            continue
        inner = f"{name}::{each.name}"
        decorators = [*each.decorator_list, *(_pytestmarks(each) if isinstance(each, ast.ClassDef) else ())]
        if _is_skipped(decorators):
            continue
        is_test = is_collected and each.name.startswith("Test" if isinstance(each, ast.ClassDef) else "test")
        yield from _read(decorators, inner, is_collected=is_test)
        if isinstance(each, ast.ClassDef):
            yield from _marks(each, inner, is_collected=is_test)


def _pytestmarks(node: ast.Module | ast.ClassDef) -> Iterator[ast.expr]:
    """Yield the marks of a `pytestmark = ...` or `pytestmark = [...]` in the body."""
    for each in node.body:
        match each:
            case (
                ast.Assign(targets=[ast.Name(id="pytestmark")], value=value)
                | ast.AnnAssign(target=ast.Name(id="pytestmark"), value=ast.expr() as value)
            ):
                yield from value.elts if isinstance(value, ast.List | ast.Tuple) else (value,)


def _read(expressions: Sequence[ast.expr], test: str, *, is_collected: bool) -> Iterator[_Mark]:
    """Read the contract marks in some expressions, also those inside `pytest.param(..., marks=...)`."""
    for expression in expressions:
        if isinstance(expression, ast.Attribute) and _mark_name(expression) == "contract":
            yield _Mark(ids=(), test=test, line=expression.lineno, problem=_NO_LITERAL)
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and _mark_name(node) == "contract":
                yield _read_call(node, test, is_collected=is_collected)


def _read_call(call: ast.Call, test: str, *, is_collected: bool) -> _Mark:
    ids = tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
    problem = ""
    if not is_collected:
        problem = f"{test.rpartition('::')[2]!r} is not a test that pytest collects, so it proves nothing"
    elif not ids or len(ids) != len(call.args) or call.keywords:
        problem = _NO_LITERAL
    return _Mark(ids=ids, test=test, line=call.lineno, problem=problem)


def _is_skipped(expressions: Sequence[ast.expr]) -> bool:
    return any(_mark_name(expression) in ("skip", "xfail") for expression in expressions)


def _mark_name(node: ast.AST) -> str:
    """Return `contract` for `pytest.mark.contract(...)`, called or not; empty for anything else."""
    target = node.func if isinstance(node, ast.Call) else node
    match target:
        case ast.Attribute(attr=name, value=ast.Name(id="mark") | ast.Attribute(attr="mark")):
            return name
    return ""


def _row(contract: Contract, tests: Sequence[str]) -> str:
    api = f"`{contract.api}`" if contract.api else ""
    cells = (contract.id, contract.title, api, "<br>".join(f"`{test}`" for test in tests))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m backstay.testing.contracts", description="Say which contracts the tests prove."
    )
    parser.add_argument("--tests", type=Path, default=Path("tests"), metavar="DIR", help="the tests (default: tests)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--missing", action="store_true", help="list the contracts that no test proves")
    parser.add_argument("--write-docs", type=Path, metavar="FILE", help="write the document of all contracts")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
