"""What `open_session` takes, and what it refuses before anything is opened."""

import os
from pathlib import Path
from typing import Any

import pytest

from backstay import UserError, open_session, open_store, query
from backstay.stores.memory import MemoryStore
from backstay.system.machine import SystemClock
from backstay.vocab.specs import Lease, Owner
from tests.contracts.kit import scripted


def test_a_rule_that_is_only_a_text_is_refused_with_what_to_write() -> None:
    texts: Any = ["Bash(echo:*)"]  # Any: not what the parameter takes

    with pytest.raises(UserError, match=r"Rule\.parse\('allow', 'Bash\(echo:\*\)'\)"):
        open_session(rules=texts)


async def test_a_question_without_a_model_asks_for_one_like_a_session_does() -> None:
    with pytest.raises(UserError, match="model"):
        await query("Who answers?")


async def test_what_an_opening_says_counts_from_its_first_moment(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/s.db"
    async with open_session(model=scripted("one"), store=url, session_id="s", permission_mode="acceptEdits") as session:
        await session.run("a")
    given = {"permission_mode": "plan", "name": "A new name"}
    async with open_session(model=scripted("one", "two"), store=url, resume="s", **given) as again:  # type: ignore[arg-type]
        assert (again.permission_mode, again.name) == ("plan", "A new name")
        await again.run("b")
        assert (again.permission_mode, again.name) == ("plan", "A new name")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tools": [len]}, "Put @tool"),
        ({"store": Path("s.db")}, "not a store"),
        ({"model": 5}, "not a model"),
        ({"session_id": 5}, "as text"),
        ({"fork": True}, "say which"),
        ({"resume": "s", "session_id": "other"}, "under its own id"),
        ({"parameters": {"x": object()}}, "cannot be sent"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_before_anything_is_written(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        open_session(**given)


async def test_a_folder_whose_name_is_no_utf8_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    with pytest.raises(UserError, match="not UTF-8"):
        async with open_session(model=scripted("one"), store=None, cwd=folder):
            pass


async def test_a_store_is_opened_by_its_url_alone() -> None:
    store = await open_store("memory:")
    async with open_session(model=scripted("one"), store=store) as session:
        assert await session.run("a") == "one"
    await store.close()


class _Raced(MemoryStore):
    """A store in which somebody else begins a session, and closes it, just before it is taken."""

    raced = False

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        if not self.raced:
            self.raced = True
            async with open_session(model=scripted("first"), store=self, session_id=session) as other:
                await other.run("a")
        return await super().lease(session, owner, ttl_s)


async def test_a_session_that_somebody_else_began_meanwhile_is_gone_on_with() -> None:
    store = await _Raced.open(clock=SystemClock())
    async with open_session(model=scripted("first", "second"), store=store, session_id="s") as session:
        assert await session.run("b") == "second"
        assert [turn.text for turn in session.turns] == ["first", "second"]


async def test_what_is_said_after_an_opening_goes_before_what_the_opening_says(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/s.db"
    async with open_session(model=scripted("one"), store=url, session_id="s") as session:
        await session.run("a")
    given = {"permission_mode": "bypassPermissions", "name": "at the opening"}
    async with open_session(model=scripted("one", "two"), store=url, resume="s", **given) as again:  # type: ignore[arg-type]
        await again.set_permission_mode("plan")
        await again.rename("since then")
        assert (again.permission_mode, again.name) == ("plan", "since then")
        await again.run("b")
        assert (again.permission_mode, again.name) == ("plan", "since then")
