"""A host on the loopback: a Python index, an npm registry, archives and a marketplace's file."""

import base64
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

JSON_INDEX = "application/vnd.pypi.simple.v1+json"


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

    def wheels(self, project: str, *wheels: tuple[str, bytes], hashed: bool = True, html: bool = False) -> None:
        """List wheels as an index does."""
        rows = []
        for name, content in wheels:
            self.put(f"/files/{name}", content)
            rows.append((name, hashlib.sha256(content).hexdigest() if hashed else ""))
        if html:
            links = "".join(f'<a href="../../files/{name}#sha256={sha}">{name}</a>' for name, sha in rows)
            self.put(f"/simple/{project}/", f"<!DOCTYPE html><html>{links}</html>".encode(), "text/html")
            return
        files = [{"filename": n, "url": f"../../files/{n}", "hashes": {"sha256": s} if s else {}} for n, s in rows]
        self.put(f"/simple/{project}/", msgspec.json.encode({"name": project, "files": files}), JSON_INDEX)

    def npm(self, package: str, version: str, content: bytes, *, integrity: str | None = None) -> None:
        """Publish a tarball as a registry does."""
        tarball = self.put(f"/tarballs/{version}.tgz", content)
        strong = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
        dist = {"tarball": tarball, "integrity": strong if integrity is None else integrity, "shasum": "0" * 40}
        page = msgspec.json.encode({"name": package, "version": version, "dist": dist})
        for name in (version, "latest"):
            self.put(f"/npm/{package.replace('/', '%2F')}/{name}", page, "application/json")


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
