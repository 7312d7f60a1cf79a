"""Names of models that say where to ask: `openai-chat:MODEL@http://127.0.0.1:8080/v1`."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

import msgspec

from backstay.vocab.errors import UserError

_NAME: Final = re.compile(r"(?P<provider>[^:@/]*):(?P<model>.*?)(?:@(?P<address>https?://.*))?", re.DOTALL)


_MEANT_AS_ADDRESS: Final = re.compile(
    r"@(?:[a-z][a-z0-9+.-]*://|localhost\b|\[|[\w.-]+:\d+|[\w-]+(?:\.[\w-]+)+/)", re.IGNORECASE
)
"""What follows the name of a model and was surely not meant as part of it."""


class ModelName(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of `provider:model` or `provider:model@address`.

    Only `@http://` or `@https://` begins an address, so a model's own name may contain `:` and `@`.
    """

    provider: str
    model: str
    address: str = ""

    @property
    def bare(self) -> str:
        """The name without the address: what a catalog knows."""
        return f"{self.provider}:{self.model}"


def parse_name(name: str) -> ModelName:
    """Take a model's name apart. A name without a colon is all provider. Raise `UserError` when its address cannot be used."""
    found = _NAME.fullmatch(name)
    if found is None:
        return ModelName(provider=name, model="")
    address = (found["address"] or "").rstrip("/")
    if address:
        check_address(address, f"the name {name.partition('@')[0]!r}")
    elif _MEANT_AS_ADDRESS.search(found["model"]):
        raise UserError(
            f"The address in {name!r} must begin with http:// or https://: provider:model@http://host:port/path."
        )
    return ModelName(provider=found["provider"], model=found["model"], address=address)


def check_address(address: str, whose: str) -> None:
    """Raise `UserError` unless `address`, which `whose` has, is a place to ask and nothing more."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not address.isascii() or not address.isprintable() or " " in address:
        raise UserError(f"The address of {whose} cannot be used. It looks like http://host:port/path.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            f"The address of {whose} may have a host, a port and a path, nothing else. A key does not belong there: "
            "addresses are written into logs."
        )


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine."""
    host = host.lower().strip("[]")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
