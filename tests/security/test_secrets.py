"""Secrets: found under every name that people give them, kept from other users' eyes and from programs."""

import os
import stat
from pathlib import Path

import pytest

from backstay import open_session
from backstay.logic.secrets.redact import redact
from tests.contracts.kit import call, scripted, talk

SECRET = "q7Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1oKiT4"


@pytest.mark.parametrize(
    "name", ["token", "client_secret", "cookie", "private_key", "api_key", "password", "authorization"]
)
def test_rb_w17_a_secret_is_found_under_its_name(name: str) -> None:
    assert SECRET not in str(redact({name: SECRET}))


@pytest.mark.parametrize(
    "text",
    [
        "curl -H 'Authorization: Bearer ghp_Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1oKiT4' https://x.test",
        "export GITHUB_TOKEN=ghp_Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1oKiT4",
        "postgres://me:Zk3Vt9QwLr7XyB2N@db.test/x",
    ],
)
def test_rb_w17_a_secret_inside_a_command_is_found(text: str) -> None:
    assert "Zk3Vt9QwLr7XyB2N" not in str(redact(text))


async def test_rb_w17_what_a_session_keeps_is_for_this_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        async with open_session(store=f"sqlite:///{tmp_path}/data/s.db", model=scripted("One.")) as session:
            await session.run("Go.")
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").rglob("*") if path.is_file()}
    assert modes
    assert set(modes.values()) == {0o600}, modes


async def test_rb_w18_no_key_reaches_a_program_by_environment_or_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "BRAVE_API_KEY", "BACKSTAY_STORE_KEY"):
        monkeypatch.setenv(name, SECRET)
    look = call("Bash", command="env; cat /proc/self/cmdline /proc/$PPID/cmdline 2>/dev/null | tr '\\0' ' '")
    async with talk(look, "Done.", permission_mode="bypassPermissions") as session:
        await session.run("Go.")
        assert SECRET not in str(session.history)
