"""The version of Holdfast."""

from typing import Final

VERSION: Final = "0.2.0"
