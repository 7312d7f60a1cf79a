"""The tool `Glob`."""

import os
from pathlib import Path

import pytest

from backstay.ports import ToolOutput
from backstay.tools.search import MAX_NAMES, make_glob, quote_name
from tests.tools.context import RecordingContext
from tests.tools.trees import plant, ripgrep

pytestmark = pytest.mark.anyio

GLOB = make_glob()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("tree"))


async def _glob(folder: Path, pattern: str, **args: object) -> ToolOutput:
    return await GLOB.run({"pattern": pattern, **args}, RecordingContext(folder))


PLAIN = ("**/*.ts", "*.{ts,tsx}", "src/**", "src/**/*.py", "**/*.tsx", "*.md", "/lib/*", "lib/*.ts", "nothing", "src")
ODD = (
    "!*.ts",
    "!src/**",
    "**/*",
    "*",
    "**",
    "[a-c]*",
    "?ib/app.ts",
    "-e.ts",
    "**/a b's.ts",
    "*.log",
    ".env",
    ".hidden/**",
)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("pattern", PLAIN + ODD)
async def test_the_files_are_those_of_rg_without_what_git_keeps_for_itself(
    tree: Path, pattern: str, hidden: bool
) -> None:
    flags = ["--hidden"] if hidden else []
    listed = ripgrep(tree, "--files", "--null", *flags, "-g", pattern).split(b"\0")[:-1]
    expected = {quote_name(name) for name in listed if not name.startswith(b".git/")}

    found = [line for line in (await _glob(tree, pattern, hidden=hidden)).text.split("\n") if not line.startswith("(")]

    assert set(found) == expected
    assert len(found) == len(expected)


async def test_the_newest_come_first(tmp_path: Path) -> None:
    for age, name in enumerate(("b", "c", "a", "d")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    os.utime(tmp_path / "d", (998, 998))

    assert (await _glob(tmp_path, "*")).text == "b\nc\na\nd"


async def test_only_so_many_are_listed_and_the_rest_is_counted(tmp_path: Path) -> None:
    for number in range(MAX_NAMES + 5):
        (tmp_path / f"f{number}").touch()

    *names, note = (await _glob(tmp_path, "f*")).text.split("\n")

    assert len(set(names)) == MAX_NAMES
    assert note == f"({MAX_NAMES} of {MAX_NAMES + 5} files, the newest first. Make the pattern narrower to see others.)"


async def test_odd_names_are_shown_so_that_bash_can_use_them(tree: Path) -> None:
    text = (await _glob(tree, "{caf,two}*.ts")).text

    assert set(text.split("\n")) == {r"$'caf\xe9.ts'", r"$'two\nlines.ts'"}


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", "src", "src/deep/er/util.py"),
        ("deep/**", "src", "src/deep/er/util.py"),
        ("/*.tsx", "src", "src/view.tsx"),
        ("./view.*", "src", "src/view.tsx"),
        ("{tree}/src/*.tsx", "", "src/view.tsx"),
        ("{tree}/src/*.tsx", "src", "src/view.tsx"),
        ("!{tree}/src/*.ts", "src", "src/data.json src/deep/er/util.py src/view.tsx"),
        ("*.tsx", "{tree}/src", "src/view.tsx"),
        ("*.tsx", "loop", "src/view.tsx"),
    ],
)
async def test_a_pattern_starts_at_its_folder(tree: Path, pattern: str, path: str, found: str) -> None:
    output = await _glob(tree, pattern.replace("{tree}", str(tree)), path=path.replace("{tree}", str(tree)))

    assert sorted(output.text.split("\n")) == found.split()


@pytest.mark.parametrize(
    ("pattern", "path", "code", "words"),
    [
        ("/etc/*", "", "", "For another folder, give `path`."),
        (".hidden/**", "", "", "`hidden` lists them"),
        ("../*", "", "bad_arguments", "Give the folder as `path`"),
        ("a/../../*", "", "bad_arguments", "Give the folder as `path`"),
        ("~/*", "", "bad_arguments", "Give the folder as `path`"),
        ("[a", "", "rg", "unclosed character class"),
        ("a\0b", "", "bad_arguments", "NUL"),
        ("*", "nowhere", "not_found", "There is no file or folder 'nowhere'."),
        ("*", "README.md", "not_folder", "'README.md' is not a folder."),
        ("*", "broken.ts", "not_found", "There is no file or folder"),
        ("x" * 100_001, "", "bad_arguments", "more than 100,000 bytes"),
    ],
)
async def test_what_is_wrong_is_said(tree: Path, pattern: str, path: str, code: str, words: str) -> None:
    output = await _glob(tree, pattern, path=path)

    assert (output.failed, output.code) == (bool(code), code)
    assert words in output.text


async def test_files_that_may_not_be_seen_are_not_listed(tree: Path) -> None:
    glob = make_glob(lambda path: "denied" if path == str(tree / "src/app.ts") else "")

    output = await glob.run({"pattern": "src/*.ts"}, RecordingContext(tree))

    assert output.text == "(no matches)\n(1 file left out: a rule denies reading.)"


async def test_names_of_sensitive_files_are_listed(tree: Path) -> None:
    glob = make_glob(lambda path: "sensitive" if path.endswith(".env") else "")

    output = await glob.run({"pattern": "*", "hidden": True}, RecordingContext(tree))

    assert ".env" in output.text.split("\n")
