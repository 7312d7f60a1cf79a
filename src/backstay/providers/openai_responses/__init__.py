"""The wire format of the OpenAI Responses API and of the servers that speak it."""

from typing import Final

from backstay.providers.format import Format
from backstay.providers.openai_responses.decode import ResponsesDecoder
from backstay.providers.openai_responses.encode import ResponsesEncoder

FORMAT: Final = Format(
    name="openai-responses", encoder=ResponsesEncoder, decoder=ResponsesDecoder, key="OPENAI_API_KEY"
)
