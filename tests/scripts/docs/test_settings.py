"""One table says which settings there are: what is read is in it, what is in it is read, and the documents are made of it."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from backstay.config.key_lookup import KNOWN_ELSEWHERE, find_key, names_below
from backstay.config.key_table import KEYS, Key
from backstay.config.layers import read_layers
from backstay.config.settings import ChatSettings, MemorySettings, TaskContext
from backstay.config.settings_schema import kind_schema, settings_schema
from backstay.hooks.decorator import read_configured_hooks
from backstay.mcp.config.files import ServerInputs, read_servers
from backstay.providers.catalog import ModelOverride
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Prices
from scripts.docs.settings import EXAMPLE, schema_document, settings_document

DOCS = Path(__file__).parents[3] / "docs"
UNREAD = ("$schema",)
"""Keys for others than Backstay."""


@pytest.mark.parametrize(
    ("name", "text"), [("settings.md", settings_document()), ("settings.schema.json", schema_document())]
)
def test_the_documents_are_what_the_table_says(name: str, text: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == text, "write it again: make docs"


def test_the_schema_is_the_one_that_is_printed_and_has_every_key() -> None:
    schema = settings_schema()

    assert schema["additionalProperties"] is False
    assert {key.parts[0] for key in KEYS} | KNOWN_ELSEWHERE <= set(schema["properties"])
    assert not KNOWN_ELSEWHERE & {key.parts[0] for key in KEYS}
    assert schema["properties"]["providers"]["additionalProperties"]["required"] == ["type"]
    assert {"api_key", "apiKey"} < set(schema["properties"]["providers"]["additionalProperties"]["properties"])


def test_the_schema_takes_the_example_and_refuses_slips() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft202012Validator(settings_schema())
    check.check_schema(settings_schema())

    assert list(check.iter_errors(json.loads(EXAMPLE))) == []
    for slip in ('{"retires": 1}', '{"chat": {"tempo": 1}}', '{"providers": {"p": {}}}', '{"auto_compact": true}'):
        assert list(check.iter_errors(json.loads(slip))), slip


def test_every_key_has_a_sentence_and_stands_once() -> None:
    names = [key.name for key in KEYS]

    assert len(names) == len(set(names))
    for key in KEYS:
        assert re.fullmatch(r".{10,}[.)]", key.description, re.DOTALL), key.name
        assert find_key(key.parts) is key


@pytest.mark.parametrize(
    ("where", "shape"),
    [
        (("chat",), ChatSettings),
        (("taskContext",), TaskContext),
        (("memory",), MemorySettings),
        (("models", "m"), ModelOverride),
        (("models", "m", "prices"), Prices),
    ],
)
def test_the_structures_that_are_read_have_the_keys_of_the_table(
    where: tuple[str, ...], shape: type[msgspec.Struct]
) -> None:
    assert set(names_below(where)) == set(shape.__struct_fields__)


def wrong(key: Key) -> object:
    """A value that a key cannot have."""
    schema = kind_schema(key)
    return 7 if schema.get("type") in ("object", "array", "string") or "enum" in schema else {"odd": []}


def document(key: Key) -> dict[str, object]:
    """Settings with a wrong value of one key, and what has to stand beside it."""
    last = key.parts[-1]
    made: dict[str, object] = {"x" if last == "*" else last: wrong(key)}
    for part in reversed(key.parts[:-1]):
        if part == "prices":
            made = {"input": 1, "output": 1, **made}
        made = {"x" if part == "*" else part: made}
    for section in (made.get("provider"), made.get("providers")):
        inner = section.get("x", section) if isinstance(section, dict) else {}
        inner.setdefault("type", "google")
    return made


@pytest.mark.parametrize("key", [key for key in KEYS if key.name not in UNREAD], ids=lambda key: key.name)
def test_every_key_of_the_table_is_read(tmp_path: Path, key: Key) -> None:
    path = tmp_path / "managed.json"
    path.write_text(json.dumps(document(key)), encoding="utf-8")
    path.chmod(0o600)
    environment = {
        "HOME": str(tmp_path),
        "BACKSTAY_CONFIG_DIR": str(tmp_path),
        "BACKSTAY_DATA_DIR": str(tmp_path / "d"),
    }

    try:
        found = read_layers(tmp_path, environment=environment, managed=path)
        servers = read_servers(ServerInputs(layered=found, environment=environment))
        said = " ".join((*found.warnings, *read_configured_hooks(found).warnings, *servers.problems))
    except UserError as exc:
        said = str(exc)

    assert key.parts[0] in said, "nothing noticed a wrong value"
