"""The template is the model's own, with calls as fenced JSON and the nudge after the results."""

import struct
from pathlib import Path

import pytest

from backstay.providers.local.engine import NUDGE, fence
from backstay.providers.local.pull import read_template
from backstay.vocab.errors import UserError

OWN = """\
{%- if tools %}
    {{- "<tool_call></tool_call>:\\n<tool_call>\\n{{\\"name\\": <function-name>, \\"arguments\\": <args>}}\\n</tool_call><|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.tool_calls %}
        {{- '\\n<tool_call>\\n{"name": "' }}{{- message.tool_calls[0].name }}{{- '}\\n</tool_call>' }}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {{- '\\n<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>' }}
        {%- if loop.last %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
"""


def test_calls_are_fenced_and_the_nudge_follows_the_results() -> None:
    changed = fence(OWN)

    assert "tool_call>" not in changed
    assert '```json```:\\n```json\\n{\\"name\\": <function-name>, \\"arguments\\": <args>}\\n```<|im_end|>' in changed
    assert '\'\\n```json\\n{"name": "\'' in changed
    before, _, after = changed.partition("</tool_response>")
    assert NUDGE not in before
    assert f"'\\n{NUDGE}<|im_end|>\\n'" in after


def test_an_example_with_single_braces_stays() -> None:
    right = OWN.replace('{{\\"name', '{\\"name').replace("<args>}}", "<args>}")

    assert fence(right) == fence(OWN)


@pytest.mark.parametrize("template", ["", "no tools", OWN.replace("<|im_end|>", "")])
def test_a_template_without_a_place_for_calls_is_refused(template: str) -> None:
    with pytest.raises(UserError, match="is not the expected one"):
        fence(template)


def text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def gguf(*entries: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


COUNT = text(b"some.count") + struct.pack("<II", 4, 7)
NAME = text(b"general.name") + struct.pack("<I", 8) + text(b"Tiny")
TOKENS = text(b"tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"bc")
KINDS = text(b"kinds") + struct.pack("<IIQ", 9, 5, 3) + struct.pack("<iii", 1, 2, 3)
NESTED = text(b"nested") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 0, 2) + b"xy"
TEMPLATE = text(b"tokenizer.chat_template") + struct.pack("<I", 8) + text("{{ gr\u00fc\u00df }}".encode())


def test_the_template_is_found_behind_everything_else(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf(COUNT, NAME, TOKENS, KINDS, NESTED, TEMPLATE) + b"tensors")

    assert read_template(path) == "{{ gr\u00fc\u00df }}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        gguf(COUNT, NAME),
        gguf(COUNT, TEMPLATE)[:-40],
        gguf(text(b"odd") + struct.pack("<I", 99)),
        gguf(struct.pack("<Q", 1 << 60)),
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(content)

    with pytest.raises(UserError, match=r"is not a usable model file: .* Run: backstay models pull"):
        read_template(path)
