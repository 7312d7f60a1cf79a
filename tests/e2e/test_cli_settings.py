"""Settings through the command line: what they fill in, how they go wrong, and keys that stay where they are."""

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from backstay.cli.root import run
from tests.e2e.door import Door, write
from tests.providers.http import wires
from tests.providers.http.wires import Said

KEY = "hk-live-5f0c93b1d7e24a68"
HEADER = "tenant-9d81c4e7a2"


class House(ThreadingHTTPServer):
    """A server that speaks Chat Completions, refuses its first request, and quotes the key when it does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Answer(BaseHTTPRequestHandler):
    server: House

    def do_POST(self) -> None:
        self.server.asked.append({name.lower(): value for name, value in self.headers.items()})
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        first = len(self.server.asked) == 1
        quoted = json.dumps({"error": {"message": f"busy, {KEY} of {HEADER}", "type": "overloaded", "code": None}})
        said = Said(text="hello from the house", input=5, output=2)
        body = quoted.encode() if first else b"".join(wires.stream("openai-chat", said))
        self.send_response(503 if first else 200)
        self.send_header("content-type", "application/json" if first else "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def house() -> Iterator[House]:
    """The server, while it is needed."""
    with House() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def own(door: Door, content: object) -> Path:
    """Write the person's settings."""
    path = door.folder / "config" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    path.chmod(0o600)
    return path


def files_with(door: Door, *secrets: str) -> list[str]:
    """The files, other than the settings, that hold one of these."""
    found = [path for path in door.folder.rglob("*") if path.is_file() and "config" not in path.parts]
    return [str(path) for path in found if any(secret.encode() in path.read_bytes() for secret in secrets)]


@pytest.mark.contract("RV-33")
@pytest.mark.parametrize("key", [KEY, "$ENV:HOUSE_KEY"])
def test_a_key_reaches_the_provider_and_no_row_message_event_trace_or_output(
    door: Door, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("HOUSE_KEY", KEY)
    with house() as server:
        profile = {"type": "openai-chat", "base_url": server.address, "api_key": key, "headers": {"X-Tenant": HEADER}}
        own(door, {"providers": {"house": profile}, "models": {"m1": {"window": 9_000}}})
        ran = [
            door.run("-p", "hi", "--model", "house:m1", "--session-id", "s1", "--output-format", output)
            for output in ("stream-json", "text", "events", "json")
        ]
        ran += [door.run(*command, "s1") for command in _LOOKS]
        asked, bodies = server.asked, server.bodies

    assert [each.code for each in ran] == [0] * len(ran)
    assert {(each["authorization"], each["x-tenant"]) for each in asked} == {(f"Bearer {KEY}", HEADER)}
    assert len(asked) == 5  # the first was refused
    assert any(line.get("subtype") == "api_retry" for line in ran[0].lines)
    for each in ran:
        assert not any(secret in each.out + each.err for secret in (KEY, HEADER))
    assert not any(KEY.encode() in body for body in bodies)
    with closing(sqlite3.connect(door.folder / "data" / "sessions.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert any(door.folder.rglob("*trace*")), "there is a trace to look at"
    assert files_with(door, KEY, HEADER) == []


_LOOKS = (
    ("sessions", "show"),
    ("sessions", "show", "--json"),
    ("log", "show", "--json"),
    ("log", "replay"),
    ("log", "export"),
)


@pytest.mark.contract("RV-21")
def test_the_persons_file_is_filled_in_and_a_given_file_and_the_flags_go_before_it(door: Door) -> None:
    mine, theirs, third = (door.script({"text": name}, name=name) for name in ("mine", "theirs", "third"))
    own(door, {"chat": {"default_model": mine, "max_session_turns": 7}})
    given = door.folder / "given.json"
    given.write_text(json.dumps({"chat": {"default_model": theirs}}), encoding="utf-8")

    assert door.run("-p", "hi").out == "mine\n"
    assert door.run("-p", "hi", "--settings", str(given)).out == "theirs\n"
    assert door.run("-p", "hi", "--settings", str(given), "--model", third).out == "third\n"
    bare = door.run("-p", "hi", "--bare")
    assert (bare.code, bare.out) == (1, "")
    assert bare.err.startswith("backstay: No model is configured.")


def test_a_resumed_session_keeps_its_model_whatever_the_settings_say(door: Door) -> None:
    model = door.script({"text": "one"}, {"text": "two"})
    own(door, {"chat": {"default_model": door.script({"text": "other"}, name="other")}})
    door.run("-p", "hi", "--model", model, "--session-id", "s1")

    assert door.run("-p", "hi", "-r", "s1").out == "two\n"
    assert door.run("sessions", "show", "s1", "--json").json["model"] == model


def test_warnings_come_once_and_errors_name_the_place(door: Door) -> None:
    path = own(door, {"chat": {"colour": "red"}})
    ran = door.run("-p", "hi", "--model", door.script({"text": "one"}), "--output-format", "json")

    assert (ran.code, ran.json["result"]) == (0, "one")
    assert ran.err.splitlines() == [
        f"backstay: {path}:1: 'chat.colour' is not a setting that this version knows; it is left out."
    ]
    path.write_text('{"chat": {"max_messages": 0}}', encoding="utf-8")
    wrong = door.run("-p", "hi", "--model", door.script({"text": "one"}))
    assert (wrong.code, wrong.out) == (1, "")
    assert f"{path}:1: chat.max_messages" in wrong.err
    assert door.run("-p", "hi", "--model", door.script({"text": "one"}), "--bare").out == "one\n"


def test_without_a_model_the_choices_are_told_with_what_each_needs(door: Door) -> None:
    ran = door.run("-p", "hi")

    assert (ran.code, ran.out) == (1, "")
    for words in (
        *("anthropic:MODEL", "ANTHROPIC_API_KEY", "openai:MODEL", "OPENAI_API_KEY", "google:MODEL", "GEMINI_API_KEY"),
        *("openai-chat:MODEL@http://", "local:MODEL", "backstay models pull", "scripted:FILE", "chat.default_model"),
    ):
        assert words in ran.err
    assert door.run("sessions", "list", "--json").json == []


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"type": "openai-chat", "base_url": "http://127.0.0.1:9/v1"}, "names no model"),
        ({"type": "anthropic", "model": "m", "base_url": "https://example.org"}, "has no key"),
        ({"type": "anthropic", "model": "m", "api_key": "$ENV:NO_SUCH_KEY"}, "'NO_SUCH_KEY', which is not set"),
        ({"type": "openai", "model": "m", "base_url": "https://u:p@example.org", "api_key": "k"}, "nothing else"),
    ],
)
def test_a_profile_that_cannot_be_used_says_why(door: Door, profile: Any, words: str) -> None:
    own(door, {"providers": {"house": profile}})

    ran = door.run("-p", "hi", "--model", "house")

    assert (ran.code, ran.out) == (1, "")
    assert words in ran.err
    assert "u:p" not in ran.err


