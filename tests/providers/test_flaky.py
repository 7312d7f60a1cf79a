"""A model that fails on purpose."""

import anyio
import pytest

from backstay.ports import ModelReply, ModelRequest
from backstay.providers.flaky import FaultPlan, FlakyModel, ProviderFault, fault_plan, seed_plan
from backstay.providers.scripted import ScriptedModel
from backstay.vocab.deltas import TextDelta
from backstay.vocab.errors import ProviderError

pytestmark = pytest.mark.anyio

INNER = ScriptedModel.of([{"text": "abcd", "chunk": 1}, {"text": "efgh", "chunk": 1}], name="scripted:letters")


async def _play(plan: FaultPlan, position: int = 0) -> list[str]:
    """What came: texts of deltas, `=` before that of the reply, an error's kind at the end."""
    heard: list[str] = []
    request = ModelRequest(model="m", messages=(), position=position)
    try:
        async for item in FlakyModel(INNER, plan).ask(request):
            match item:
                case TextDelta():
                    heard.append(item.text)
                case ModelReply():
                    heard.append("=")
    except ProviderError as exc:
        heard.append(f"{exc.kind} {exc.retry_after_s}")
    return heard


@pytest.mark.parametrize(
    ("fault", "heard"),
    [
        (None, ["a", "b", "c", "d", "="]),
        (ProviderFault(kind="error"), ["transport None"]),
        (ProviderFault(kind="error", error="rate_limit", retry_after_s=2.0, after=2), ["a", "b", "rate_limit 2.0"]),
        (ProviderFault(kind="error", error="overloaded", after=99), ["a", "b", "c", "d", "overloaded None"]),
        (ProviderFault(kind="cut"), []),
        (ProviderFault(kind="cut", after=3), ["a", "b", "c"]),
        (ProviderFault(kind="cut", after=99), ["a", "b", "c", "d"]),
        (ProviderFault(kind="double", after=1), ["a", "b", "b", "c", "d", "="]),
        (ProviderFault(kind="double", after=99), ["a", "b", "c", "d", "="]),
        (ProviderFault(kind="stall", after=1, stall_s=0), ["a", "b", "c", "d", "="]),
    ],
)
async def test_an_answer_is_hurt_as_planned(fault: ProviderFault | None, heard: list[str]) -> None:
    assert await _play(fault_plan(fault)) == heard


async def test_a_stall_without_end_waits_until_it_is_cancelled() -> None:
    with anyio.move_on_after(0.01) as scope:
        await _play(fault_plan(ProviderFault(kind="stall", after=2)))

    assert scope.cancelled_caught


async def test_attempts_that_were_made_to_fail_use_up_no_reply_of_the_script() -> None:
    plan = fault_plan(
        ProviderFault(kind="cut"),
        ProviderFault(kind="error", after=1),
        ProviderFault(kind="double"),
        ProviderFault(kind="error"),
    )

    heard = [await _play(plan, position) for position in range(5)]

    assert heard == [
        [],
        ["a", "transport None"],
        ["a", "a", "b", "c", "d", "="],
        ["transport None"],
        ["e", "f", "g", "h", "="],
    ]


def test_a_seed_always_says_the_same_and_another_says_something_else() -> None:
    plans = [[seed_plan(seed)(position) for position in range(200)] for seed in (1, 1, 2)]

    assert plans[0] == plans[1] != plans[2]
    assert {fault and fault.kind for fault in plans[0]} == {None, "error", "cut", "double"}
    assert all(seed_plan(1, rate=0)(position) is None for position in range(50))
    assert all(seed_plan(1, rate=1, kinds=("stall",))(position).kind == "stall" for position in range(50))  # type: ignore[union-attr]


def test_the_wrapped_model_lends_its_name_and_format() -> None:
    model = FlakyModel(INNER, fault_plan())

    assert (model.name, model.format) == ("scripted:letters", "anthropic")
