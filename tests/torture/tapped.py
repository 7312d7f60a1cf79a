"""Runs `cuts` or `faults` with the tap in place, and prints what they found: `python -m tests.torture.tapped cuts '{...}'`."""

import importlib
import sys

import msgspec

from tests.torture.tap import TAP

if __name__ == "__main__":
    TAP.install()  # before anything of the library is loaded: it keeps functions of `os` by name
    part = importlib.import_module(f"tests.torture.{sys.argv[1]}")
    sys.stdout.buffer.write(msgspec.json.encode(part.main(sys.argv[2])))