def test_an_unknown_model_is_warned_of_once(door: Door) -> None:
    with house() as server:
        server.asked.append({})  # it is not the first request
        model = f"openai-chat:nobody-knows-it@{server.address}"
        ran = door.run("-p", "hi", "--model", model, "--output-format", "json")

    assert (ran.code, ran.json["result"], ran.json["total_cost_usd"]) == (0, "hello from the house", None)
    (line,) = ran.err.splitlines()
    assert line.startswith(f"backstay: Nothing is known of the model {model!r}")


def test_rb_w10_a_settings_file_that_breaks_goes_on_denying_and_says_so(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(door.folder / "home"))
    (door.work / "notes.txt").write_text("a secret", encoding="utf-8")
    calls = [{"name": "Read", "args": {"file_path": "notes.txt"}}]
    model = door.script({"text": "", "calls": calls}, {"text": "done"})
    path = own(door, {"permissions": {"deny": ["Read(notes.txt)"]}})

    def denied() -> tuple[int, list[str], str]:
        ran = door.run("-p", "look", "--model", model, "--output-format", "json")
        return ran.code, [each["tool_name"] for each in ran.json["permission_denials"]], ran.err

    good = denied()
    path.write_text('{\n "permissions": {', encoding="utf-8")
    broken = denied()

    assert (good[1], broken[1], broken[0]) == (["Read"], ["Read"], good[0])
    assert f"{path}:2: This is not JSON" in broken[2]
    assert "still holds" in broken[2]
    assert "still holds" not in good[2]


def test_rb_w10_a_broken_file_that_was_never_good_starts_nothing(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(door.folder / "home"))
    path = own(door, {})
    path.write_text('{\n "permissions": {', encoding="utf-8")

    ran = door.run("-p", "look", "--model", door.script({"text": "done"}))

    assert (ran.code, ran.out) == (1, "")
    assert f"{path}:2: This is not JSON" in ran.err
    assert "nothing is started" in ran.err


@pytest.mark.parametrize("asked", [("-p", "x"), ("doctor",)])
def test_a_rule_whose_tool_is_mistyped_is_told_with_the_file_and_the_line(door: Door, asked: tuple[str, ...]) -> None:
    path = own(
        door, {"permissions": {"deny": ["Bsh(cat *)", "Raed(.env)", "own_tool", "Bash(rm *)"], "allow": ["bash(ls)"]}}
    )
    ran = door.run(*asked, *(("--model", door.script({"text": "a"})) if asked[0] == "-p" else ()))
    said = " ".join((ran.out + ran.err).split())

    for rule, decision, meant in (
        ("Bsh(cat *)", "deny", "Bash"),
        ("Raed(.env)", "deny", "Read"),
    ):
        assert (
            f"{path}:1: 'permissions.{decision}' has {rule!r}, which is about no tool that comes with backstay. Did you mean {meant!r}?"
            in said
        )
    assert "own_tool" not in said
    assert "bash(ls)" not in said


class LateInput(BytesIO):
    """A standard input whose reader waits while somebody else does something."""

    def __init__(self, content: bytes, meanwhile: Callable[[], object], descriptor: int) -> None:
        super().__init__(content)
        self._meanwhile = meanwhile
        self._descriptor = descriptor

    def read(self, size: int | None = -1, /) -> bytes:
        self._meanwhile()
        return super().read(size)

    def fileno(self) -> int:
        return self._descriptor


def test_settings_that_change_while_the_prompt_is_typed_count(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    for mode in ("acceptEdits", "plan"):
        text = json.dumps({"permissions": {"defaultMode": mode}})
        with open(os.devnull, encoding="utf-8") as nothing:
            change = partial(write, door.folder / "config" / "settings.json", text)
            monkeypatch.setattr("sys.stdin", TextIOWrapper(LateInput(b"go", change, nothing.fileno())))
            with redirect_stdout(TextIOWrapper(BytesIO())), contextlib.chdir(door.work):
                assert run(["-p", "-", "--model", door.script({"text": "Done."})]) == 0
        session = door.run("sessions", "list", "--json").json[0]["id"]
        modes.append(door.run("log", "show", session, "--json").lines[0]["data"]["mode"])

    assert modes == ["acceptEdits", "plan"]
