"""The values that are secret wherever they stand, for the commands that show stored sessions or search them."""

import os
from pathlib import Path

import anyio.to_thread

from holdfast.cli.place import Place
from holdfast.cli.telling import complain
from holdfast.config.known_keys import known_keys
from holdfast.config.layers import load_layers
from holdfast.logic.redact import Redactor
from holdfast.logic.told_values import LEAST
from holdfast.logic.variables import secret_values
from holdfast.vocab.errors import UserError


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
    values = (*keys.values(os.environ), *secret_values(os.environ))
    return tuple(dict.fromkeys(each for each in values if len(each) >= LEAST))
