"""A model that plays a script."""

import json
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from backstay.ports import ModelReply, ModelRequest
from backstay.providers.scripted import ScriptedModel, parse_scripted
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError, UserError
from backstay.vocab.messages import Message, Reasoning, Text, ToolCall, ToolResult
from backstay.vocab.specs import Usage

pytestmark = pytest.mark.anyio

YAML = """
- text: "I will look at the files."
  chunk: 10
  delay_ms: 2
  calls:
    - {name: Read, args: {file_path: README.md, limit: 3}}
    - {name: Bash}
  usage: {input: 120, output: 30}
- expect: {contains: "backstay"}
  reasoning: "Hm."
  text: "yes"
- error: {kind: rate_limit, retry_after_s: 1}
- raw_args: {name: Bash, text: '{"command": "ls'}
- hang: true
- text: half
  error: {kind: transport, message: gone}
- text: on
  stop: length
"""

SCRIPT: list[Mapping[str, object]] = [
    {
        "text": "I will look at the files.",
        "chunk": 10,
        "delay_ms": 2,
        "calls": [{"name": "Read", "args": {"file_path": "README.md", "limit": 3}}, {"name": "Bash"}],
        "usage": {"input": 120, "output": 30},
    },
    {"expect": {"contains": "backstay"}, "reasoning": "Hm.", "text": "yes"},
    {"error": {"kind": "rate_limit", "retry_after_s": 1}},
    {"raw_args": {"name": "Bash", "text": '{"command": "ls'}},
    {"hang": True},
    {"text": "half", "error": {"kind": "transport", "message": "gone"}},
    {"text": "on", "stop": "length"},
]


