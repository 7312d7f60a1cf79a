"""From the finished response to a reply: parts, stop, usage, and what was odd."""

import binascii
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Final

from backstay.ports import ModelReply
from backstay.providers.loose import Fields, count_in, fields_in, objects_in, text_in
from backstay.providers.openai_responses.native import CALLS, opaque_of, with_own_ids, written
from backstay.vocab.event import Stop
from backstay.vocab.messages import InFlightPart, InlineMedia, Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage

SHORT: Final = 500
"""Characters of a server block that are shown."""
PARAGRAPH: Final = "\n\n"
"""Between the paragraphs of a summary."""

_REASONS: Final[dict[str, Stop]] = {"max_output_tokens": "length", "content_filter": "filter"}
_SERVER_KINDS: Final = frozenset(
    (
        "web_search_call file_search_call code_interpreter_call image_generation_call mcp_call mcp_list_tools "
        "mcp_approval_request computer_call local_shell_call shell_call shell_call_output apply_patch_call "
        "apply_patch_call_output tool_search_call tool_search_output compaction"
    ).split()
)
_TELLING: Final = tuple("query queries code arguments url pattern command commands operation prompt".split())
"""Where items say what they were about."""
_MACHINERY: Final = frozenset(("id", "type", "status", "encrypted_content", "fingerprint", "result"))
_IMAGES: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8", "image/jpeg"),
    (b"RIFF", "image/webp"),
    (b"GIF8", "image/gif"),
)


def make_reply(response: Fields, output: Sequence[Fields], notes: Sequence[str] = ()) -> ModelReply:
    """The reply that `response` makes of its `output` items; `notes` are what was odd about it before."""
    items, renamed = with_own_ids(output)
    parts = tuple(part for item in items for part in parts_of(item))
    usage = _usage(response)
    return ModelReply(
        parts=parts,
        stop=_stop(response, items, parts),
        usage=usage,
        model=text_in(response, "model"),
        opaque=opaque_of(items),
        notes=(*notes, *renamed, *_oddities(items), *(() if usage else ("the provider sent no usage",))),
    )


def parts_of(item: Fields) -> Iterator[InFlightPart]:
    """What one output item says."""
    kind = text_in(item, "type")
    if kind == "message":
        yield from _said(item)
    elif kind == "reasoning":
        yield from _thought(item)
    elif kind in CALLS:
        args = written(item.get(CALLS[kind]))
        yield ToolCall(id="", name=text_in(item, "name"), args=args, provider_id=text_in(item, "call_id"))
    elif kind == "image_generation_call" and (image := _image(item)) is not None:
        yield image
    else:
        name = text_in(item, "name") or kind.removesuffix("_call")
        yield ServerBlock(kind=kind, name=name, content=_gist(item)[:SHORT])


def _said(message: Fields) -> Iterator[InFlightPart]:
    if text := text_in(message, "content"):  # some servers send plain text in place of the list
        yield Text(text=text)
    for piece in objects_in(message, "content"):
        kind = text_in(piece, "type")
        if kind in ("output_text", "refusal", "text", ""):
            if text := text_in(piece, "refusal" if kind == "refusal" else "text"):
                yield Text(text=text)
        else:
            yield ServerBlock(kind=kind, content=_gist(piece)[:SHORT])


def _thought(item: Fields) -> Iterator[InFlightPart]:
    for key, between in (("summary", PARAGRAPH), ("content", "")):
        if text := between.join(filter(None, (text_in(piece, "text") for piece in objects_in(item, key)))):
            yield Reasoning(text=text)


def _image(item: Fields) -> InlineMedia | None:
    try:
        content = b64decode(text_in(item, "result"), validate=True)
    except (binascii.Error, ValueError):
        return None
    if not content:
        return None
    known = next((media for magic, media in _IMAGES if content.startswith(magic)), "")
    return InlineMedia(media_type=known or f"image/{text_in(item, 'output_format') or 'png'}", content=content)


def _gist(item: Fields) -> str:
    for fields in (item, fields_in(item, "action")):
        for key in _TELLING:
            value = fields.get(key)
            if value and isinstance(value, list) and all(isinstance(each, str) for each in value):
                return "; ".join(value)
            if value:
                return written(value)
    return written({key: value for key, value in item.items() if key not in _MACHINERY and value is not None})


def _stop(response: Fields, items: Sequence[Fields], parts: Sequence[InFlightPart]) -> Stop:
    stop: Stop = "end"
    if text_in(response, "status") == "incomplete":
        stop = _REASONS.get(text_in(fields_in(response, "incomplete_details"), "reason"), "other")
    if stop == "length":
        return stop
    if any(isinstance(part, ToolCall) for part in parts):
        return "tool_calls"
    return "filter" if any(map(_refuses, items)) else stop


def _refuses(item: Fields) -> bool:
    return any(text_in(piece, "refusal") for piece in objects_in(item, "content"))


def _usage(response: Fields) -> Usage | None:
    sent = fields_in(response, "usage")
    if not sent:
        return None
    given = fields_in(sent, "input_tokens_details")
    return Usage(
        input=count_in(sent, "input_tokens"),
        output=count_in(sent, "output_tokens"),
        cache_read=count_in(given, "cached_tokens"),
        cache_write=count_in(given, "cache_write_tokens"),
        reasoning=count_in(fields_in(sent, "output_tokens_details"), "reasoning_tokens"),
    )


def _oddities(items: Sequence[Fields]) -> Iterator[str]:
    if any(map(_refuses, items)):
        yield "the model refused"
    known = {"message", "reasoning", *CALLS, *_SERVER_KINDS}
    for kind in dict.fromkeys(text_in(item, "type") for item in items):
        if kind not in known:
            yield f"items of the kind {kind!r} are new to us and are kept as they are"
