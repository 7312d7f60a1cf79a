"""JSON Schema (2020-12) of every line that holds an event: as a store keeps it, and as the native stream sends it.

`python -m scripts.docs.event_schema` prints it; `backstay/wire/events.schema.json` is that text, shipped with the
package. It describes the current shapes; older ones are brought forward when they are read. A reader must ignore
properties that it does not know.
"""

import ast
import functools
import inspect
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final, get_args

import msgspec
from msgspec import Struct

from backstay.vocab.deltas import DELTAS, CommandResult, Lagged, Notice
from backstay.vocab.event import By
from backstay.vocab.events import EVENTS, VERSIONS
from backstay.wire.codec import NAME_OF
from backstay.wire.stream import COMMAND_RESULT, LAGGED, LIFECYCLE, PREFIX

Schema = dict[str, object]

PUBLISHED: Final = Path(__file__).parents[2] / "src" / "backstay" / "wire" / "events.schema.json"
"""The schema as it ships with the package."""


def event_schema() -> Schema:
    """The schema of one line, stored or streamed; `$defs` also names each form and each event by itself."""
    forms: dict[str, Schema] = {
        "stored_event": _stored(),
        "stream_event": _streamed(),
        "stream_delta": _deltas(),
        "stream_lifecycle": _mark(LIFECYCLE, Notice),
        "stream_lagged": _mark(LAGGED, Lagged),
        "stream_command": _mark(COMMAND_RESULT, CommandResult),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:backstay:events",
        "title": "A line of a Backstay session",
        "description": "An event as a store keeps it, or an item of the native stream.",
        "oneOf": [{"$ref": _ref(name)} for name in forms],
        "$defs": forms | _components(),
    }


def render() -> str:
    """The schema as text, byte for byte what `events.schema.json` holds."""
    return json.dumps(event_schema(), indent=1, ensure_ascii=False) + "\n"


class FieldText(Struct, frozen=True, kw_only=True):
    """A field as its author wrote it."""

    name: str
    type: str
    default: str
    """Source text; empty when the field is required."""
    note: str
    """The string under the field."""


