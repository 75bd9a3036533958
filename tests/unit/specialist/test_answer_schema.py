"""Checking an answer against `output_schema`: keywords, references, and the reasons given."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from run_specialist.specialist import schema_checks
from run_specialist.specialist.answer_schema import NEEDS_QUOTES, AnswerSchema, has_quotes
from run_specialist.specialist.loader import load, load_text
from run_specialist.specialist.schema_checks import MOST_PATTERNS

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "additionalProperties": False,
}


DRAFT7, DRAFT4 = ({"$schema": f"http://json-schema.org/draft-0{number}/schema#"} for number in (7, 4))


def load_schema(schema: dict[str, Any]) -> AnswerSchema:
    """Load a schema that refers to no files."""
    return AnswerSchema.load(schema, Path())


def refused(value: Any, folder: Path = Path()) -> str:
    """Return the reason why a schema is refused."""
    with pytest.raises(ValueError, match=r"(?s).") as caught:
        AnswerSchema.load(value, folder)
    assert str(caught.value).isprintable()
    return str(caught.value)


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
    ({"patternProperties": {"^a": {}, "^b": {}}, "additionalProperties": False}, [{"c": 1, "a": 1, "b": 1}]),
    ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1, "b": 1}]),
    ({"patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}}, [{"a": 1, "b": 1, "c": None}]),
    ({"pattern": "^a"}, ["b"]),
    (
        {"uniqueItems": True},
        [
            *([1, 1.0], [1, True], [0, False], ["1", 1], [[], {}], [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]),
            *([{"a": 1}, {"a": True}], [[1], [True]], [None, None], [{}, {}], "aa", []),
        ],
    ),
    ({"uniqueItems": False}, [[1, 1]]),
]


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize(("schema", "values"), SAME_WORDS)
def test_replaced_keywords_give_the_messages_of_the_library(monkeypatch, schema, values):
    """The replaced keywords give the same messages as the library's own, in each dialect."""
    dialects = [{}, {"$schema": "https://json-schema.org/draft/2019-09/schema"}]
    said = [list(map(load_schema({**dialect, **schema}).reason, values)) for dialect in dialects]
    monkeypatch.setattr(schema_checks, "OURS", {})
    assert said == [list(map(load_schema({**dialect, **schema}).reason, values)) for dialect in dialects]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (PERSON, "x", "the answer: 'x' is not of type 'object'"),
        (PERSON, {"name": "x", "children": [{}]}, "children[0]: 'name' is a required property"),
        ({"properties": {"a b": {"const": 1}}}, {"a b": 2}, '["a b"]: 1 was expected'),
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
        ({**DRAFT7, "items": [{"type": "string"}], "definitions": {"x": {}}}, [1], "[0]: 1 is not of type 'string'"),
        ({**DRAFT4, "maximum": 3, "exclusiveMaximum": True}, 3, "the answer: 3 is greater than or equal to"),
        ({**DRAFT7, "$ref": "#/definitions/x", "type": "null", "definitions": {"x": {"minimum": 2}}}, 2, None),
        (PERSON, {"name": float("nan")}, "the answer cannot be checked: "),
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


# The time to check an answer is bounded, whatever the schema and its patterns.
def explosive(levels: int) -> dict[str, Any]:
    """Return a short schema whose check doubles the work at each level."""
    defs = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": {**defs, f"a{levels}": {"const": 1}}, "properties": {"deep": {"$ref": "#/$defs/a0"}}}


@pytest.mark.exhaustive
def test_a_check_that_takes_too_long_is_stopped(monkeypatch):
    """A schema that always takes too long is refused, and the check of an answer that takes too long is stopped."""
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 5_000)
    assert "takes too long to check" in refused({**explosive(40), "$ref": "#/$defs/a0"})
    schema = load_schema(explosive(40))
    assert schema.reason({}) is None
    assert schema.reason({"deep": 1}) is None
    assert "takes too long to check" in str(schema.reason({"deep": 2}))
    named = {**explosive(40), "$schema": "https://json-schema.org/draft/2020-12/schema", "items": {"$ref": "#"}}
    assert "takes too long to check" in str(load_schema(named).reason([{"deep": 2}]))


@pytest.mark.exhaustive(one_in=6)
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
@pytest.mark.parametrize("dialect", [{}, DRAFT7])
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


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "items", [[{"a": n} for n in range(20_000)], [n * (2**61 - 1) for n in range(40_000)]], ids=len
)
def test_unique_items_are_not_compared_pairwise(items):
    """`uniqueItems` does not compare all items pairwise, nor multiples of 2**61 - 1, which all have hash 0."""
    assert load_schema({"uniqueItems": True}).reason(items) is None
    assert "has non-unique elements" in str(load_schema({"uniqueItems": True}).reason([*items, items[7]]))


