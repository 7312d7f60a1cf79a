"""Lists that people may want to look at and extend: each is a file of its own beside this one."""

from typing import Any


def read_lists(name: str) -> dict[str, list[str]]:
    """The lists of the file called `name`."""
    found: dict[str, list[str]] = read_table(name)
    return found


def read_table(name: str) -> dict[str, Any]:  # Any: the caller knows what stands in it
    """Read the file called `name`."""
    import tomllib  # noqa: PLC0415 - these load when a call is first judged, not with the package
    from importlib import resources  # noqa: PLC0415 - likewise

    text = resources.files("holdfast.logic.permissions").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
