"""`backstay models`: recorded answers are read through the adapters, in random pieces; what is known of models is shown, and told
where it is missing: a price, a summary, the model in the box."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from backstay.providers.local.model import FACTS
from backstay.providers.local.pins import list_pins as pins
from backstay.providers.registry import PROVIDERS
from backstay.vocab.specs import Usage
from tests.e2e.door import Door, Line
from tests.e2e.test_usage_command import asked, replied, store
from tests.providers.http import wires
from tests.providers.http.wires import FORMAT_NAMES, FormatName, Said

every_format = pytest.mark.parametrize("format", FORMAT_NAMES)
SAID = Said(text="Grüße, 世界! 👋🏽", calls=[("Read", {"path": "ä"})])


def recorded(format: FormatName, **rest: object) -> Line:
    body = b"".join(wires.stream(format, SAID)).decode()
    return {"id": "r1", "status": 200, "content_type": "text/event-stream", "body": body, **rest}


def decode(door: Door, format: str, *lines: Any, seed: int = 0) -> list[Line]:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    ran = door.spawn("models", "decode", "--format", format, "--seed", str(seed), "-", text=text)
    assert (ran.code, ran.err) == (0, "")
    return ran.lines


@every_format
def test_an_answer_is_read_the_same_in_whatever_pieces_it_comes(door: Door, format: FormatName) -> None:
    whole = {**recorded(format), "content_type": "application/json", "body": wires.document(format, SAID).decode()}
    lines = decode(door, format, *[recorded(format)] * 60, whole, seed=7)

    first = lines[0]
    assert {key: first[key] for key in ("id", "stop", "model")} == {
        "id": "r1",
        "stop": "tool_calls",
        "model": "test-model",
    }
    assert first["usage"] == {"input": 12, "output": 7}
    assert first["message"]["role"] == "assistant"
    text, call = first["message"]["content"]
    assert text == {"type": "text", "text": SAID.text}
    assert (call["type"], call["name"], json.loads(call["args"])) == ("tool_call", "Read", {"path": "ä"})
    assert lines[:60] == [first] * 60
    assert lines[60]["message"]["content"][0] == text


@every_format
def test_chunks_are_framed_as_a_stream(door: Door, format: FormatName) -> None:
    frames = [part.partition(b"data: ")[2].strip() for part in wires.stream(format, SAID)]
    chunks = [json.loads(frame) for frame in frames if frame != b"[DONE]"]

    assert (
        decode(door, format, {"id": 1, "chunks": chunks}, recorded(format, id=1))
        == [*decode(door, format, recorded(format, id=1))] * 2
    )


@every_format
def test_an_answer_that_was_cut_is_an_error(door: Door, format: FormatName) -> None:
    body = recorded(format)["body"]
    (line,) = decode(door, format, recorded(format, body=body[: len(body) // 2]))

    assert line["id"] == "r1"
    assert line["error"]["kind"] == "transport"


@every_format
def test_a_refusal_is_an_error_by_kind(door: Door, format: FormatName) -> None:
    body = wires.refusal(format, 429, "Slow down.").decode()
    line = {"id": [1], "status": 429, "content_type": "application/json", "body": body, "retry_after": "3"}
    (answer,) = decode(door, format, line)

    assert (answer["id"], answer["error"]["kind"], answer["error"]["retry_after_s"]) == ([1], "rate_limit", 3.0)
    assert "Slow down." in answer["error"]["message"]


def test_a_bad_line_is_answered_and_the_others_go_on(door: Door) -> None:
    good = recorded("anthropic")
    bad = ["{", "[1]", "3", '{"id":5}', '{"id":6,"body":7}', '{"id":7,"chunks":[3]}', '{"id":8,"status":"x","body":""}']
    lines = decode(door, "anthropic", good, *bad, "", good)

    assert [line["id"] for line in lines] == ["r1", None, None, None, 5, 6, 7, 8, "r1"]
    assert {line["error"]["kind"] for line in lines[1:-1]} == {"bad_request"}
    assert lines[0] == lines[-1]


def test_long_text_and_signatures_are_durable_parts(door: Door) -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2VjcmV0LXByb29m"},
        {"type": "text", "text": "long " * 20_000},
    ]
    document = {**json.loads(wires.document("anthropic", SAID)), "content": content, "stop_reason": "end_turn"}
    body = json.dumps(document)
    (line,) = decode(door, "anthropic", {"id": 0, "status": 200, "content_type": "application/json", "body": body})

    assert [part["type"] for part in line["message"]["content"]] == ["reasoning", "text_ref"]
    assert line["message"]["content"][1]["chars"] == 100_000
    assert "c2VjcmV0LXByb29m" not in json.dumps(line)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("decode", "--format", "xml", "-"), "'xml' is not one of"),
        (("decode", "-"), "Missing option '--format'"),
        (("decode", "--format", "google"), "Missing argument"),
        (("decode", "--format", "google", "file"), "'file' is not"),
        (("decode", "--format", "google", "--seed", "x", "-"), "'x' is not a valid integer"),
    ],
)
def test_what_is_typed_wrong_is_exit_2(door: Door, arguments: tuple[str, ...], words: str) -> None:
    ran = door.run("models", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_nothing_in_nothing_out(door: Door) -> None:
    ran = door.run("models", "decode", "--format", "google", "-")

    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_the_catalog_is_listed(door: Door) -> None:
    rows = door.run("models", "list").out.splitlines()
    objects = door.run("models", "list", "--json").json

    assert len(rows) == len(objects) + 1
    assert {each["name"].partition(":")[0] for each in objects} <= {*PROVIDERS, "local"}
    assert [each["pulled"] for each in objects if each["name"].startswith("local:")] == [False] * len(pins())
    assert any(row.startswith("local:") for row in rows)
    assert all(each["known"] and each["window"] > 0 for each in objects)
    assert any(row.startswith("anthropic:claude-sonnet-4-6 ") for row in rows)


def test_a_model_is_shown(door: Door) -> None:
    words = door.run("models", "show", "anthropic:claude-sonnet-4-6").out
    facts = door.run("models", "show", "anthropic:claude-sonnet-4-6", "--json").json

    assert "ANTHROPIC_API_KEY" in words
    assert f"{facts['window']:,}" in words
    assert (facts["format"], facts["known"], facts["usd_per_million"]["input"]) == ("anthropic", True, 3.0)


def test_a_model_that_nobody_knows_is_shown_as_such(door: Door) -> None:
    name = "openai-chat:mine@http://localhost:1/v1"

    assert "Nothing is known" in door.run("models", "show", name).out
    assert msgspec.json.decode(door.run("models", "show", name, "--json").out)["known"] is False


@pytest.mark.parametrize("name", ["claude", "nobody:x"])
def test_a_name_that_names_nobody_is_refused(door: Door, name: str) -> None:
    ran = door.run("models", "show", name)

    assert (ran.code, ran.out) == (1, "")
    assert "names no model" in ran.err


@pytest.mark.parametrize(
    ("address", "key", "remark"),
    [
        ("https://llm.example.org/v1", "BACKSTAY_API_KEY_LLM_EXAMPLE_ORG", ""),
        ("http://127.0.0.1:8080/v1", "BACKSTAY_API_KEY_127_0_0_1_PORT_8080", ", if the server wants one"),
    ],
)
def test_a_server_by_its_address_is_shown_with_the_variable_of_its_key(
    door: Door, address: str, key: str, remark: str
) -> None:
    name = f"openai-chat:mine@{address}"
    words = door.run("models", "show", name).out
    shown = door.run("models", "show", name, "--json").json

    assert (shown["address"], shown["key"]) == (address, key)
    assert f"address     {address}\n" in words
    assert f"key         {key}{remark}\n" in words


def test_the_address_that_the_environment_names_is_shown(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example.org/v1")

    assert door.run("models", "show", "openai:gpt-4o", "--json").json["address"] == "https://proxy.example.org/v1"


def test_a_local_model_is_shown_with_its_own_facts_and_whether_it_is_pulled(door: Door) -> None:
    pin = pins()[-1]
    missing = door.run("models", "show", f"local:{pin.name}").out
    file = door.folder / "data" / "models" / pin.file
    file.parent.mkdir(parents=True)
    file.touch()
    pulled = door.run("models", "show", "local:", "--json").json

    assert f"backstay models pull {pin.name}" in missing
    assert (pulled["name"], pulled["pulled"], pulled["known"]) == (f"local:{pin.name}", True, True)
    assert (pulled["window"], pulled["max_output"]) == (FACTS.window, FACTS.max_output)
    assert "There is no local model 'x'" in door.run("models", "show", "local:x").err


def test_a_profile_without_a_model_says_what_to_write(door: Door) -> None:
    path = settings(door, {"providers": {"house": {"type": "groq", "api_key": "hk-secret"}}})
    alone = door.run("models", "show", "house", "--settings", path)
    shown = door.run("models", "show", "house:m", "--settings", path)

    assert (alone.code, "Write house:MODEL" in alone.err) == (1, True)
    assert (shown.code, "key         in the settings\n" in shown.out, "hk-secret" in shown.out) == (0, True, False)


def test_a_summary_without_a_model_says_why(door: Door) -> None:
    long_session(door)
    played = door.run("sessions", "compact", "s1")
    door.run("sessions", "compact", "s1", "--undo")
    gone = settings(
        door,
        {
            "providers": {"house": {"type": "openai-chat", "base_url": "http://127.0.0.1:9/v1"}},
            "models": {"m": {"window": 3000}},
        },
    )
    retried = door.run("sessions", "compact", "s1", "--model", "house:m", "--settings", gone, "--json")

    assert "without a model: what is only played cannot summarise" in played.out
    assert (retried.code, retried.json["model"]) == (0, "")
    assert retried.json["note"].startswith("the summary was put together without house:m: ")
    assert door.run("sessions", "show", "s1", "--json").json["model"].startswith("scripted:")


def test_a_session_whose_model_is_gone_is_compacted_and_that_is_told(door: Door) -> None:
    long_session(door)
    (door.folder / "script.json").unlink()
    ran = door.run("sessions", "compact", "s1")

    assert ran.code == 0
    assert "the summary was put together without scripted:" in ran.out
    assert "script.json" in ran.out


def test_a_model_for_the_summary_must_be_there_and_an_undoing_needs_none(door: Door) -> None:
    long_session(door)

    assert "nobody:x" in door.run("sessions", "compact", "s1", "--model", "nobody:x").err
    assert door.run("sessions", "compact", "s1", "--undo", "--model", "nobody:x").code == 2
    assert door.run("sessions", "show", "s1", "--json").json["model"].startswith("scripted:")


def test_a_cost_that_nobody_knows_is_not_nothing(door: Door) -> None:
    put(door, "s1", "x:a")
    shown = door.run("sessions", "show", "s1")
    found = door.run("sessions", "show", "s1", "--json").json

    assert "cost:      unknown (no price)\n" in shown.out
    assert (found["cost_usd"], found["cost_microcents"]) == (None, None)


def test_a_few_models_without_a_price_are_named_and_the_others_counted(door: Door) -> None:
    put(door, "s1", "x:a", "x:b", "x:c", "x:d", "x:e")
    ran = door.run("usage", "--by", "model")

    assert "No price is known for x:a, x:b, x:c and 2 more: not in the cost." in ran.out
    assert len(door.run("usage", "--json").json["unpriced_models"]) == 5


def test_the_demo_offers_the_one_with_a_real_model(door: Door) -> None:
    assert "make demo-local" in door.spawn("demo", "--fast", env={"TMPDIR": str(door.folder)}).out


@pytest.mark.parametrize(("flag", "code"), [("--help", 0), ("--nope", 2)])
def test_the_demo_with_a_real_model_explains_itself_and_stops(door: Door, flag: str, code: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "backstay.demo.local", flag], capture_output=True, text=True, check=False, timeout=50
    )

    assert ran.returncode == code
    assert "--keep" in (ran.stderr if code else ran.stdout)
    assert not (door.folder / "data").exists()


def settings(door: Door, content: object) -> str:
    """Write a settings file and return its path."""
    path = door.folder / "given.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    path.chmod(0o600)
    return str(path)


def long_session(door: Door) -> None:
    """Hold a conversation, `s1`, that can be made shorter."""
    model = door.script(*[{"text": "words of some length " * 150}] * 4)
    for _ in range(4):
        assert door.run("-p", "a" * 200, "--model", model, "--session-id", "s1").code == 0


def put(door: Door, session: str, *models: str) -> None:
    """Store a session in which each of `models` answered, at no known price."""
    used = Usage(input=10, output=1)
    replies = [event for model in models for event in (asked(model), replied(used, model=model))]
    store(door, session, *replies)


def test_a_script_that_stands_in_for_another_begins_at_its_first_reply(door: Door) -> None:
    first = door.script({"error": {"kind": "auth"}}, {"text": "The first again."})
    second = door.script({"text": "From the second."})
    talk = ("--session-id", "s1", "--model", first, "--fallback-model", second)

    assert door.run("-p", "a", *talk).out == "From the second.\n"
