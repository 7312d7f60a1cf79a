"""Extensions through `open_session`: they live with the session, keep their state in its log, and never stand in its way."""

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from backstay import UserError, open_session
from backstay.catalog.load import replay
from backstay.ports import Slot
from backstay.session.extensions import ExtensionContext, SlotRefused
from backstay.stores.memory import MemoryStore
from backstay.system.machine import SystemClock
from backstay.vocab.deltas import Notice
from backstay.vocab.errors import LeaseLost
from backstay.vocab.event import Recorded
from backstay.vocab.events import Closed, FaultCaught, SlotWritten, TurnCompleted
from tests.contracts.kit import call, scripted, talk
from tests.hooks.test_moments import Slow
from tests.session.project.repository import Repository, named


class Ledger:
    """An extension that counts its openings; `broken` names the step that fails."""

    def __init__(self, name: str = "ledger", version: str = "1", broken: str = "") -> None:
        self.name, self.version, self.broken = name, version, broken
        self.count = 0
        self.steps: list[str] = []
        self.context: ExtensionContext | None = None

    def restore(self, slot: Slot) -> None:
        """Take the count back."""
        self._step("restore")
        if slot.version != self.version:
            raise SlotRefused(f"made for {self.version}, stored by {slot.version}")
        self.count = int(slot.content)

    async def activate(self, context: ExtensionContext) -> None:
        """Begin."""
        self._step("activate")
        await anyio.lowlevel.checkpoint()
        self.context = context
        self.count += 1

    def state(self) -> str | None:
        """The count."""
        self._step("state")
        return str(self.count)

    async def deactivate(self) -> None:
        """End."""
        self._step("deactivate")

    def _step(self, step: str) -> None:
        self.steps.append(step)
        if self.broken == step:
            raise RuntimeError(f"no {step} today")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository."""
    return Repository(tmp_path, monkeypatch)


@pytest.mark.contract("ST-1", "ST-17")
async def test_extensions_are_active_before_the_session_is_idle_and_are_let_go_of_at_its_end(
    repository: Repository,
) -> None:
    ledger = Ledger()
    async with repository.open("One.", extensions=[ledger]) as session:
        assert session.state == "Idle"
        assert ledger.steps == ["activate"]
        assert ledger.context is not None
        assert (ledger.context.session, ledger.context.resumed) == (session.id, False)
        assert (ledger.context.cwd, ledger.context.project) == (str(repository.root), str(repository.root))
        await session.run("Hi.")
    assert ledger.steps[-1] == "deactivate"
    assert ledger.steps.count("deactivate") == 1


@pytest.mark.contract("ST-17")
async def test_what_cannot_be_an_extension_is_named_and_the_session_opens(repository: Repository) -> None:
    good = Ledger()
    async with repository.open(
        "One.", extensions=[object(), Ledger, good, Ledger("bad", broken="activate")]
    ) as session:
        assert await session.run("Hi.") == "One."
        warned = "\n".join(session.warnings)
    async with repository.open(resume=session.id) as again:
        faults = named(await again.events(), FaultCaught)
    assert good.steps[0] == "activate"
    assert "'object' cannot be used: it has no name" in warned
    assert "it is a class" in warned
    assert "'bad' failed and is stopped (activate): no activate today" in warned
    assert [(each.kind, each.message) for each in faults] == [("RuntimeError", "no activate today")]


@pytest.mark.contract("ST-13", "ST-22", "ST-24")
async def test_a_resume_gives_the_state_back_and_its_report_names_those_that_are_missing_or_failed(
    repository: Repository,
) -> None:
    kept = [Ledger("kept"), Ledger("gone"), Ledger("broken")]
    async with repository.open("One.", "Two.", extensions=kept) as session:
        await session.run("Hi.")
    again = Ledger("kept")
    broken = Ledger("broken", broken="activate")
    async with repository.open("One.", "Two.", resume=session.id, extensions=[again, broken]) as resumed:
        assert resumed.report is not None
        absent, words = resumed.report.absent, resumed.report.words()
        assert await resumed.run("Again.") == "Two."

    assert again.steps[:2] == ["restore", "activate"]
    assert again.count == 2
    assert again.context is not None
    assert again.context.resumed
    assert sorted(absent) == [
        "the extension 'broken' failed and is stopped (activate): no activate today",
        "the extension 'gone' left state in this session and is not there",
    ]
    assert all(each in words for each in absent)
    async with repository.open(resume=session.id, extensions=[Ledger(each.name) for each in kept]) as third:
        assert third.report is not None
        assert third.report.absent == ()
        slot = third.slot("extension:kept")
    assert slot is not None
    assert slot.content == "2"


@pytest.mark.contract("ST-28")
async def test_an_extension_that_refuses_its_state_stops_and_the_conversation_and_the_state_stay(
    repository: Repository,
) -> None:
    async with repository.open("One.", "Two.", extensions=[Ledger()]) as session:
        await session.run("Hi.")
    newer = Ledger(version="2")
    async with repository.open("One.", "Two.", resume=session.id, extensions=[newer]) as resumed:
        assert resumed.report is not None
        assert resumed.report.absent == (
            "the extension 'ledger' cannot use its state and is stopped: made for 2, stored by 1",
        )
        assert await resumed.run("Again.") == "Two."
        slot = resumed.slot("extension:ledger")
    assert newer.steps == ["restore"]
    assert slot is not None
    assert (slot.version, slot.content) == ("1", "1")


@pytest.mark.contract("ST-24")
@pytest.mark.parametrize("broken", ["state", "deactivate"])
async def test_one_that_fails_later_is_written_down_and_ends_nothing(repository: Repository, broken: str) -> None:
    good = Ledger("good")
    async with repository.open("One.", "Two.", extensions=[Ledger("bad", broken=broken), good]) as session:
        assert await session.run("Hi.") == "One."
        assert await session.run("Again.") == "Two."
    async with repository.open(resume=session.id) as again:
        wrote = {each.owner for each in named(await again.events(), SlotWritten)}
        faults = {each.where for each in named(await again.events(), FaultCaught)}
    assert "extension:good" in wrote
    assert ("the extension 'bad', state" in faults) == (broken == "state")
    assert good.steps[-1] == "deactivate"


async def test_a_child_session_has_no_extensions_of_its_own(repository: Repository) -> None:
    repository.skill("inspect", "Look into it.", context="fork")
    ledger = Ledger()
    async with repository.open("Looked.", extensions=[ledger]) as session:
        await session.command("inspect")
    assert ledger.steps.count("activate") == 1


class Remembering:
    """Keeps a number, and a list of what happened to it."""

    name, version = "remembering", "1"

    def __init__(self, steps: list[str] | None = None) -> None:
        self.number = 0
        self.steps = [] if steps is None else steps

    def restore(self, slot: Slot) -> None:
        self.number = int(slot.content)

    async def activate(self, context: ExtensionContext) -> None:
        self.steps.append("activate")

    def state(self) -> str | None:
        return str(self.number)

    async def deactivate(self) -> None:
        await anyio.sleep(0.02)  # whoever listens hears first what is announced before this
        self.steps.append("deactivate")


@pytest.mark.contract("ST-10", "ST-3")
async def test_the_state_of_extensions_is_in_the_commit_that_ends_the_turn() -> None:
    extension = Remembering()
    async with talk("one", "two", extensions=[extension]) as session:
        for number in (1, 2):
            extension.number = number
            async for item in session.send("go"):
                if isinstance(item, Recorded) and isinstance(item.event, TurnCompleted):
                    slot = session.slot("extension:remembering")
                    assert slot is not None
                    assert slot.content == str(number)


@pytest.mark.contract("ST-5", "ST-12", "ST-30", "ST-38")
async def test_a_session_is_closed_when_its_extensions_have_let_go() -> None:
    steps: list[str] = []
    async with talk("one", extensions=[Remembering(steps)]) as session, anyio.create_task_group() as tasks:
        await session.run("a")

        async def listen() -> None:
            async for item in session.subscribe():
                if isinstance(item, Notice) or (isinstance(item, Recorded) and isinstance(item.event, Closed)):
                    steps.append("written" if isinstance(item, Recorded) else item.notice)

        tasks.start_soon(listen)
        await anyio.sleep(0.01)
        await session.close("done")
        assert session.state == "Closed"
    assert steps == ["activate", "written", "deactivate", "SessionClosed"]


@pytest.mark.contract("ST-15")
async def test_what_was_put_away_in_a_turn_that_is_given_up_is_not_there() -> None:
    store = await MemoryStore.open(clock=SystemClock(), is_dead=lambda owner: True)
    slow = Slow()
    with suppress(LeaseLost):
        options = {"model": scripted("one", call("slow", n=1)), "tools": [slow.tool], "store": store, "session_id": "s"}
        async with open_session(**options) as session:  # type: ignore[arg-type]
            await session.write_slot("extension:remembering", "1", "1")
            await session.run("a")
            await session.submit("b")
            await slow.reached.wait()
            await session.write_slot("extension:remembering", "1", "2")
            extension = Remembering()
            given = {"model": scripted("x", "x", "three"), "store": store, "extensions": [extension]}
            async with open_session(resume="s", on_crash="abandon", **given) as again:  # type: ignore[arg-type]
                assert again.report is not None
                assert [each.split()[0] for each in again.report.unknown] == ["slow"]
                assert extension.number == 1
                assert await again.run("c") == "three"
                assert again.slots["extension:remembering"].content == "1"
                assert await replay(store, "s", again.seq) == again.plain_state()


@pytest.mark.contract("ST-38")
async def test_an_end_that_was_cut_off_is_an_end_and_nothing_is_written_behind_it() -> None:
    steps: list[str] = []
    async with talk("one", extensions=[Remembering(steps)]) as session:
        await session.run("a")
        with anyio.move_on_after(0.01):
            await session.close("done")
        with pytest.raises(UserError):
            await session.rename("too late")
    assert steps == ["activate", "deactivate"]
    assert type((await session.store.read(session.id)).records[-1].event) is Closed
