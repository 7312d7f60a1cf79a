"""Every program that bash starts is found, or the reader says that it is not sure."""

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.logic.acts import Ground
from holdfast.logic.shell import read_command
from holdfast.logic.shell.fields import expand
from holdfast.logic.shell.grammar import ScriptReader
from holdfast.logic.shell.scope import Scope
from holdfast.logic.shell.syntax import Simple
from holdfast.logic.shell.words import Unreadable
from tests.logic.shell.lines import LINES
from tests.logic.shell.reader import GROUND, is_sure, programs

BASH = shutil.which("bash") or ""
STUB = '#!/bin/sh\necho "${0##*/}" >> "$STUB_LOG"\n'
REAL = (
    "env",
    "timeout",
    "nice",
    "nohup",
    "stdbuf",
    "setsid",
    "xargs",
    "find",
    "sh",
    "bash",
    "cat",
    "diff",
    "base64",
    "flock",
    "cp",
)
KNOWN_BY_NAME = ("bash ./script", "echo alpha > f; sh f", 'cp "$STUBS/alpha" copied; ./copied')
"""Lines that run a file of commands: the file is what is judged, not what is in it."""

pytestmark = pytest.mark.skipif(not BASH, reason="there is no bash here")

Started = Callable[[str], tuple[set[str], str]]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Started:
    """Run a line with stubs for programs; give those that were started, and the folder."""
    stubs = tmp_path_factory.mktemp("stubs")
    for name in ("alpha", "beta", "gamma"):
        (stubs / name).write_text(STUB, encoding="utf-8")
        (stubs / name).chmod(0o755)
    for name in REAL:
        found = shutil.which(name)
        if found:
            (stubs / name).symlink_to(found)

    def run(line: str) -> tuple[set[str], str]:
        folder = tmp_path_factory.mktemp("scratch")
        for name in ("file", "script"):
            (folder / name).write_text("alpha\n", encoding="utf-8")
        shutil.copy(stubs / "alpha", folder / "alpha")
        log = folder / ".log"
        log.touch()
        environment = {"PATH": str(stubs), "STUB_LOG": str(log), "HOME": str(folder), "STUBS": str(stubs)}
        command = [BASH, "-c", line]
        subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
        )
        return set(log.read_text(encoding="utf-8").split()), str(folder)

    return run


def test_no_program_is_missed_without_a_word(started: Started) -> None:
    missed, quiet = [], []
    for line in LINES:
        ran, folder = started(line)
        script = read_command(line, Ground(cwd=folder, home=folder))
        if not ran:
            quiet.append(line)
        if line not in KNOWN_BY_NAME and is_sure(script) and not ran <= programs(script):
            missed.append((line, ran - programs(script)))

    assert missed == []
    assert len(quiet) <= len(LINES) // 20, f"lines that start nothing prove nothing: {quiet}"


def test_there_are_enough_lines_and_most_of_them_are_read_for_certain() -> None:
    unsure = [line for line in LINES if not is_sure(read_command(line, GROUND))]

    assert len(LINES) >= 120
    assert len(unsure) < len(LINES) * 0.35


BRACED = st.lists(
    st.sampled_from(("{", "}", ",", "a", "b", "1", "..", "3", "{}", "x", "-", '"q,"', "'}'", "\\,", "z")),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(words=st.lists(BRACED.map("".join), min_size=20, max_size=20))
def test_braces_expand_as_in_bash_or_not_at_all(words: list[str]) -> None:
    lines, ours = [], []
    for word in words:
        expected = _expanded(f"printf {word}")
        if expected is not None and None not in expected:
            lines.append(f"printf '%s\\1' {word}; echo")
            ours.append(expected)
    run = subprocess.run(
        [BASH, "-c", "set -f\n" + "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath},
    )
    theirs = [line.split("\1")[:-1] for line in run.stdout.split("\n")[:-1]]

    assert [each or [""] for each in ours] == theirs


def _expanded(text: str) -> list[str | None] | None:
    try:
        tree = ScriptReader(text).whole()
    except Unreadable:
        return None
    node = tree.items[0][0]
    assert isinstance(node, Simple)
    return [field.value for word in node.words[1:] for field in expand(word, Scope(GROUND))]
