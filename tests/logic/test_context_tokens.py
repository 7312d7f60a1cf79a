"""Estimates of tokens: near what tokenizers count, in every script, and steady when texts are put together."""

import gzip
import json
import math
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.logic.context_usage import estimate_schema, estimate_text

TRAFFIC: Final = Path(__file__).parents[3] / "shared" / "cases" / "traffic"
COUNT: Final = {
    "anthropic": r'"input_tokens":\s*(\d+)',
    "openai-responses": r'"input_tokens":\s*(\d+)',
    "openai-chat": r'"prompt_tokens":\s*(\d+)',
    "google": r'"promptTokenCount":\s*(\d+)',
}
SCRIPTS: Final = "aZ0 _.\n{é€я你かな한ไ😀\u1200"


class Overheads(NamedTuple):
    """What a wire format's requests need beside the texts in them."""

    scale: float
    """How many of the provider's tokens make one of ours, in texts."""
    schema: float
    """The same in schemas: some providers write them out shorter than JSON does."""
    message: int
    tools: int
    """Once, when there is any tool: the provider's own words about calling them."""
    call: int
    """For each call that the history holds, with its result."""


OVERHEADS: Final[dict[str, Overheads]] = {
    "anthropic": Overheads(scale=1.12, schema=1.15, message=4, tools=480, call=40),
    "openai-chat": Overheads(scale=1.0, schema=0.65, message=4, tools=30, call=14),
    "openai-responses": Overheads(scale=1.0, schema=0.65, message=5, tools=5, call=12),
    "google": Overheads(scale=1.04, schema=0.75, message=3, tools=5, call=30),
}
REQUEST: Final = 4
"""Tokens of a request that says nothing."""

any_text = st.text(st.sampled_from(SCRIPTS) | st.characters())

COUNTED: Final = (
    ("The weather was fine, so we walked along the river and had lunch at a small place near the old bridge.", 23, 23),
    ("def read(path: str) -> bytes:\n    with open(path, 'rb') as file:\n        return file.read()\n", 25, 25),
    ('{"name":"Ada","age":36,"tags":["x","y"],"ok":true}', 20, 23),
    ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 43, 59),
    ("3.14159, 2.71828, 1.41421, 1.73205", 22, 34),
    ("今天天气很好、我们去公园散步吧。", 12, 14),
    ("今日はいい天気なので、公園へ散歩に行きましょう。", 16, 19),
    ("오늘은 날씨가 좋아서 공원에 산책하러 갔습니다.", 17, 18),
    ("Сегодня хорошая погода, и мы пошли гулять в парк.", 15, 16),
    ("आज मौसम अच्छा है, इसलिए हम पार्क में घूमने गए।", 13, 17),
    ("Die Sicherheitseinstellungen müssen überprüft werden.", 9, 10),
)
"""Texts, and what two tokenizers of today make of them: the fewer and the more."""


@pytest.mark.parametrize(("text", "least", "most"), COUNTED)
def test_an_estimate_is_near_what_tokenizers_count(text: str, least: int, most: int) -> None:
    assert 0.6 * least <= estimate_text(text) <= 1.8 * most


@pytest.mark.parametrize("text", ["你好世界" * 50, "東京は夜の七時" * 30, "안녕하세요" * 40, "😀🎉🚀" * 40])
def test_a_dense_script_is_never_taken_for_a_quarter_of_its_tokens(text: str) -> None:
    assert estimate_text(text) >= 0.9 * len(text)


def test_nothing_has_no_tokens_and_anything_has_one() -> None:
    assert [estimate_text(text) for text in ("", "a", "\n", " ", "\x00", "\ud800")] == [0, 2, 1, 1, 1, 2]


def test_a_text_without_a_gap_is_not_one_token() -> None:
    assert estimate_text("qzxvjkwpygbfhdmc" * 64) > 200
    assert estimate_text("A" * 1024) > 100
    assert estimate_text("7" * 1024) > 300
    assert estimate_text("=" * 1024) > 100


@given(any_text, any_text)
def test_putting_texts_together_never_shrinks_the_estimate(one: str, other: str) -> None:
    together = estimate_text(one + other)

    assert together >= estimate_text(one)
    assert together >= estimate_text(other) - 2
    assert estimate_text(one) + estimate_text(other) - 3 <= together <= estimate_text(one) + estimate_text(other) + 7


