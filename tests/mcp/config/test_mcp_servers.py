"""Servers put to work for a session: what is long is put away, what is secret stays out of the environment."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from backstay.mcp.config.start import ServerPrograms, clean_environment, session_servers
from tests.mcp.kit import fake, tool
from tests.tools.context import RecordingContext


async def test_a_long_result_is_shown_in_part_and_kept_whole(tmp_path: Path) -> None:
    kept: list[bytes] = []

    async def keep(content: bytes) -> str:
        kept.append(content)
        return "abc"

    spec = fake(tmp_path, tools=[tool("much")], calls={"much": {"huge": 100_000}})

    async with session_servers([spec], cwd=str(tmp_path), data=tmp_path / "data", keep=keep) as found:
        [much] = found.tools
        output = await much.run({}, RecordingContext(tmp_path))

    assert kept == [("\u00e9" * 100_000).encode()]
    assert "[70000 characters are left out here; they go on in line 1: ReadOutput with output_id='abc']" in output.text
    assert len(output.text) < 31_000


def test_of_our_environment_a_server_gets_what_programs_need() -> None:
    ours = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "X": "1",
    }

    assert clean_environment(ours) == {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C"}


async def test_approvals_are_kept_in_the_data_folder_for_the_person_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async with session_servers([fake(tmp_path, tools=[tool("a")], calls={})], cwd=str(tmp_path), data=data):
        pass

    assert (data / "pins.json").stat().st_mode & 0o777 == 0o600


class Falling(ServerPrograms):
    """Cannot start one of the servers, for a reason that nobody foresaw."""

    def start(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        if "odd" in argv[-1]:
            raise MemoryError("all gone")
        return super().start(argv, cwd=cwd, env=env)


async def test_what_nobody_foresaw_ends_one_server_and_no_session(tmp_path: Path) -> None:
    good, odd = fake(tmp_path, "good", tools=[tool("a")], calls={}), fake(tmp_path, "odd")

    async with session_servers([odd, good], cwd=str(tmp_path), data=None, programs=Falling()) as found:
        assert [(name, each.state, each.why) for name, each in found.status.items()] == [
            ("odd", "failed", "MemoryError: all gone"),
            ("good", "connected", ""),
        ]
