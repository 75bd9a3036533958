"""Embedding `output_schema` in a tool's schema: references still resolve to the same place."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry

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


# Names that JSON pointers escape, and names that are keywords in other places.
NAMES = st.sampled_from(["a", "b", "a/b", "~", "% é", "$ref", "$id", "default", "enum", "properties", "$defs"])


def pointed(name: str) -> str:
    """Return a name as it is escaped in a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")


LEAVES = (
    st.sampled_from([{"type": kind} for kind in ("string", "integer", "array", "object")])
    | NAMES.map(lambda name: {"$ref": f"#/$defs/{pointed(name)}"})
    | st.just({"$ref": "#"})
    | st.sampled_from(["#", "#/$defs/a"]).map(lambda to: {"const": {"$ref": to}})
    | st.booleans()
)


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(NAMES, inner, max_size=3).map(lambda parts: {"properties": parts})
        | inner.map(lambda part: {"items": part})
        | inner.map(lambda part: {"additionalProperties": part})
        | inner.map(lambda part: {"not": part})
        | st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"anyOf": parts})
        | NAMES.map(lambda name: {"required": [name]})
        | st.fixed_dictionaries(
            {"patternProperties": st.dictionaries(st.sampled_from(["^a", "[/$]", ""]), inner, max_size=2)},
            optional={
                "properties": st.dictionaries(NAMES, inner, max_size=1),
                "additionalProperties": inner,
                "if": inner,
                "then": inner,
                "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
            },
        )
        | st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"allOf": parts})
    ),
    max_leaves=6,
)


VALUES = st.recursive(
    st.sampled_from(["", 1, {"$ref": "#"}, {"$ref": "#/$defs/a"}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


ROOTS = st.tuples(st.dictionaries(NAMES, SCHEMAS, min_size=1), SCHEMAS.filter(lambda part: isinstance(part, dict)))


@given(ROOTS, VALUES)
@example(({"a": {"type": "string"}}, {"additionalProperties": {"$ref": "#/$defs/a"}}), {"a": 1})
@example(({"a/b": {"type": "string"}}, {"items": {"$ref": "#/$defs/a~1b"}}), [1])
@example(({"a": {}}, {"if": {"const": {"b": 1}}, "then": {"$ref": "#"}}), {"b": 1})
def test_original_and_embedded_schema_agree(root, value):
    """For any schema and value, the original, the embedded schema and our own check agree."""
    defs, top = root
    try:
        schema = load_schema({"$defs": defs, **top})
    except ValueError:
        assume(False)
    try:
        matches = Draft202012Validator(schema.schema, registry=Registry()).is_valid(value)
    except RecursionError:
        # Some schemas recurse infinitely for particular values only; the reason then says so.
        assert schema.reason(value) == "the answer is nested too deeply to be checked"
        return
    whole = {"properties": {"answer": schema.embedded(POINTER)}}
    assert Draft202012Validator(whole, registry=Registry()).is_valid({"answer": value}) == matches
    assert (schema.reason(value) is None) == matches


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
