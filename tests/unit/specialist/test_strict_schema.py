"""Schemas for constrained decoding and what is restored from them; any front matter loads or names its errors."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.specialist.answer_schema import MOST_PARTS, matches, restored, strict
from run_specialist.specialist.fields import json_schema
from run_specialist.specialist.loader import SpecialistFile, load_text
from run_specialist.specialist.schema_checks import reason
from run_specialist.tools.respond import respond_tool
from tests.wire import structured_outputs as outputs

RULES = (
    *(outputs.mistyped, outputs.bounded, outputs.unsupported, outputs.open_objects, outputs.optional),
    *(outputs.complex_values, outputs.recursive),
)
NAMES = st.sampled_from(["a", "b", "long name", "ü"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2))
BOUNDS = st.fixed_dictionaries({}, optional={"description": st.text(max_size=5), "default": SCALARS, "title": NAMES})
PLAIN = st.one_of(
    st.sampled_from(["string", "number", "integer", "boolean", "null"]).map(lambda kind: {"type": kind}),
    st.lists(SCALARS, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    SCALARS.map(lambda value: {"const": value}),
    st.just({"type": "string", "minLength": 1, "format": "date"}),
    st.just({"type": ["string", "null"]}),
    st.just({"type": ["integer", "null"], "maximum": 3}),
    st.sampled_from([{}, {"type": "object"}, {"type": "array"}, {"type": "object", "additionalProperties": True}]),
    st.sampled_from([{"$ref": "#/$defs/node"}, {"$ref": "#/$defs/text"}, {"allOf": [{"$ref": "#/$defs/text"}]}]),
    st.just({"$ref": "http://elsewhere.example/schema"}),
)


def _object(properties):
    names = st.lists(st.sampled_from([*properties] or [""]), unique=True, max_size=len(properties))
    return st.tuples(names, st.booleans()).map(
        lambda drawn: {
            "type": "object",
            "properties": properties,
            **({"required": drawn[0]} if drawn[0] != [""] else {}),
            **({"additionalProperties": False} if drawn[1] else {}),
        }
    )


def _larger(inner):
    return st.one_of(
        st.dictionaries(NAMES, inner, max_size=3).flatmap(_object),
        inner.map(lambda item: {"type": "array", "items": item, "minItems": 0}),
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    )


PARTS = st.tuples(st.recursive(PLAIN, _larger, max_leaves=8), BOUNDS).map(lambda drawn: {**drawn[0], **drawn[1]})
DEFINITIONS = {
    "text": {"type": "string"},
    "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "size": {"type": "integer"}}},
}
SCHEMAS = (
    st.dictionaries(NAMES, PARTS, min_size=1, max_size=3)
    .flatmap(_object)
    .map(lambda schema: {**schema, "$defs": DEFINITIONS})
)


@st.composite
def values(draw, schema):
    """Draw a value that a model under constrained decoding may write."""
    if "anyOf" in schema:
        return draw(values(draw(st.sampled_from(schema["anyOf"]))))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    match schema["type"]:
        case "object":
            return {name: draw(values(part)) for name, part in schema["properties"].items()}
        case "array":
            return draw(st.lists(values(schema["items"]), max_size=2))
        case "string" if schema.get("description", "").endswith("As JSON in a string."):
            return json.dumps(draw(JSON))
        case kind:
            kinds = {"string": st.text(max_size=3), "integer": st.integers(-3, 3), "boolean": st.booleans()}
            return draw({**kinds, "number": st.floats(-3, 3), "null": st.none()}[kind])


def without_bounds(schema):
    """Return a schema that refuses what cannot be expressed only."""
    if isinstance(schema, dict):
        kept = {key: without_bounds(part) for key, part in schema.items()}
        return {key: part for key, part in kept.items() if key not in {"minLength", "maximum", "format"}}
    return [without_bounds(part) for part in schema] if isinstance(schema, list) else schema


@given(schema=SCHEMAS)
def test_g1_any_schema_becomes_one_that_both_vendors_take(schema):
    """Closed objects, all properties required, no bounds, no recursion, known keywords, a type for every part."""
    made = strict(schema)
    assert [broken for rule in RULES for broken in rule(made)] == []
    assert [*outputs.too_large(made)] == []


@given(schema=SCHEMAS, data=st.data())
def test_g1_what_the_model_writes_can_be_turned_back(schema, data):
    """A value of the strict schema matches it and, turned back, is valid by the original schema, bounds apart."""
    made = strict(schema)
    value = data.draw(values(made))
    assert matches(value, made)
    assert outputs.obeys(value, made)
    turned = restored(value, schema)
    if "As JSON in a string." not in json.dumps(made):
        assert reason(turned, without_bounds(schema)) is None


@given(schema=SCHEMAS, value=JSON)
def test_any_other_value_is_no_error(schema, value):
    """A value that does not match is turned back as far as it goes, and never raises."""
    made = strict(schema)
    restored(value, schema)
    assert matches(value, made) == outputs.obeys(value, made)


def test_g1_the_schema_of_respond():
    """Without `output_schema`: three required properties, of which two may be null."""
    made = strict(respond_tool().input_schema)
    assert made["required"] == ["answer", "evidence", "gaps"]
    assert [*made["properties"]["answer"]] == ["description", "type"]
    written = {"answer": "Mice.", "evidence": [{"source": None, "quote": "mice"}], "gaps": None}
    assert matches(written, made)
    assert restored(written, respond_tool().input_schema) == {"answer": "Mice.", "evidence": [{"quote": "mice"}]}


@pytest.mark.parametrize(
    ("part", "written", "value"),
    [
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({}, "not JSON", "not JSON"),
        ({"$ref": "#/$defs/node"}, {"next": '{"size": 1}', "size": None}, {"next": {"size": 1}}),
        ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, '{"b": 1}', {"b": 1}),
        ({"anyOf": [{"type": "string"}], "minLength": 3}, '"long"', "long"),
        ({"oneOf": [{"const": 1}, {"const": None}]}, None, None),
    ],
)
def test_g1_what_cannot_be_closed_is_json_in_a_string(part, written, value):
    """Open, recursive and contradictory parts are strings of JSON; what can be expressed is written as it is."""
    schema = {"type": "object", "properties": {"answer": part}, "required": ["answer"], "$defs": DEFINITIONS}
    assert matches({"answer": written}, strict(schema))
    assert restored({"answer": written}, schema) == {"answer": value}


@pytest.mark.parametrize(
    ("kept", "turned"),
    [
        ({"answer": {"prey": ["mi"]}}, {"answer": {"prey": ["mi"]}}),
        ({"answer": {"weight": None}}, {"answer": {}}),
        ({"answer": {"prey": ["mice"], "weight": None}}, {"answer": {"prey": ["mice"]}}),
        ({}, {}),
    ],
)
def test_a_value_that_was_cut_off_is_turned_back_as_far_as_it_goes(kept, turned):
    """Properties that never arrived are missing, and those that did are turned back."""
    properties = {"prey": {"type": "array", "items": {"type": "string"}}, "weight": {"type": "number"}}
    answer = {"anyOf": [{"type": "object", "properties": properties}, {"type": "null"}]}
    assert restored(kept, {"type": "object", "properties": {"answer": answer}}) == turned


def fan_out(levels):
    """Return a schema that doubles at each of its references."""
    defs = {
        f"d{level}": {"type": "array", "items": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 20}}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0"}, {**defs, f"d{levels}": {"type": "string"}}


def deep(levels, kind):
    """Return so many schemas inside one another."""
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"array": {"type": "array", "items": schema}, "anyOf": {"anyOf": [schema]}}.get(
            kind, {"type": "object", "properties": {"a": schema}}
        )
    return schema, {}


CHAIN = {f"c{number}": {"$ref": f"#/$defs/c{number + 1}"} for number in range(10 * MOST_PARTS)}


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    "hostile",
    [
        fan_out(9),
        *(deep(levels, kind) for levels in (30, 5_000) for kind in ("array", "anyOf", "object")),
        ({"enum": [*range(2 * MOST_PARTS)]}, {}),
        ({"$ref": "#/$defs/c0"}, CHAIN),
        ({"type": "object", "properties": {str(number): {} for number in range(2 * MOST_PARTS)}}, {}),
    ],
    ids=["fan-out", "arrays", "anyOf", "objects", "arrays 5000", "anyOf 5000", "objects 5000", "enum", "chain", "wide"],
)
def test_a_hostile_schema_is_bounded_and_spoils_no_other_part(hostile):
    """A property that is too large or too deep becomes JSON in a string; the others stay as they are."""
    part, definitions = hostile
    properties = {"answer": part, "gaps": {"type": "array", "items": {"type": "string"}}}
    schema = {"type": "object", "properties": properties, "required": ["gaps"], "$defs": definitions}
    made = strict(schema)
    assert sum(1 for _ in outputs.parts(made)) <= MOST_PARTS
    assert [*outputs.too_large(made)] == []
    assert made["properties"]["gaps"] == properties["gaps"]
    assert restored({"answer": None, "gaps": ["age"]}, schema) == {"gaps": ["age"]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"enum": 5}}, "required": [["a"]]},
        {"type": "object", "properties": {"a": {"anyOf": 5}, "b": {"anyOf": [5]}, "c": {"type": [{}]}}},
        {"type": "object", "properties": {"a": {"$ref": 5}, "b": {"$ref": "#/properties/a/0"}, "c": {"enum": [[]]}}},
        {
            "type": "object",
            "properties": {"a": {"type": "string", "description": 5}, "b": {"type": "array", "items": 5}},
        },
        {str(number): {} for number in range(MOST_PARTS)},
    ],
)
def test_a_schema_that_is_none_is_json_in_a_string(schema):
    """Whatever a server sends in place of a schema, the result obeys the rules."""
    made = strict(schema)
    assert [broken for rule in RULES for broken in rule(made)] == []
    assert restored({}, schema) == {}


PATH = Path("agent.md")
KEYS = sorted(json_schema()["properties"])

# fmt: off
WORDS = st.sampled_from(
    ["none", "auto", "force", "order", "sonnet", "read, grep", "Read", "10m", "5", "0.5", "true",
     "", " ", "\u00e9\u2028", "*"]
)
# fmt: on
NUMBERS = st.sampled_from([0, 1, 30, -1, 10**12, 0.5, 1.0, 2.5, -0.1, float("inf"), float("nan"), True, False, None])
SIMPLE = WORDS | NUMBERS | st.text(max_size=12)
MAPPING_NAMES = st.sampled_from(["Read", "grep", "from", "style", "*", "", " ", "\u00e9\u2028", "one two"])
VALUES = st.recursive(
    SIMPLE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MAPPING_NAMES, inner, max_size=3), max_leaves=6
)
SPELT = {"odd": lambda key: key, "hyphens": lambda key: key.replace("_", "-"), "upper": str.upper}
MAPPINGS = st.dictionaries(
    st.sampled_from(KEYS)
    | st.builds(lambda key, how: SPELT[how](key), st.sampled_from(KEYS), st.sampled_from([*SPELT])),
    VALUES,
    max_size=6,
)


def loaded(mapping: dict[str, object], body: str = "You look.") -> SpecialistFile:
    """Load a file whose front matter is a mapping written as YAML."""
    return load_text(f"---\n{yaml.safe_dump(mapping, allow_unicode=True)}---\n{body}\n", PATH)


@given(MAPPINGS)
def test_any_mapping_loads_or_gives_errors_with_a_line(mapping):
    """Loading is deterministic, errors name a line within the file, and strict mode refuses warnings."""
    file, again = loaded(mapping), loaded(mapping)
    assert file == again
    assert file.name
    assert file.description
    levels = {problem.level for problem in file.problems}
    assert (file.specialist is None) == ("error" in levels) == (file.status == "error")
    assert (file.strict().specialist is None) == bool(levels & {"error", "warning"})
    lines = len(yaml.safe_dump(mapping, allow_unicode=True).splitlines()) + 4
    for problem in file.problems:
        assert 1 <= problem.line <= lines
        assert problem.text.isprintable()
        assert str(problem).startswith(f"agent.md:{problem.line}:{problem.column}: ")
