"""What notes say about summaries: their sections "Compact Instructions"."""

from collections.abc import Iterable
from typing import Final

from backstay.instructions.fitting import clipped
from backstay.instructions.markdown import sections
from backstay.instructions.reading import TextFile

LIMIT: Final = 4_096
"""Bytes of all such sections together."""
_HEADINGS: Final = ("compact instructions", "compact instruction", "compaction instructions")


def compact_instructions(files: Iterable[TextFile]) -> str:
    """What summaries are to keep, as the notes say it; empty when they say nothing."""
    found = [words for file in files for words in sections(file.text, _HEADINGS) if words]
    return clipped("\n\n".join(dict.fromkeys(found)), LIMIT)
