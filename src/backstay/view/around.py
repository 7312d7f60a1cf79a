"""One look at what a session in a folder would find, without opening one: for listings, the doctor and `--agent`."""

from pathlib import Path

from backstay.config.apply import with_layers
from backstay.config.layers import Layered
from backstay.kit.looking import Around, look_around
from backstay.options import Options
from backstay.providers.catalog import facts_of
from backstay.vocab.specs import ModelFacts


def look_here(cwd: Path, layered: Layered, *, model: str = "") -> Around:
    """What is around `cwd` for a session with these settings. Blocks on files; starts no server and writes nothing.

    Raise `UserError` when the settings ask for a mode that they forbid.
    """
    options = with_layers(Options(cwd=cwd), layered)
    facts = facts_of(model) if model else ModelFacts()
    mode = options.permission_mode or "default"
    return look_around(options, session="", cwd=str(cwd), mode=mode, model=model, window=facts.window)
