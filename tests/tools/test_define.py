"""A function becomes a tool."""

import dataclasses
import enum
import threading
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pytest

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.vocab.errors import UserError
from backstay.vocab.specs import ToolSpec
from tests.tools.context import RecordingContext

pytestmark = pytest.mark.anyio


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Tree(msgspec.Struct):
    name: str
    children: list["Tree"] = []


@dataclasses.dataclass
class Span:
    start: float
    end: float


class Options(TypedDict, total=False):
    deep: bool


@tool
async def word_count(path: str) -> int:
    """Count the words of a text file.

    More that the model does not need.
    """
    return len(path.split())


async def test_the_plain_decorator_makes_a_tool_that_is_still_the_function() -> None:
    assert await word_count("a b c") == 3
    assert repr(word_count) == "<tool word_count>"
    assert word_count.spec == ToolSpec(
        name="word_count",
        description="Count the words of a text file.",
        schema={
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": False,
        },
        effect="once",
        touches="host",
    )
    assert await word_count.run({"path": "a b"}, RecordingContext()) == ToolOutput(text="2")


def _schema(kind: Any, default: object = dataclasses.MISSING) -> object:
    def probe(it: object) -> None: ...

    probe.__annotations__["it"] = kind
    if default is not dataclasses.MISSING:
        probe.__defaults__ = (default,)
    schema = tool(probe).spec.schema
    properties = schema["properties"]
    assert isinstance(properties, dict)
    return properties["it"] if "$defs" not in schema else (properties["it"], schema["$defs"])


@pytest.mark.contract("RB-55")
@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, object], {"type": "object", "additionalProperties": {"description": "any JSON value"}}),
        (object, {"description": "any JSON value"}),
        (Any, {}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045  # people still write it
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Annotated[str, "the file"], {"type": "string", "description": "the file"}),
        (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
        (Colour, ({"$ref": "#/$defs/Colour"}, {"Colour": {"title": "Colour", "enum": ["blue", "red"]}})),
        (
            Point,
            (
                {"$ref": "#/$defs/Point"},
                {
                    "Point": {
                        "title": "Point",
                        "type": "object",
                        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                        "required": ["x"],
                    }
                },
            ),
        ),
        (
            Span,
            (
                {"$ref": "#/$defs/Span"},
                {
                    "Span": {
                        "title": "Span",
                        "type": "object",
                        "properties": {"start": {"type": "number"}, "end": {"type": "number"}},
                        "required": ["start", "end"],
                    }
                },
            ),
        ),
        (
            Options,
            (
                {"$ref": "#/$defs/Options"},
                {
                    "Options": {
                        "title": "Options",
                        "type": "object",
                        "properties": {"deep": {"type": "boolean"}},
                        "required": [],
                    }
                },
            ),
        ),
        (
            Tree,
            (
                {"$ref": "#/$defs/Tree"},
                {
                    "Tree": {
                        "title": "Tree",
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
                        },
                        "required": ["name"],
                    }
                },
            ),
        ),
    ],
)
def test_a_type_becomes_a_schema(kind: object, schema: object) -> None:
    assert _schema(kind) == schema


@pytest.mark.parametrize(
    ("kind", "default", "schema"),
    [
        (int, 3, {"type": "integer", "default": 3}),
        (str, None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (list[int], [1], {"type": "array", "items": {"type": "integer"}, "default": [1]}),
        (dict[str, int], {}, {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}}),
        (str, object(), {"type": "string"}),
        (
            Annotated[Colour, "which"],
            Colour.RED,
            (
                {"$ref": "#/$defs/Colour", "description": "which", "default": "red"},
                {"Colour": {"title": "Colour", "enum": ["blue", "red"]}},
            ),
        ),
    ],
)
def test_a_default_is_in_the_schema_when_json_can_say_it(kind: object, default: object, schema: object) -> None:
    assert _schema(kind, default) == schema


