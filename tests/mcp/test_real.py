"""A server written with the official package, over both of its wires."""

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL

import anyio

from backstay.mcp.config.start import session_servers
from backstay.mcp.servers import Servers
from backstay.mcp.spec import ServerSpec
from backstay.vocab.messages import InlineMedia
from tests.mcp.kit import HERE, by_name, real
from tests.tools.context import RecordingContext, until

PROGRAM = HERE / "real_server.py"


@asynccontextmanager
async def website(kind: str, port: int) -> AsyncIterator[None]:
    """The server on a port of this machine."""
    argv = [sys.executable, str(PROGRAM), kind, str(port)]
    async with await anyio.open_process(argv, stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            with anyio.fail_after(60):
                while not await _answers(port):
                    await anyio.sleep(0.05)
            yield
        finally:
            if process.returncode is None:
                process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _answers(port: int) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


def open_link(spec: ServerSpec, cwd: Path) -> Servers:
    return session_servers([spec], cwd=str(cwd), data=None, environment={"PATH": "/bin", "SECRET": "x", "LC_ALL": "C"})


async def check_everything(found: Servers, tmp_path: Path) -> None:
    """What holds over every wire."""
    context, tools = RecordingContext(tmp_path), by_name(found)

    async def call(name: str, **args: object) -> str:
        output = await tools[f"mcp__real__{name}"].run(dict(args), context)
        assert not output.failed, output
        return output.text

    assert await call("add", a=1, b=2) == "3"
    assert await call("echo", text="h\u00e9 \U0001f600 " + "\u4e2d" * 9) == "h\u00e9 \U0001f600 " + "\u4e2d" * 9
    assert await call("ask_model") == "declined: Sampling not supported"
    assert await call("ask_person") == "declined: Elicitation not supported"
    assert await call("folders") == tmp_path.as_uri()
    media = (await tools["mcp__real__picture"].run({}, context)).media
    assert [part.media_type for part in media if isinstance(part, InlineMedia)] == ["image/png", "audio/wav"]
    assert (await tools["mcp__real__fail"].run({"why": "no"}, context)).code == "tool_error"
    note = tmp_path / "note"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(call, "slowly", note=str(note)))
        await until(note.exists)
        tasks.cancel_scope.cancel()
    await until(lambda: note.read_text(encoding="utf-8") == "cancelled")
    assert (await found.read("real", "note://today")).text == "[note://today]\nBuy string."
    assert (await found.prompt("/mcp__real__review", ["a.py"])).text == "Review a.py in a kind tone."
    await call("grow")
    await until(lambda: "mcp__real__sprout" in by_name(found))


async def test_a_real_program_can_do_everything(tmp_path: Path) -> None:
    async with open_link(real(), tmp_path) as found:
        await check_everything(found, tmp_path)
        environment = (await by_name(found)["mcp__real__environment"].run({}, RecordingContext(tmp_path))).text
        pid, group = (await by_name(found)["mcp__real__process"].run({}, RecordingContext(tmp_path))).text.split()

    assert '"LC_ALL"' in environment
    assert "SECRET" not in environment
    assert pid == group


async def test_a_real_website_can_do_everything(tmp_path: Path) -> None:
    port = free_port()
    spec = ServerSpec(name="real", kind="http", url=f"http://127.0.0.1:{port}/mcp")

    async with website("http", port), open_link(spec, tmp_path) as found:
        await check_everything(found, tmp_path)
        lost = await by_name(found)["mcp__real__die"].run({}, RecordingContext(tmp_path))

    assert (lost.failed, lost.code) == (True, "unknown")


async def test_the_older_kind_of_website_works_too(tmp_path: Path) -> None:
    port = free_port()
    spec = ServerSpec(name="real", kind="sse", url=f"http://127.0.0.1:{port}/sse")

    async with website("sse", port), open_link(spec, tmp_path) as found:
        await check_everything(found, tmp_path)
