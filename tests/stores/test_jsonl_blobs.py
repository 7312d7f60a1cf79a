"""Blobs as files: who keeps them, and what happens to altered ones."""

from pathlib import Path

import pytest

from holdfast.logic.parts import digest
from holdfast.stores.blobs import BlobFolder
from holdfast.vocab.errors import BlobMissing, UserError

CONTENT = b"a long text"
SHA = digest(CONTENT)


def folder_of(root: Path) -> BlobFolder:
    return BlobFolder(root / "blobs", keepers="keepers/*")


def test_a_blob_is_a_private_file_named_by_its_content_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    blobs = folder_of(tmp_path)
    for _ in range(2):
        blobs.put(SHA, CONTENT)
    path = tmp_path / "blobs" / SHA[:2] / SHA
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert blobs.get(SHA) == CONTENT
    with pytest.raises(UserError):
        blobs.put(SHA, b"something else")


@pytest.mark.parametrize("altered", [CONTENT.upper(), CONTENT[:3]])
def test_an_altered_blob_is_named_and_written_again_for_all_who_keep_it(tmp_path: Path, altered: bytes) -> None:
    blobs = folder_of(tmp_path)
    one, two = tmp_path / "keepers" / "one", tmp_path / "keepers" / "two"
    blobs.put(SHA, CONTENT, one)
    path = tmp_path / "blobs" / SHA[:2] / SHA
    path.write_bytes(altered)
    with pytest.raises(BlobMissing, match="altered"):
        blobs.get(SHA)
    blobs.put(SHA, CONTENT, two)
    assert blobs.get(SHA) == CONTENT
    blobs.drop(two)
    assert blobs.get(SHA) == CONTENT


def test_a_blob_lives_as_long_as_somebody_keeps_it(tmp_path: Path) -> None:
    blobs = folder_of(tmp_path)
    one, two = tmp_path / "keepers" / "one", tmp_path / "keepers" / "two"
    blobs.put(SHA, CONTENT, one)
    assert blobs.keep((SHA,), two)
    blobs.drop(one)
    assert blobs.get(SHA) == CONTENT
    blobs.drop(two)
    with pytest.raises(BlobMissing, match="gone"):
        blobs.get(SHA)
    assert not blobs.keep((SHA,), two)


def test_a_keeper_has_the_bytes_even_when_the_shared_name_was_removed(tmp_path: Path) -> None:
    blobs = folder_of(tmp_path)
    keeper = tmp_path / "keepers" / "one"
    blobs.put(SHA, CONTENT, keeper)
    (tmp_path / "blobs" / SHA[:2] / SHA).unlink()
    assert blobs.get(SHA) == CONTENT


@pytest.mark.parametrize("name", ["", "x", "../store.json", "A" * 64, SHA[:-1]])
def test_what_is_no_hash_names_no_blob_and_no_file(tmp_path: Path, name: str) -> None:
    blobs = folder_of(tmp_path)
    with pytest.raises(BlobMissing):
        blobs.get(name)
    assert blobs.keep((name,), tmp_path / "keepers" / "one")
    assert list(tmp_path.iterdir()) == []
