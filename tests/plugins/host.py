"""A host on the loopback: archives and a marketplace's file."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Host:
    """What the host has, and what it was asked."""

    url: str = ""
    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """By path: the type and the content."""
    asked: list[str] = field(default_factory=list)

    def put(self, path: str, content: bytes, kind: str = "application/octet-stream") -> str:
        """Serve something; return its address."""
        self.pages[path] = (kind, content)
        return f"{self.url}{path}"


@contextmanager
def hosting() -> Iterator[Host]:
    """Serve until the block ends."""
    host = Host()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host.asked.append(self.path)
            found = host.pages.get(self.path)
            if found is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("content-type", found[0])
            self.send_header("content-length", str(len(found[1])))
            self.end_headers()
            self.wfile.write(found[1])

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
