"""No text makes the reader fail, and none makes it take for ever."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.logic.acts import Ground
from holdfast.logic.shell import read_command
from holdfast.logic.shell.grammar import ScriptReader
from holdfast.logic.shell.syntax import Simple
from tests.logic.shell.harmless import HARMLESS
from tests.logic.shell.lines import LINES
from tests.logic.shell.reader import GROUND

PIECES = st.sampled_from(
    (
        *("$", "(", ")", "{", "}", "`", '"', "'", "\\", "\n", " ", "\t", ";", "&", "|", "<", ">", "<<E", "E", "#", "!", "[[", "]]", "(("),
        *("))", "$((", "${", "x", "=", "a[", "]", "*", "~", "-c", "sh", "rm", "find", "-exec", ";;", "case", "in", "esac", "if", "then"),
        *("fi", "do", "done", "for", "while", "time", "coproc", "function", "{a,b}", "$IFS", "\r", "\0", "\u200b", "\ud800", "2>&1",
            "git"),
        *("sed", "s/a/b/", "awk", "{print}", "xargs", "env", "-S", "sudo", "eval", "trap", "declare", "-n", "read", "printf", "-v", "cd"),
        *("tar", "curl", "docker", "run", "@P", "/", ".", "su", "parallel", ":::", "ssh", "npx", "timeout", "flock", "jq", "ps", "test"),
    )
)  # fmt: skip
GROUNDS = st.builds(
    Ground,
    cwd=st.just("/repo"),
    home=st.just("/home/u"),
    os=st.sampled_from(("linux", "darwin", "windows")),
    shell=st.sampled_from(("bash", "zsh", "sh", "fish")),
)


@given(st.lists(PIECES, max_size=40).map(" ".join) | st.lists(PIECES, max_size=40).map("".join) | st.text(), GROUNDS)
@example("\ud800", GROUND)
@example("", GROUND)
def test_any_text_is_read(text: str, ground: Ground) -> None:
    read_command(text, ground)


@given(st.sampled_from(LINES + HARMLESS), st.integers(0, 200), PIECES)
def test_a_line_with_something_put_into_it_is_read(line: str, at: int, piece: str) -> None:
    read_command(line[:at] + piece + line[at:], GROUND)


@pytest.mark.parametrize(
    "text",
    [
        *(opening * 10_000 for opening in ("(", "$(", "{ ", "`", '"$(', "${x:-", "$((", "((", "x=(", "$[", "if x; then ", "cat <(",
            "${x[", "case x in x) ")),
        *("sh -c '" * 3_000, "eval " * 5_000 + "ls", "env " * 5_000 + "ls", "strace -Z " * 2_000 + "ls"),
        *("echo " + "[" * 100_000, "echo " + "{" * 100_000, "echo " + "{a,b}" * 5_000, "echo {1..999999999}", "a" * 100_000,
            "\\" * 100_000),
        *("cat <<E\n" * 5_000, ") ls; rm -rf x" * 5_000, "ls |" * 5_000 + "ls", "x=1 " * 10_000, "$x" * 30_000,
            "echo '" + "a" * 100_000 + "'"),
        *("for i in a b c d; do " * 20 + "ls" + "; done" * 20, "bash <<'E'\n" + "{ " * 20 + "ls", "sed 's/" + "a" * 50_000 + "/b/'"),
    ],
    ids=lambda text: f"{text[:12]!r} x {len(text)}",
)  # fmt: skip
def test_a_huge_text_is_read(text: str) -> None:
    read_command(text, GROUND)


@given(st.lists(st.text("abz019_./:,+@%=^-", min_size=1, max_size=8), min_size=1, max_size=6))
def test_the_fast_way_through_plain_words_gives_what_the_slow_one_gives(words: list[str]) -> None:
    text = "l" + " ".join(words)
    quick = read_command(text, GROUND)
    # A continued line keeps the words from being read at once, and changes nothing.
    slow = ScriptReader("l\\\n" + text[1:]).whole()

    words_of = [
        tuple(word.literal for word in node.words) for node, _ in slow.items if isinstance(node, Simple) and node.words
    ]

    assert [command.layers[-1].words for command in quick.commands if command.layers] == words_of