def test_an_answer_nested_too_deeply_is_refused():
    """A value nested too deeply to be checked gives a reason, not a crash."""
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    schema = load_schema({"type": "array", "items": {"$ref": "#"}})

    def below(frames: int) -> str:
        return below(frames - 1) if frames else str(schema.reason(deep))

    # Try many stack depths: parts of the library do not survive Python's recursion limit.
    assert {below(frames) for frames in range(0, 40, 2)} == {"the answer is nested too deeply to be checked"}
    itself = {"if": {"const": {"x": 1}}, "then": {"$ref": "#"}}
    assert "nested too deeply" in str(load_schema(itself).reason({"x": 1}))
    assert (
        load_schema(PERSON).reason({"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}] * 100})
        is None
    )


@pytest.mark.exhaustive
def test_a_schema_with_very_many_patterns_is_refused():
    """A schema with more patterns than the compile cache holds is refused, as each name would recompile them."""
    most = {"patternProperties": {f"^a{i}": {} for i in range(MOST_PATTERNS)}}
    assert load_schema(most).reason({"b": 1}) is None
    one_more = {**most, "properties": {"text": {"pattern": "^b"}}}
    assert f"has more than {MOST_PATTERNS} patterns" in refused(one_more)


POINTER = "/properties/answer"


NESTED = {"$id": "item.json", "$defs": {"x": {}}, "items": {"$ref": "#/$defs/x"}}


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("schema", "embedded"),
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}, {"type": "null"}),
        ({"items": {"$ref": "#"}}, {"items": {"$ref": "#/properties/answer"}}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, {"$ref": "#/properties/answer/$defs/a", "$defs": {"a": {}}}),
        # References to an anchor resolve wherever the anchor is.
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


@pytest.mark.exhaustive
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