@given(any_text, st.integers(1, 40))
def test_an_estimate_grows_with_the_text(text: str, times: int) -> None:
    assert abs(estimate_text(text * times) - times * estimate_text(text)) <= 8 * times


def test_a_schema_is_counted() -> None:
    schema = json.dumps({"name": "word_count", "parameters": {"properties": {"path": {"type": "string"}}}}).encode()

    assert estimate_schema(b"") == 0
    assert 15 <= estimate_schema(schema) <= 40
    assert estimate_schema(b"\xff\xfe") > 0


@pytest.mark.skipif(not TRAFFIC.is_dir(), reason="the recorded traffic is not here")
@pytest.mark.parametrize("format", sorted(OVERHEADS))
def test_the_recorded_counts_are_met(format: str) -> None:
    ours, by_length = [], []
    for request, counted in _recorded(format):
        texts, schemas, calls = _content(request)
        length = sum(map(len, texts)) + sum(map(len, schemas))
        if not length or not counted:
            continue
        found = _estimate_request(
            text=sum(map(estimate_text, texts)),
            schema=sum(map(estimate_schema, schemas)),
            format=format,
            messages=_messages(request),
            tools=len(schemas),
            calls=calls,
        )
        ours.append(abs(math.log(found / counted)))
        by_length.append(abs(math.log(length / 4 / counted)))

    assert len(ours) > 50
    assert statistics.median(ours) < math.log(1.3)
    assert _tail(ours) < math.log(3.0)
    assert _tail(ours) < _tail(by_length)


def _estimate_request(*, text: int, schema: int, format: str, messages: int, tools: int, calls: int) -> int:
    """Estimate how many of the provider's tokens a request has, whose texts and media come to `text` of ours and its tools to `schema`.

    Reasoning of earlier turns is not to be counted: providers drop it.
    """
    known = OVERHEADS[format]
    own = REQUEST + known.message * messages + known.call * calls + (known.tools if tools else 0)
    return int(known.scale * text + known.schema * schema) + own


def _tail(errors: list[float]) -> float:
    """The error that one in twenty exceeds."""
    return sorted(errors)[int(0.95 * len(errors))]


def _recorded(format: str) -> Iterator[tuple[dict[str, Any], int]]:  # Any: what was recorded is JSON
    """Requests of texts and functions only, and how many tokens the provider counted in them."""
    for name in ("chatlas", "mira"):
        with gzip.open(TRAFFIC / f"{name}.jsonl.gz", "rt") as lines:
            for pair in map(json.loads, lines):
                counts = [int(found) for found in re.findall(COUNT[format], pair["body"])]
                if pair["format"] == format and pair["status"] == 200 and counts and _is_plain(pair["request"]):
                    yield pair["request"], max(counts)


def _is_plain(request: dict[str, Any]) -> bool:
    others = (
        r'"(image|image_url|input_image|document|file|inlineData|input_audio|thinking|reasoning|batch|web_\w+)"|Schema"'
    )
    return not re.search(
        others + r'|"json_schema"|"output_(format|config)"|code_execution|googleSearch|urlContext|mcp',
        json.dumps(request),
    )


def _messages(request: dict[str, Any]) -> int:
    said = request.get("messages") or request.get("contents") or request.get("input") or ()
    before = sum(bool(request.get(name)) for name in ("system", "instructions", "systemInstruction"))
    return before + (1 if isinstance(said, str) else len(said))


def _content(request: dict[str, Any]) -> tuple[list[str], list[bytes], int]:
    names = ("system", "instructions", "systemInstruction", "messages", "contents", "input")
    said = [request[name] for name in names if request.get(name)]
    tools = [each for tool in request.get("tools") or () for each in tool.get("functionDeclarations", [tool])]
    results = r'"(tool_use_id|tool_call_id|function_call_output|functionResponse)"'
    return (
        list(_texts(said)),
        [json.dumps(tool.get("function", tool)).encode() for tool in tools],
        len(re.findall(results, json.dumps(said))),
    )


def _texts(found: object, key: str = "") -> Iterator[str]:
    match found:
        case str() if key not in ("type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "thoughtSignature"):
            yield found
        case dict() if key in ("args", "response", "input"):
            yield json.dumps(found)
        case dict():
            for name, inner in found.items():
                yield from _texts(inner, name)
        case list():
            for inner in found:
                yield from _texts(inner, key)
        case _:
            pass
