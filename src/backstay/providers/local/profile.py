"""What a session on the model in the box is given instead of the usual: few tools, few words, few rounds."""

from typing import Final

import msgspec

PROMPT: Final = """\
You work in one folder with three tools. Bash runs a shell command: use it for everything except the two cases below.
Read shows a file: use it when you are asked about the content of one file. Write makes a new file: use it only when you are given the text.
Examples of Bash commands:
- show a file: cat FILE
- list files: ls -la
- find files: find . -name '*.txt'
- search text in files: grep -rn 'WORD' .
- count lines: wc -l FILE
- count files: ls DIR | wc -l
- copy: cp A B
- rename or move: mv A B
- delete: rm FILE
- replace a word: sed -i 's/OLD/NEW/g' FILE
- add a line: echo 'LINE' >> FILE
Call one tool, then answer the user in one or two sentences from its result. \
If the result is empty, say that nothing was found; never invent it. Do only what was asked."""


class ModelProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a session that suit a small model. What the person says counts more."""

    tools: tuple[str, ...]
    """The only tools that it gets, by name."""
    system_prompt: str
    max_rounds: int
    idle_timeout_s: float
    """It may read for minutes before its first word, on a slow machine."""


LOCAL: Final = ModelProfile(tools=("Bash", "Read", "Write"), system_prompt=PROMPT, max_rounds=6, idle_timeout_s=600.0)


def profile_of(model: str) -> ModelProfile | None:
    """The profile that goes with the model called `model`; None when the usual options are right."""
    return LOCAL if model.startswith("local:") else None
