"""Programs of this machine and the flags that their help texts name."""

import random
import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

from tests.proof.generate.quoting import quoted
from tests.proof.generate.texts import pick
from tests.proof.generate.words import a_file, a_folder, a_place, a_text, a_value

_FLAG: Final = re.compile(r"(?<![\w-])(--?[A-Za-z0-9][A-Za-z0-9-]*)(\[?[= ]?[<\[]?[A-Z][A-Z_]*|=\w+)?")
_OWN: Final = ("echo", "printf", "true", ":", "pwd", "type", "command -v", "[", "test")
"""Words of the shell itself."""
_SECONDS: Final = 4


@cache
def programs() -> dict[str, str]:
    """Give the installed programs, with the operands they take; `git log` counts as one."""
    table = tomllib.loads(Path(__file__).with_name("programs.toml").read_text(encoding="utf-8"))
    found = {
        name: operands
        for operands, names in table.items()
        for name in names.split("|")
        if shutil.which(name.split()[0])
    }
    return {
        **found,
        **dict.fromkeys(_OWN, "text"),
    }


@cache
def flags_of(program: str) -> tuple[tuple[str, bool], ...]:
    """Give the flags that a program's help names, and whether each seems to take a value."""
    words = program.split()
    asked = [*words, "-h"] if len(words) > 1 else [*words, "--help"]
    if not shutil.which(words[0]):
        return ()
    try:
        done = subprocess.run(
            asked,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )
    except (subprocess.TimeoutExpired, OSError):
        return ()
    found = dict[str, bool]()
    for name, value in _FLAG.findall((done.stdout + done.stderr).decode(errors="replace")):
        found[name] = found.get(name, False) or bool(value)
    return tuple(sorted(found.items()))


def command(rng: random.Random, program: str | None = None, *, safely: bool = False) -> str:
    """Write a command of a program with some of its flags."""
    name = program or rng.choice(list(programs()))
    words = [
        name,
        *(_flag(rng, name, safely=safely) for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 2, 3)))),
        *_operands(rng, programs().get(name, "read")),
    ]
    if rng.random() < 0.06:
        words.insert(rng.randrange(1, len(words) + 1), "--")
    if rng.random() < 0.1:
        words.append(_flag(rng, name, safely=safely))
    return " ".join(filter(None, words))


def _flag(rng: random.Random, program: str, *, safely: bool) -> str:
    known = flags_of(program)
    roll = rng.random()
    if not known or (roll < 0.05 and not safely):
        return rng.choice(
            (
                "-x",
                "-o",
                "-e",
                "-f",
                "-i",
                "-w",
                "--output",
                "--exec",
                "--file",
                "-O",
                "-c",
                "-r",
                "-n",
                "-v",
                "--help",
                "--version",
                "-1",
                "-0",
                "-",
                "-h",
            )
        )
    name, valued = rng.choice(known)
    if not name.startswith("--") and not valued and rng.random() < 0.4:
        others = [each[1:] for each, _ in known if len(each) == 2]
        name += "".join(rng.choice(others) for _ in range(rng.randrange(1, 3))) if others else ""
    if name.startswith("--") and roll < 0.12 and len(name) > 5:
        name = name[: rng.randrange(4, len(name))]
    if not valued and roll > 0.06:
        return name
    value = quoted(rng, a_value(rng)) if rng.random() < 0.3 else a_value(rng)
    return f"{name}{rng.choice(('=', ' ', ' ', '') if name.startswith('--') else ('', ' ', ' ', '='))}{value}"


def _operands(rng: random.Random, kinds: str) -> list[str]:
    each = kinds.split()
    chosen = [_operand(rng, kind) for kind in each]
    if each and each[-1] in ("read", "revision", "text", "new") and rng.random() < 0.35:
        chosen.append(_operand(rng, each[-1]))
    if chosen and rng.random() < 0.15:
        chosen.pop()
    return chosen


def _operand(rng: random.Random, kind: str) -> str:
    match kind:
        case "read":
            return a_place(rng)
        case "file":
            return a_file(rng)
        case "folder":
            return a_folder(rng)
        case "text":
            return quoted(rng, a_text(rng))
        case "pattern":
            return quoted(rng, pick(rng, "patterns"))
        case "none":
            return ""
        case _:
            return pick(rng, f"{kind}-operands")
