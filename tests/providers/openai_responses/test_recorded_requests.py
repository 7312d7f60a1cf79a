"""Recorded requests, read into our messages and written again, say the same."""

import json

from backstay.providers.openai_responses import FORMAT
from tests.providers.openai_responses.reading import normalise, read_request
from tests.providers.openai_responses.recordings import is_other_endpoint, needs_recordings, pairs


@needs_recordings
def test_recorded_requests_are_written_again() -> None:
    asked = [pair for pair in pairs() if "request" in pair]
    tried = [pair for pair in asked if not is_other_endpoint(pair)]
    failed = []
    for pair in tried:
        request, facts = read_request(pair["request"])
        sent = json.loads(FORMAT.encoder("openai", facts).encode(request).body)
        if normalise(sent) != normalise(pair["request"]):
            failed.append(pair["id"])
    print(f"{len(tried)} requests tried, {len(failed)} failed, {len(asked) - len(tried)} for other endpoints")
    assert not failed
