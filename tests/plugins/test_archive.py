"""Archives of strangers: traversal, links, bombs, doubles and broken bytes are refused by name; plain ones unpack."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from backstay.plugins.install.archive import single_folder, unpack
from backstay.plugins.tree import TreeLimits
from backstay.vocab.errors import UserError
from tests.plugins.shop import plugin, tar_of, tarred, zip_of, zipped

SMALL = TreeLimits(files=20, total=100_000, one=50_000, depth=4)
ESCAPES = ("../x", "a/../../x", "/etc/x", "..", "a\\..\\x", "C:/x", "C:x", "x\x00y", "a/" * 40 + "x", "n" * 300)


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, link, mode
    return member


def linked(name: str, kind: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.create_system = 3
    member.external_attr = (kind | 0o777) << 16
    return member


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_plain_archive_unpacks_for_this_user_alone(tmp_path: Path, pack: object) -> None:
    folder = plugin(tmp_path / "p")
    (folder / "hooks/guard.py").chmod(0o755)
    archive = pack(folder, tmp_path / "a", "p/")  # type: ignore[operator]  # one of two functions

    count = unpack(archive, tmp_path / "out")

    inner = single_folder(tmp_path / "out")
    assert inner == tmp_path / "out" / "p"
    found = {path.relative_to(inner).as_posix(): path for path in inner.rglob("*") if path.is_file()}
    assert count == len(found) == 8
    assert found[".mcp.json"].read_bytes() == (folder / ".mcp.json").read_bytes()
    assert stat.S_IMODE(found["hooks/guard.py"].stat().st_mode) == 0o700
    assert stat.S_IMODE(found[".mcp.json"].stat().st_mode) == 0o600
    assert stat.S_IMODE((inner / "hooks").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ESCAPES)
def test_rb_w15_no_member_leaves_the_folder(tmp_path: Path, name: str) -> None:
    archives = [tar_of(tmp_path / "a.tgz", (info("ok"), b"1"), (info(name), b"2"))]
    if "\x00" not in name:  # a zip's name ends there by itself
        archives.append(zip_of(tmp_path / "a.zip", ("ok", b"1"), (name, b"2")))
    for number, archive in enumerate(archives):
        target = tmp_path / f"out{number}"
        if "\x00" in name:  # a tar's too, unless it is a long one
            assert unpack(archive, target) == 2
        else:
            with pytest.raises(UserError, match="is refused"):
                unpack(archive, target)
        assert all(target in path.parents for path in tmp_path.rglob("x"))
    assert not (tmp_path.parent / "x").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    archive = tar_of(tmp_path / "a.tgz", (info("l", kind, "/etc/passwd"), b""), (info("l/x"), b"2"))

    with pytest.raises(UserError, match=r"The member 'l' of 'a\.tgz' is refused: it is a link or a device"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_in_a_zip_are_refused(tmp_path: Path, kind: int) -> None:
    archive = zip_of(tmp_path / "a.zip", (linked("l", kind), b"/etc/passwd"))

    with pytest.raises(UserError, match="it is a link or a device"):
        unpack(archive, tmp_path / "out")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["hooks.json", "HOOKS.json", "./hooks.json"])
def test_a_name_that_stands_twice_is_refused(tmp_path: Path, second: str) -> None:
    for archive in (
        zip_of(tmp_path / "a.zip", ("hooks.json", b"1"), (second, b"2")),
        tar_of(tmp_path / "a.tgz", (info("hooks.json"), b"1"), (info(second), b"2")),
    ):
        with pytest.raises(UserError, match="its name stands twice"):
            unpack(archive, tmp_path / f"out-{archive.suffix}")


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    archive = tar_of(tmp_path / "a.tgz", (info("a"), b"1"), (info("a/b"), b"2"))

    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(archive, tmp_path / "out")


def test_bombs_are_stopped_by_what_comes_out_of_them(tmp_path: Path) -> None:
    zeros = bytes(40_000)
    cases = (
        zip_of(tmp_path / "one.zip", ("x", bytes(60_000))),
        tar_of(tmp_path / "one.tgz", (info("x"), bytes(60_000))),
        zip_of(tmp_path / "all.zip", *((str(n), zeros) for n in range(5))),
        tar_of(tmp_path / "all.tgz", *((info(str(n)), zeros) for n in range(5))),
        zip_of(tmp_path / "many.zip", *((str(n), b"") for n in range(50))),
        tar_of(tmp_path / "many.tgz", *((info(str(n)), b"") for n in range(50))),
    )
    for archive in cases:
        with pytest.raises(UserError, match=r"than a plugin may have|more than 20 members"):
            unpack(archive, tmp_path / f"out-{archive.name}", SMALL)


def test_a_zip_that_lies_about_its_sizes_or_its_list_is_refused(tmp_path: Path) -> None:
    honest = zip_of(tmp_path / "a.zip", ("x", bytes(60_000))).read_bytes()
    lying = tmp_path / "lying.zip"
    lying.write_bytes(honest.replace((60_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(UserError, match=r"broken|than a plugin may have"):
        unpack(lying, tmp_path / "one", SMALL)
    end = honest.rfind(b"PK\x05\x06")
    long = tmp_path / "long.zip"
    long.write_bytes(honest[: end + 12] + (2**31).to_bytes(4, "little") + honest[end + 16 :])
    with pytest.raises(UserError, match="more members"):
        unpack(long, tmp_path / "two")


def test_a_header_of_a_tar_cannot_fill_the_memory(tmp_path: Path) -> None:
    """A header for extended attributes that claims to be large is read as it comes, and counted."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        member = info("x")
        member.pax_headers = {"comment": "y" * 3_000_000}
        archive.addfile(member)
    target = tmp_path / "a.tgz"
    target.write_bytes(gzip.compress(content.getvalue()))

    assert unpack(target, tmp_path / "out", SMALL) == 1


@pytest.mark.parametrize("pax", [{"GNU.sparse.map": "a,b"}, {"GNU.sparse.size": "x", "GNU.sparse.map": "0,1"}])
def test_a_tar_with_a_word_in_the_place_of_a_number_is_refused(tmp_path: Path, pax: dict[str, str]) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = info("x")
        member.pax_headers, member.size = pax, 10
        archive.addfile(member, io.BytesIO(b"1" * 10))
    target = tmp_path / "a.tgz"
    target.write_bytes(gzip.compress(content.getvalue()))

    with pytest.raises(UserError, match=r"The archive 'a\.tgz' is broken"):
        unpack(target, tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04" + b"x" * 100, b"\x1f\x8b", b"\x1f\x8bxx", b"plain text"])
def test_broken_archives_are_refused_and_never_crash(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(content)

    with pytest.raises(UserError, match=r"'a\.zip'"):
        unpack(archive, tmp_path / "out")


def test_no_archive_that_was_cut_short_is_taken_for_a_whole_one(tmp_path: Path) -> None:
    for pack in (zipped, tarred):
        whole = pack(plugin(tmp_path / "p"), tmp_path / "a").read_bytes()
        for number, length in enumerate(range(0, len(whole), max(1, len(whole) // 25))):
            part = tmp_path / "part"
            part.write_bytes(whole[:length])
            with pytest.raises(UserError):
                unpack(part, tmp_path / f"{pack.__name__}-{number}")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "a.zip", ("x", b"1"))
    content = bytearray(archive.read_bytes())
    content[6] |= 1
    content[content.rfind(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(bytes(content))

    with pytest.raises(UserError, match="encrypted"):
        unpack(archive, tmp_path / "out")
    assert os.listdir(tmp_path / "out") == []
