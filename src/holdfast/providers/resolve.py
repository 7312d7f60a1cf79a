"""From a model's name to a model."""

from pathlib import Path
from typing import Final

from holdfast.ports import Clock, Model
from holdfast.providers.scripted import ScriptedModel, parse_scripted
from holdfast.vocab.errors import UserError

CHOICES: Final = "Give one with --model or model=: `scripted:FILE` plays a script."


def full_name(name: str, cwd: Path) -> str:
    """`name` as the log holds it: a script's path is made absolute, so that a resume finds it from anywhere."""
    provider, _, rest = name.partition(":")
    if provider != "scripted" or not rest:
        return name
    path, start = parse_scripted(rest)
    return f"scripted:{cwd / Path(path).expanduser()}{f'@{start + 1}' if start else ''}"


def find_model(name: str, clock: Clock) -> Model:
    """The model called `name`. Raise `UserError` when there is none."""
    provider, _, rest = name.partition(":")
    if not name:
        raise UserError(f"No model is configured. {CHOICES}")
    if provider == "scripted" and rest:
        path, start = parse_scripted(rest)
        return ScriptedModel.load(path, start, name=name, clock=clock)
    raise UserError(f"There is no model {name!r} here. {CHOICES}")
