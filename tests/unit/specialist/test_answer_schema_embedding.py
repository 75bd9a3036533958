"""Embedding `output_schema` in a tool's schema: references still resolve to the same place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.unit.specialist.schemas import DRAFT4, DRAFT7, load_schema

POINTER = "/properties/answer"


NESTED = {"$id": "item.json", "$defs": {"x": {}}, "items": {"$ref": "#/$defs/x"}}


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("schema", "embedded"),
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}, {"type": "null"}),
        ({"items": {"$ref": "#"}}, {"items": {"$ref": "#/properties/answer"}}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {}}},
            {"$ref": "#/properties/answer/$defs/a", "$defs": {"a": {}}},
        ),
        # References to an anchor resolve wherever the anchor is.
        ({"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}, {"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}),
        # Data contains no references, and names in `properties` are not keywords.
        *(({key: [{"$ref": "#"}]}, {key: [{"$ref": "#"}]}) for key in ("const", "enum", "default", "examples")),
        (
            {"properties": {"$ref": {"type": "null"}, "default": {"items": {"$ref": "#"}}}},
            {"properties": {"$ref": {"type": "null"}, "default": {"items": {"$ref": "#/properties/answer"}}}},
        ),
        # A reference by the schema's own `$id` has no new place.
        ({"$id": "http://x/y", "items": {"$ref": "#"}}, {"items": {"$ref": "#/properties/answer"}}),
        ({"$id": "http://x/y", "items": {"$ref": "y#"}}, None),
        (
            {"$defs": {"i": NESTED}, "allOf": [{"$ref": "item.json"}, {"$ref": "#/$defs/i"}]},
            {"$defs": {"i": NESTED}, "allOf": [{"$ref": "item.json"}, {"$ref": "#/properties/answer/$defs/i"}]},
        ),
        # A schema of an older dialect that 2020-12 refuses cannot be embedded.
        ({**DRAFT7, "items": [{}]}, None),
        ({**DRAFT4, "maximum": 3, "exclusiveMaximum": True}, None),
    ],
)
def test_references_are_rewritten_for_the_new_place(schema, embedded):
    """References are rewritten, so a schema keeps its meaning inside the arguments of `respond`."""
    assert load_schema(schema).embedded(POINTER) == embedded


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["$ref", "type", "items"]), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(sorted(Draft202012Validator.VALIDATORS)), ANY_JSON), ANY_JSON)
def test_any_dict_is_a_schema_or_refused_in_one_line(schema, value):
    """Any dict is refused with a short ValueError or gives a usable schema."""
    try:
        taken = load_schema(schema)
    except ValueError as error:
        # The error becomes a problem of a file, which escapes unprintable characters.
        taken, said = None, str(error)
    if taken is None:
        assert 0 < len(said) <= 500
        return
    reason = taken.reason(value)
    assert reason is None or "\n" not in reason
    taken.embedded(POINTER)