YAML = """
type: object
required: [name]
properties:
  name: {type: string}
  children: {type: array, items: {$ref: '#'}}
additionalProperties: false
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(PERSON, indent="\t")),
        ("a.json", "\ufeff" + json.dumps(PERSON)),
        ("a.yaml", json.dumps(PERSON)),
        ("a.yml", YAML),
    ],
)
def test_a_schema_is_read_from_a_json_or_yaml_file(tmp_path, name, text):
    """JSON, with tabs or a byte order mark, and YAML are read; relative paths start at the given folder."""
    (tmp_path / name).write_text(text, "utf-8")
    assert AnswerSchema.load(name, tmp_path).schema == PERSON
    assert AnswerSchema.load(str(tmp_path / name), Path("/nowhere")).schema == PERSON


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{\n  nope", "a.json:2:7: "),
        ("a.yaml", "? [a]\n: b\n", "a key must be a text"),
        ("a.yaml", "", "a.yaml: must be a JSON Schema, which is a map"),
        ("a.json", "false", "a.json: is false, which no answer can match"),
        ("a.json", '{"minimum": NaN}', "a.json: minimum: 'NaN' is not of type 'number'"),
        ("a.yaml", "minimum: .inf", "a.yaml: contains a value that JSON cannot represent"),
        ("a.json", "[" * 900, "nested more than 60 levels deep"),
        ("a.json", json.dumps({"title": "x" * 300_000}), "a.json: is longer than 262,144 characters"),
        ("a.json", "{}" + " " * 8_400_000, "a.json: is larger than 8,192 KiB"),
        ("a.json", '{"type": "numbr"}', "a.json: type: 'numbr' is not one of ['array'"),
        ("a.json", '{"\\u001b": {"$ref": 1}, "type": "\\u001b[31m"}', "a.json: type: "),
    ],
)
def test_a_bad_file_is_named_with_the_reason(tmp_path, name, text, said):
    """The error names the file, the place in it and the reason."""
    (tmp_path / name).write_text(text, "utf-8")
    why = refused(name, tmp_path)
    assert said in why
    assert why.startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"age": {"type": "numbr"}}}, "properties.age.type: 'numbr' is not one of ['array', 'boolean'"),
        (
            {"properties": {"a b": {"items": {"pattern": "(?=a)"}}}},
            "properties[\"a b\"].items.pattern: '(?=a)' cannot be matched here: look-around",
        ),
        ({"items": {**DRAFT7}}, "items.$schema: is allowed only at the top level"),
        ({"$schema": "https://example.com/own"}, "$schema: 'https://example.com/own' is not supported"),
        ({"items": {"unevaluatedProperties": False}}, "items.unevaluatedProperties: is not supported; use additionalP"),
        ({"$ref": "#/$defs/x"}, "the reference '#/$defs/x' does not exist in the schema"),
        ({"$ref": "http://127.0.0.1:9/x"}, "does not exist in the schema; schemas are not fetched"),
        ({"title": "x", "$ref": "#/title"}, "the reference '#/title' does not lead to a schema"),
        ({"x": {"y": {"type": "numbr"}}, "$ref": "#/x/y"}, "at '#/x/y': type: 'numbr' is not one of"),
        ({"x": {1, 2}}, "contains a value that JSON cannot represent: Object of type set"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(schema, said):
    """A bad schema is refused at load time, before any answer arrives."""
    assert said in refused(schema)


def test_a_file_with_an_invalid_schema_cannot_run(tmp_path):
    """A file with a bad schema is listed with line, column, key and reason, but cannot run."""
    path = tmp_path / "finder.md"
    path.write_text("---\nname: finder\ndescription: d\noutput_schema: gone.json\n---\nBody\n", "utf-8")
    file = load(path)
    assert (file.name, file.status, file.specialist) == ("finder", "error", None)
    assert [str(problem) for problem in file.problems] == [
        f"{path}:4:16: output_schema: {tmp_path / 'gone.json'}: cannot be read: No such file or directory"
    ]
    (tmp_path / "gone.json").write_text('{"type": "object"}', "utf-8")
    assert load(path).status == "ok"


def test_an_invalid_schema_is_reported_beside_other_errors():
    """All errors of a file are reported together, and each bad value only once."""
    head = "---\nname: finder\ndescription: d\n"
    text = f"{head}tool_calls_limit: x\noutput_schema:\n  properties: {{age: {{type: numbr}}}}\n---\nBody\n"
    wrong = [problem for problem in load_text(text, Path("finder.md")).problems if problem.level == "error"]
    assert [(problem.line, problem.key) for problem in wrong] == [(4, "tool_calls_limit"), (5, "output_schema")]
    assert wrong[1].text.startswith("properties.age.type: 'numbr' is not one of")
    twice = load_text(f'{head}output_schema: "{{x"\n---\nBody\n', Path("finder.md"))
    assert [problem.key for problem in twice.problems if problem.level == "error"] == ["output_schema"]
    odd = load_text(
        f'{head}output_schema: {{properties: {{"\\u202e": {{type: "\\e"}}}}}}\n---\nBody\n', Path("finder.md")
    )
    assert odd.status == "error"
    assert all(str(problem).isprintable() for problem in odd.problems)


# `evidence: require` beside `output_schema`: the schema needs a place for quotes.
ITEM = {"type": "object", "properties": {"source": {"type": "string"}, "quote": {"type": "string"}}}
LIST = {"type": "array", "items": ITEM}


def schema(evidence, **more):
    """Return the schema of an answer whose evidence is this."""
    return {"type": "object", "properties": {"evidence": evidence}, **more}


@pytest.mark.parametrize(
    "given",
    [
        schema(LIST),
        schema({"anyOf": [LIST, {"type": "null"}]}),
        schema({"type": "array", "items": {"$ref": "#/$defs/Quote"}}, **{"$defs": {"Quote": ITEM}}),
        {"$ref": "#/$defs/Answer", "$defs": {"Answer": schema(LIST)}},
    ],
)
def test_g_5_a_schema_with_quotes_is_recognized(given):
    """The array may be behind references and alternatives."""
    assert has_quotes(given)


@pytest.mark.parametrize(
    "given",
    [
        schema({"type": "array", "items": {"type": "string"}}),
        schema({"type": "array", "items": {"type": "object", "properties": {"quote": {}}}}),
        {"type": "object", "properties": {"quotes": LIST}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}], "anyOf": 3},
        {"$ref": "#/$defs/gone"},
    ],
)
def test_g_5_any_other_schema_is_not(given):
    """Other shapes have no place for quotes, and odd or circular ones end."""
    assert not has_quotes(given)


def problems(*lines):
    """Return the problems of a file with these lines."""
    text = "\n".join(("---", "name: finder", "description: d", *lines, "---", "Body", ""))
    return [str(problem) for problem in load_text(text, Path("finder.md")).problems]


def test_g_5_a_file_that_requires_quotes_without_a_place_for_them_is_unusable():
    """The error names line, column and what to do; with a place, or without `require`, the file is fine."""
    bad = problems("output_schema: {type: object}", "evidence: Require")
    assert bad == [f"finder.md:5:11: evidence: {NEEDS_QUOTES}"]
    assert "has no `evidence` array of objects with `source` and `quote`; add one, or set evidence to" in NEEDS_QUOTES
    assert problems("output_schema: {type: object}", "evidence: check") == []
    good = (
        "output_schema: {properties: {evidence: {type: array, items: {properties: {source: {}, quote: {}}}}}}",
        "evidence: require",
    )
    assert problems(*good) == []
    assert problems("evidence: require") == []


def test_characters_that_json_escapes_as_pairs_are_read(tmp_path):
    """`json.dumps` writes an emoji as two escapes; an escaped backslash before such a text stays what it is."""
    schema = {"type": "string", "description": "\U0001f600 \\ud83d\\ude00 \\\U0001f600"}
    (tmp_path / "a.json").write_text(json.dumps(schema), "utf-8")
    assert AnswerSchema.load("a.json", tmp_path).schema == schema
