"""Run the engine as a process of its own: started on first use, shared by the sessions of this process, ended with it."""

import atexit
import contextlib
import importlib
import importlib.util
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from msgspec import Struct, field

from backstay.logic.secrets.secret_names import is_secret_variable
from backstay.providers.local.pins import ModelPin, megabytes
from backstay.providers.local.pull import read_template
from backstay.system.installation import hint_extra
from backstay.vocab.env_keys import without_keys
from backstay.vocab.errors import ProviderError, UserError

PLENTY: Final = 4_000_000_000
"""Free bytes from which on the best model is taken."""


def fitting(pins: Sequence[ModelPin], free: int | None = None) -> tuple[ModelPin, str]:
    """Return the best of `pins`, best first, that the free memory is enough for; and why it is not the first, when it is not."""
    free = free_memory() if free is None else free
    if free is None or free >= PLENTY or len(pins) == 1:
        return pins[0], ""
    least = pins[-1]
    return least, (
        f"{free / 1e9:.1f} GB of memory are free, and {pins[0].name} wants {PLENTY / 1e9:.0f} GB: "
        f"{least.name} is taken instead. It {least.can}."
    )


def free_memory() -> int | None:
    """Return the bytes of memory that are free, on the machine and in the control group of this process; None when unknown."""
    known = [size for size in (_machine(), _group()) if size is not None]
    return min(known, default=None)


def _machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _group() -> int | None:
    """Return what a container may still take."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii").strip()
        return None if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None


CACHE_MIB: Final = 256
"""Memory for the prompts of earlier requests. The engine's own default is 8 GB."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The model that the engine runs, the key that its requests must have, and its limits."""

    path: str
    template: str
    key: str
    name: str
    window: int
    threads: int


class EngineReady(msgspec.Struct, frozen=True, kw_only=True):
    """The address where the engine listens, or the reason why it does not."""

    address: str = ""
    problem: str = ""


def main() -> None:
    """Serve until standard input ends."""
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=EngineSettings)
    said = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # native code prints what it likes; our one line must stay alone
    server: object = None
    try:
        server = start(settings)
        ready = EngineReady(address=str(getattr(server, "listening_address", "")))
    except ImportError as exc:
        ready = EngineReady(problem=f"xllamacpp cannot be loaded: {exc}")
    except (RuntimeError, ValueError, OSError) as exc:
        ready = EngineReady(problem=str(exc))
    said.write(msgspec.json.encode(ready) + b"\n")
    said.flush()
    if server is not None:
        sys.stdin.buffer.read()
    os._exit(0 if server is not None else 1)  # the engine's threads would take their time


def start(settings: EngineSettings) -> object:
    """Load the model and listen on a free port of the loopback."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # Any: it has no types, and is not installed everywhere
    params: Any = xllamacpp.CommonParams()
    params.model.path = settings.path
    params.model_alias = {settings.name}
    params.chat_template = settings.template
    params.api_keys = [settings.key]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = settings.window
    params.n_parallel = 1
    params.cache_ram_mib = CACHE_MIB
    params.ui = False
    params.endpoint_slots = False  # would show one session's prompt to another
    params.offline = True
    params.verbosity = 2  # warnings and errors
    params.sampling.temp = 0.0
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    server: object = xllamacpp.Server(params)
    return server


if __name__ == "__main__":
    main()

NUDGE: Final = (
    "The tool call above is done, do not repeat it. If more work is needed, call the next tool. "
    "If the request is fulfilled, answer the user in plain text using the result."
)
_RESULT_END: Final = "</tool_response>"
_TURN_END: Final = re.compile(r"(['\"])<\|im_end\|>")


def fence(template: str) -> str:
    """Return `template` with calls as fenced JSON and a reminder after the results. Raise `UserError` when it has no place for them."""
    if "<tool_call>" not in template or _RESULT_END not in template:
        raise UserError(
            "The model's chat template is not the expected one: it has no tool calls. Run: backstay models pull"
        )
    fenced = template.replace("</tool_call>", "```").replace("<tool_call>", "```json")
    fenced = _single_braces(fenced)
    before, end, after = fenced.rpartition(_RESULT_END)
    changed, count = _TURN_END.subn(lambda found: f"{found[1]}\\n{NUDGE}<|im_end|>", after, count=1)
    if not count:
        raise UserError("The model's chat template is not the expected one: nothing ends a turn after a result.")
    return before + end + changed


def _single_braces(template: str) -> str:
    """Mend a slip of some files: the example of a call has each of its braces twice."""
    return re.sub(r"\{(\{\\\"name\\\": <function-name>[^}\n]*\})\}", r"\1", template)


WINDOW: Final = 8192
THREADS: Final = 8
"""More threads than this make a small model no faster."""
END_S: Final = 3.0
_SERVE: Final = (sys.executable, "-P", "-m", "backstay.providers.local.engine")
"""`-P`: it is started in the person's folder, and a package of that name there must not stand in for ours."""


def require_engine() -> None:
    """Raise `UserError` unless the engine's package is installed. Loads nothing."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise UserError(
            f"The local model needs its engine, a 34 MB package. Type: {hint_extra('local')} && backstay models pull"
        )


def require_file(pin: ModelPin, folder: Path) -> Path:
    """Return the model's file. Raise `UserError` with the one command that brings it when it is not there."""
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
    def start(cls, settings: EngineSettings, command: Sequence[str] = _SERVE) -> "Engine":
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

    def _hello(self, settings: EngineSettings) -> EngineReady:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(settings) + b"\n")
            self._process.stdin.flush()
            return msgspec.json.decode(self._process.stdout.readline(), type=EngineReady)
        except (OSError, msgspec.DecodeError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
            return EngineReady()

    def _last_words(self) -> str:
        if self._said.closed:
            return ""
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").split("\n")
        return " / ".join(line.strip() for line in lines[-4:] if line.strip())


class Engines(Struct):
    """The engines of this process, one for each model file."""

    start: Callable[[EngineSettings], Engine] = Engine.start
    _running: dict[Path, Engine] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, path: Path, name: str) -> Engine:
        """Return the engine that runs the model of `path`; started when there is none, and again when it has died. Takes seconds."""
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
    """Return the variables of this process without keys and secrets: the engine has no use for them."""
    return {name: value for name, value in without_keys(os.environ).items() if not is_secret_variable(name)}


def _settings(path: Path, name: str) -> EngineSettings:
    return EngineSettings(
        path=str(path),
        template=fence(read_template(path)),
        key=secrets.token_hex(16),
        name=name,
        window=WINDOW,
        threads=threads(_cores(), os.getloadavg()[0]),
    )


def threads(cores: int, load: float) -> int:
    """Return how many threads to use: as many as there are idle cores.

    The engine's threads wait for each other in a tight loop, so one that must share its core slows all of them down.
    """
    return max(1, min(THREADS, cores - int(load)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
