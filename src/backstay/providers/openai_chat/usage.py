"""Token counts, which every server spells in its own way."""

from collections.abc import Mapping

from backstay.providers.loose import count_in, fields_in
from backstay.vocab.specs import Usage


def usage_in(chunk: Mapping[str, object]) -> Mapping[str, object] | None:
    """The counts that a chunk or a body carries, if it carries any."""
    for holder in (chunk, fields_in(chunk, "x_groq")):
        counts = fields_in(holder, "usage")
        if any(isinstance(count, int) for count in counts.values()):
            return counts
    return None


def read_usage(counts: Mapping[str, object]) -> Usage:
    """`counts` in our terms: cached tokens are part of the input, reasoning is part of the output.

    A server that counts one of them apart gives itself away: only with it do its numbers make its total.
    """
    prompt, completion = count_in(counts, "prompt_tokens"), count_in(counts, "completion_tokens")
    sent, made = fields_in(counts, "prompt_tokens_details"), fields_in(counts, "completion_tokens_details")
    read = _first(
        (sent, "cached_tokens"),
        (counts, "prompt_cache_hit_tokens"),
        (counts, "cache_read_input_tokens"),
        (counts, "cached_tokens"),
    )
    written = _first((sent, "cache_write_tokens"), (counts, "cache_creation_input_tokens"))
    reasoning = _first((made, "reasoning_tokens"), (counts, "reasoning_tokens"))
    apart = count_in(counts, "total_tokens") - prompt - completion
    aside = apart > 0 and apart in (reasoning, reasoning + read + written)
    cached_aside = apart > 0 and apart in (read + written, reasoning + read + written)
    return Usage(
        input=prompt + (read + written if cached_aside else 0),
        output=completion + (reasoning if aside else 0),
        cache_read=read,
        cache_write=written,
        reasoning=reasoning,
    )


def _first(*places: tuple[Mapping[str, object], str]) -> int:
    return next((number for holder, key in places if (number := count_in(holder, key))), 0)
