"""Chat Completions: the wire format of OpenAI and of every server that calls itself compatible."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from holdfast.providers.format import Decoder, Encoder, Format
from holdfast.providers.openai_chat.decode import ChatDecoder
from holdfast.providers.openai_chat.encode import ChatEncoder
from holdfast.providers.openai_chat.errors import explain
from holdfast.vocab.errors import ProviderError
from holdfast.vocab.specs import ModelFacts


class ChatFormat:
    """Writes and reads Chat Completions."""

    @property
    def name(self) -> str:
        """Always `openai-chat`."""
        return "openai-chat"

    def encoder(self, provider: str, facts: ModelFacts) -> Encoder:
        """A writer for one conversation; what is peculiar to `provider` stands in `dialect.py`."""
        return ChatEncoder(provider, facts)

    def decoder(self) -> Decoder:
        """A reader for one answer."""
        return ChatDecoder()

    def headers(self, key: str) -> dict[str, str]:
        """A bearer token, unless the server wants no key."""
        return {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """What an answer that is not a success means."""
        return explain(status, headers, body)


FORMAT: Final = ChatFormat()

if TYPE_CHECKING:
    _: Format = FORMAT
