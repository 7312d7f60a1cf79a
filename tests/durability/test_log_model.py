"""T10, small: random histories of a store against a model."""

import pytest

from tests.torture.log_model import StoreKind, try_histories


@pytest.mark.parametrize(("kind", "examples"), [("memory", 240), ("sqlite", 150)])
def test_a_store_does_what_the_model_says(kind: StoreKind, examples: int) -> None:
    try_histories(kind, examples, number=1, steps=15)