@functools.cache
def fields_written_in(module: ModuleType) -> dict[str, tuple[FieldText, ...]]:
    """The fields of each class of `module`, in order, read from its source. Inherited fields stand with the parent."""
    tree = ast.parse(inspect.getsource(module))
    return {node.name: _fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def kinds_inside(classes: Iterable[type]) -> set[type[msgspec.Struct]]:
    """Find `classes` and the structs that their fields are made of."""
    found: set[type[msgspec.Struct]] = set()
    todo: list[object] = list(msgspec.inspect.multi_type_info(classes))
    while todo:
        match todo.pop():
            case msgspec.inspect.StructType(cls=cls, fields=fields):
                if cls not in found:
                    found.add(cls)
                    todo.extend(field.type for field in fields)
            case msgspec.inspect.UnionType(types=types):
                todo.extend(types)
            case msgspec.inspect.VarTupleType(item_type=item):
                todo.append(item)
    return found


def _fields(node: ast.ClassDef) -> tuple[FieldText, ...]:
    found = []
    for each, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found.append(
                FieldText(
                    name=each.target.id,
                    type=_unquoted(each.annotation),
                    default=ast.unparse(each.value) if each.value else "",
                    note=_note(below),
                )
            )
    return tuple(found)


def _unquoted(annotation: ast.expr) -> str:
    text = ast.unparse(annotation)
    return text if "Literal[" in text else text.replace("'", "")


def _note(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return inspect.cleandoc(text)
    return ""


def _stored() -> Schema:
    envelope = _object(
        "An event as a store keeps it.",
        required=_properties("seq", "id", "at", "by", "type", "v", "data"),
        optional=_properties("cause"),
    )
    forms = [{"type": {"const": NAME_OF[cls]}, "v": {"const": VERSIONS[cls]}, "data": _body(cls)} for cls in EVENTS]
    return envelope | {"oneOf": [{"properties": form} for form in forms]}


def _streamed() -> Schema:
    envelope = _object(
        "An event as the native stream sends it.",
        required=_properties("seq", "id", "type", "session") | {"at": _TIME} | _properties("by", "cause", "data"),
    )
    forms = [{"type": {"const": PREFIX + NAME_OF[cls]}, "data": _body(cls)} for cls in EVENTS]
    return envelope | {"oneOf": [{"properties": form} for form in forms]}


def _deltas() -> Schema:
    envelope = _object("A fragment of a stream.", required=_properties("type", "session", "after", "n", "data"))
    forms = [{"type": {"const": PREFIX + NAME_OF[cls]}, "data": _body(cls)} for cls in DELTAS]
    return envelope | {"oneOf": [{"properties": form} for form in forms]}


def _mark(name: str, cls: type) -> Schema:
    required = {"type": {"const": name}} | _properties("session", "after") | {"data": _body(cls)}
    return _object(inspect.getdoc(cls) or "", required=required)


def _object(description: str, *, required: Schema, optional: Schema | None = None) -> Schema:
    return {
        "description": description,
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
    }


_TIME: Final[Schema] = {"type": "string", "format": "date-time", "description": "ISO 8601, UTC, with microseconds."}
_ENVELOPE: Final[dict[str, Schema]] = {
    "seq": {"type": "integer", "minimum": 1, "description": "Position in the session, without gaps."},
    "id": {"type": "string", "minLength": 1, "description": "The event's own id."},
    "at": {"type": "integer", "description": "Microseconds since 1970, never going back within a session."},
    "by": {"enum": list(get_args(By)), "description": "Who brought it about."},
    "cause": {
        "type": "string",
        "description": "The id of the intent this answers, or of the event that led to it; empty when there is none.",
    },
    "type": {"type": "string", "description": "The name of the event or the fragment."},
    "v": {"type": "integer", "minimum": 1, "description": "The version of the body's shape."},
    "data": {"type": "object"},
    "session": {"type": "string", "minLength": 1},
    "after": {"type": "integer", "minimum": 0, "description": "The last `seq` before this item."},
    "n": {"type": "integer", "minimum": 0, "description": "The number of this item since then."},
}


def _properties(*names: str) -> Schema:
    return {name: _ENVELOPE[name] for name in names}


def _components() -> Schema:
    """The bodies and everything inside them, by class name, with the notes under their fields."""
    kinds: tuple[type[msgspec.Struct], ...] = (*EVENTS, *DELTAS, Notice, Lagged, CommandResult)
    _, components = msgspec.json.schema_components(kinds, schema_hook=_anything, ref_template=_ref("{name}"))
    notes = _notes()
    for name, component in components.items():
        _describe(component, notes.get(name, {}))
    for name in sorted({cls.__name__ for cls in kinds} - {cls.__name__ for cls in EVENTS}):
        _drop_place(components[name])
    return dict(sorted(components.items()))


def _anything(kind: type) -> Schema:
    """`object` in a field means any JSON value."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any JSON value."}


def _describe(component: Schema, notes: dict[str, str]) -> None:
    properties = component.get("properties")
    if isinstance(properties, dict):
        for name, note in notes.items():
            properties[name]["description"] = note


def _drop_place(component: Schema) -> None:
    """Take `after` and `n` out of a body: the stream sends them beside it."""
    match component:
        case {"properties": dict() as properties, "required": list() as required}:
            for name in ("after", "n"):
                properties.pop(name, None)
            component["required"] = [name for name in required if name in properties]


def _notes() -> dict[str, dict[str, str]]:
    modules = {inspect.getmodule(cls) for cls in kinds_inside(EVENTS)}
    classes = {name: fields for module in modules if module for name, fields in fields_written_in(module).items()}
    return {name: {field.name: field.note for field in fields if field.note} for name, fields in classes.items()}


def _body(cls: type) -> Schema:
    return {"$ref": _ref(cls.__name__)}


def _ref(name: str) -> str:
    return f"#/$defs/{name}"


if __name__ == "__main__":
    sys.stdout.write(render())
