"""A session is two classes: what is read of it, and what is done with it."""

import ast

from backstay import Session
from backstay.session.view import SessionView
from tests.contracts.kit import talk
from tests.source_tree import SOURCE

WRITES = frozenset(("deliver", "_deliver", "post", "note"))
"""Methods that leave an event."""


def test_a_session_is_a_view_and_what_is_done_with_it() -> None:
    assert Session.__mro__ == (Session, SessionView, object)


def test_a_view_changes_nothing() -> None:
    tree = ast.parse((SOURCE / "session" / "view.py").read_text(encoding="utf-8"))
    called = {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    stored = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }

    assert called & WRITES == set()
    assert stored == {"_runner", "_services", "project", "_warnings", "report", "opened", "transcript"}, (
        "the transcript is a cache"
    )


async def test_a_view_of_an_open_session_reads_what_the_session_reads() -> None:
    async with talk("one", "two") as session:
        view = SessionView(session._runner)
        await session.run("first")
        await session.run("second")

        assert (view.id, view.seq, view.state, view.turns) == (session.id, session.seq, session.state, session.turns)
        assert view.history == session.history
        assert await view.full_history() == await session.full_history()
        assert await view.events() == await session.events()
    assert view.state == "Closed"
