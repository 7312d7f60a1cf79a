"""Keys that a tool printed or a person typed are masked where programs read: in streams, results and the log that is shown."""

import json
import os
from pathlib import Path

import pytest

from backstay.headless.formats import Pieces
from backstay.logic.secrets.redact import Redactor
from backstay.testing.builders import recorded
from backstay.vocab.deltas import TextDelta
from backstay.vocab.events import TurnCompleted
from backstay.wire.stream import Item
from tests.e2e.door import Door

TYPED, PRINTED, SAID = (f"ghp_{n}q7Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1o" for n in "123")


@pytest.fixture
def talked(door: Door, tmp_path: Path) -> Door:
    script = tmp_path / "script.yaml"  # JSON is YAML
    replies = [
        {"calls": [{"name": "Bash", "args": {"command": f"printf '%s%s ' {PRINTED[:9]} {PRINTED[9:]}; seq 9000"}}]},
        {"text": f"It is {SAID}, I think, and that is all there is to say about it.", "chunk": 7},
    ]
    script.write_text(json.dumps(replies))
    return door


@pytest.mark.parametrize("kind", ["events", "stream-json", "json"])
def test_sec_l2_no_key_goes_to_another_program(kind: str, talked: Door, tmp_path: Path) -> None:
    more = ("--include-partial-messages",) if kind == "stream-json" else ()
    done = talked.run(
        "-p",
        f"Is it {TYPED}?",
        "--model",
        f"scripted:{tmp_path}/script.yaml",
        "--allow",
        "Bash",
        "--output-format",
        kind,
        *more,
    )
    assert done.code == 0, done.err
    for secret in (TYPED, PRINTED, SAID):
        assert secret not in done.out
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert lines
    if kind == "events":
        said = "".join(line["data"]["text"] for line in lines if line["type"] == "session:text_delta")
        assert said == "It is [REDACTED], I think, and that is all there is to say about it."
        numbers = [(line["after"], line["n"]) for line in lines if line["type"].endswith("_delta")]
        assert len(numbers) == len(set(numbers))
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("kind", ["events", "stream-json", "json"])
def test_a_variable_that_is_called_a_secret_goes_to_no_other_program_and_into_no_trace(
    kind: str, talked: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the name of the variable tells that the word is one."""
    word = "plain7secretWord.Zed"
    monkeypatch.setenv("GITHUB_TOKEN", word)
    model = talked.script({"text": f"It is {word}, I think.", "chunk": 7})
    done = talked.run("-p", f"Is it {word}?", "--model", model, "--output-format", kind)

    assert (done.code, word in done.out, "[REDACTED]" in done.out) == (0, False, True)
    traces = [path.read_text() for path in talked.folder.rglob("*.trace/*") if path.is_file()]
    assert [word in trace for trace in traces] == [False]


def test_sec_l2_no_key_is_shown_of_a_log(talked: Door, tmp_path: Path) -> None:
    talked.run(
        "-p", f"Is it {TYPED}?", "--model", f"scripted:{tmp_path}/script.yaml", "--allow", "Bash", "--session-id", "s1"
    )
    for command in (("show", "s1"), ("show", "s1", "--json"), ("tail", "s1"), ("replay", "s1")):
        done = talked.run("log", *command)
        assert done.code == 0, done.err
        assert [secret for secret in (TYPED, PRINTED, SAID) if secret in done.out] == [], command
        assert "[REDACTED]" in done.out


def test_a_key_in_the_name_of_a_file_is_shown_to_no_program(talked: Door) -> None:
    (talked.work / f"of {PRINTED}.txt").write_text("x")
    read = {"calls": [{"name": "Read", "args": {"file_path": f"of {PRINTED}.txt"}}]}
    model = talked.script(read, {"text": "Read."})
    shown = [talked.run("-p", "Go.", "--model", model, "--output-format", "events", "--session-id", "s1")]
    shown += [talked.run("log", *command) for command in (("show", "s1", "--json"), ("replay", "s1"))]
    for done in shown:
        assert done.code == 0, done.err
        assert "of [REDACTED].txt" in done.out
        assert PRINTED not in done.out


@pytest.mark.parametrize("kind", ["log show", "log replay", "log export", "json", "markdown", "html", "workflow"])
def test_no_known_key_is_shown_of_a_log_that_was_written_without_knowing_it(
    kind: str, talked: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the list of known keys tells that this one is a key."""
    word = "plainwordkeyvalue"
    asked = talked.run(
        "-p", f"Is it {word}?", "--model", talked.script({"text": "Hm."}), "--name", f"On {word}", "--session-id", "s1"
    )
    assert asked.code == 0, asked.err
    profile = {"type": "openai-chat", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key": "$ENV:CORP_SECRET"}
    settings = Path(os.environ["BACKSTAY_CONFIG_DIR"], "settings.json")
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"providers": {"house": profile}}))
    command = (*kind.split(), "s1") if kind.startswith("log") else ("export", "s1", "-o", "-", "--format", kind)
    assert word in talked.run(*command).out
    monkeypatch.setenv("CORP_SECRET", word)
    done = talked.run(*command)
    assert done.code == 0, done.err
    assert "REDACTED" in done.out
    assert word not in done.out


def test_the_terminal_shows_what_was_said(talked: Door, tmp_path: Path) -> None:
    done = talked.run("-p", "Well?", "--model", f"scripted:{tmp_path}/script.yaml", "--allow", "Bash")
    assert SAID in done.out


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 40])
def test_pieces_are_told_once_in_order_and_whole(size: int) -> None:
    text = f"Plain words first. The key house-key-of-ours and {SAID} too, and nothing more."
    pieces = Pieces(Redactor(exact=("house-key-of-ours",)))
    deltas = [TextDelta(after=3, n=n, text=text[at : at + size]) for n, at in enumerate(range(0, len(text), size))]
    over = recorded(TurnCompleted(turn="t", outcome="completed"), seq=4)
    items: list[Item] = [*deltas, over]
    told = [each for item in items for each in pieces.take(item)]
    assert told[-1] == over
    shown = [each for each in told if isinstance(each, TextDelta)]
    assert [each.n for each in shown] == sorted({each.n for each in shown})
    said = "".join(each.text for each in shown)
    assert said == "Plain words first. The key [REDACTED] and [REDACTED] too, and nothing more."
