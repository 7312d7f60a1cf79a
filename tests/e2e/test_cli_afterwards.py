"""What is found afterwards: a failure in the diagnostic log, and the session to go on with."""

import anyio
import pytest

from backstay import open_session
from tests.e2e.door import Door

REFUSED = {"error": {"kind": "bad_request", "message": "the request was refused"}}


@pytest.mark.contract("RB-48")
def test_a_failed_run_is_an_error_line_of_the_diagnostic_log_and_the_next_one_works(door: Door) -> None:
    model = door.script({"text": "one"}, REFUSED, {"text": "three"})
    for prompt, code in (("a", 0), ("b", 4), ("c", 0)):
        assert door.run("-p", prompt, "--model", model, "--session-id", "s1").code == code

    exported = door.run("log", "export", "s1", "--format", "jsonl")

    assert exported.code == 0
    errors = [line for line in exported.lines if line["event"] == "error"]
    assert errors
    assert {(line["code"], line["message"]) for line in errors} == {("bad_request", "the request was refused")}
    last = [line for line in exported.lines if line["event"] == "assistant"][-1]
    assert [message["role"] for message in last["history"]] == ["user", "assistant", "user", "user", "assistant"]


@pytest.mark.contract("ST-13")
def test_continue_passes_over_a_newer_session_in_which_nothing_was_said(door: Door) -> None:
    model = door.script({"text": "one"}, {"text": "two"})
    door.run("-p", "hi", "--model", model, "--session-id", "spoken")

    async def open_and_leave() -> None:
        async with open_session(model=model, store=door.store, session_id="silent", cwd=door.work):
            pass

    anyio.run(open_and_leave)

    listed = [one["id"] for one in door.run("sessions", "list", "--json").json]
    ran = door.run("-c", "-p", "more", "--output-format", "json")

    assert listed[0] == "silent"
    assert (ran.code, ran.json["session_id"], ran.json["result"]) == (0, "spoken", "two")
