"""The wire format of the OpenAI Responses API and of the servers that speak it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from holdfast.providers.format import Format
from holdfast.providers.openai_responses.decode import ResponsesDecoder
from holdfast.providers.openai_responses.encode import ResponsesEncoder
from holdfast.providers.openai_responses.errors import http_failure
from holdfast.vocab.errors import ProviderError
from holdfast.vocab.specs import ModelFacts


class ResponsesFormat:
    """Writes requests to `/responses` and reads what comes back."""

    @property
    def name(self) -> str:
        """As settings and facts call it."""
        return "openai-responses"

    def encoder(self, provider: str, facts: ModelFacts) -> ResponsesEncoder:
        """A writer for one conversation with a model; `provider` is whose opaque state may be sent."""
        return ResponsesEncoder(provider, facts)

    def decoder(self) -> ResponsesDecoder:
        """A reader for one answer."""
        return ResponsesDecoder()

    def headers(self, key: str) -> dict[str, str]:
        """The headers of every request. Without a key none is sent: a local server may need none."""
        fixed = {"content-type": "application/json", "accept": "text/event-stream"}
        return {**fixed, "authorization": f"Bearer {key}"} if key else fixed

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """What an answer that is not a success means."""
        return http_failure(status, headers, body)


FORMAT: Final = ResponsesFormat()

if TYPE_CHECKING:
    _: Format = FORMAT
