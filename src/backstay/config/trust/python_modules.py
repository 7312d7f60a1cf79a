"""The files that Python imports as a module, and those in a folder that it would import instead of its own modules."""

import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Final

_ENDINGS: Final = (*dict.fromkeys((*all_suffixes(), ".so", ".pyd")),)
"""Of files that Python imports, of any version."""
_PLATFORM: Final = sysconfig.get_config_var("SOABI").partition("-")[2].partition("-")[2]
EXTENSION_ENDINGS: Final = (".so", ".abi3.so", ".pyd", *(f".cpython-3{minor}-{_PLATFORM}.so" for minor in range(8, 21)))
"""Of compiled modules, which Python takes before `.py`; of the versions there are and the next ones."""


def is_module_file(name: str, module: str) -> bool:
    """Return whether Python, in some version, may import a file of this name as the module."""
    return name.partition(".")[0] == module and name.endswith(_ENDINGS)


def find_shadows(folder: Path) -> Iterator[Path]:
    """Yield what Python would import from a folder instead of its own modules: `re.py`, or a package `json`."""
    with os.scandir(folder) as listing:
        for entry in listing:
            name, dot, _ = entry.name.partition(".")
            if name not in sys.stdlib_module_names:
                continue
            if dot and is_module_file(entry.name, name):
                yield Path(entry.path)
            elif not dot:
                yield from _beginnings(entry.path)


def _beginnings(folder: str) -> Iterator[Path]:
    """Yield the files that make a folder a package."""
    try:
        yield from (Path(folder, each) for each in os.listdir(folder) if each.startswith("__init__."))
    except OSError:  # a file, or a folder that Python could not look into either
        return
