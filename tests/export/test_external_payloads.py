"""Large fields of a diagnostic log: kept beside it, named by their content, read back only when they are what was written."""

import hashlib
import json
import stat
from pathlib import Path

import msgspec
import pytest

from backstay.export.diagnostic.external_payloads import PART, PayloadError, Payloads, Problem, Reference, Resolver
from backstay.vocab.errors import UserError


def reference(folder: Path, content: bytes = b'"hello"') -> dict[str, object]:
    """A reference to a payload that is there."""
    made: dict[str, object] = json.loads(Payloads(folder, "s1").keep(content))
    return made


@pytest.mark.contract("RB-34")
def test_a_large_field_becomes_a_file_and_exactly_a_reference(tmp_path: Path) -> None:
    content = json.dumps("x" * 40_000).encode()
    payloads = Payloads(tmp_path, "s1")

    written = json.loads(payloads.field(content))

    sha = hashlib.sha256(content).hexdigest()
    assert written == {
        "kind": "external-payload",
        "encoding": "json",
        "sha256": sha,
        "byteLength": 40_002,
        "relativePath": f"s1.payloads/{sha}.json",
    }
    file = tmp_path / "s1.payloads" / f"{sha}.json"
    assert file.read_bytes() == content
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert payloads.field(b'"small"') == b'"small"'
    assert Resolver(tmp_path).resolve({"a": [written]}) == {"a": ["x" * 40_000]}


def test_a_payload_that_is_there_is_not_written_again_unless_it_is_another(tmp_path: Path) -> None:
    path = tmp_path / str(reference(tmp_path)["relativePath"])
    before = path.stat().st_mtime_ns
    reference(tmp_path)
    assert path.stat().st_mtime_ns == before

    path.write_bytes(b'"other"')
    with pytest.raises(UserError, match="holds something else"):
        reference(tmp_path)


def test_a_growing_list_is_written_once(tmp_path: Path) -> None:
    items = [json.dumps({"n": number, "text": "x" * 3_000}).encode() for number in range(300)]
    payloads, resolver = Payloads(tmp_path, "s1"), Resolver(tmp_path, max_total_bytes=1 << 40)

    lists = [payloads.items(items[:count]) for count in range(0, 301, 7)]

    for count, written in zip(range(0, 301, 7), lists, strict=True):
        assert resolver.resolve(json.loads(written)) == [json.loads(item) for item in items[:count]]
    assert max(map(len, lists)) <= 32 * 1024
    held = sum(path.stat().st_size for path in (tmp_path / "s1.payloads").iterdir())
    assert held < 2.5 * sum(map(len, items))
    assert len(items) > PART * PART


def problem(value: object, resolver: Resolver) -> Problem:
    with pytest.raises(PayloadError) as caught:
        resolver.resolve({"deep": [value]})
    with pytest.raises(PayloadError) as verified:
        resolver.verify({"deep": [value]})
    assert verified.value.problem == caught.value.problem
    return caught.value.problem


@pytest.mark.contract("RB-34", "RB-36")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"sha256": "abc"}, "INVALID_REFERENCE"),
        ({"byteLength": -1}, "INVALID_REFERENCE"),
        ({"encoding": "text"}, "INVALID_REFERENCE"),
        ({"more": 1}, "INVALID_REFERENCE"),
        ({"relativePath": ""}, "INVALID_REFERENCE"),
        ({"relativePath": "../up.json"}, "OUTSIDE_ROOT"),
        ({"relativePath": "/etc/hostname"}, "OUTSIDE_ROOT"),
        ({"relativePath": "s1.payloads/none.json"}, "PAYLOAD_NOT_FOUND"),
        ({"relativePath": "s1.payloads", "byteLength": 4096}, None),
        ({"byteLength": 8}, "BYTE_LENGTH_MISMATCH"),
        ({"sha256": "0" * 64}, "SHA256_MISMATCH"),
    ],
)
def test_a_reference_that_leads_nowhere_has_a_reason(
    tmp_path: Path, change: dict[str, object], expected: str | None
) -> None:
    found = problem(reference(tmp_path) | change, Resolver(tmp_path))

    assert found == expected or (expected is None and found in ("PAYLOAD_UNREADABLE", "BYTE_LENGTH_MISMATCH"))


def test_other_reasons_have_a_name_too(tmp_path: Path) -> None:
    good = reference(tmp_path)
    bad = reference(tmp_path, b"{not json")
    nested: dict[str, object] = good
    for _ in range(3):
        nested = reference(tmp_path, json.dumps([nested]).encode())
    link = tmp_path / "s1.payloads" / "link.json"
    link.symlink_to("/etc/hostname")

    assert problem(good, Resolver(None)) == "UNRESOLVED_REFERENCE"
    assert problem(bad, Resolver(tmp_path)) == "INVALID_JSON"
    assert problem(nested, Resolver(tmp_path, max_depth=3)) == "MAX_DEPTH_EXCEEDED"
    assert Resolver(tmp_path, max_depth=4).resolve(nested) == ["hello"]
    assert problem(good | {"relativePath": "s1.payloads/link.json"}, Resolver(tmp_path)) == "OUTSIDE_ROOT"
    assert problem(good, Resolver(tmp_path, max_total_bytes=6)) == "MAX_TOTAL_BYTES_EXCEEDED"
    for limits in ({"max_depth": 0}, {"max_total_bytes": 0}):
        with pytest.raises(PayloadError) as caught:
            Resolver(tmp_path, **limits)
        assert caught.value.problem == "INVALID_LIMIT"


class Unchecked(Resolver):
    """No content can hold its own hash, so hashes are not looked at."""

    def _read(self, reference: Reference) -> bytes:
        return json.dumps(msgspec.to_builtins(reference)).encode()


def test_a_payload_that_holds_itself_is_a_circle(tmp_path: Path) -> None:
    assert problem(reference(tmp_path), Unchecked(tmp_path)) == "CIRCULAR_REFERENCE"
