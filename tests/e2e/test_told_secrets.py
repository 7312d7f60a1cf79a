"""Values that are told to be secret are erased from every byte of a store, and `scan` and `erase` count alike."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from backstay import open_session, open_store
from backstay.ports import ModelRequest, SessionQuery
from backstay.session.subagents import child_tool
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import call, scripted
from tests.e2e.door import Door


@pytest.fixture(params=["sqlite", "sqlcipher"])
def url(request: pytest.FixtureRequest, door: Door, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = door.folder / "kept"
    folder.mkdir()
    if request.param == "sqlcipher":
        pytest.importorskip("sqlcipher3.dbapi2")
        monkeypatch.setenv("RAW", "0f" * 32)
        return f"sqlite:///{folder}/s.db?key=env:RAW"
    return f"sqlite:///{folder}/s.db"


SECRETS = ("zebraStripe99", "swordfish77", "two words here", "correcthorsebattery", "otterMeadow42")


def _left(folder: Path, url: str) -> list[str]:
    """The secrets in any byte of a store, of one that is encrypted in its pages in clear."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    content = b"\0".join(path.read_bytes() for path in files)
    if "key=" in url:
        content += _in_clear(folder)
    folded = content.lower()
    return [secret for secret in SECRETS if secret.lower().encode() in folded]


def _in_clear(folder: Path) -> bytes:
    cipher = pytest.importorskip("sqlcipher3.dbapi2")
    plain = folder.parent / "plain.db"
    with closing(cipher.connect(f"{folder}/s.db")) as database:
        database.execute(f"PRAGMA key = \"x'{os.environ['RAW']}'\"")
        database.execute("PRAGMA cipher_page_size = 16384")
        database.execute(f"ATTACH DATABASE '{plain}' AS plain KEY ''")
        database.execute("SELECT sqlcipher_export('plain')")
    content = plain.read_bytes()
    plain.unlink()
    return content


REPLIES: Sequence[Mapping[str, object]] = (
    {
        "text": "api_key: zebraStripe99",
        "chunk": 4,
        "calls": [{"name": "Bash", "args": {"command": "echo swordfish77; echo otterMeadow42"}}],
    },
    {"text": "again zebraStripe99 done", "chunk": 5},
    {"text": "see swordfish77 ok, in development"},
    {"text": "correcthorsebattery"},
    {"text": "Yes."},
)
PROMPTS = (
    "First two words here.",
    'SECRET_KEY=development, DB_PASS=swordfish77\nsecret: "two words here"\ntoken = correcthorsebattery',
    "password: otterMeadow42",
)


def _talk(door: Door, url: str, prompt: str, replies: Sequence[Mapping[str, object]], *more: str) -> None:
    """A turn; a script goes on where the session stands."""
    done = door.run("-p", prompt, "--model", door.script(*replies), "--store", url, *more)
    assert done.code == 0, done.err


def test_told_values_are_in_no_byte_of_any_file(door: Door, url: str) -> None:
    kept = door.folder / "kept"
    _talk(door, url, PROMPTS[0], REPLIES, "--session-id", "s1", "--name", "about otterMeadow42", "--allow", "Bash")
    for prompt in PROMPTS[1:]:
        _talk(door, url, prompt, REPLIES, "-r", "s1")
    assert door.run("sessions", "search", "swordfish77", "--store", url).code == 0
    assert set(_left(kept, url)) == set(SECRETS)
    found = door.run("secrets", "scan", "--store", url, "--json").json

    done = door.run("secrets", "erase", "--store", url, "--yes", "--json")

    assert done.code == 0, done.err
    assert [each["count"] for each in done.json] == [each["count"] for each in found]
    assert [each["kinds"] for each in done.json] == [each["kinds"] for each in found]
    assert _left(kept, url) == []
    shown = door.run("sessions", "show", "s1", "--store", url).out
    assert "in development" in shown
    assert "again [ERASED " in shown
    assert door.run("secrets", "scan", "--store", url).code == 0
    assert door.run("sessions", "verify", "--store", url).code == 0
    logged = door.run("log", "show", "s1", "--json", "--store", url).lines
    assert logged[-1]["data"]["count"] == found[0]["count"]
    _talk(door, url, "More.", REPLIES, "-r", "s1")


