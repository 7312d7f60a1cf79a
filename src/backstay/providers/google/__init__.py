"""The Gemini API of Google: `generateContent` and `streamGenerateContent`."""

from typing import Final

from backstay.providers.format import Format
from backstay.providers.google.decode import GoogleDecoder
from backstay.providers.google.encode import GoogleEncoder

FORMAT: Final = Format(
    name="google",
    encoder=GoogleEncoder,
    decoder=GoogleDecoder,
    key="GEMINI_API_KEY",
    key_header=("x-goog-api-key", ""),  # outside the address, where no log of addresses shows it
)
