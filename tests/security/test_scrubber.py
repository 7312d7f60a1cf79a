"""Secrets that a model streams or a provider quotes are taken out at every door: terminal, JSON, exceptions, log, trace, export."""

import json
from pathlib import Path

import pytest

from backstay import TurnFailed, open_session
from backstay.catalog.paged_log import with_log
from backstay.export.diagnostic.export import load_source, write_diagnostic
from backstay.stores.open import open_store
from backstay.stores.trace import trace_folder, trace_path
from backstay.system.machine import SystemClock
from tests.contracts.kit import scripted

TOKEN = "gh" + "p_" + "a1B2c3D4e5" * 4
SAID = f"bad https://u:hunter2@h/ {TOKEN} password=hunter2secret"
SECRETS = (TOKEN, "u:hunter2", "hunter2secret")


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("use password=hunter2secret here", "hunter2secret"),
        ("> Cookie: sid=abcdef0123456\n> Host: x", "abcdef0123456"),
        ("env:\n  DB_PASSWORD: hunter2secret\n", "hunter2secret"),
        ('password="correct horse battery staple"', "horse battery"),
        ("clone https://ada:sunshine@example.com/x.git now", "sunshine"),
        (
            f"-----BEGIN {'PRIVATE'} KEY-----\nMIIEpAIBAAKCAQEA0Z3\nVS5JJcds3xfn\n-----END {'PRIVATE'} KEY-----\n",
            "AIBAAKCAQEA0Z3",
        ),
    ],
)
@pytest.mark.parametrize("chunk", [1, 4, 16])
async def test_b7_a_streamed_secret_is_in_no_line_of_the_trace_and_the_diagnostic_export(
    tmp_path: Path, text: str, secret: str, chunk: int
) -> None:
    url = f"sqlite://{tmp_path / 's.db'}"
    model = scripted({"text": text, "reasoning": text, "chunk": chunk})
    async with open_session(store=url, model=model, cwd=tmp_path, session_id="s1") as session:
        await session.run("Go.")
    store = await open_store(url, clock=SystemClock())
    await with_log(store, "s1", lambda log: write_diagnostic(load_source(log, store.url), tmp_path / "d.jsonl"))
    folder = trace_folder(store.url)
    await store.close()

    assert folder is not None
    traced = [json.loads(line) for line in trace_path(folder, "s1").read_text().splitlines()]
    lines = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    for kind in ("TextDelta", "ReasoningDelta"):
        told = "".join(line["data"]["delta"]["text"] for line in traced if line["kind"] == kind)
        assert "[REDACTED]" in told
        assert secret not in told
    for event in ("text_delta", "provider_stream_raw_delta"):
        assert secret not in "".join(line["delta"] for line in lines if line["event"] == event)
    assert secret not in json.dumps(lines)


@pytest.mark.contract("RV-B15")
async def test_l10_secrets_in_a_providers_error_are_neither_raised_nor_logged() -> None:
    model = scripted({"error": {"kind": "bad_request", "message": SAID}})
    async with open_session(store=None, model=model) as session:
        with pytest.raises(TurnFailed) as failed:
            await session.run("Go.")

        for told in (str(failed.value), str(session.history), repr(failed.value)):
            assert not any(secret in told for secret in SECRETS)
        assert "bad https://[REDACTED]@h/ [REDACTED]" in str(failed.value)


@pytest.mark.contract("RV-B15")
async def test_b7_a_secret_that_an_older_version_left_in_a_trace_is_not_exported(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 's.db'}"
    model = scripted({"text": "use qassword=hunter2secret here", "chunk": 4})
    async with open_session(store=url, model=model, cwd=tmp_path, session_id="s1") as session:
        await session.run("Go.")
    store = await open_store(url, clock=SystemClock())
    folder = trace_folder(store.url)
    assert folder is not None
    path = trace_path(folder, "s1")
    path.write_text(path.read_text().replace('"qass"', '"pass"'))
    await with_log(store, "s1", lambda log: write_diagnostic(load_source(log, store.url), tmp_path / "d.jsonl"))
    await store.close()

    lines = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    told = "".join(line["delta"] for line in lines if line["event"] == "text_delta")
    assert told == "use password=[REDACTED] here"