def test_scan_and_erase_say_the_same_number(door: Door) -> None:
    (door.work / "a.env").write_text("API_KEY=zebraStripe99\n")
    write = {"name": "Write", "args": {"path": str(door.work / "a.env"), "content": "API_KEY=otterMeadow42"}}
    read = {"name": "Bash", "args": {"command": "cat a.env"}}
    replies = ({"calls": [read]}, {"calls": [write]}, {"text": "zebraStripe99"})
    _talk(door, door.store, "Go.", replies, "--permission-mode", "bypassPermissions", "--session-id", "s1")
    scanned = door.run("secrets", "scan", "--store", door.store).out.splitlines()
    erased = door.run("secrets", "erase", "--yes", "--store", door.store).out.splitlines()
    number = scanned[-1].split()[0]
    assert int(number) > 3
    assert erased[0].startswith(f"s1: {number} secrets erased ({scanned[1].strip()})")
    assert erased[1] == f"{number} secrets erased in 1 session."


class _Two:
    """A model of a session and of the one that it starts."""

    name, format, facts = "two:1", "anthropic", ModelFacts()

    def __init__(self) -> None:
        self._first = scripted(call("delegate", prompt="count it"), "api_key: zebraStripe99")
        self._other = scripted("It is zebraStripe99, and password: otterMeadow42")

    def ask(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # a stream, as the port says
        part = request.messages[0].parts[0]
        return (self._other if "count" in getattr(part, "text", "") else self._first).ask(request)


@pytest.mark.parametrize("only", [False, True])
def test_a_value_that_one_session_tells_is_erased_in_those_that_belong_to_it(only: bool, door: Door) -> None:
    kept = door.folder / "kept"
    kept.mkdir()
    url = f"sqlite:///{kept}/s.db"

    async def make() -> str:
        store = await open_store(url)
        async with open_session(
            model=_Two(), store=store, session_id="p", cwd=door.work, tools=[child_tool()]
        ) as session:
            await session.run("How is otterMeadow42?")
        (child,) = [each.id for each in await store.list(SessionQuery(include_children=True)) if each.id != "p"]
        await store.close()
        return child

    child = anyio.run(make)
    chosen = ("--session", child) if only else ()
    found = door.run("secrets", "scan", "--store", url, "--json", *chosen).json
    ran = door.run("secrets", "erase", "--store", url, "--yes", "--json", *chosen)
    done = ran.json
    assert ("p belongs to it and keeps its secrets" in ran.err) == only
    assert {each["session"]: each["count"] for each in done} == {each["session"]: each["count"] for each in found}
    assert {each["session"] for each in done} == ({child} if only else {"p", child})
    assert "zebraStripe99" not in door.run("sessions", "show", child, "--store", url).out
    assert only or _left(kept, url) == []


async def test_sessions_that_belong_together_are_erased_together(door: Door) -> None:
    kept = door.folder / "kept"
    kept.mkdir()
    url = f"sqlite:///{kept}/s.db"
    erase = ("secrets", "erase", "--store", url, "--yes")
    store = await open_store(url)
    async with open_session(model=_Two(), store=store, session_id="p", cwd=door.work, tools=[child_tool()]) as session:
        await session.run("How is otterMeadow42?")
        while_open = await anyio.to_thread.run_sync(door.spawn, *erase)
        text = repr(await session.events())
    (child,) = [each.id for each in await store.list(SessionQuery(include_children=True)) if each.id != "p"]
    await store.close()
    after = await anyio.to_thread.run_sync(door.spawn, *erase)

    assert (while_open.code, while_open.out) == (1, "Nothing was erased.\n")
    assert f"p stays as it is, and with it {child}: " in while_open.err
    assert "otterMeadow42" in text
    assert after.code == 0
    assert _left(kept, url) == []
