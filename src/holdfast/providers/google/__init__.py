"""Gemini's way of writing things down: `generateContent` and `streamGenerateContent`."""

from holdfast.providers.google.format import FORMAT as FORMAT
