"""The version of Holdfast."""

from typing import Final

VERSION: Final = "0.1.0"
