"""What `open_session` refuses before anything is opened."""

from typing import Any

import pytest

from holdfast import UserError, open_session, query


def test_a_rule_that_is_only_a_text_is_refused_with_what_to_write() -> None:
    texts: Any = ["Bash(echo:*)"]  # Any: not what the parameter takes

    with pytest.raises(UserError, match=r"Rule\.parse\('allow', 'Bash\(echo:\*\)'\)"):
        open_session(rules=texts)


async def test_a_question_without_a_model_asks_for_one_like_a_session_does() -> None:
    with pytest.raises(UserError, match="model"):
        await query("Who answers?")
