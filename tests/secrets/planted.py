"""A session with secrets in every place that a session has, and a look for them in raw bytes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from backstay import Session, open_session
from backstay.catalog.hold import hold_session
from backstay.logic.state.progress import stamp
from backstay.logic.state.session_state import state_of
from backstay.logic.stored_content import digest, to_stored_text
from backstay.ports import EventStore, FoldSnapshot
from backstay.stores.trace import FileTrace, trace_folder
from backstay.system.machine import SystemClock
from backstay.vocab.deltas import TextDelta
from backstay.vocab.event import Draft, Event
from backstay.vocab.events import EntryAdded, MessageInjected, ModelFailed, ModelReplied, Opaque, Renamed
from backstay.vocab.events.files import ContentsKept, FileKept
from backstay.vocab.events.limits import Compacted
from backstay.vocab.events.tools import HookFinished
from backstay.vocab.ids import make_opening
from backstay.vocab.messages import Text, TextRef
from tests.contracts.kit import call, scripted

SESSION: Final = "planted"
_BODY: Final = "Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1oKiT4"
PEM: Final = (
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nq7Zk3Vt9QwLr7XyB2NmHc8Pd\n-----END PRIVATE KEY-----"
)


def token(place: int) -> str:
    """A secret that is told by its shape, another one for each place."""
    return f"ghp_{place:02}{_BODY[: 36 - 2]}"


def bare(place: int) -> str:
    """A secret that is told only by what stands beside it."""
    return f"q{place:02}w8e7Rt6Yz5-uI4oP3a2S1d"


PLACES: Final[Mapping[int, str]] = {
    1: "what a person typed",
    2: "what a tool printed",
    3: "the arguments of a call",
    4: "a file that was read, longer than an event",
    5: "the pieces of a stream in the trace",
    6: "a summary of a compaction",
    7: "the name of the session",
    8: "what a hook said",
    9: "the error of a provider",
    10: "the state that only a provider reads",
    11: "text that is JSON in JSON",
    12: "two events, cut in the middle",
    13: "what a file held before it was changed",
    14: "a blob that is a file of its own",
    15: "the word before the end of what an event shows of a blob",
}
SECRETS: Final = (
    *(token(place) for place in PLACES),
    *(bare(5), bare(5)[:9], bare(5)[9:]),
    *(bare(12), bare(12)[:13], bare(12)[13:], token(12)[:20], token(12)[20:]),
    PEM.split("\n")[2],
)
"""What must be nowhere: whole, and cut where it was cut."""
FOLDED: Final = _BODY[4:30].lower()
"""What a search index makes of them."""


async def plant(store: EventStore, folder: Path) -> None:
    """Make the session: a turn with tools, then what no scripted model brings about."""
    (folder / "long.txt").write_text("\n".join(f"line {n}" for n in range(6_000)) + f"\n{token(4)}\n")
    (folder / "short.txt").write_text(f"key {token(13)} and\napi_key: {bare(5)}\nsecret_key = '{bare(12)}'\n")
    replies = (
        call("Bash", command=f"printf '%s%s' {token(2)[:12]} {token(2)[12:]}; cat short.txt"),
        call("Bash", command=f"true {token(3)}; cat long.txt"),
        call("Write", path=str(folder / "short.txt"), content=json.dumps({"pem": PEM, "note": token(11)})),
        "Done.",
    )
    async with open_session(
        session_id=SESSION, model=scripted(*replies), store=store, cwd=folder, permission_mode="bypassPermissions"
    ) as session:
        await session.run(f"Use {token(1)} please.")
    await _add(store)
    _trace(store)
    await store.search("please")  # the index knows words of it
    words = FoldSnapshot(tip="x", seq=1, digest="d", content=f"folded {token(1)}".encode())
    await store.keep_snapshot(SESSION, words)


async def talk_on(store: EventStore, folder: Path) -> tuple[str, Session]:
    """A turn more."""
    async with open_session(resume=SESSION, model=scripted(*["Still here."] * 20), store=store, cwd=folder) as session:
        return await session.run("And now?"), session


async def _add(store: EventStore) -> None:
    large = f"{'x ' * 700_000}{token(14)} end".encode()
    head, blobs = to_stored_text(f"{'y' * 490}{token(15)} {'z ' * 20_000}")
    assert isinstance(head, TextRef)
    before, opaque = (
        f"A={token(13)}".encode(),
        json.dumps({"thinking": f"say {token(10)}", "signature": "s" * 60}).encode(),
    )
    blobs |= {digest(each): each for each in (large, before, opaque)}
    reference = TextRef(sha256=digest(large), chars=len(large), tokens=1, head="x x")
    events: tuple[Event, ...] = (
        MessageInjected(role="user", parts=(head, reference)),
        MessageInjected(role="user", parts=(Text(text=f"it ends with {bare(12)[:13]}"),)),
        MessageInjected(role="user", parts=(Text(text=f"{bare(12)[13:]} it goes on, {token(12)[:20]}"),)),
        MessageInjected(role="user", parts=(Text(text=f"{token(12)[20:]} and whole: {token(12)}"),)),
        ModelReplied(parts=(Text(text="hm"),), opaque=Opaque(provider="anthropic", sha256=digest(opaque))),
        ModelFailed(kind="auth", message=f"Incorrect API key provided: {token(9)}"),
        HookFinished(event="Stop", subject="x", context=f"hook {token(8)}", notes=(f"note {token(8)}",)),
        EntryAdded(kind="note", content=json.dumps({"inner": json.dumps({"pem": PEM, "t": token(11)})})),
        FileKept(path="/w/a.env", kind="file", sha256=digest(before), version="1:2:3"),
        ContentsKept(blobs=(digest(before),)),
        Compacted(trigger="manual", first_kept="", summary=Text(text=f"They used {token(6)}.")),
        Renamed(name=f"work with {token(7)}"),
    )
    async with hold_session(store, SESSION) as lease:
        clock = SystemClock()
        records = list((await store.read(SESSION)).records)
        first, nonce = len(records), make_opening(lease.token, clock.nonce())
        for event in events:
            progress = state_of(SESSION, records).progress
            records.append(stamp(progress, Draft(event=event), nonce=nonce, now=clock.now()))
        await store.append(lease, first, records[first:], blobs)
        await store.append(lease, len(records), (), {})


def _trace(store: EventStore) -> None:
    """The pieces of a stream with a secret that nobody can tell there."""
    folder = trace_folder(store.url)
    if folder is None:
        return
    trace = FileTrace(folder)
    trace.position(SESSION, 3, 1)
    for text in ("It says ", bare(5)[:9], bare(5)[9:], " and ", token(5)[:6], token(5)[6:], "."):
        trace.write(SESSION, "TextDelta", {"delta": TextDelta(text=text)})
    trace._stop()


def left_in(folder: Path) -> list[tuple[str, str]]:
    """The secrets that stand in any file of a folder, and where."""
    found: list[tuple[str, str]] = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        content = path.read_bytes()
        found += [(path.name, FOLDED)] if FOLDED.encode() in content else []
        found += [(path.name, secret) for secret in SECRETS if any(form in content for form in _forms(secret))]
    return found


def _forms(secret: str) -> tuple[bytes, ...]:
    return secret.encode(), json.dumps(secret)[1:-1].encode(), json.dumps(json.dumps(secret)[1:-1])[1:-1].encode()
