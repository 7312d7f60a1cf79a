"""Long sessions stay flat: they compact many times, never fail, fit every request, and lose nothing that was pasted."""

import os

from tests.long_talk import WINDOW, long_talk

TURNS = int(os.environ.get("BACKSTAY_LONG_TURNS", "300"))
"""2,000 is the full length; `python -m tests.torture long_session` runs it too."""


async def test_a_long_session_compacts_many_times_and_never_fails() -> None:
    pastes = (3, 500, 1_500) if TURNS > 1_500 else (3, TURNS // 4, TURNS * 3 // 4)
    talk = await long_talk(TURNS, pastes=pastes)
    print(talk.figures())
    assert set(talk.outcomes) == {"completed"}
    assert talk.model.wrong == []
    assert talk.failures == []
    assert talk.lost == []
    assert talk.compactions >= TURNS // 50
    assert max(talk.model.sizes) <= WINDOW
    assert max(talk.appends) <= 6  # two for the turn, two for a tool, two for a compaction
    third = len(talk.model.lengths) // 3
    assert max(talk.model.lengths[-third:]) <= 1.2 * max(talk.model.lengths[: 2 * third])
