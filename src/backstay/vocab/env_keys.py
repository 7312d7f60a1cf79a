"""The environment variables that are kept from programs: keys, and what is loaded into programs that run outside of the sandbox."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

KEY_VARIABLES: Final = frozenset(
    (
        "ANTHROPIC_API_KEY BRAVE_API_KEY DEEPSEEK_API_KEY GEMINI_API_KEY GOOGLE_API_KEY GROQ_API_KEY BACKSTAY_STORE_KEY "
        "MISTRAL_API_KEY OLLAMA_API_KEY OPENAI_API_KEY OPENROUTER_API_KEY TAVILY_API_KEY XAI_API_KEY"
    ).split()
)
PREFIX: Final = "BACKSTAY_API_KEY_"
"""How the variables for servers that are asked by their address begin."""
ORDINARY: Final = frozenset(
    ("HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "USERNAME")
)
"""What every program needs. A header may be made of one of them; that makes it no key."""
_SOURCES: Final = ("env:", "file:")
"""How the value of a variable begins that says where a key is, and is none. `keyring` alone is another."""
_LOADING: Final = ("LD_", "DYLD_", "GLIBC_", "GCONV_")
"""How variables begin that say what is loaded into programs."""


@dataclass(frozen=True)
class Keys:
    """The keys that a session knows of. A program of the session gets no variable of them, and what is written has no value of them."""

    named: frozenset[str] = frozenset()
    """The variables that settings and the store's address name, besides those that are built in."""
    texts: tuple[str, ...] = field(default=(), repr=False)
    """Keys that stand in the settings themselves."""
    sent: frozenset[str] = frozenset()
    """The variables that headers of hooks name: they are sent there, and nowhere else."""

    def holds(self, name: str) -> bool:
        """Return whether the variable `name` holds a key."""
        return self._withholds(name) or (name in self.sent and name not in ORDINARY)

    def without(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return `environment` without keys."""
        return {name: value for name, value in environment.items() if not self.holds(name)}

    def for_headers(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return `environment` as headers of hooks may be made of it."""
        return {name: value for name, value in environment.items() if not self._withholds(name)}

    def values(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys themselves, each once."""
        held = (value.strip() for name, value in environment.items() if self.holds(name))
        return tuple(dict.fromkeys(each for each in (*held, *self.texts) if each and not _is_source(each)))

    def join(self, others: "Iterable[Keys]") -> "Keys":
        """Return these keys and others as one."""
        every = (self, *others)
        texts = dict.fromkeys(text for each in every for text in each.texts)
        named, sent = (frozenset[str]().union(*sets) for sets in zip(*((k.named, k.sent) for k in every), strict=True))
        return Keys(named, tuple(texts), sent)

    def _withholds(self, name: str) -> bool:
        return name in KEY_VARIABLES or name.startswith(PREFIX) or (name in self.named and name not in ORDINARY)


BUILT_IN: Final = Keys()
"""The keys without any settings."""


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` without the keys that are built in."""
    return BUILT_IN.without(environment)


def without_loading(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` without variables that say what is loaded into programs, for those outside of the sandbox."""
    return {name: value for name, value in environment.items() if not name.startswith(_LOADING)}


def _is_source(value: str) -> bool:
    return value == "keyring" or value.startswith(_SOURCES)
