"""The folder that the demo works in: a small project with a mistake, and a script for the model."""

import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

PROMPT: Final = "A test of this project fails. Find out why, fix it, and publish the fix."
SESSION: Final = "demo"
PUBLISH: Final = "sh publish.sh"
LEDGER: Final = "published.txt"

_PRICES: Final = '''\
"""What a basket costs."""


def total(prices, discount=0):
    """Add the prices up and take a discount off, in percent."""
    return sum(prices) - discount
'''

_TEST: Final = """\
import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_prices_add_up(self):
        self.assertEqual(total([1, 2, 3]), 6)

    def test_a_discount_is_a_percentage(self):
        self.assertEqual(total([100, 100], discount=10), 180)
"""

_PUBLISH: Final = f"""\
echo "prices 1.1" >> {LEDGER}
echo "uploaded, waiting for the registry to confirm ..."
exec sleep 30
"""


def build(folder: Path, *, fast: bool) -> None:
    """Write the project and the script."""
    project = project_of(folder)
    project.mkdir()
    contents = {
        "prices.py": _PRICES,
        "test_prices.py": _TEST,
        "check.sh": f'exec "{sys.executable}" -B -m unittest -q 2>&1\n',
        "publish.sh": _PUBLISH,
    }
    for name, content in contents.items():
        (project / name).write_text(content, encoding="utf-8")
    script = files("backstay.demo").joinpath("script.yaml").read_text(encoding="utf-8")
    if fast:
        script = re.sub(r"delay_ms: \d+", "delay_ms: 0", script)
    script_of(folder).write_text(script, encoding="utf-8")


def project_of(folder: Path) -> Path:
    """Return the working folder of the session."""
    return folder / "shop"


def script_of(folder: Path) -> Path:
    """Return the script that the model plays."""
    return folder / "script.yaml"


def store_of(folder: Path) -> str:
    """Return the URL of the store of the demo."""
    return f"sqlite://{folder / 'sessions.db'}"
