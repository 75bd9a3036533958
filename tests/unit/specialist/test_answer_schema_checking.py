"""Checking an answer against `output_schema`: keywords, references, and the reasons given."""

from typing import Any

import pytest

from run_specialist.specialist import schema_checks
from tests.unit.specialist.schemas import DRAFT4, DRAFT7, PERSON, load_schema, refused


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^a$", "a\n", False),
        (r"^\p{Lu}\w*$", "\u00c9t\u00e9", True),
        (r"^\d{4}-\d\d$", "2024-01", True),
        ("^.$", "\ud800", True),
    ],
)
def test_a_pattern_may_match_anywhere(pattern, text, found):
    """Patterns match anywhere, as in JSON Schema; classes are Unicode-aware and `$` matches only at the very end."""
    assert (load_schema({"pattern": pattern}).reason(text) is None) == found


SAME_WORDS = [
    ({"patternProperties": {"^a": {}, "^b": {}}, "additionalProperties": False}, {"c": 1, "a": 1, "b": 1}),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 1}),
    ({"patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}}, {"a": 1, "b": 1, "c": None}),
    ({"pattern": "^a"}, "b"),
    *(
        ({"uniqueItems": True}, value)
        for value in (
            [1, 1.0], [1, True], [0, False], ["1", 1], [[], {}], [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}],
            [{"a": 1}, {"a": True}], [[1], [True]], [None, None], [{}, {}], "aa", [],
        )
    ),
    ({"uniqueItems": False}, [1, 1]),
]  # fmt: skip


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize("dialect", [{}, {"$schema": "https://json-schema.org/draft/2019-09/schema"}])
@pytest.mark.parametrize(("schema", "value"), SAME_WORDS)
def test_replaced_keywords_give_the_messages_of_the_library(monkeypatch, dialect, schema, value):
    """The replaced keywords give the same messages as the library's own."""
    said = load_schema({**dialect, **schema}).reason(value)
    monkeypatch.setattr(schema_checks, "OURS", {})
    assert said == load_schema({**dialect, **schema}).reason(value)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (PERSON, "x", "the answer: 'x' is not of type 'object'"),
        (PERSON, None, "the answer: None is not of type 'object'"),
        (PERSON, {"name": "x", "children": [{}]}, "children[0]: 'name' is a required property"),
        ({"properties": {"a b": {"const": 1}}}, {"a b": 2}, '["a b"]: 1 was expected'),
        ({"prefixItems": [{"type": "null"}]}, [0], "[0]: 0 is not of type 'null'"),
        ({"anyOf": [{"enum": ["a", "b"]}, {"type": "array"}]}, "x", "the answer: 'x' is not one of ['a', 'b']"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            3,
            "the answer: 3 is not valid under any of the given schemas",
        ),
        (
            {"oneOf": [{"properties": {"k": {"const": k}, k: {"type": "null"}}, "required": [k]} for k in ("a", "b")]},
            {"k": "b", "b": 1},
            "b: 1 is not of type 'null'",
        ),
        (
            {"anyOf": [{"properties": {"k": {"const": "a"}}}, {"properties": {"v": {"type": "null"}}}]},
            {"k": "b", "v": 1},
            "v: 1 is not of type 'null'",
        ),
        ({"anyOf": [{"required": ["a", "b"]}, {"required": ["a", "c"]}]}, {"c": 1}, "the answer: 'a' is a required"),
        (
            {**DRAFT7, "items": [{"type": "string"}], "definitions": {"x": {}}},
            [1],
            "[0]: 1 is not of type 'string'",
        ),
        ({**DRAFT4, "maximum": 3, "exclusiveMaximum": True}, 3, "the answer: 3 is greater than or equal to"),
        ({**DRAFT7, "$ref": "#/definitions/x", "type": "null", "definitions": {"x": {"minimum": 2}}}, 2, None),
        (PERSON, {"name": float("nan")}, "the answer cannot be checked: "),
        ({"multipleOf": 0.5}, 10**400, "the answer cannot be checked: "),
    ],
)
def test_the_reason_names_the_place(schema, value, said):
    """The reason gives place and problem, for alternatives of the intended one, in the schema's dialect."""
    reason = load_schema(schema).reason(value)
    assert reason is None if said is None else str(reason).startswith(said)


def test_the_reason_names_three_places_at_most_and_the_outermost_first():
    """The reason lists at most three places, outermost first; the others show after those are fixed."""
    wrong = {"children": [{"name": 1}, {"name": 2}, {"name": 3}, {"name": 4}]}
    assert str(load_schema(PERSON).reason(wrong)).split("; ") == [
        "the answer: 'name' is a required property",
        "children[0].name: 1 is not of type 'string'",
        "children[1].name: 2 is not of type 'string'",
    ]


def test_a_long_value_is_shortened_in_the_reason():
    """A long value is shortened in the middle; the error message is kept."""
    schema = load_schema({"additionalProperties": {"type": "number"}})
    reason = str(schema.reason({"k" * 500: "long\n" * 5_000}))
    assert reason.endswith("' is not of type 'number'")
    assert len(reason) <= 400
    assert reason.isprintable()


def test_a_schema_may_be_nested_sixty_levels_deep():
    """Up to sixty levels are allowed, as in YAML; deeper schemas would not be safe to check."""
    schema: dict[str, Any] = {}
    for _ in range(59):
        schema = {"not": schema}
    assert "should not be valid under" in str(load_schema(schema).reason(1))
    assert refused({"not": {"not": schema}}) == "is nested too deeply"
