"""The redactor for exports."""

from typing import Final

from holdfast.logic.redact import PLAIN, Redactor

GIVEN: Final[Redactor] = PLAIN
"""For exports: there is one list for everybody."""
