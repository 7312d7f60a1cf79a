"""The engine as a process of its own: started on first use, shared by the sessions of this process, gone when this process is."""

import atexit
import contextlib
import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec import Struct, field

from backstay.logic.variables import is_secret_variable
from backstay.providers.local.gguf import read_template
from backstay.providers.local.pins import ModelPin, megabytes
from backstay.providers.local.serve import Ready, Settings
from backstay.providers.local.template import fence
from backstay.vocab.errors import ProviderError, UserError
from backstay.vocab.keys import without_keys

WINDOW: Final = 8192
THREADS: Final = 8
"""More threads than this make a small model no faster."""
END_S: Final = 3.0
_SERVE: Final = (sys.executable, "-P", "-m", "backstay.providers.local.serve")
"""`-P`: it is started in the person's folder, and a package of that name there must not stand in for ours."""


def require_engine() -> None:
    """Raise `UserError` unless the engine's package is installed. Loads nothing."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise UserError(
            "The local model needs its engine, a 34 MB package. Install it: pip install 'backstay[local]'. "
            "Then, once: backstay models pull"
        )


def require_file(pin: ModelPin, folder: Path) -> Path:
    """The model's file. Raise `UserError` with the one command that brings it when it is not there."""
    path = folder / pin.file
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise UserError(
            f"The model {pin.name!r} is not on this machine yet. Fetch it once ({megabytes(pin.bytes)}): "
            f"backstay models pull {pin.name}"
        ) from None
    except OSError as exc:
        raise UserError(f"The model file {str(path)!r} cannot be read: {exc}.") from exc
    if size != pin.bytes:
        raise UserError(
            f"The model file {str(path)!r} has {size} bytes, not {pin.bytes}: it is damaged. "
            f"Fetch it again: backstay models pull {pin.name}"
        )
    return path


class Engine:
    """A running engine."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str, key: str, said: IO[bytes]) -> None:
        self._process = process
        self._said = said
        self.address = address
        """Where it listens: on the loopback only."""
        self.key = key
        """What it wants to be told; nobody else on this machine knows it."""

    @classmethod
    def start(cls, settings: Settings, command: Sequence[str] = _SERVE) -> "Engine":
        """Start one and wait until it listens. Raise `ProviderError` with its last words when it does not."""
        said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the engine runs
        try:
            process = subprocess.Popen(
                command, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
            )
        except OSError as exc:
            said.close()
            raise ProviderError("transport", f"The local engine cannot be started: {exc}.") from exc
        engine = cls(process, "", settings.key, said)
        ready = engine._hello(settings)
        if not ready.address:
            problem = ready.problem or engine._last_words() or "it ended without a word"
            engine.close()
            raise ProviderError("transport", f"The local engine did not start on {settings.path!r}: {problem}")
        engine.address = ready.address
        return engine

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process it lives in."""
        return self._process.pid

    def close(self) -> None:
        """End it. Once is enough; a second time does nothing."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # it has ended already
                    pipe.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

    def _hello(self, settings: Settings) -> Ready:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(settings) + b"\n")
            self._process.stdin.flush()
            return msgspec.json.decode(self._process.stdout.readline(), type=Ready)
        except (OSError, msgspec.DecodeError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
            return Ready()

    def _last_words(self) -> str:
        if self._said.closed:
            return ""
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").split("\n")
        return " / ".join(line.strip() for line in lines[-4:] if line.strip())


class Engines(Struct):
    """The engines of this process, one for each model file."""

    start: Callable[[Settings], Engine] = Engine.start
    _running: dict[Path, Engine] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, path: Path, name: str) -> Engine:
        """The engine that runs the model of `path`; started when there is none, and again when it has died. Takes seconds."""
        with self._lock:
            running = self._running.get(path)
            if running is not None and running.alive:
                return running
            if running is not None:
                running.close()
            if not self._running:
                atexit.register(self.close)
            self._running[path] = self.start(_settings(path, name))
            return self._running[path]

    def close(self) -> None:
        """End them all."""
        with self._lock:
            for engine in self._running.values():
                engine.close()
            self._running.clear()


SHARED: Final = Engines()
"""What the sessions of this process share: a model takes gigabytes, so there is one of it."""


def _environment() -> dict[str, str]:
    """The variables of this process without keys and secrets: the engine has no use for them."""
    return {name: value for name, value in without_keys(os.environ).items() if not is_secret_variable(name)}


def _settings(path: Path, name: str) -> Settings:
    return Settings(
        path=str(path),
        template=fence(read_template(path)),
        key=secrets.token_hex(16),
        name=name,
        window=WINDOW,
        threads=threads(_cores(), os.getloadavg()[0]),
    )


def threads(cores: int, load: float) -> int:
    """How many threads to use: as many as there are idle cores.

    The engine's threads wait for each other in a tight loop, so one that must share its core slows all of them down.
    """
    return max(1, min(THREADS, cores - int(load)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