class SleepyClock:
    """Counts the sleeps that it is asked for."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> int:
        """No time passes."""
        return 0

    def nonce(self) -> str:
        """No chance is taken."""
        return "nonce"

    async def sleep(self, seconds: float) -> None:
        """Remember how long."""
        self.slept.append(seconds)


def _request(position: int = 0, *messages: Message) -> ModelRequest:
    return ModelRequest(model="scripted:x", messages=messages, position=position)


def _user(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


async def _play(model: ScriptedModel, request: ModelRequest) -> list[Delta | ModelReply | str]:
    """Everything that came, an error as its kind and words at the end."""
    items: list[Delta | ModelReply | str] = []
    try:
        async for item in model.ask(request):
            items.append(item)
    except ProviderError as exc:
        items.append(f"{exc.kind} {exc.retry_after_s}: {exc}")
    return items


async def test_a_reply_streams_its_text_and_calls_and_ends_with_the_whole() -> None:
    clock = SleepyClock()

    items = await _play(ScriptedModel.of(SCRIPT, clock=clock), _request())

    assert items == [
        TextDelta(text="I will loo"),
        TextDelta(text="k at the f"),
        TextDelta(text="iles."),
        ToolArgsDelta(index=0, name="Read", text='{"file_pat'),
        ToolArgsDelta(index=0, name="Read", text='h":"README'),
        ToolArgsDelta(index=0, name="Read", text='.md","limi'),
        ToolArgsDelta(index=0, name="Read", text='t":3}'),
        ToolArgsDelta(index=1, name="Bash", text="{}"),
        ModelReply(
            parts=(
                Text(text="I will look at the files."),
                ToolCall(id="", name="Read", args='{"file_path":"README.md","limit":3}', provider_id="scripted-1-0"),
                ToolCall(id="", name="Bash", args="{}", provider_id="scripted-1-1"),
            ),
            stop="tool_calls",
            usage=Usage(input=120, output=30),
            model="scripted:inline",
        ),
    ]
    assert clock.slept == [0.002] * 7


async def test_reasoning_comes_first_and_usage_is_estimated_when_it_is_not_given() -> None:
    items = await _play(ScriptedModel.of(SCRIPT), _request(1, _user("what is backstay?")))

    assert items == [
        ReasoningDelta(text="Hm."),
        TextDelta(text="yes"),
        ModelReply(
            parts=(Reasoning(text="Hm."), Text(text="yes")),
            usage=Usage(input=4, output=4, estimated=True),
            model="scripted:inline",
        ),
    ]


@pytest.mark.parametrize(
    ("position", "items"),
    [
        (2, ["rate_limit 1.0: Reply 3 of 'scripted:inline' is the error 'rate_limit'."]),
        (5, [TextDelta(text="half"), "transport None: gone"]),
        (
            7,
            [
                "bad_request None: The script 'scripted:inline' has 7 replies and reply 8 was asked for. "
                "Add a reply, or let the session end earlier."
            ],
        ),
    ],
)
async def test_an_error_comes_after_the_text(position: int, items: list[object]) -> None:
    assert await _play(ScriptedModel.of(SCRIPT), _request(position)) == items


async def test_malformed_arguments_are_passed_on_as_they_are() -> None:
    *_, reply = await _play(ScriptedModel.of(SCRIPT), _request(3))

    assert isinstance(reply, ModelReply)
    assert reply.parts == (ToolCall(id="", name="Bash", args='{"command": "ls', provider_id="scripted-4-0"),)
    assert reply.stop == "tool_calls"


async def test_the_stop_reason_can_be_told() -> None:
    *_, reply = await _play(ScriptedModel.of(SCRIPT), _request(6))

    assert isinstance(reply, ModelReply)
    assert reply.stop == "length"


async def test_a_hanging_reply_waits_until_it_is_cancelled() -> None:
    items: list[Delta | ModelReply | str] = []
    with anyio.move_on_after(0.01) as scope:
        items = await _play(ScriptedModel.of(SCRIPT), _request(4))

    assert scope.cancelled_caught
    assert items == []


@pytest.mark.parametrize(
    "messages",
    [
        [_user("about backstay")],
        [_user("a"), Message(role="assistant", parts=(Text(text="b"),)), _user("backstay")],
        [
            Message(role="assistant", parts=(ToolCall(id="1", name="Read", args="{}"),)),
            Message(role="tool", parts=(ToolResult(call="1", content=(Text(text="# backstay"),)),)),
            _user("go on"),
        ],
    ],
)
async def test_an_expectation_is_looked_for_in_the_newest_messages(messages: list[Message]) -> None:
    *_, last = await _play(ScriptedModel.of(SCRIPT), _request(1, *messages))

    assert isinstance(last, ModelReply)


async def test_an_expectation_that_is_not_met_says_what_was_there() -> None:
    old = (_user("backstay"), Message(role="assistant", parts=(Text(text="backstay"),)))

    items = await _play(ScriptedModel.of(SCRIPT), _request(1, *old, _user("new"), _user("words")))

    assert items == [
        "bad_request None: Reply 2 of 'scripted:inline' expects 'backstay' in the newest messages. "
        "There was: 'new\\nwords'."
    ]


async def test_yaml_json_and_python_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(YAML)
    (tmp_path / "s.json").write_text(json.dumps(SCRIPT))
    models = [
        ScriptedModel.load(tmp_path / "s.yaml", name="scripted:s"),
        ScriptedModel.load(str(tmp_path / "s.json"), name="scripted:s"),
        ScriptedModel.of(SCRIPT, name="scripted:s"),
    ]

    for position in (0, 1, 2, 3, 5, 6, 7):
        request = _request(position, _user("backstay"))
        first, *others = [await _play(model, request) for model in models]
        assert others == [first, first]


async def test_a_script_can_start_later() -> None:
    *_, reply = await _play(ScriptedModel.of(SCRIPT, 5), _request(1))

    assert isinstance(reply, ModelReply)
    assert reply.parts == (Text(text="on"),)


def test_a_model_has_the_name_and_format_that_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("- text: hi\n")

    assert ScriptedModel.load(path).name == f"scripted:{path}"
    assert ScriptedModel.load(path, 2).name == f"scripted:{path}@3"
    assert ScriptedModel.load(path, name="scripted:mine").name == "scripted:mine"
    assert ScriptedModel.load(path).format == "anthropic"
    assert ScriptedModel.load(path, format="google").format == "google"


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        ("a.yaml", ("a.yaml", 0)),
        ("a.yaml@1", ("a.yaml", 0)),
        ("a.yaml@3", ("a.yaml", 2)),
        ("scripted:a.yaml@3", ("a.yaml", 2)),
        ("me@home.yaml", ("me@home.yaml", 0)),
        ("me@home.yaml@2", ("me@home.yaml", 1)),
        ("a@2@1", ("a@2", 0)),
        ("a@", ("a@", 0)),
        ("a@-1", ("a@-1", 0)),
    ],
)
def test_a_spec_says_the_file_and_where_to_start(spec: str, parsed: tuple[str, int]) -> None:
    assert parse_scripted(spec) == parsed


def test_reply_zero_is_refused() -> None:
    with pytest.raises(UserError, match="numbered from 1"):
        parse_scripted("a.yaml@0")


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ({"texts": "x"}, "unknown field `texts`"),
        ({"text": 1}, r"Expected `str`, got `int` - at `\$.text`"),
        ({"chunk": 0}, ">= 1"),
        ({"delay_ms": -1}, ">= 0"),
        ({"calls": {"name": "Read"}}, "Expected `array`"),
        ({"calls": [{"name": "Read", "arguments": {}}]}, "unknown field `arguments`"),
        ({"usage": {"inputs": 1}}, "unknown field `inputs`"),
        ({"error": {"kind": "sad"}}, "Invalid enum value 'sad'"),
        ({"expect": {"matches": "x"}}, "unknown field `matches`"),
        ({"raw_args": {"name": "Bash"}}, "missing required field `text`"),
        ({"stop": "later"}, "Invalid enum value 'later'"),
        ({"hang": "yes"}, "Expected `bool`"),
        (None, "Expected `object`"),
        ("text", "Expected `object`"),
    ],
)
def test_a_script_with_a_mistake_names_the_file_and_the_reply(tmp_path: Path, reply: object, complaint: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps([{"text": "fine"}, reply]))

    with pytest.raises(UserError, match=complaint) as caught:
        ScriptedModel.load(path)

    assert f"Reply 2 of the script {str(path)!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("s.yaml", "- text: [", "is not YAML: line 1: "),
        ("s.yaml", "- text: a\n  text: b\n", "is not YAML: line 2: .*stands twice"),
        ("s.yaml", b"- text: \xff", "is not YAML"),
        ("s.json", "[{", "is not JSON"),
        ("s.json", b'["\xff"]', "is not JSON"),
        ("s.yaml", "text: a", "must be a list"),
        ("s.yaml", "", "must be a list"),
        ("s.json", "[]", "must be a list"),
    ],
)
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, name: str, content: str | bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(UserError, match=complaint):
        ScriptedModel.load(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        ScriptedModel.load(tmp_path / "none.yaml")


async def test_yaml_words_that_look_like_truth_stay_words(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("- text: no\n")

    assert (await _play(ScriptedModel.load(tmp_path / "s.yaml"), _request()))[0] == TextDelta(text="no")
