"""One look at what a session in a folder would find, without opening one: for listings, the doctor and `--agent`."""

from pathlib import Path

from holdfast.config.apply import with_layers
from holdfast.config.layers import Layered
from holdfast.kit.looking import Around, look_around
from holdfast.options import Options
from holdfast.providers.catalog import facts_of
from holdfast.vocab.specs import ModelFacts


def look_here(cwd: Path, layered: Layered, *, model: str = "") -> Around:
    """What is around `cwd` for a session with these settings. Blocks on files; starts no server and writes nothing.

    Raise `UserError` when the settings ask for a mode that they forbid.
    """
    options = with_layers(Options(cwd=cwd), layered)
    facts = facts_of(model) if model else ModelFacts()
    mode = options.permission_mode or "default"
    return look_around(options, session="", cwd=str(cwd), mode=mode, model=model, window=facts.window)
