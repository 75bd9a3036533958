"""The time to check an answer is bounded, whatever the schema and its patterns."""

import time
from typing import Any

import pytest

from run_specialist.specialist import schema_checks
from run_specialist.specialist.schema_checks import MOST_PATTERNS
from tests.unit.specialist.schemas import DRAFT7, PERSON, load_schema, refused


def explosive(levels: int) -> dict[str, Any]:
    """Return a short schema whose check doubles the work at each level."""
    defs = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": {**defs, f"a{levels}": {"const": 1}}, "properties": {"deep": {"$ref": "#/$defs/a0"}}}


def test_a_check_that_takes_too_long_is_stopped(monkeypatch):
    """A schema that always takes too long is refused, and the check of an answer that takes too long is stopped."""
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 5_000)
    assert "takes too long to check" in refused({**explosive(40), "$ref": "#/$defs/a0"})
    schema = load_schema(explosive(40))
    assert schema.reason({}) is None
    assert schema.reason({"deep": 1}) is None
    assert "takes too long to check" in str(schema.reason({"deep": 2}))


def test_a_dialect_at_the_root_does_not_bypass_the_limit(monkeypatch):
    """A schema that names its dialect in `$schema` does not bypass the limit."""
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 5_000)
    name = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = load_schema({**explosive(40), **name, "items": {"$ref": "#"}})
    assert "takes too long to check" in str(schema.reason([{"deep": 2}]))


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"enum": [str(i) for i in range(1_000)]}}, ["x"] * 200),
        ({"items": {"required": ["a", "b", "c", "d", "e"]}}, [{}] * 900),
        ({"items": {"properties": {f"a{i}": {} for i in range(1_000)}}}, [{}] * 200),
        ({"patternProperties": {f"a{i}": {} for i in range(250)}}, {f"b{i}": 1 for i in range(600)}),
        (
            {"additionalProperties": False, "patternProperties": {f"a{i}": {} for i in range(200)}},
            dict.fromkeys(map(str, range(400))),
        ),
        ({"allOf": [{"type": "null"}] * 50}, ["x" * 50_000]),
    ],
)
def test_the_work_of_one_keyword_counts_towards_the_limit(monkeypatch, schema, value):
    """Many values, names or errors and long errors of one keyword count towards the limit."""
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 5_000)
    assert "takes too long to check" in str(load_schema(schema).reason(value))


ENDLESS = "^(a+)+$"


AAAA = "a" * 60 + "!"


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("dialect", [{}, {"$schema": "https://json-schema.org/draft/2019-09/schema"}, DRAFT7])
@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"pattern": ENDLESS}, AAAA, f"the answer: '{AAAA}' does not match '{ENDLESS}'"),
        ({"pattern": ENDLESS}, "aaa", None),
        ({"propertyNames": {"pattern": ENDLESS}}, {AAAA: 1}, f"the answer: '{AAAA}' does not match '{ENDLESS}'"),
        ({"patternProperties": {ENDLESS: False}}, {AAAA: 1}, None),
        ({"patternProperties": {ENDLESS: {"type": "null"}}}, {"aa": 1}, "aa: 1 is not of type 'null'"),
        (
            {"patternProperties": {ENDLESS: {}}, "additionalProperties": False},
            {AAAA: 1, "aa": 1},
            f"the answer: '{AAAA}' does not match any of the regexes: '{ENDLESS}'",
        ),
    ],
)
def test_no_pattern_backtracks_forever(dialect, schema, value, said):
    """A pattern that makes backtracking engines run forever is matched immediately."""
    assert load_schema({**dialect, **schema}).reason(value) == said


def test_unique_items_are_not_compared_pairwise():
    """`uniqueItems` does not compare all items pairwise."""
    items = [{"a": number} for number in range(60_000)]
    assert load_schema({"uniqueItems": True}).reason(items) is None
    assert "has non-unique elements" in str(load_schema({"uniqueItems": True}).reason([*items, {"a": 7.0}]))


def test_an_answer_nested_too_deeply_is_refused():
    """A value nested too deeply to be checked gives a reason, not a crash."""
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    schema = load_schema({"type": "array", "items": {"$ref": "#"}})

    def below(frames: int) -> str:
        return below(frames - 1) if frames else str(schema.reason(deep))

    # Try many stack depths: parts of the library do not survive Python's recursion limit.
    assert {below(frames) for frames in range(40)} == {"the answer is nested too deeply to be checked"}
    itself = {"if": {"const": {"x": 1}}, "then": {"$ref": "#"}}
    assert "nested too deeply" in str(load_schema(itself).reason({"x": 1}))
    assert (
        load_schema(PERSON).reason({"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}] * 100})
        is None
    )


def test_a_schema_with_very_many_patterns_is_refused():
    """A schema with more patterns than the compile cache holds is refused, as each name would recompile them."""
    most = {"patternProperties": {f"^a{i}": {} for i in range(MOST_PATTERNS)}}
    assert load_schema(most).reason({"b": 1}) is None
    one_more = {**most, "properties": {"text": {"pattern": "^b"}}}
    assert f"has more than {MOST_PATTERNS} patterns" in refused(one_more)


def test_numbers_with_equal_hashes_are_compared_quickly():
    """Multiples of 2**61 - 1, which all have hash 0, also as floats, are compared quickly."""
    same = 2**61 - 1
    items = [number * same for number in range(100_000)]
    begun = time.monotonic()
    assert load_schema({"uniqueItems": True}).reason(items) is None
    assert "has non-unique elements" in str(load_schema({"uniqueItems": True}).reason([*items, same]))
    assert time.monotonic() - begun < 30
