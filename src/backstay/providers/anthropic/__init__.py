"""The Messages API of Anthropic, and of servers that are compatible with it."""

from typing import Final

from backstay.providers.anthropic.decode import AnthropicDecoder
from backstay.providers.anthropic.encode import AnthropicEncoder
from backstay.providers.format import Format

VERSION: Final = "2023-06-01"
"""Of the API, as every request must name it."""
FORMAT: Final = Format(
    name="anthropic",
    encoder=AnthropicEncoder,
    decoder=AnthropicDecoder,
    key="ANTHROPIC_API_KEY",
    key_header=("x-api-key", ""),
    more={"anthropic-version": VERSION},
)