def test_the_docstring_describes_the_parameters() -> None:
    @tool
    def search(query: str, limit: int = 10, where: Annotated[str, "said here"] = "", kind: str = "") -> str:
        """Search the shelf
        for a book.

        Args:
            query (str): What to look for,
                in plain words.
            limit: How many: at most.
            where: said there

        Returns:
            kind: Not a parameter.
        """
        return query

    assert search.spec.description == "Search the shelf for a book."
    assert search.spec.schema["properties"] == {
        "query": {"type": "string", "description": "What to look for, in plain words."},
        "limit": {"type": "integer", "description": "How many: at most.", "default": 10},
        "where": {"type": "string", "description": "said here", "default": ""},
        "kind": {"type": "string", "default": ""},
    }


@tool(effect="pure", touches="reads")
def paint(point: Point, colour: Colour, context: ToolContext, tags: list[str] = [], /, *, wide: bool = False) -> object:  # noqa: B006  # the default of a person's function is its own affair
    """Paint."""
    return [point, colour, tags, wide, context.key]


@pytest.mark.contract("RB-55")
async def test_arguments_become_the_declared_types_and_the_context_is_passed() -> None:
    output = await paint.run({"point": {"x": 1}, "colour": "red", "wide": True}, RecordingContext())

    assert output == ToolOutput(text='[{"x":1,"y":0},"red",[],true,"key-of-call-1"]')
    assert paint.spec.schema["required"] == ["point", "colour"]
    assert "context" not in str(paint.spec.schema)
    assert (paint.spec.effect, paint.spec.concurrent, paint.spec.touches) == ("pure", True, "reads")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"point": {"x": 1}, "colour": "red"}, ""),
        ({}, "Missing arguments 'point' (object), 'colour' (one of 'blue', 'red')."),
        ({"point": {"x": 1}}, "Missing argument 'colour' (one of 'blue', 'red')."),
        ({"point": {"x": "1"}, "colour": "red"}, "Argument 'point.x': Expected `int`, got `str`."),
        ({"point": {"x": True}, "colour": "red"}, "Argument 'point.x': Expected `int`, got `bool`."),
        (
            {"point": {"x": 1}, "colour": "green"},
            "Argument 'colour': Invalid enum value 'green', expected one of 'blue', 'red'.",
        ),
        (
            {"point": {"x": 1}, "colour": "red", "tags": ["a", 2]},
            "Argument 'tags[1]': Expected `str`, got `int`.",
        ),
        (
            {"point": {"x": 1}, "colour": "red", "shade": 1},
            "Unknown argument 'shade'. The tool takes arguments 'point', 'colour', 'tags', 'wide'.",
        ),
    ],
)
async def test_a_problem_names_the_argument_and_what_was_expected(args: dict[str, object], problem: str) -> None:
    assert paint.problem(args) == problem
    if problem:
        expected = ToolOutput(text=problem, failed=True, code="bad_arguments")
        assert await paint.run(args, RecordingContext()) == expected


async def test_a_missing_argument_takes_the_functions_own_default() -> None:
    marker = object()

    @tool
    def probe(it: Any = marker) -> str:
        return "default" if it is marker else "given"

    assert await probe.run({}, RecordingContext()) == ToolOutput(text="default")
    assert await probe.run({"it": None}, RecordingContext()) == ToolOutput(text="given")


@pytest.mark.contract("RB-55")
@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("text", ToolOutput(text="text")),
        (None, ToolOutput()),
        (ToolOutput(text="x", failed=True, code="c"), ToolOutput(text="x", failed=True, code="c")),
        (5, ToolOutput(text="5")),
        ({"a": [1, None]}, ToolOutput(text='{"a":[1,null]}')),
        (Point(1, 2), ToolOutput(text='{"x":1,"y":2}')),
        (Span(1, 2), ToolOutput(text='{"start":1,"end":2}')),
        (Colour.RED, ToolOutput(text='"red"')),
    ],
)
async def test_a_return_value_becomes_an_output(value: object, output: ToolOutput) -> None:
    @tool
    async def give() -> object:
        return value

    assert await give.run({}, RecordingContext()) == output


