"""The environment variables that hold keys of model providers, search engines and stores. What a tool runs does not get them."""

from collections.abc import Mapping
from typing import Final

KEY_VARIABLES: Final = frozenset(
    (
        "ANTHROPIC_API_KEY",
        "BRAVE_API_KEY",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GROQ_API_KEY",
        "HOLDFAST_STORE_KEY",
        "MISTRAL_API_KEY",
        "OLLAMA_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "TAVILY_API_KEY",
        "XAI_API_KEY",
    )
)
PREFIX: Final = "HOLDFAST_API_KEY_"
"""How the variables for servers that are asked by their address begin."""


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without keys."""
    return {
        name: value for name, value in environment.items() if name not in KEY_VARIABLES and not name.startswith(PREFIX)
    }
