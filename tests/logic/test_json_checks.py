"""Whether an answer fits a JSON Schema."""

import pytest

from backstay.logic.json_checks import answer_problem, problems, strip_fence

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 3},
        "mood": {"enum": ["good", "bad", None]},
        "parent": {"$ref": "#"},
        "pet": {"$ref": "#/$defs/pet"},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"pet": {"oneOf": [{"const": "cat"}, {"type": "string", "minLength": 5}]}},
}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada"}',
        '```json\n{"name": "Ada", "age": 36}\n```',
        '```\n{"name": "Ada"}\n```\n',
        '{"name": "Ada", "age": 36.0, "tags": ["a", "b"], "mood": null, "pet": "dogged"}',
    ],
)
def test_an_answer_that_fits_has_no_problem(text: str) -> None:
    assert answer_problem(text, PERSON) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Ada", "it is not JSON"),
        ("[]", "the answer is not of type object"),
        ("{}", "the answer has no 'name'"),
        ('{"name": ""}', "the length of the answer.name is less than 1"),
        ('{"name": "A", "age": true}', "the answer.age is not of type integer"),
        ('{"name": "A", "age": -1}', "the answer.age is less than 0"),
        ('{"name": "A", "age": 150}', "the answer.age is not less than 150"),
        ('{"name": "A", "tags": ["x", 1]}', "the answer.tags[1] is not of type string"),
        ('{"name": "A", "tags": ["x", "x"]}', "the answer.tags has the same item twice"),
        ('{"name": "A", "tags": ["a", "b", "c", "d"]}', "the length of the answer.tags is more than 3"),
        ('{"name": "A", "mood": "ugly"}', "the answer.mood is not one of"),
        ('{"name": "A", "shoe": 43}', "the answer has 'shoe', which is not known"),
        ('{"name": "A", "pet": "cow"}', "the answer.pet fits 0 of the alternatives"),
        ('{"name": "A", "parent": {"name": "B", "parent": {"age": 1}}}', "the answer.parent.parent has no 'name'"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_why(text: str, why: str) -> None:
    assert why in answer_problem(text, PERSON)


@pytest.mark.parametrize(
    ("schema", "fits", "does_not"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, 3),
        ({"allOf": [{"minimum": 2}, {"maximum": 4}]}, 3, 5),
        ({"not": {"type": "string"}}, 3, "x"),
        ({"type": ["string", "null"]}, None, 3),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": "x"}),
        ({"exclusiveMinimum": 1}, 1.5, 1),
        (True, 1, None),
    ],
)
def test_the_words_of_the_language(schema: object, fits: object, does_not: object) -> None:
    assert list(problems(fits, schema)) == []
    if schema is not True:
        assert list(problems(does_not, schema)) != []
    assert list(problems(fits, False)) == ["the answer is not allowed"]


def test_what_is_not_known_or_cannot_be_read_is_passed_over() -> None:
    assert list(problems("x", {"format": "uuid", "pattern": "(?<broken", "minLength": "three"})) == []
    assert list(problems("x", {"$ref": "https://elsewhere/schema"})) == []
    assert list(problems("x", {"$ref": "#/nowhere"})) == []
    assert list(problems("x", {"$ref": "#"})) == []
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert list(problems("x", loop)) == []


def test_a_fence_around_json_is_taken_away_and_nothing_else_is() -> None:
    assert strip_fence("```json\n[1]\n```") == "[1]"
    assert strip_fence("text ```json\n[1]\n```") == "text ```json\n[1]\n```"
