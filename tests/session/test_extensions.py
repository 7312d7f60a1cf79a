"""Extensions of a session: checked, restored, activated in order, let go of in reverse; none of them ever blocks a resume."""

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import anyio
import pytest

from backstay import open_session
from backstay.catalog.load import load
from backstay.logic.state.resume import ResumeReport
from backstay.ports import Slot
from backstay.session.extensions import (
    GROUP,
    LARGEST_SLOT,
    ExtensionContext,
    Extensions,
    SlotRefused,
    StartedExtensions,
    find_extensions,
)
from backstay.stores.open import open_store
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.vocab.event import Draft
from backstay.vocab.events import FaultCaught, SlotWritten
from backstay.vocab.events import Started as SessionStarted
from tests.contracts.kit import scripted

HERE = ExtensionContext(session="s", cwd="/w")


class Counter:
    """Counts, and keeps what it counted. `broken` names the step that fails, `says` what happens in order."""

    def __init__(
        self, name: str = "counter", version: str = "1", broken: str = "", says: list[str] | None = None
    ) -> None:
        self.name, self.version, self.broken = name, version, broken
        self.says = [] if says is None else says
        self.count = 0
        self.needs: Sequence[str] = ()

    def restore(self, slot: Slot) -> None:
        """Take the count back."""
        self._step("restore")
        if slot.version != self.version:
            raise SlotRefused(f"made for {self.version}, stored by {slot.version}")
        self.count = int(slot.content)

    async def activate(self, context: ExtensionContext) -> None:
        """Begin."""
        self._step("activate")
        if self.broken == "hang":
            await anyio.sleep_forever()

    def state(self) -> str | None:
        """The count."""
        self._step("state")
        return str(self.count) if self.count else None

    async def deactivate(self) -> None:
        """End."""
        self._step("deactivate")
        if self.broken == "hang at the end":
            await anyio.sleep_forever()

    def _step(self, step: str) -> None:
        self.says.append(f"{self.name} {step}")
        if self.broken == step:
            raise RuntimeError(f"no {step} today")
        if self.broken == f"exit in {step}":
            raise SystemExit(3)


def slot(name: str, content: str, version: str = "1") -> dict[str, SlotWritten]:
    return {f"extension:{name}": SlotWritten(owner=f"extension:{name}", version=version, content=content)}


@pytest.mark.contract("ST-17")
async def test_extensions_are_checked_and_activated_in_order_and_let_go_of_in_reverse() -> None:
    says: list[str] = []
    last, first, plain = Counter("last", says=says), Counter("first", says=says), Counter("plain", says=says)
    last.needs = ("first", "plain")
    running = Extensions()

    started = await running.start([last, first, plain], {}, HERE)

    assert started == StartedExtensions(active=("first", "plain", "last"))
    assert await running.stop() == ()
    assert await running.stop() == ()
    assert says == [
        *("first activate", "plain activate", "last activate"),
        *("last deactivate", "plain deactivate", "first deactivate"),
    ]


@pytest.mark.contract("ST-17")
async def test_what_is_no_extension_is_named_and_the_others_start() -> None:
    class Raising:
        version = "1"

        @property
        def name(self) -> str:
            raise RuntimeError("nameless")

    lonely, one, two = Counter("lonely"), Counter("one"), Counter("two")
    lonely.needs, one.needs, two.needs = ("nobody",), ("two",), ("one",)
    odd = Counter("odd")
    odd.needs = "counter"

    found = await Extensions().start(
        [
            Counter(),
            Counter(),
            object(),
            Counter,
            Raising(),
            Counter("../x"),
            Counter("v", "1/2"),
            odd,
            lonely,
            one,
            two,
        ],
        {},
        HERE,
    )

    assert found.active == ("counter",)
    words = "\n".join(found.notes)
    for each in (
        "'counter' is given twice",
        "'object' cannot be used: it has no name, version, restore, activate, state, deactivate",
        "it is a class; give an object of it",
        "'Raising' cannot be used",
        "'../x' cannot name a session extension",
        "'1/2' cannot be the version of 'v'",
        "needs is 'counter'",
        "'lonely' is not started: it needs 'nobody'",
        "'one' is not started: it needs 'two'",
        "'two' is not started: it needs 'one'",
    ):
        assert each in words
    assert found.absent == found.notes


