"""The values that are secret wherever they stand, for the commands that show stored sessions or search them."""

import os
from pathlib import Path

import anyio.to_thread

from backstay.cli.place import Place
from backstay.cli.telling import complain
from backstay.config.known_keys import known_keys
from backstay.config.layers import load_layers
from backstay.logic.redact import Redactor
from backstay.logic.told_values import LEAST
from backstay.logic.variables import is_secret_variable
from backstay.vocab.errors import UserError


async def known_values(place: Place) -> tuple[str, ...]:
    """Keys that settings and stores name, and variables that are called secrets. Raise `UserError` for settings that nobody can read."""
    return await _values(place, bare=False)


async def redactor_of(place: Place) -> Redactor:
    """What takes these values, and whatever looks like a secret, out of what is shown. Settings that nobody can read are left out."""
    try:
        return Redactor(exact=await _values(place, bare=False))
    except UserError as exc:
        complain(f"{exc} Keys that stand in it are shown like any other words.")
        return Redactor(exact=await _values(place, bare=True))


async def _values(place: Place, *, bare: bool) -> tuple[str, ...]:
    layered = await load_layers(Path(place.cwd or "."), bare=bare)
    keys = await anyio.to_thread.run_sync(known_keys, layered.settings, layered, place.url)
    named = (value.strip() for name, value in os.environ.items() if is_secret_variable(name))
    values = (*keys.values(os.environ), *(each for each in named if not each.startswith("/")))
    return tuple(dict.fromkeys(each for each in values if len(each) >= LEAST))
