"""The Messages API of Anthropic, and of everybody who speaks like it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from holdfast.providers.anthropic.decode import AnthropicDecoder
from holdfast.providers.anthropic.encode import AnthropicEncoder
from holdfast.providers.anthropic.errors import read_failure
from holdfast.providers.format import Decoder, Encoder, Format
from holdfast.vocab.errors import ProviderError
from holdfast.vocab.specs import ModelFacts

VERSION: Final = "2023-06-01"
"""Of the API, as every request must name it."""


class AnthropicFormat:
    """Writes and reads the Messages API."""

    @property
    def name(self) -> str:
        """How settings and the shape rules call it."""
        return "anthropic"

    def encoder(self, provider: str, facts: ModelFacts) -> Encoder:
        """Make a writer for one conversation."""
        return AnthropicEncoder(provider, facts)

    def decoder(self) -> Decoder:
        """Make a reader for one answer."""
        return AnthropicDecoder()

    def headers(self, key: str) -> dict[str, str]:
        """Say who asks, and in which version of the API."""
        named = {"anthropic-version": VERSION, "content-type": "application/json"}
        return {**named, "x-api-key": key} if key else named

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Say what an answer that is not a success means."""
        return read_failure(status, headers, body)


FORMAT: Final[Format] = AnthropicFormat()
"""The format, ready to use."""

if TYPE_CHECKING:
    _: Format = AnthropicFormat()
