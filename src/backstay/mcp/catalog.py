"""What a server offers, read entry by entry from its own lists: what is wrong with one entry never hides another."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from backstay.logic.json_schema import problems
from backstay.logic.text import clip, one_line
from backstay.mcp.spec import item_names
from backstay.vocab.specs import Effect, ToolSpec

LARGEST: Final = 64 * 1024
"""Bytes of one tool's schema."""
DEEPEST: Final = 24
LONGEST_NOTE: Final = 1_024
"""Characters of a description within a schema."""
_PROPERTY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names of arguments that all providers accept."""
_AT_THE_TOP: Final = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$schema", "$id")
"""What providers refuse at the top of a schema, or never look at; the server checks it itself."""
_SIMPLE: Final = frozenset(("object", "array", "string", "boolean", "number", "integer", "null"))


class BadSchema(Exception):
    """A schema that cannot be passed on; the message says why."""


def read_schema(said: object) -> dict[str, object]:
    """The schema as a model is told it. Raise `BadSchema` when that would make no sense, or would be too much."""
    if not isinstance(said, Mapping):
        raise BadSchema("it does not say what arguments it takes")
    try:
        size = len(msgspec.json.encode(said))
        kept = _scrubbed(said, DEEPEST)
    except (RecursionError, UnicodeEncodeError, TypeError, OverflowError) as exc:
        raise BadSchema("its schema is not JSON, or is nested too deeply") from exc
    if size > LARGEST:
        raise BadSchema(f"its schema has {size:,} bytes, and at most {LARGEST:,} are taken")
    assert isinstance(kept, dict)
    schema = {key: value for key, value in kept.items() if key not in _AT_THE_TOP}
    return {**schema, "type": _type(schema), "properties": _properties(schema)} | _required(schema)


def why_unfit(args: Mapping[str, object], schema: Mapping[str, object]) -> str:
    """Why arguments cannot fit; empty when they may.

    Only names and plain types are looked at: a schema of a stranger can take for ever to work through, and the server
    looks at everything again.
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


def _type(schema: Mapping[str, object]) -> str:
    said = schema.get("type", "object")
    if said != "object":
        raise BadSchema(f"its arguments are not an object but {clip(repr(said), 60)}")
    return "object"


def _properties(schema: Mapping[str, object]) -> dict[str, object]:
    found = schema.get("properties", {})
    if not isinstance(found, dict) or not all(isinstance(each, dict | bool) for each in found.values()):
        raise BadSchema("the properties of its schema are no schemas")
    odd = next((name for name in found if not _PROPERTY.fullmatch(name)), None)
    if odd is not None:
        raise BadSchema(f"it has an argument called {clip(odd, 80)!r}, which no provider accepts")
    return found


