"""Where compatible servers are not: the few things that a server refuses by name, in one table."""

from typing import Final, Literal

import msgspec


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How one server wants things that no field of its answers or of the model's facts tells."""

    limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The name of the ceiling for the answer. Unless said: the newer one for models that can be told how much to think, which came
    with that name and of which OpenAI's own refuse the older one; the older one, which every server knows, for the others."""
    seed: Literal["seed", "random_seed"] = "seed"
    asks_usage: bool = True
    """Whether usage must be asked for in a stream; the others send it unasked and refuse the question."""
    short_ids: bool = False
    """Whether the id of a call must be nine letters and digits."""


def dialect_of(provider: str) -> Dialect:
    """What is peculiar to `provider`; a server that is not listed gets what most of them take."""
    return _DIALECTS.get(provider.partition("@")[0], _COMMON)


_COMMON: Final = Dialect()
_DIALECTS: Final = {
    "openai": Dialect(limit="max_completion_tokens"),
    "mistral": Dialect(limit="max_tokens", seed="random_seed", asks_usage=False, short_ids=True),
    "databricks": Dialect(asks_usage=False),
}
