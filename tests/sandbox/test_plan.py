"""The plan of a sandbox, and finding out which kind works."""

import json
import os
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from backstay.sandbox import seccomp
from backstay.sandbox.plan import Scratch, above, plan_sandbox
from backstay.sandbox.probe import ProbeReport, build_sandbox, probe
from backstay.vocab.errors import UserError
from tests.sandbox.sandbox_kit import REPOSITORY, Yard, escapes_without_sandbox, missing

HAS_SANDBOX = not missing("landlock") or not missing("bubblewrap")
needs_sandbox = pytest.mark.skipif(not HAS_SANDBOX, reason="no sandbox works on this machine")


def test_the_deepest_place_decides(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    places = yard.plan("sandboxed").places()

    expected = {
        "/": "read",
        f"{yard.root}/src/a.py": "write",
        f"{yard.home}/notes": "read",
        f"{yard.home}/.ssh/key": "closed",
        f"{yard.home}/.bash_history": "closed",
        f"{yard.private}/sessions.db": "closed",
        str(yard.outside): "read",
    }
    assert {path: above(places, path).access for path in expected} == expected


def test_the_sandbox_closes_in_the_home_folder_what_the_judge_calls_sensitive(tmp_path: Path) -> None:
    names = (".ssh", ".npmrc", ".config/git/credentials", ".docker/config.json", ".m2/settings.xml", ".codex", ".azure")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    work = tmp_path / "work"
    work.mkdir()

    places = plan_sandbox("sandboxed", [str(work)], home=str(tmp_path)).places()

    assert {name: above(places, str(tmp_path / name)).access for name in names} == dict.fromkeys(names, "closed")


@pytest.mark.parametrize(
    "name", [".npmrc", ".codex/sessions/1", ".config/age/keys.txt", ".m2/settings.xml", ".pulumi/credentials.json"]
)
def test_credentials_in_the_home_folder_are_closed_and_their_neighbours_are_not(tmp_path: Path, name: str) -> None:
    yard = Yard(tmp_path)
    secret, beside = yard.home / name, yard.home / ".config/editor/settings"
    for path in (secret, beside):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    places = yard.plan("project").places()

    assert above(places, str(secret)).access == "closed"
    assert above(places, str(beside)).access == "read"


def test_a_working_folder_inside_a_closed_one_is_open_and_its_neighbours_are_not(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    inner = yard.private / "work"
    inner.mkdir()

    places = yard.plan("sandboxed", inner).places()

    assert above(places, f"{inner}/a").access == "write"
    assert above(places, str(yard.private / "sessions.db")).access == "closed"


def test_a_closed_folder_stays_closed_when_it_is_named_as_the_working_folder(tmp_path: Path) -> None:
    yard = Yard(tmp_path)

    assert above(yard.plan("sandboxed", yard.private).places(), str(yard.private)).access == "closed"


def test_caches_are_writable_in_the_scope_project_alone(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (yard.home / ".cache/mozilla").mkdir(parents=True)
    (yard.home / ".cache/pip").mkdir()

    for scope, expected in (("sandboxed", "read"), ("project", "write")):
        places = yard.plan(scope).places()  # type: ignore[arg-type]  # a scope
        assert above(places, f"{yard.home}/.cache/pip/x").access == expected
        assert above(places, f"{yard.home}/.cache/mozilla/x").access == "closed"


def test_a_cache_that_becomes_a_link_during_the_session_opens_nothing(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    plan = yard.plan("project", yard.home)
    (yard.home / ".npm").symlink_to(yard.outside)

    assert above(plan.places(), f"{yard.outside}/file").access == "read"


def test_a_key_that_appears_during_the_session_is_closed(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    plan = yard.plan("sandboxed")
    (yard.home / ".netrc").write_text("machine x", encoding="utf-8")

    assert above(plan.places(), f"{yard.home}/.netrc").access == "closed"


def test_roots_are_resolved_once_and_must_be_folders(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    link = yard.folder / "link"
    link.symlink_to(yard.root)
    plan = yard.plan("sandboxed", link)
    link.unlink()
    link.symlink_to("/")

    assert plan.roots == (str(yard.root),)
    with pytest.raises(UserError, match="no folder"):
        yard.plan("sandboxed", yard.outside / "file")


def test_a_working_folder_that_became_a_link_is_refused(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    plan = yard.plan("sandboxed")
    yard.root.rename(yard.folder / "moved")
    yard.root.symlink_to(yard.outside)

    with pytest.raises(FileNotFoundError, match="no longer where it was"):
        plan.places()


def test_other_peoples_homes_are_closed(tmp_path: Path) -> None:
    for home in ("/home", "/root"):
        if os.path.realpath(home) == home and os.access(home, os.R_OK):
            plan = plan_sandbox("sandboxed", [str(tmp_path)], home=str(tmp_path))
            assert above(plan.places(), f"{home}/somebody/diary").access == "closed"
            plan.scratch.close()


def test_a_folder_for_temporary_files_goes_with_the_session() -> None:
    scratch = Scratch()
    Path(scratch.path, "file").touch()
    path = scratch.path
    scratch.ready()
    del scratch

    assert not os.path.exists(path)


def test_a_folder_for_temporary_files_that_somebody_swapped_is_refused(tmp_path: Path) -> None:
    scratch = Scratch(str(tmp_path))
    os.rmdir(scratch.path)
    os.symlink("/", scratch.path)

    with pytest.raises(PermissionError, match="not ours any more"):
        scratch.ready()
    os.unlink(scratch.path)
    scratch.close()


def test_without_a_sandbox_the_escapes_work(tmp_path: Path) -> None:
    """So that a sandbox which keeps them keeps something."""
    reached = escapes_without_sandbox(tmp_path)

    expected = {
        *(
            "write outside",
            "write through a link made inside",
            "hard link from outside",
            "rename outside",
            "read a key",
            "TCP",
        ),
        *(
            "a unix socket by path",
            "an abstract unix socket",
            "heard: udp",
            "environment of another program",
            "make a git hook",
        ),
        *(
            "signal to another program",
            "read what Backstay keeps",
            "a unix socket by path, from a pair",
            "set-user-id by mode",
        ),
    }
    assert sorted(expected - reached) == []


# --- finding out -----------------------------------------------------------------------------------------------------------------


@needs_sandbox
@pytest.mark.contract("RV-20")
def test_the_probe_finds_a_wall_that_keeps_what_the_scope_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path))

    sandboxed, project, full = probe("sandboxed", fresh=True), probe("project"), probe("full")

    assert (sandboxed.available, project.available, full.available) == (True, True, True)
    needed = {"writing outside the working folders", "keys, credentials and other private files", "TCP", "UDP"}
    assert needed <= set(sandboxed.closed)
    assert {"TCP", "UDP"} <= set(project.open)
    assert full.backend == "none"


@needs_sandbox
def test_what_was_found_out_is_kept_for_the_next_process_and_damage_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path))
    found = probe("sandboxed", fresh=True)
    kept = tmp_path / "sandbox.json"

    assert next(iter(json.loads(kept.read_text(encoding="utf-8")).values()))["backend"] == found.backend
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("{broken", encoding="utf-8")
    assert probe("sandboxed", fresh=True) == found


@needs_sandbox
def test_a_session_gets_its_sandbox_and_the_scope_full_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    sandbox = build_sandbox("sandboxed", [str(tmp_path / "work")])

    assert sandbox is not None
    assert sandbox.name in ("bubblewrap", "landlock")
    assert "no network" in sandbox.words
    assert str(tmp_path / "work") in sandbox.words
    assert build_sandbox("full", [str(tmp_path / "work")]) is None


def test_where_nothing_works_there_is_no_wall_and_a_reason() -> None:
    report = ProbeReport(scope="sandboxed", why="because")

    assert not report.available
    assert build_sandbox("sandboxed", ["/"], report=report) is None


@pytest.mark.skipif(not seccomp.is_supported(), reason="this machine's system calls are not known")
def test_a_machine_that_forbids_every_wall_is_told_from_one_that_has_some(tmp_path: Path) -> None:
    """Plays such a machine with a filter of its own: no namespaces and no Landlock."""
    script = """
        import json, sys
        from backstay.sandbox.probe import probe
        report = probe("sandboxed")
        print(json.dumps([report.available, report.backend, report.why]))
    """
    no_rules = b"".join(
        struct.pack("=HBBI", *each)
        for each in ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x0005_0026), (0x06, 0, 0, 0x7FFF_0000))
    )
    first, second = seccomp.installer(no_rules), seccomp.installer(seccomp.assemble(seccomp.ORDINARY))
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={
            **os.environ,
            "BACKSTAY_DATA_DIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "src"), *sys.path)),
        },
        preexec_fn=lambda: (first(), second()),
        capture_output=True,
        text=True,
        check=True,
    )

    available, backend, why = json.loads(ran.stdout)
    assert (available, backend) == (False, "none")
    assert "no Landlock" in why


def test_the_filter_of_system_calls_refuses_calls_that_are_made_another_way() -> None:
    program = seccomp.assemble(())
    instructions = [struct.unpack("=HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]

    assert instructions[0] == (0x20, 0, 0, 4)
    assert instructions[2] == (0x06, 0, 0, 0x0005_0026)
    assert instructions[-1] == (0x06, 0, 0, 0x7FFF_0000)
    assert len(instructions) < 4096
