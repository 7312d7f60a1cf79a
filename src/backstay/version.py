"""The version of Backstay."""

from typing import Final

VERSION: Final = "0.3.0"
