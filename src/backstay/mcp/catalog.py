"""Read what a server offers, entry by entry: an error in one entry never hides another. Its tools are pinned by their definitions."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from backstay.logic.json_checks import problems
from backstay.logic.text import clip, one_line
from backstay.permissions.server_tools import item_names
from backstay.vocab.specs import Effect, ToolSpec

LARGEST: Final = 64 * 1024
"""Bytes of one tool's schema."""
DEEPEST: Final = 24
LONGEST_NOTE: Final = 1_024
"""Characters of a description within a schema."""
_PROPERTY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Argument names that all providers accept."""
_DROPPED_AT_TOP: Final = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$schema", "$id")
"""Keywords that providers refuse at the top of a schema, or ignore; the server checks them itself."""
_SIMPLE: Final = frozenset(("object", "array", "string", "boolean", "number", "integer", "null"))


class BadSchema(Exception):
    """A schema that cannot be passed on; the message says why."""


def read_schema(raw: object) -> dict[str, object]:
    """Return the schema for the model. Raise `BadSchema` when it makes no sense or is too large."""
    if not isinstance(raw, Mapping):
        raise BadSchema("it does not say what arguments it takes")
    try:
        size = len(msgspec.json.encode(raw))
        kept = _scrub(raw, DEEPEST)
    except (RecursionError, UnicodeEncodeError, TypeError, OverflowError) as exc:
        raise BadSchema("its schema is not JSON, or is nested too deeply") from exc
    if size > LARGEST:
        raise BadSchema(f"its schema has {size:,} bytes, and at most {LARGEST:,} are taken")
    assert isinstance(kept, dict)
    schema = {key: value for key, value in kept.items() if key not in _DROPPED_AT_TOP}
    return {**schema, "type": _check_type(schema), "properties": _read_properties(schema)} | _read_required(schema)


def why_unfit(args: Mapping[str, object], schema: Mapping[str, object]) -> str:
    """Return why arguments cannot fit; empty when they may.

    Only names and plain types are checked: a hostile schema can take for ever to work through, and the server checks everything again.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    shallow: dict[str, object] = {
        "type": "object",
        "required": schema.get("required", []),
        "properties": {name: _plain(each) for name, each in known.items()},
    }
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        shallow["additionalProperties"] = False
    return next(problems(dict(args), shallow, at="the object"), "")


def _check_type(schema: Mapping[str, object]) -> str:
    raw = schema.get("type", "object")
    if raw != "object":
        raise BadSchema(f"its arguments are not an object but {clip(repr(raw), 60)}")
    return "object"


def _read_properties(schema: Mapping[str, object]) -> dict[str, object]:
    found = schema.get("properties", {})
    if not isinstance(found, dict) or not all(isinstance(each, dict | bool) for each in found.values()):
        raise BadSchema("the properties of its schema are no schemas")
    odd = next((name for name in found if not _PROPERTY.fullmatch(name)), None)
    if odd is not None:
        raise BadSchema(f"it has an argument called {clip(odd, 80)!r}, which no provider accepts")
    return found


