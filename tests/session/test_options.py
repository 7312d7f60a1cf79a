"""How a session is opened: whose settings count, and what a caller can say."""

from pathlib import Path

import pytest

from backstay.session.options import Lineage, Options, ResolvedOptions, ResolvedSettings
from backstay.vocab.specs import SessionContext
from tests.session.project.repository import Repository


async def test_the_settings_are_those_of_the_folder_that_the_session_works_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path, monkeypatch)
    repository.write(".backstay/settings.json", {"permissions": {"deny": ["Bash(curl *)"]}})
    context = SessionContext(working_dir=str(repository.root))

    async with repository.open("Done.", cwd=tmp_path, context=context) as session:
        assert [str(rule) for rule in session.rules if rule.decision == "deny"] == ["Bash(curl *)"]


def test_options_are_what_a_caller_says_and_nothing_that_is_found_out() -> None:
    found_out = {*ResolvedSettings.__struct_fields__, *Lineage.__struct_fields__} - {
        "hooks"
    }  # a caller gives functions

    assert set(Options.__struct_fields__) & found_out == set()
    assert set(ResolvedOptions.__struct_fields__) - set(Options.__struct_fields__) == {"resolved", "lineage"}
