"""The `google` wire format as one object."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from holdfast.providers.format import Decoder, Encoder, Format
from holdfast.providers.google.decode import GoogleDecoder
from holdfast.providers.google.encode import GoogleEncoder
from holdfast.providers.google.errors import read_failure
from holdfast.vocab.errors import ProviderError
from holdfast.vocab.specs import ModelFacts


class GoogleFormat:
    """Write requests for Gemini and read its answers."""

    @property
    def name(self) -> str:
        """The name of the format."""
        return "google"

    def encoder(self, provider: str, facts: ModelFacts) -> Encoder:
        """Make a writer for one conversation."""
        return GoogleEncoder(provider, facts)

    def decoder(self) -> Decoder:
        """Make a reader for one answer."""
        return GoogleDecoder()

    def headers(self, key: str) -> dict[str, str]:
        """Carry the key outside the address, where no log of addresses shows it."""
        return {"content-type": "application/json"} | ({"x-goog-api-key": key} if key else {})

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Say what an answer that is not a success means."""
        return read_failure(status, headers, body)


FORMAT: Final = GoogleFormat()

if TYPE_CHECKING:
    _: Format = FORMAT
