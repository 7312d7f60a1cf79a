"""Secrets that a provider quotes in an error reach neither the terminal nor a program that reads the output."""

import pytest

from tests.e2e.door import Door

TOKEN = "gh" + "p_" + "a1B2c3D4e5" * 4
SAID = f"bad https://u:hunter2@h/ {TOKEN} password=hunter2secret"
SECRETS = (TOKEN, "u:hunter2", "hunter2secret")


@pytest.mark.contract("RV-B15")
@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_l10_secrets_in_a_providers_error_reach_no_terminal_and_no_program(door: Door, format: str) -> None:
    script = door.script({"error": {"kind": "bad_request", "message": SAID}})

    ran = door.run("-p", "Go.", "--model", script, "--session-id", "s1", "--output-format", format)
    log = door.run("log", "show", "s1")

    assert ran.code != 0
    assert "[REDACTED]" in log.out
    for told in (ran.out, ran.err, log.out):
        assert not any(secret in told for secret in SECRETS), told
