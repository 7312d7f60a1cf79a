"""Chat Completions: the wire format of OpenAI and of every server that is compatible with it."""

from typing import Final

from backstay.providers.format import Format
from backstay.providers.openai_chat.decode import ChatDecoder
from backstay.providers.openai_chat.encode import ChatEncoder

FORMAT: Final = Format(name="openai-chat", encoder=ChatEncoder, decoder=ChatDecoder, key="OPENAI_API_KEY")
