"""Servers for tests, and sessions' servers around them."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from backstay.mcp.config.start import ServerPrograms, clean_environment
from backstay.mcp.dependencies import Dependencies, Noise, Pins
from backstay.mcp.servers import Servers, ServerTool
from backstay.mcp.spec import ServerSpec
from backstay.tools.files.media_type import detect_image_type

HERE = Path(__file__).parent


def tool(name: str, **rest: object) -> dict[str, object]:
    """A tool as a server lists it."""
    return {"name": name, "description": f"Do {name}.", "inputSchema": {"type": "object"}, **rest}


def said(text: str) -> dict[str, object]:
    """An answer that is one text."""
    return {"result": {"content": [{"type": "text", "text": text}]}}


def fake(folder: Path, name: str = "fake", *, spec: Mapping[str, Any] | None = None, **script: object) -> ServerSpec:
    """A server that follows a script."""
    path = folder / f"{name.replace('/', '_')}.script.json"
    path.write_text(json.dumps(script), encoding="utf-8")
    made = ServerSpec(name=name, kind="stdio", argv=(sys.executable, "-I", str(HERE / "fake_server.py"), str(path)))
    return replace(made, start_s=20, **(spec or {}))


def real(name: str = "real") -> ServerSpec:
    """The server that is written with the official package."""
    return ServerSpec(name=name, kind="stdio", argv=(sys.executable, str(HERE / "real_server.py"), "stdio"))


async def no_sleep(seconds: float) -> None:
    """Not wait at all."""


async def unchanged(text: str) -> str:
    """Show all of a text."""
    return text


def dependencies(cwd: Path, **rest: Any) -> Dependencies:
    """What connections need, with programs started as they are."""

    def no_client(spec: ServerSpec, noise: Noise) -> Any:
        raise AssertionError("this server has no address")

    made = Dependencies(
        programs=ServerPrograms(),
        http=no_client,
        cwd=str(cwd),
        shorten=unchanged,
        image_type=detect_image_type,
        roots=(str(cwd),),
        environment=clean_environment({"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}),
        sleep=no_sleep,
    )
    return structs.replace(made, **rest)


def servers(
    specs: Sequence[ServerSpec],
    cwd: Path,
    *,
    pins: Pins | None = None,
    on_change: Callable[[str], None] | None = None,
    **rest: Any,
) -> Servers:
    """The servers of a session, not connected yet."""
    return Servers(specs, dependencies(cwd, **rest), pins=pins, on_change=on_change)


def by_name(found: Servers) -> dict[str, ServerTool]:
    """The tools that are offered."""
    return {each.spec.name: each for each in found.tools}


def lines(path: Path) -> list[str]:
    """The lines of a file; none when it is not there yet."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
