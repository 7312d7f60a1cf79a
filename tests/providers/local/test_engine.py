"""The engine lives in a process of its own, which ends with ours and whose end is no harm to us."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from backstay.providers.local.engine import (
    WINDOW,
    Engine,
    Engines,
    EngineSettings,
    require_engine,
    require_file,
    threads,
)
from backstay.system.installation import hint_extra
from backstay.vocab.errors import ProviderError, UserError
from tests.providers.local.engine_kit import model_file, stand_in

SETTINGS = EngineSettings(path="/m/tiny.gguf", template="", key="secret", name="tiny", window=WINDOW, threads=1)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = stand_in(tmp_path / "package")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def engines() -> Iterator[Engines]:
    engines = Engines()
    yield engines
    engines.close()


@pytest.mark.skipif(sys.platform != "linux", reason="what a process was given is read from /proc")
def test_it_is_given_no_keys_and_no_secrets(
    package: Path, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "zebra-stripe-99")
    monkeypatch.setenv("DB_PASSWORD", "zebra-stripe-99")
    _, path = model_file(tmp_path)

    engine = engines.get(path, "tiny")

    given = Path(f"/proc/{engine.pid}/environ").read_bytes()
    assert b"PATH=" in given
    assert b"zebra" not in given


def test_it_starts_on_the_loopback_with_a_key_and_careful_settings(
    package: Path, engines: Engines, tmp_path: Path
) -> None:
    _, path = model_file(tmp_path)

    engine = engines.get(path, "tiny")

    assert engine.address.startswith("http://127.0.0.1:")
    params = msgspec.json.decode((package / "params.json").read_bytes())
    template = params.pop("chat_template")
    assert "```json" in template
    assert params == {
        "path": str(path),
        "model_alias": ["tiny"],
        "api_keys": [engine.key],
        "hostnames": ["127.0.0.1"],
        "port": 0,
        "n_ctx": 8192,
        "n_parallel": 1,
        "cache_ram_mib": 256,
        "ui": False,
        "endpoint_slots": False,
        "offline": True,
        "verbosity": 2,
        "temp": 0.0,
    }
    assert len(engine.key) == 32


def test_sessions_share_it_until_it_dies(package: Path, engines: Engines, tmp_path: Path) -> None:
    _, path = model_file(tmp_path)
    first = engines.get(path, "tiny")

    assert engines.get(path, "tiny") is first
    os.kill(first.pid, signal.SIGKILL)
    while first.alive:
        time.sleep(0.01)
    second = engines.get(path, "tiny")

    assert second is not first
    assert second.alive


def test_it_ends_when_it_is_closed(package: Path) -> None:
    engine = Engine.start(SETTINGS)
    assert engine.alive

    engine.close()
    engine.close()

    assert not engine.alive


def test_it_ends_when_its_parent_is_killed(package: Path) -> None:
    code = (
        "from backstay.providers.local.engine import Engine\n"
        "from tests.providers.local.test_engine import SETTINGS\n"
        "import time\n"
        "print(Engine.start(SETTINGS).pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()

    for _ in range(1000):
        if not is_running(pid):
            return
        time.sleep(0.01)
    pytest.fail("the engine outlived its parent")


def test_a_crash_of_native_code_is_an_error_with_its_last_words(package: Path) -> None:
    stand_in(package, crash=True)

    with pytest.raises(ProviderError, match=r"did not start on '/m/tiny.gguf': native code says something") as caught:
        Engine.start(SETTINGS)
    assert caught.value.kind == "transport"


def test_a_model_that_it_cannot_load_is_named(package: Path) -> None:
    stand_in(package, problem="failed to load model")

    with pytest.raises(ProviderError, match=r"did not start on '/m/tiny.gguf': failed to load model"):
        Engine.start(SETTINGS)


def test_a_package_that_cannot_be_loaded_is_said(package: Path) -> None:
    (package / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1 is missing')", encoding="utf-8")

    with pytest.raises(ProviderError, match=r"xllamacpp cannot be loaded: libgomp.so.1 is missing"):
        Engine.start(SETTINGS)


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ProviderError, match="cannot be started"):
        Engine.start(SETTINGS, ["/nowhere/python"])


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    with pytest.raises(UserError, match=rf"34 MB.*{re.escape(hint_extra('local'))} && backstay models pull"):
        require_engine()


def test_a_missing_model_says_its_size_and_the_one_command(tmp_path: Path) -> None:
    pin, path = model_file(tmp_path)
    assert require_file(pin, tmp_path) == path

    path.unlink()
    with pytest.raises(
        UserError, match=r"'tiny' is not on this machine yet. Fetch it once \(0 MB\): backstay models pull tiny"
    ):
        require_file(pin, tmp_path)
    path.write_bytes(b"half")
    with pytest.raises(UserError, match=r"has 4 bytes, not \d+: it is damaged"):
        require_file(pin, tmp_path)


def test_busy_cores_are_left_to_others() -> None:
    assert [threads(2, 0.4), threads(2, 1.2), threads(2, 7.0), threads(16, 2.5), threads(8, 5.9)] == [2, 1, 1, 8, 3]


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return False