@pytest.mark.parametrize("broken", ["activate", "restore", "hang", "exit in activate", "exit in restore"])
async def test_one_that_fails_or_hangs_is_left_out_cleaned_up_and_written_down(broken: str) -> None:
    bad, good = Counter("bad", broken=broken), Counter("good")
    running = Extensions(limit_s=0.05 if broken == "hang" else 5)

    found = await running.start([bad, good], slot("bad", "3"), HERE)

    assert found.active == ("good",)
    assert "the extension 'bad' failed and is stopped" in found.absent[0]
    assert broken != "hang" or "it took longer than 0.05 s" in found.absent[0]
    step = "restore" if "restore" in broken else "activate"
    assert [fault.where for fault in found.faults] == [f"the extension 'bad', {step}"]
    assert ("bad deactivate" in bad.says) == ("bad activate" in bad.says)  # what it had begun is let go of
    good.count = 2
    assert [draft.event for draft in await running.drafts({})] == list(slot("good", "2").values())


async def test_slots_are_written_when_they_change_and_a_bad_state_keeps_the_old_one() -> None:
    running, good, bad = Extensions(), Counter("good"), Counter("bad", broken="state")
    await running.start([good, bad], {}, HERE)

    fault = FaultCaught(where="the extension 'bad', state", kind="RuntimeError", message="no state today")
    assert await running.drafts({}) == (Draft(event=fault),)
    bad.broken = ""
    assert await running.drafts({}) == ()
    good.count = bad.count = 4
    written = {**slot("good", "4"), **slot("bad", "4")}
    assert [draft.event for draft in await running.drafts({})] == list(written.values())
    assert await running.drafts(written) == ()
    good.state = lambda: "x" * (LARGEST_SLOT + 1)  # type: ignore[method-assign]  # a state that is too large
    bad.state = lambda: b"3"  # type: ignore[method-assign,assignment,return-value]  # not text
    messages = [draft.event.message for draft in await running.drafts(written) if isinstance(draft.event, FaultCaught)]
    assert "at most 262,144 are kept" in messages[0]
    assert "state() gave 'bytes'" in messages[1]


async def test_stopping_goes_on_past_those_that_fail_or_hang_even_when_it_is_cancelled() -> None:
    says: list[str] = []
    running = Extensions(limit_s=0.05)
    kinds = {"a": "", "b": "deactivate", "c": "hang at the end", "d": "exit in deactivate"}
    await running.start([Counter(name, broken=broken, says=says) for name, broken in kinds.items()], {}, HERE)
    notes: list[str] = []

    with anyio.CancelScope() as scope:
        scope.cancel()
        notes += await running.stop()

    assert [each for each in says if "deactivate" in each] == [f"{name} deactivate" for name in "dcba"]
    assert len(notes) == 3
    assert "(deactivate): it took longer than 0.05 s" in notes[1]


async def test_cancelling_the_opening_is_not_mistaken_for_a_failure() -> None:
    running, slow = Extensions(), Counter(broken="hang")
    with anyio.move_on_after(0.02) as scope:
        await running.start([slow], {}, HERE)
    assert scope.cancelled_caught
    assert await running.stop() == ()
    assert slow.says == ["counter activate", "counter deactivate"]  # what it had begun is let go of


# --- over a real store -----------------------------------------------------------------------------------------------------------------


async def resumed(store: SqliteStore, session: str, *extensions: object) -> tuple[Extensions, StartedExtensions]:
    """What a resume does: the slots of the log go to the extensions."""
    state = (await load(store, session)).state
    running = Extensions()
    return running, await running.start(
        extensions, state.slots, ExtensionContext(session=session, cwd="/", resumed=True)
    )


