"""The approval prompt on a real terminal."""

import os
import pty
import select
import sys

ASKS = """
import sys, anyio
from backstay.ports import Question
from backstay.cli.terminal_prompt import terminal_prompt
sys.stdin.readline()
question = Question(session="s1", call="c1", tool="Bash", args={"command": "true"}, reason="why")
print("allowed:", anyio.run(terminal_prompt, question).allowed)
"""


def test_what_was_typed_before_the_question_is_no_answer_to_it() -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASKS])
    try:
        os.write(terminal, b"begin\ny\n")
        shown = until(terminal, b"> ")
        os.write(terminal, b"n\n")
        shown += until(terminal, b"allowed: ")
        shown += until(terminal, b"e")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    assert b"allowed: False" in shown


def until(terminal: int, words: bytes) -> bytes:
    """What is shown up to `words`."""
    shown = b""
    while words not in shown:
        assert select.select([terminal], [], [], 50)[0], shown
        shown += os.read(terminal, 1)
    return shown