def _required(schema: Mapping[str, object]) -> dict[str, object]:
    found = schema.get("required", [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BadSchema("what its schema requires is no list of names")
    return {"required": found} if found else {}


def _plain(schema: object) -> dict[str, object]:
    said = schema.get("type") if isinstance(schema, Mapping) else None
    return {"type": said} if isinstance(said, str) and said in _SIMPLE else {}


def _scrubbed(value: object, depth: int) -> object:
    """A copy whose descriptions hold nothing that a person would not see."""
    if depth < 0:
        raise BadSchema(f"its schema is nested more than {DEEPEST} deep")
    if isinstance(value, Mapping):
        return {
            str(key): clip(inner, LONGEST_NOTE)
            if key in ("description", "title") and isinstance(inner, str)
            else _scrubbed(inner, depth - 1)
            for key, inner in value.items()
        }
    return [_scrubbed(each, depth - 1) for each in value] if isinstance(value, list) else value


LONGEST_DESCRIPTION: Final = 2_048
"""Characters of a tool's description that a model is told."""
LONGEST_INSTRUCTIONS: Final = 2_048
"""Characters of a server's own words about itself."""
LONGEST_NAME: Final = 256
MOST: Final = 1_000
"""Entries of a list that are read."""


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a server: as the model and the policy know it, and the name that the server knows it by."""

    spec: ToolSpec
    item: str


class Resource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a server lets be read. Mentioned as `@server:uri`."""

    server: str
    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""

    @property
    def mention(self) -> str:
        """How a person names it in an input."""
        return f"@{self.server}:{self.uri}"


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a prompt wants to be told."""

    name: str
    description: str = ""
    required: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that a server writes on demand: a command for the person."""

    command: str
    """Without the slash: `mcp__server__prompt`."""
    server: str
    item: str
    """The server's own name for it."""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def usage(self) -> str:
        """How a person writes it."""
        words = (each.name if each.required else f"[{each.name}]" for each in self.arguments)
        return " ".join((f"/{self.command}", *words))

    def in_order(self, words: Sequence[str]) -> dict[str, str]:
        """Arguments by name; the last takes all words that are left."""
        names = [each.name for each in self.arguments]
        last = len(names) - 1
        return {name: " ".join(words[at:]) if at == last else words[at] for at, name in enumerate(names[: len(words)])}


class Offer(Struct, frozen=True, kw_only=True):
    """Everything that a server offers at one time."""

    tools: tuple[ToolOffer, ...] = ()
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    instructions: str = ""
    problems: tuple[str, ...] = ()
    """What was left out of it, and why."""


class Lists(Struct, frozen=True, kw_only=True):
    """A server's lists as they came; None for one that it does not have."""

    tools: Sequence[object] | None = None
    resources: Sequence[object] | None = None
    prompts: Sequence[object] | None = None
    instructions: str = ""
    problems: tuple[str, ...] = ()


def read_offer(server: str, part: str, lists: Lists, *, vouched: bool) -> Offer:
    """Read the lists of `server`, whose part of names is `part`. Hints of a server that nobody vouched for mean nothing."""
    problems = list(lists.problems)
    return Offer(
        tools=tuple(_tools(part, lists.tools or (), problems, vouched=vouched)),
        resources=tuple(_resources(server, lists.resources or (), problems)),
        prompts=tuple(_prompts(server, part, lists.prompts or (), problems)),
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


def _tools(part: str, entries: Sequence[object], problems: list[str], *, vouched: bool) -> Iterator[ToolOffer]:
    found: dict[str, _ToolEntry] = {}
    for entry in _named(entries, _ToolEntry, "tool", problems):
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
    """Never `pure`: that would loosen what the policy says, and a hint does not. A second run after a crash is all it permits."""
    said = hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)
    return "idempotent" if said else "once"


# --- resources and prompts -----------------------------------------------------------------------------------------------------------


class _ResourceEntry(msgspec.Struct, frozen=True, rename="camel"):
    uri: str
    name: str = ""
    description: str | None = None
    mime_type: str | None = None


def _resources(server: str, entries: Sequence[object], problems: list[str]) -> Iterator[Resource]:
    for entry in _entries(entries, _ResourceEntry, "resource", problems):
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


def _prompts(server: str, part: str, entries: Sequence[object], problems: list[str]) -> Iterator[Prompt]:
    found = {entry.name: entry for entry in _named(entries, _PromptEntry, "prompt", problems)}
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


def _named(entries: Sequence[object], kind: type[N], word: str, problems: list[str]) -> Iterator[N]:
    for entry in _entries(entries, kind, word, problems):
        name = entry.name
        if name and len(name) <= LONGEST_NAME and name.isprintable():
            yield entry
        else:
            problems.append(f"A {word} is left out: {one_line(name, 80)!r} cannot be a name.")


def _entries(entries: Sequence[object], kind: type[T], word: str, problems: list[str]) -> Iterator[T]:
    if len(entries) > MOST:
        problems.append(f"Only {MOST} of the {len(entries)} {word}s are read.")
    for entry in entries[:MOST]:
        try:
            yield msgspec.convert(entry, kind)
        except msgspec.ValidationError as exc:
            said = entry.get("name") if isinstance(entry, Mapping) else None
            named = f"The {word} {one_line(said, 80)!r}" if isinstance(said, str) else f"A {word}"
            problems.append(f"{named} is left out: {one_line(str(exc))}.")
