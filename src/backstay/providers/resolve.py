"""From a model's name to a model."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from backstay.ports import Clock, Model
from backstay.providers.registry import PROVIDERS, FindFacts, http_model
from backstay.providers.scripted import ScriptedModel, parse_scripted
from backstay.vocab.errors import UserError

CHOICES: Final = (
    "Give one with --model or model=: "
    + ", ".join(f"{name}:MODEL" for name in PROVIDERS)
    + " (each may end in @http://HOST/PATH for another server), local:MODEL, scripted:FILE, recorded:SESSION_ID."
)


def full_name(name: str, cwd: Path) -> str:
    """`name` as the log holds it: a script's path is made absolute, so that a resume finds it from anywhere."""
    provider, _, rest = name.partition(":")
    if provider != "scripted" or not rest:
        return name
    path, start = parse_scripted(rest)
    return f"scripted:{cwd / Path(path).expanduser()}{f'@{start + 1}' if start else ''}"


def find_model(
    name: str, clock: Clock, *, facts: FindFacts | None = None, environment: Mapping[str, str] = os.environ
) -> Model:
    """The model called `name`. Raise `UserError` when there is none, or no key for it.

    `facts` tells what is known of a model that is asked over HTTP: the catalog, unless something else is given.
    """
    provider, _, rest = name.partition(":")
    if not name:
        raise UserError(f"No model is configured. {CHOICES}")
    if provider == "scripted" and rest:
        path, start = parse_scripted(rest)
        return ScriptedModel.load(path, start, name=name, clock=clock)
    if provider in PROVIDERS:
        return http_model(name, facts=facts, environment=environment)
    raise UserError(f"There is no model {name!r} here. {CHOICES}")
