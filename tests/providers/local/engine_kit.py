"""A stand-in for the engine's package, which takes no model: it plays what a file tells it, and writes down what it was asked."""

import struct
from pathlib import Path

import msgspec

from backstay.providers.local.pins import ModelPin
from tests.providers.local.index_kit import make_pin
from tests.providers.local.test_template import OWN, gguf, text

STAND_IN = """
import json, os, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = os.path.dirname(__file__)
PLAY = json.load(open(os.path.join(HERE, "play.json")))


class Holder:
    pass


class CommonParams:
    def __init__(self):
        self.model, self.sampling, self.cpuparams, self.cpuparams_batch = Holder(), Holder(), Holder(), Holder()


class Answers(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open(os.path.join(HERE, "asked.jsonl"), "a") as asked:
            asked.write(json.dumps({"path": self.path, "key": self.headers["authorization"], "body": body}) + chr(10))
        if self.headers["authorization"] != "Bearer " + self.server.key:
            self.send_error(401)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
        said = [{"delta": {"role": "assistant", "content": "Good "}}, {"delta": {"content": "day."}}]
        for choice in [*said, {"delta": {}, "finish_reason": "stop"}]:
            chunk = base | {"choices": [{"index": 0, "finish_reason": None} | choice]}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\n")
        usage = base | {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}
        self.wfile.write(b"data: " + json.dumps(usage).encode() + b"\\n\\ndata: [DONE]\\n\\n")


class Server:
    def __init__(self, params):
        print("native code says something", flush=True)
        if PLAY.get("crash"):
            os.abort()
        if PLAY.get("problem"):
            raise RuntimeError(PLAY["problem"])
        json.dump(
            {name: value if isinstance(value, (int, str)) else sorted(value) for name, value in vars(params).items()
             if not isinstance(value, Holder)} | {"path": params.model.path, "temp": params.sampling.temp},
            open(os.path.join(HERE, "params.json"), "w"),
        )
        server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        server.key = params.api_keys[0]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = "http://127.0.0.1:%d" % server.server_address[1]
"""


def stand_in(folder: Path, **play: object) -> Path:
    """Write the stand-in into a folder that can be put on the path."""
    folder.mkdir(exist_ok=True)
    (folder / "xllamacpp.py").write_text(STAND_IN, encoding="utf-8")
    (folder / "play.json").write_bytes(msgspec.json.encode(play))
    return folder


def model_file(folder: Path) -> tuple[ModelPin, Path]:
    """A file with nothing but a template, and its pin."""
    template = text(b"tokenizer.chat_template") + struct.pack("<I", 8) + text(OWN.encode())
    path = folder / "tiny.gguf"
    path.write_bytes(gguf(template))
    return msgspec.structs.replace(make_pin(), bytes=path.stat().st_size), path


def asked(folder: Path) -> list[dict[str, dict[str, object]]]:
    """What the stand-in was asked."""
    lines = (folder / "asked.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines]
