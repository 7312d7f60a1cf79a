"""The version of Backstay."""

from typing import Final

VERSION: Final = "0.2.0"
