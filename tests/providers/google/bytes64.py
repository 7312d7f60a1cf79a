"""Base64 in either alphabet, padded or not."""

from base64 import urlsafe_b64decode


def from_base64(text: str) -> bytes:
    """The bytes that `text` stands for."""
    return urlsafe_b64decode(text.replace("+", "-").replace("/", "_") + "=" * (-len(text) % 4))