def _read_required(schema: Mapping[str, object]) -> dict[str, object]:
    found = schema.get("required", [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BadSchema("what its schema requires is no list of names")
    return {"required": found} if found else {}


def _plain(schema: object) -> dict[str, object]:
    raw = schema.get("type") if isinstance(schema, Mapping) else None
    return {"type": raw} if isinstance(raw, str) and raw in _SIMPLE else {}


def _scrub(value: object, depth: int) -> object:
    """Copy a schema without invisible characters in its descriptions."""
    if depth < 0:
        raise BadSchema(f"its schema is nested more than {DEEPEST} deep")
    if isinstance(value, Mapping):
        return {
            str(key): clip(inner, LONGEST_NOTE)
            if key in ("description", "title") and isinstance(inner, str)
            else _scrub(inner, depth - 1)
            for key, inner in value.items()
        }
    return [_scrub(each, depth - 1) for each in value] if isinstance(value, list) else value


LONGEST_DESCRIPTION: Final = 2_048
"""Characters of a tool's description that a model is told."""
LONGEST_INSTRUCTIONS: Final = 2_048
"""Characters of a server's own words about itself."""
LONGEST_NAME: Final = 256
MOST: Final = 1_000
"""Entries of a list that are read."""


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a server: its specification for the model and the policy, and the server's own name for it."""

    spec: ToolSpec
    item: str


class Resource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A resource of a server. Mentioned as `@server:uri`."""

    server: str
    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt of a server: a command for the person."""

    command: str
    """Without the slash: `mcp__server__prompt`."""
    server: str
    item: str
    """The server's own name for it."""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def usage(self) -> str:
        """The usage line of the command."""
        words = (each.name if each.required else f"[{each.name}]" for each in self.arguments)
        return " ".join((f"/{self.command}", *words))

    def in_order(self, words: Sequence[str]) -> dict[str, str]:
        """Return the arguments by name; the last takes all words that are left."""
        names = [each.name for each in self.arguments]
        last = len(names) - 1
        return {name: " ".join(words[at:]) if at == last else words[at] for at, name in enumerate(names[: len(words)])}


class Offer(Struct, frozen=True, kw_only=True):
    """The valid offers of a server at one time."""

    tools: tuple[ToolOffer, ...] = ()
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    instructions: str = ""
    problems: tuple[str, ...] = ()
    """Entries that were left out, and why."""


class Lists(Struct, frozen=True, kw_only=True):
    """The raw lists of a server; None for one that it does not have."""

    tools: Sequence[object] | None = None
    resources: Sequence[object] | None = None
    prompts: Sequence[object] | None = None
    instructions: str = ""
    problems: tuple[str, ...] = ()


def read_offer(server: str, part: str, lists: Lists, *, vouched: bool) -> Offer:
    """Read the lists of `server`, whose part of names is `part`. Hints count only if the server is `vouched`."""
    problems = list(lists.problems)
    return Offer(
        tools=tuple(_read_tools(part, lists.tools or (), problems, vouched=vouched)),
        resources=tuple(_read_resources(server, lists.resources or (), problems)),
        prompts=tuple(_read_prompts(server, part, lists.prompts or (), problems)),
        instructions=clip(lists.instructions, LONGEST_INSTRUCTIONS),
        problems=tuple(problems),
    )


# --- tools ---------------------------------------------------------------------------------------------------------------------------


class _Hints(msgspec.Struct, frozen=True, rename="camel"):
    read_only_hint: object = None
    idempotent_hint: object = None


class _ToolEntry(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    input_schema: object = None
    description: str | None = None
    annotations: _Hints | None = None


def _read_tools(part: str, entries: Sequence[object], problems: list[str], *, vouched: bool) -> Iterator[ToolOffer]:
    found: dict[str, _ToolEntry] = {}
    for entry in _read_named(entries, _ToolEntry, "tool", problems):
        if entry.name in found:
            problems.append(f"The tool {one_line(entry.name)!r} stands in the list twice; only the first counts.")
        else:
            found[entry.name] = entry
    names = item_names(part, found)
    for item, entry in found.items():
        try:
            schema = read_schema(entry.input_schema)
        except BadSchema as exc:
            problems.append(f"The tool {one_line(item)!r} is left out: {exc}.")
            continue
        description = clip(entry.description or "", LONGEST_DESCRIPTION) or "(The server does not describe it.)"
        effect = _effect(entry.annotations) if vouched else "once"
        spec = ToolSpec(
            name=names[item],
            description=description,
            schema=schema,
            effect=effect,
            touches="web",
            taints=("untrusted",),
        )
        yield ToolOffer(spec=spec, item=item)


def _effect(hints: _Hints | None) -> Effect:
    """Return the effect, never `pure`: a hint must not loosen the policy. It only permits a second run after a crash."""
    repeatable = hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)
    return "idempotent" if repeatable else "once"


# --- resources and prompts -----------------------------------------------------------------------------------------------------------


class _ResourceEntry(msgspec.Struct, frozen=True, rename="camel"):
    uri: str
    name: str = ""
    description: str | None = None
    mime_type: str | None = None


def _read_resources(server: str, entries: Sequence[object], problems: list[str]) -> Iterator[Resource]:
    for entry in _read_entries(entries, _ResourceEntry, "resource", problems):
        if not entry.uri or len(entry.uri) > 4 * LONGEST_NAME or not entry.uri.isprintable():
            problems.append(f"A resource is left out: {one_line(entry.uri, 80)!r} is not an address.")
            continue
        yield Resource(
            server=server,
            uri=entry.uri,
            name=one_line(entry.name, LONGEST_NAME),
            description=one_line(entry.description or ""),
            media_type=one_line(entry.mime_type or "", 100),
        )


class _ArgumentEntry(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    required: bool | None = None


class _PromptEntry(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    arguments: list[_ArgumentEntry] | None = None


def _read_prompts(server: str, part: str, entries: Sequence[object], problems: list[str]) -> Iterator[Prompt]:
    found = {entry.name: entry for entry in _read_named(entries, _PromptEntry, "prompt", problems)}
    for item, command in item_names(part, found).items():
        entry = found[item]
        yield Prompt(
            command=command,
            server=server,
            item=item,
            description=one_line(entry.description or ""),
            arguments=tuple(
                PromptArgument(
                    name=each.name, description=one_line(each.description or ""), required=bool(each.required)
                )
                for each in entry.arguments or ()
            ),
        )


# --- entries -------------------------------------------------------------------------------------------------------------------------


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_HasName)
T = TypeVar("T")


def _read_named(entries: Sequence[object], kind: type[N], word: str, problems: list[str]) -> Iterator[N]:
    for entry in _read_entries(entries, kind, word, problems):
        name = entry.name
        if name and len(name) <= LONGEST_NAME and name.isprintable():
            yield entry
        else:
            problems.append(f"A {word} is left out: {one_line(name, 80)!r} cannot be a name.")


def _read_entries(entries: Sequence[object], kind: type[T], word: str, problems: list[str]) -> Iterator[T]:
    if len(entries) > MOST:
        problems.append(f"Only {MOST} of the {len(entries)} {word}s are read.")
    for entry in entries[:MOST]:
        try:
            yield msgspec.convert(entry, kind)
        except msgspec.ValidationError as exc:
            raw = entry.get("name") if isinstance(entry, Mapping) else None
            named = f"The {word} {one_line(raw, 80)!r}" if isinstance(raw, str) else f"A {word}"
            problems.append(f"{named} is left out: {one_line(str(exc))}.")


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between the tools of a server and those that were approved."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def asks(self) -> tuple[str, ...]:
        """The tools that are not approved as they are now: none of them is offered to a model."""
        return (*self.added, *self.changed)


def pin(tool: ToolSpec) -> str:
    """Return a digest of the definition: another description or another argument is another tool."""
    definition = (tool.name, tool.description, tool.schema)
    return hashlib.sha256(msgspec.json.encode(definition, order="deterministic")).hexdigest()


def pins(tools: Sequence[ToolSpec]) -> dict[str, str]:
    """Return the pins of a server's tools by name."""
    return {tool.name: pin(tool) for tool in tools}


def drift(approved: Mapping[str, str], tools: Sequence[ToolSpec]) -> Drift:
    """Compare what a server offers now with what was approved."""
    now = pins(tools)
    return Drift(
        added=tuple(sorted(now.keys() - approved.keys())),
        changed=tuple(sorted(name for name in now.keys() & approved.keys() if now[name] != approved[name])),
        gone=tuple(sorted(approved.keys() - now.keys())),
    )
