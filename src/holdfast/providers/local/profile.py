"""What a session on the model in the box is given instead of the usual: few tools, few words, few rounds."""

from typing import Final

import msgspec

PROMPT: Final = """\
You work in one folder with three tools. Call a tool when you need a file or a command; then answer from its result in one or two sentences.
Bash runs a command. Read shows a file. Write makes a file. Paths are relative to the folder.
Commands that are useful:
- list files: ls -la
- find files: find . -name '*.txt'
- search text: grep -rn WORD .
- count lines: wc -l FILE
- count files: ls | wc -l
- copy or rename: cp A B, mv A B
- replace a word: sed -i 's/OLD/NEW/g' FILE
- add a line at the end: echo 'LINE' >> FILE
Never delete or overwrite a file unless you were asked to. Never guess what a file holds: read it. Do only what was asked."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a session that suit a small model. What the person says counts more."""

    tools: tuple[str, ...]
    """The only tools that it gets, by name."""
    system_prompt: str
    max_rounds: int
    idle_timeout_s: float
    """It may read for minutes before its first word, on a slow machine."""


LOCAL: Final = Profile(tools=("Bash", "Read", "Write"), system_prompt=PROMPT, max_rounds=6, idle_timeout_s=600.0)


def profile_of(model: str) -> Profile | None:
    """The profile that goes with the model called `model`; None when the usual options are right."""
    return LOCAL if model.startswith("local:") else None
