"""The process that the engine lives in: native code that crashes takes nothing else with it, and its memory goes when it ends.

Reads its settings as one line of JSON, starts the server, prints one line with the address, and ends when its input does: that is when
whoever started it has ended, in whatever way.
"""

import importlib
import os
import sys
from typing import Any, Final

import msgspec

CACHE_MIB: Final = 256
"""Memory for the prompts of earlier requests. The engine's own default is 8 GB."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine is to run, and for whom."""

    path: str
    template: str
    key: str
    name: str
    window: int
    threads: int


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine listens; or why it does not."""

    address: str = ""
    problem: str = ""


def main() -> None:
    """Serve until standard input ends."""
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=Settings)
    said = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # native code prints what it likes; our one line must stay alone
    server: object = None
    try:
        server = start(settings)
        ready = Ready(address=str(getattr(server, "listening_address", "")))
    except ImportError as exc:
        ready = Ready(problem=f"xllamacpp cannot be loaded: {exc}")
    except (RuntimeError, ValueError, OSError) as exc:
        ready = Ready(problem=str(exc))
    said.write(msgspec.json.encode(ready) + b"\n")
    said.flush()
    if server is not None:
        sys.stdin.buffer.read()
    os._exit(0 if server is not None else 1)  # the engine's threads would take their time


def start(settings: Settings) -> object:
    """Load the model and listen on a free port of the loopback."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # Any: it has no types, and is not installed everywhere
    params: Any = xllamacpp.CommonParams()
    params.model.path = settings.path
    params.model_alias = {settings.name}
    params.chat_template = settings.template
    params.api_keys = [settings.key]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = settings.window
    params.n_parallel = 1
    params.cache_ram_mib = CACHE_MIB
    params.ui = False
    params.endpoint_slots = False  # would show one session's prompt to another
    params.offline = True
    params.verbosity = 2  # warnings and errors
    params.sampling.temp = 0.0
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    server: object = xllamacpp.Server(params)
    return server


if __name__ == "__main__":
    main()