@pytest.mark.parametrize(("value", "kind"), [(object(), "object"), ([1j], "list"), ({(1, 2): 3}, "dict")])
async def test_a_return_value_that_is_not_json_fails_by_name(value: object, kind: str) -> None:
    @tool
    def give() -> object:
        return value

    output = await give.run({}, RecordingContext())

    assert (output.failed, output.code) == (True, "not_json")
    assert repr(kind) in output.text


async def test_a_sync_function_runs_off_the_event_loop() -> None:
    @tool
    def where() -> str:
        return threading.current_thread().name

    assert await where.run({}, RecordingContext()) != ToolOutput(text=threading.current_thread().name)


async def test_an_exception_of_the_function_is_not_caught() -> None:
    @tool
    async def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail.run({}, RecordingContext())


async def test_a_reconcilable_tool_is_checked_with_the_same_arguments() -> None:
    async def was_sent(to: str, context: ToolContext) -> str | None:
        return f"sent {context.key}" if to == "a" else None

    @tool(effect="reconcilable", check=was_sent)
    async def send(to: str) -> str:
        return "sent now"

    assert await send.check({"to": "a"}, RecordingContext()) == ToolOutput(text="sent key-of-call-1")
    assert await send.check({"to": "b"}, RecordingContext()) is None
    assert await word_count.check({"path": ""}, RecordingContext()) is None


async def _check(other: str) -> None: ...


def _sync_check(it: str) -> None: ...


def _bare(it) -> None: ...  # type: ignore[no-untyped-def]  # what the test is about


def _many(*its: str) -> None: ...


def _any(**its: str) -> None: ...


def _unfillable(it: Callable[[], int]) -> None: ...


def _ambiguous(it: Point | Span) -> None: ...


def _unknown(it: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # what the test is about


def _good(it: str) -> None: ...


async def _yielding(it: str) -> Any:
    yield it


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: tool(_bare), r"'_bare' has a parameter 'it' without annotation"),
        (lambda: tool(_many), r"'_many' takes '\*its'"),
        (lambda: tool(_any), r"'_any' takes '\*\*its'"),
        (lambda: tool(_unfillable), r"'_unfillable' has a parameter that no JSON value can fill"),
        (lambda: tool(_ambiguous), r"'_ambiguous' has a parameter that no JSON value can fill"),
        (lambda: tool(_unknown), r"'_unknown' has an annotation .*Nowhere"),
        (lambda: tool(_yielding), r"'_yielding' yields"),
        (lambda: tool(Point), r"goes on a function"),
        (lambda: tool(name="no spaces")(_good), r"'no spaces' cannot be a tool's name"),
        (lambda: tool(effect="twice")(_good), r"effect='twice'\. Use one of 'pure'"),  # type: ignore[call-overload]
        (lambda: tool(touches="sky")(_good), r"touches='sky'"),  # type: ignore[call-overload]
        (lambda: tool(concurrent=True)(_good), r"runs alone"),
        (lambda: tool(effect="reconcilable")(_good), r"has no check"),
        (lambda: tool(check=_check)(_good), r"would never be called"),
        (lambda: tool(effect="reconcilable", check=_check)(_good), r"\['other'\].*\['it'\]"),
        (lambda: tool(effect="reconcilable", check=_sync_check)(_good), r"async function"),  # type: ignore[call-overload]
    ],
)
def test_a_function_that_no_model_could_call_is_refused_at_once(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        make()


async def test_a_bound_method_and_a_wrapped_coroutine_are_tools_too() -> None:
    class Shelf:
        async def find(self, title: str) -> str:
            """Find a book."""
            return f"found {title}"

    def later(title: str) -> Awaitable[str]:
        return Shelf().find(title)

    assert tool(Shelf().find).spec.schema["required"] == ["title"]
    assert await tool(Shelf().find).run({"title": "x"}, RecordingContext()) == ToolOutput(text="found x")
    assert await tool(later).run({"title": "y"}, RecordingContext()) == ToolOutput(text="found y")