@pytest.mark.contract("ST-22", "ST-24", "ST-28")
async def test_a_resume_gives_each_extension_its_slot_and_goes_on_without_those_that_fail(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    assert isinstance(store, SqliteStore)
    model = scripted("one", "two", "three", "four", "five")
    running, kept = Extensions(), [Counter("kept"), Counter("drifted"), Counter("broken"), Counter("gone")]
    async with open_session(model=model, store=store) as session:
        await running.start(kept, {}, ExtensionContext(session=session.id, cwd="/"))
        await session.run("a")
        for number, each in enumerate(kept, start=1):
            each.count = number
        for draft in await running.drafts({}):
            assert isinstance(draft.event, SlotWritten)
            await session.write_slot(draft.event.owner, draft.event.version, draft.event.content)
        await running.stop()

    again = [Counter("kept"), Counter("drifted", "2"), Counter("broken", broken="restore")]
    running, found = await resumed(store, session.id, *again)

    assert again[0].says == ["kept restore", "kept activate"]  # its state first, then its normal beginning
    assert again[0].count == 1
    assert found.active == ("kept",)
    assert sorted(found.absent) == [
        "the extension 'broken' failed and is stopped (restore): no restore today",
        "the extension 'drifted' cannot use its state and is stopped: made for 2, stored by 1",
        "the extension 'gone' left state in this session and is not there",
    ]
    report = ResumeReport(session=session.id, events=1, messages=2, absent=found.absent)
    assert "absent: the extension 'gone'" in report.words()
    async with open_session(model=model, store=store, resume=session.id) as later:
        assert await later.run("b") == "two"  # the conversation goes on
        assert (
            later.slot("extension:drifted") == slot("drifted", "2")["extension:drifted"]
        )  # and nothing of theirs is lost
        written = slot("kept", "1")
    assert await running.drafts(written) == ()  # nothing has changed, so nothing is written again
    await running.stop()
    _, all_back = await resumed(store, session.id, *(Counter(each.name) for each in kept))
    assert all_back.absent == ()
    await store.close()


@pytest.mark.contract("ST-16")
@pytest.mark.parametrize("git", [True, False])
async def test_the_project_is_known_before_a_session_is_idle(tmp_path: Path, git: bool) -> None:
    inner = tmp_path / "project/deep/er"
    inner.mkdir(parents=True)
    if git:
        (tmp_path / "project/.git").mkdir()
    (tmp_path / ".backstay").mkdir()  # not the project's: only git says what a project is

    async with open_session(model=scripted("x"), store=None, cwd=inner) as session:
        assert session.state == "Idle"
        beginning = session.opened[0].event  # type: ignore[union-attr]  # the first thing is an event
        assert isinstance(beginning, SessionStarted)
        assert beginning.project == str(tmp_path / "project" if git else inner)


# --- finding ---------------------------------------------------------------------------------------------------------------------------


MADE: list[str] = []


def make() -> Counter:
    """What an entry point leads to."""
    MADE.append("made")
    return Counter("made")


READY = Counter("ready")


@pytest.mark.contract("ST-17")
async def test_only_extensions_that_the_person_names_are_loaded() -> None:
    points = [
        EntryPoint("made", f"{__name__}:make", GROUP),
        EntryPoint("class", f"{__name__}:Counter", GROUP),
        EntryPoint("ready", f"{__name__}:READY", GROUP),
        EntryPoint("gone", "no_such_module_at_all:x", GROUP),
    ]
    MADE.clear()

    assert (await find_extensions((), points)).extensions == ()
    found = await find_extensions(("ready", "class", "gone", "never", "ready"), points)

    assert MADE == []
    assert [type(each) for each in found.extensions] == [Counter, Counter]
    assert found.extensions[0] is READY
    assert "'gone' cannot be loaded: No module named" in found.problems[0]
    assert "'never' is not installed" in found.problems[1]
    started = await Extensions().start(found.extensions, {}, HERE)
    assert started.active == ("ready", "counter")
    assert (await find_extensions(("made",), points)).problems == ()
    assert MADE == ["made"]
    assert "not installed" in (await find_extensions(("surely-not-there",))).problems[0]
