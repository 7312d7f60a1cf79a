"""JSON that stays one line for everybody: some readers of lines also break at characters that JSON may hold as they are."""

import re
from typing import Any, Final

import msgspec

_BREAKS: Final = re.compile(rb"\xe2\x80[\xa8\xa9]|\xc2\x85")
"""U+2028, U+2029 and U+0085 in UTF-8."""


def unbroken(line: bytes) -> bytes:
    """A line of JSON with the separators of lines and paragraphs escaped."""
    return _BREAKS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), line)


def json_line(content: Any) -> bytes:  # Any: whatever msgspec can encode
    """`content` as JSON on one line, without the line end."""
    return unbroken(msgspec.json.encode(content))
