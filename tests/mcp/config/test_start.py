"""A server that breaks is started again: not when what it runs is another by then."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from backstay.config.trust.own_runs import own_runs
from backstay.mcp.config.files import ServerInputs, read_servers
from backstay.mcp.config.start import JudgedPrograms, may_start
from tests.config.world import World


class Starting:
    """Programs that are only noted."""

    def __init__(self) -> None:
        self.started: list[Sequence[str]] = []

    def start(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Note it, and start something that does nothing."""
        self.started.append(argv)
        return subprocess.Popen([sys.executable, "-c", ""])

    async def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for it."""
        process.wait()


@pytest.mark.parametrize("whose", ["the repository's", "the person's"])
async def test_a_server_is_not_started_again_with_another_script(tmp_path: Path, whose: str) -> None:
    world = World(tmp_path)
    world.write("serve.sh", "true\n")
    servers = {"mcpServers": {"s": {"command": "sh", "args": ["serve.sh"]}}}
    world.write(".mcp.json" if whose == "the repository's" else world.config, servers)
    world.trust()
    layered = world.read()
    own = own_runs(layered.trust, str(world.project))
    assert own is not None
    specs, notes = may_start(read_servers(ServerInputs(layered=layered)).specs, layered.trust.held_hooks, own)
    noted = Starting()
    programs = JudgedPrograms(noted, specs, own)

    await programs.end(programs.start(specs[0].argv, cwd=str(world.project), env={}))
    world.write("serve.sh", "touch ran\n")
    with pytest.raises(OSError, match=r"serve\.sh is not what it was when the workspace was trusted"):
        programs.start(specs[0].argv, cwd=str(world.project), env={})

    assert (notes, len(noted.started)) == ((), 1)
