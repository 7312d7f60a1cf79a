"""No provider refuses a request for its shape, whatever happened to the session before: a property, for every format.

`python -m tests.torture history` tries many more worlds.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.history_world import ACTS, MODELS, OFTEN, happen


@settings(max_examples=25, suppress_health_check=(HealthCheck.too_slow,))
@given(seed=st.integers(0, 2**32), acts=st.lists(st.sampled_from(OFTEN), min_size=1, max_size=16))
def test_every_request_is_one_that_its_provider_takes(seed: int, acts: list[str]) -> None:
    assert happen(seed, acts).wrong == ()


def test_the_same_seed_gives_the_same_world() -> None:
    acts = ["say", "switch", "interrupt", "compact", "say", "rewind", "say", "fork", "say"]

    assert happen(7, acts) == happen(7, acts)


def test_every_act_can_come_first_and_every_model_is_asked() -> None:
    for seed, act in enumerate(ACTS):
        seen = happen(seed, [act])

        assert seen.wrong == ()
        assert seen.requests.keys() == MODELS.keys()
