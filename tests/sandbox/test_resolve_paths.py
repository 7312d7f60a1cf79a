"""Where paths lead, and what patterns match."""

import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from backstay.permissions import Call, judge_call, paths_to_resolve, spec_of
from backstay.permissions.call_site import CallSite
from backstay.sandbox import resolve_paths
from backstay.sandbox.resolve_paths import MATCHES, NOWHERE, follow_links, match
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Mode


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with files, links of all kinds and a place outside."""
    (tmp_path / "w/src/deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for name in ("w/a.py", "w/b.py", "w/.hidden", "w/src/c.py", "w/src/deep/d.py", "outside/secret"):
        (tmp_path / name).write_text("x")
    links = {
        "w/inner": "src",
        "w/out": "../outside",
        "w/absolute": str(tmp_path / "outside"),
        "w/dangling": "missing/file",
        "w/loop": "loop",
        "w/ping": "pong",
        "w/pong": "ping",
        "w/chain": "out/secret",
        "w/src/up": "..",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "leads"),
    [
        ("w/a.py", "w/a.py"),
        ("w/./src/../a.py", "w/a.py"),
        ("w//a.py/", "w/a.py"),
        ("w/inner/c.py", "w/src/c.py"),
        ("w/inner/../a.py", "w/a.py"),
        ("w/out/secret", "outside/secret"),
        ("w/out/../w/a.py", "w/a.py"),
        ("w/absolute/new/file", "outside/new/file"),
        ("w/chain", "outside/secret"),
        ("w/src/up/up2", "w/up2"),
        ("w/dangling", "w/missing/file"),
        ("w/nothing/../a.py", "w/a.py"),
        ("w/a.py/below", "w/a.py/below"),
    ],
)
def test_a_path_leads_where_its_links_go(tree: Path, path: str, leads: str) -> None:
    written = f"{tree}/{path}"

    assert follow_links([written]) == {written: f"{tree}/{leads}"}


@pytest.mark.parametrize(
    "path", ["w/loop", "w/ping", "w/loop/below", "w/nul\0byte", "w/half\ud800", "w/" + "long" * 80, "w/x" * 3000]
)
def test_a_path_of_which_nobody_can_say_where_it_leads_leads_nowhere(tree: Path, path: str) -> None:
    written = f"{tree}/{path}"

    assert follow_links([written]) == {written: NOWHERE}


def test_relative_paths_and_links_of_processes_lead_nowhere() -> None:
    paths = ["a", "", "/proc/self/cwd/a", "/proc/self/root/etc/passwd", "/dev/stdin", "/dev/fd/0", "/proc/1/exe"]

    assert follow_links(paths) == dict.fromkeys(paths, NOWHERE)
    assert follow_links(["/", "//", "/../.."]) == {"/": "/", "//": "/", "/../..": "/"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may search every folder")
def test_a_folder_that_may_not_be_searched_leads_nowhere(tree: Path) -> None:
    (tree / "w/src").chmod(0)

    assert follow_links([f"{tree}/w/src/c.py"]) == {f"{tree}/w/src/c.py": NOWHERE}
    (tree / "w/src").chmod(0o755)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("w/*.py", ["w/a.py", "w/b.py"]),
        ("w/?.py", ["w/a.py", "w/b.py"]),
        ("w/.h*", ["w/.hidden"]),
        ("w/src/*.py", ["w/src/c.py"]),
        ("w/*/c.py", ["w/src/c.py"]),
        ("w/ou*/*", ["outside/secret"]),
        ("w/cha*", ["outside/secret"]),
        ("w/lo*", [NOWHERE]),
        ("w/*.none", ["w/*.none"]),
        ("w/plain", ["w/plain"]),
        ("w/[ab].py", ["w/[ab].py", "w/a.py", "w/b.py"]),
        ("w/[[:alpha:]].py", ["w/[[:alpha:]].py", "w/a.py", "w/b.py"]),
        ("w/[[.a.]].py", ["w/[[.a.]].py", "w/a.py", "w/b.py"]),
        ("w/[[=a=]x].py", ["w/[[=a=]x].py", "w/a.py", "w/b.py"]),
        ("w/src/**", ["w", "w/src", "w/src/c.py", "w/src/deep", "w/src/deep/d.py"]),
        ("w/src/**/*.py", ["w/a.py", "w/b.py", "w/src/c.py", "w/src/deep/d.py"]),
        ("nothing/*", ["nothing/*"]),
    ],
)
def test_a_pattern_matches_what_a_shell_makes_of_it(tree: Path, pattern: str, found: list[str]) -> None:
    whole = f"{tree}/{pattern}"

    assert sorted(match([whole])[whole]) == sorted(f"{tree}/{path}" if path else NOWHERE for path in found)


def test_a_pattern_for_hidden_names_reaches_the_folder_above_as_old_shells_have_it(tree: Path) -> None:
    assert str(tree) in match([f"{tree}/w/.*"])[f"{tree}/w/.*"]


@pytest.mark.parametrize("pattern", ["new/.?/a.py", "new/deep/.*/.*/a.py", "new/*/.?/.[.]/a.py", "src/n?w/.?/.?/a.py"])
def test_above_a_folder_that_is_not_there_yet_lies_what_its_path_says(tree: Path, pattern: str) -> None:
    assert f"{tree}/w/a.py" in match([f"{tree}/w/{pattern}"])[f"{tree}/w/{pattern}"]


@pytest.mark.parametrize("pattern", ["w/\\*", "w/{a,b}.py", "w/@(a|b).py", "w/*(.)", "w/" + "[" * 5000])
def test_a_pattern_that_shells_read_differently_may_match_anything(tree: Path, pattern: str) -> None:
    assert match([f"{tree}/{pattern}"]) == {}


def test_relative_patterns_and_those_that_no_file_can_match_are_left_out() -> None:
    assert match(["*.py", "/\0*/x"]) == {"/\0*/x": (NOWHERE,)}


def test_a_pattern_with_too_many_matches_is_left_out(tmp_path: Path) -> None:
    for number in range(MATCHES + 1):
        (tmp_path / str(number)).touch()

    assert match([f"{tmp_path}/*", f"{tmp_path}/1"]) == {f"{tmp_path}/1": (f"{tmp_path}/1",)}


def test_patterns_that_take_too_long_are_left_out(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve_paths, "SECONDS", -1.0)

    assert match([f"{tree}/w/*"]) == {}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a*b*c", ["abc", "axbxc"]),
        ("*a?", ["ab", "xaab"]),
        ("x*a*", ["xa", "xaab"]),
        ("*", ["ab", "abc", "axbxc", "xa", "xaab"]),
    ],
)
def test_stars_match_as_the_shell_has_it(tmp_path: Path, pattern: str, names: list[str]) -> None:
    for name in ("abc", "axbxc", "ab", "xaab", "xa"):
        (tmp_path / name).touch()
    found = match([f"{tmp_path}/{pattern}"])[f"{tmp_path}/{pattern}"]
    assert sorted(found) == [f"{tmp_path}/{name}" for name in names]


def test_a_pattern_with_many_stars_is_matched_without_trying_all_ways(tmp_path: Path) -> None:
    (tmp_path / ("a" * 250)).touch()
    began = time.process_time()
    match([f"{tmp_path}/{'a*' * 5}b"])
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "command", ["find $'a\\0b' -name c | xargs cat", "grep -r x a\0b", "find a\0b -name c -exec cat {} +"]
)
def test_a_pattern_with_a_zero_byte_is_left_out(tmp_path: Path, command: str) -> None:
    site = CallSite(cwd=str(tmp_path), home=str(tmp_path))
    paths, globs = paths_to_resolve(Call(spec_of("Bash"), {"command": command}), site)

    assert all("\0" not in each for each in match((*globs, f"{tmp_path}/a\0b/**")))
    follow_links(paths)


def test_a_file_that_a_command_writes_and_that_has_another_name_is_said(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").write_text("x")
    (tmp_path / "work/plain").write_text("x")
    (tmp_path / "work/linked").hardlink_to(tmp_path / "outside")
    site = CallSite(cwd=f"{tmp_path}/work", home=str(tmp_path))

    def decide(command: str) -> str:
        call = Call(spec_of("Bash"), {"command": command})
        paths, globs = paths_to_resolve(call, site)
        seen = msgspec.structs.replace(site, links=follow_links(paths), globs=match(globs))
        return judge_call(call, seen, (), mode="acceptEdits").decision

    for free in ("plain", "new"):
        for command in (f"echo x > {free}", f"echo x | tee {free}", f"touch {free}", f"cp linked {free}"):
            assert decide(command) == "allow"
    for command in ("echo x > linked", "echo x | tee linked", "cp plain linked", "touch linke*", "cp plain ./linked"):
        assert decide(command) == "ask"


COMPARES = (
    "a b",
    "-- a b",
    "a -- b",
    "a .",
    ". a",
    "./a b/",
    "b/x a",
    "-p --stat a b",
    "'a' \"b\"",
    "a*",
    "[ab]",
    "a ../work/b",
)
ONE_OF_THEM = (
    "main feature",
    "HEAD~1 HEAD -- a",
    "HEAD a",
    "main a",
    "a missing",
    "a",
    "-- a",
    "a..b",
    "src b",
    "b b/x",
)


def decide_diff(folder: Path, operands: str, mode: Mode = "default", deny: str = "") -> str:
    """Decide about `git diff`, with the files that lie there."""
    site = CallSite(cwd=f"{folder}/work", home=str(folder))
    held = (Rule.parse("deny", deny, source="flag"),) if deny else ()
    call = Call(spec_of("Bash"), {"command": operands if "diff" in operands else f"git diff {operands}"})
    paths, globs = paths_to_resolve(call, site, held)
    seen = msgspec.structs.replace(site, links=follow_links(paths), globs=match(globs))
    return judge_call(call, seen, held, mode=mode).decision


@pytest.fixture
def compared(tmp_path: Path) -> Path:
    """A folder that is no repository, with two folders to be compared."""
    for name in ("a/.env", "a/x", "b/x", "src/x"):
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text("x")
    return tmp_path


@pytest.mark.parametrize("operands", COMPARES)
@pytest.mark.parametrize("broken", [False, True])
def test_git_reads_two_paths_to_their_ends(compared: Path, operands: str, *, broken: bool) -> None:
    if broken:  # what git takes for no repository, and nobody else
        (compared / "work/.git").mkdir()

    assert decide_diff(compared, operands) == "ask"
    assert decide_diff(compared, operands, "bypassPermissions", "Read(.env)") == "ask"
    if not broken:  # there nobody can say what is tracked
        assert decide_diff(compared, operands, "bypassPermissions", "Read(other/**)") == "allow"


@pytest.mark.parametrize("operands", ONE_OF_THEM)
def test_git_reads_what_is_no_path_from_the_repository(compared: Path, operands: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=compared / "work", check=True)

    assert decide_diff(compared, operands) == "allow"


@pytest.mark.parametrize(
    "command", ["git -C inner diff a b", "cd inner && git diff a .", "cd inner/b && git diff ../a ."]
)
def test_git_reads_two_paths_to_their_ends_in_other_folders(compared: Path, command: str) -> None:
    (compared / "work").rename(compared / "inner")
    (compared / "work").mkdir()
    (compared / "inner").rename(compared / "work/inner")

    assert decide_diff(compared, command, "bypassPermissions", "Read(.env)") == "ask"
    assert decide_diff(compared, command, "bypassPermissions", "Read(other/**)") == "allow"


SHOWS = ("git diff --cached", "git diff HEAD", "git grep --cached x", "git commit -qm x && git show")


@pytest.mark.parametrize("shows", SHOWS)
@pytest.mark.parametrize("adds", ["git add -A", "git add -N .", "git stage .", "git -C . add -f .", "env git add a"])
def test_git_shows_what_the_same_script_has_added(compared: Path, adds: str, shows: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=compared / "work", check=True)

    for script, deny, decision in (
        (f"{adds} && {shows}", "Read(.env)", "ask"),
        (f"{adds} && {shows}", "Read(other/**)", "allow"),
        (f"git remote add x y && {shows}", "Read(.env)", "allow"),
    ):
        verdict = decide_diff(compared, f"{script} && git diff --stat", "bypassPermissions", deny)
        assert (verdict == "allow") == (decision == "allow"), script
