"""`output_schema`: what is refused when a file is loaded, how answers are held against it, how it is embedded."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry

from run_specialist.specialist.json_schema import schema_checks
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.specialist.loader import load, load_text

POINTER = "/properties/answer"
PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "additionalProperties": False,
}
YAML = """
type: object
required: [name]
properties:
  name: {type: string}
  children: {type: array, items: {$ref: '#'}}
additionalProperties: false
"""
DRAFT7, DRAFT4 = ({"$schema": f"http://json-schema.org/draft-0{number}/schema#"} for number in (7, 4))
NESTED = {"$id": "item.json", "$defs": {"x": {}}, "items": {"$ref": "#/$defs/x"}}


def made(schema: dict[str, Any]) -> AnswerSchema:
    """Load a schema that needs no folder."""
    return AnswerSchema.load(schema, Path())


def refused(value: Any, folder: Path = Path()) -> str:
    """Return why a schema is not taken."""
    with pytest.raises(ValueError, match=r"(?s).") as caught:
        AnswerSchema.load(value, folder)
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(PERSON, indent="\t")),
        ("a.json", "\ufeff" + json.dumps(PERSON)),
        ("a.yaml", json.dumps(PERSON)),
        ("a.yml", YAML),
    ],
)
def test_a_schema_may_stand_in_a_file(tmp_path, name, text):
    """JSON, tabs and a byte order mark included, and YAML are read; a relative path starts at the folder."""
    (tmp_path / name).write_text(text, "utf-8")
    assert AnswerSchema.load(name, tmp_path).schema == PERSON
    assert AnswerSchema.load(str(tmp_path / name), Path("/nowhere")).schema == PERSON


def test_json_is_read_as_json(tmp_path):
    """What YAML would read in another way, such as a pair of escapes for one character, is JSON's."""
    (tmp_path / "a.json").write_text(r'{"const": "\ud83d\ude00"}', "utf-8")
    assert AnswerSchema.load("a.json", tmp_path).schema == {"const": "\U0001f600"}


def test_the_schema_is_a_copy_of_what_was_given():
    """What a program does to its map afterwards changes nothing."""
    given_one = {"required": ["a"]}
    schema = made(given_one)
    given_one["required"].append("b")
    assert schema.schema == {"required": ["a"]}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{\n  nope", "a.json:2:3: is no valid JSON: Expecting property name"),
        ("a.yaml", "type: [\n", "a.yaml:2:1: is no valid JSON or YAML: "),
        ("a.yaml", "a: 1\n---\nb: 2\n", "more than one document"),
        ("a.yaml", "? [a]\n: b\n", "a key is a list or a map"),
        ("a.yaml", "", "a.yaml: wanted a JSON Schema, which is a map"),
        ("a.json", "[1]", "a.json: wanted a JSON Schema, which is a map"),
        ("a.json", "3", "a.json: wanted a JSON Schema, which is a map"),
        ("a.json", "false", "a.json: is false, which no answer can match"),
        ("a.json", '{"minimum": NaN}', "a.json: holds what JSON cannot"),
        ("a.yaml", "minimum: .inf", "a.yaml: holds what JSON cannot"),
        ("a.json", "[" * 100_000, "a.json: is nested too deeply"),
        ("a.yaml", "- " * 1_000, "nested more than 60 levels deep"),
        ("a.json", '{"not": ' * 300 + "{}" + "}" * 300, "a.json: is nested too deeply"),
        ("a.json", json.dumps({"title": "x" * 300_000}), "a.json: is longer than 262,144 characters"),
        ("a.json", "{}" + " " * 1_100_000, "a.json: is longer than 262,144 characters"),
        ("a.json", '{"type": "numbr"}', "a.json: type: 'numbr' is not one of ['array'"),
        ("a.json", '{"\\u001b": {"$ref": 1}, "type": "\\u001b[31m"}', "a.json: type: "),
    ],
)
def test_a_bad_file_is_named_with_the_reason(tmp_path, name, text, said):
    """One clause: the file, where in it, and why."""
    (tmp_path / name).write_text(text, "utf-8")
    why = refused(name, tmp_path)
    assert said in why
    assert why.startswith(str(tmp_path / name))


def test_aliases_that_multiply_are_refused(tmp_path):
    """Few lines of YAML that stand for millions of values do not grow."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    (tmp_path / "a.yaml").write_text(bomb, "utf-8")
    assert "holds more than 10,000 values" in refused("a.yaml", tmp_path)
    (tmp_path / "b.yaml").write_text("a: &a\n  b: *a\n", "utf-8")
    # An alias inside of what it names is a plain text here, as in front matter.
    assert AnswerSchema.load("b.yaml", tmp_path).schema == {"a": {"b": "*a"}}


def test_what_is_no_file_is_refused(tmp_path):
    """A missing file, a folder, a pipe that would block, an unusable name."""
    os.mkfifo(tmp_path / "pipe")
    assert refused("gone.json", tmp_path) == f"no such file: {tmp_path / 'gone.json'}"
    assert refused("a\nb", tmp_path).startswith("no such file: ")
    assert refused("", tmp_path).endswith("is no regular file")
    assert refused("pipe", tmp_path).endswith("is no regular file")
    assert "pipe/x: cannot be read: " in refused("pipe/x", tmp_path)
    assert "cannot be read" in refused("a\0b", tmp_path)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"age": {"type": "numbr"}}}, "properties.age.type: 'numbr' is not one of ['array', 'boolean'"),
        ({"properties": {"odd key": {"minimum": "x"}}}, "properties[\"odd key\"].minimum: 'x' is not of type 'number'"),
        ({"anyOf": [{}, {"required": "x"}]}, "anyOf[1].required: 'x' is not of type 'array'"),
        ({"pattern": "("}, "pattern: '(' is not a 'regex' that can be matched here: unclosed group"),
        ({"pattern": "a{1,99999999999}"}, "pattern: 'a{1,99999999999}' is not a 'regex'"),
        ({"pattern": "(a{1000}){1000}"}, "Compiled regex exceeds size limit"),
        (
            {"properties": {"a b": {"items": {"pattern": "(?=a)"}}}},
            "properties[\"a b\"].items.pattern: '(?=a)': lookaround and backreferences are not supported, for they",
        ),
        ({"anyOf": [{}, {"patternProperties": {r"(.)\1": {}}}]}, "anyOf[1].patternProperties: '(.)\\\\1': lookaround"),
        ({**DRAFT4, "patternProperties": {"(": {}}}, "patternProperties: '(' is not a 'regex'"),
        ({"x": [{"pattern": "("}], "$ref": "#/x/0"}, "x[0].pattern: '(' is not"),
        ({"items": {**DRAFT7}}, "items.$schema: may only stand at the top"),
        ({"$schema": "https://example.com/own"}, "$schema: 'https://example.com/own' is not known here"),
        ({"$schema": 3}, "$schema: 3 is not known here"),
        ({"$ref": "#/$defs/x"}, "the reference '#/$defs/x' leads nowhere in the schema"),
        ({"items": {"$ref": "#x"}}, "the reference '#x' leads nowhere in the schema"),
        ({"$ref": "#/allOf/x", "allOf": [True]}, "the reference '#/allOf/x' leads nowhere in the schema"),
        ({"$ref": "http://["}, "the reference 'http://[' leads nowhere in the schema"),
        ({"$ref": "http://127.0.0.1:9/x"}, "leads nowhere in the schema; nothing is fetched"),
        ({**DRAFT4, "$ref": "#/x"}, "the reference '#/x' leads nowhere in the schema"),
        ({"$dynamicRef": "#x"}, "the reference '#x' leads nowhere in the schema"),
        ({"title": "x", "$ref": "#/title"}, "the reference '#/title' leads to what is no schema"),
        ({"x": {"y": {"type": "numbr"}}, "$ref": "#/x/y"}, "at '#/x/y': type: 'numbr' is not one of"),
        ({"x": {"y": {"$ref": "#/z"}}, "$ref": "#/x/y"}, "the reference '#/z' leads nowhere in the schema"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"not": {"dependentSchemas": {"x": {"$ref": "#"}}}}, "refers to itself without end"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, "refers to itself without end"),
        ({"items": {"$defs": {"a": {"not": {"$ref": "#/items"}}}, "$ref": "#/items/$defs/a"}}, "itself without end"),
        ({"x": {1, 2}}, "holds what JSON cannot: Object of type set"),
    ],
)
def test_a_bad_schema_is_refused_with_the_place_inside(schema, said):
    """Nothing is left for the moment when an answer is there."""
    assert said in refused(schema)


def test_a_map_that_holds_itself_is_refused():
    """A program can make what no file can hold."""
    schema: dict[str, Any] = {}
    schema["items"] = schema
    assert "holds what JSON cannot" in refused(schema)
    assert refused({"title": "x" * 300_000}) == "is longer than 262,144 characters"


def explosive(levels: int) -> dict[str, Any]:
    """Return a schema that is short to write and doubles the work at each level."""
    defs = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": {**defs, f"a{levels}": {"const": 1}}, "properties": {"deep": {"$ref": "#/$defs/a0"}}}


def test_checking_is_bounded(monkeypatch):
    """A schema that asks for endless work is refused, and an answer that does is not waited for."""
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 5_000)
    assert "takes too long to check" in refused({**explosive(40), "$ref": "#/$defs/a0"})
    schema = made(explosive(40))
    assert schema.reason({}) is None
    assert schema.reason({"deep": 1}) is None
    assert "takes too long to check" in str(schema.reason({"deep": 2}))


def test_a_schema_of_its_own_kind_at_the_root_is_bounded_too(monkeypatch):
    """By naming its dialect a schema does not get around the bound."""
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 5_000)
    name = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = made({**explosive(40), **name, "items": {"$ref": "#"}})
    assert "takes too long to check" in str(schema.reason([{"deep": 2}]))


@pytest.mark.parametrize("first", ["unevaluatedItems", "unevaluatedProperties"])
def test_what_is_left_over_is_bounded_too(monkeypatch, first):
    """Looking for what no part looked at follows each reference anew, and is not begun when there are too many."""
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 5_000)
    to = [{"$ref": f"#/$defs/a{i}", "$dynamicRef": f"#/$defs/a{i}"} for i in range(41)]
    defs = {f"a{i}": {"dependentSchemas": {"x": to[i + 1], "y": to[i + 1]}} for i in range(40)}
    both = {f"b{i}": {"$ref": f"#/$defs/b{i + 1}", "$dynamicRef": f"#/$defs/b{i + 1}"} for i in range(40)}
    schema = made({"items": {first: False, "$ref": "#/$defs/a0"}, "$defs": {**defs, "a40": {}}})
    assert schema.reason([{}]) is None or first == "unevaluatedProperties"
    assert "takes too long to check" in str(schema.reason([{"x": 1, "y": 1}]))
    again = {"properties": {"a": {first: False, "$ref": "#/$defs/b0"}}, "$defs": {**both, "b40": {}}}
    assert "takes too long to check" in str(made(again).reason({"a": [1] if first == "unevaluatedItems" else {"b": 1}}))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"enum": [str(i) for i in range(1_000)]}}, ["x"] * 200),
        ({"items": {"required": ["a", "b", "c", "d", "e"]}}, [{}] * 900),
        ({"items": {"properties": {f"a{i}": {} for i in range(1_000)}}}, [{}] * 200),
        ({"patternProperties": {f"a{i}": {} for i in range(400)}}, {f"b{i}": 1 for i in range(400)}),
        (
            {"additionalProperties": False, "patternProperties": {f"a{i}": {} for i in range(200)}},
            dict.fromkeys(map(str, range(400))),
        ),
        ({"allOf": [{"type": "null"}] * 50}, ["x" * 50_000]),
    ],
)
def test_what_one_keyword_does_counts(monkeypatch, schema, value):
    """Many values to compare with, many names to match, many errors, long errors: each takes its time."""
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 5_000)
    assert "takes too long to check" in str(made(schema).reason(value))


ENDLESS = "^(a+)+$"
AAAA = "a" * 60 + "!"


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
def test_no_pattern_takes_for_ever(dialect, schema, value, said):
    """A pattern that makes other engines try each way to read a text is decided at once."""
    assert made({**dialect, **schema}).reason(value) == said


@pytest.mark.parametrize("dialect", [{}, {"$schema": "https://json-schema.org/draft/2019-09/schema"}])
def test_no_pattern_takes_for_ever_where_properties_are_left_over(dialect):
    """`unevaluatedProperties` matches names in each part that holds."""
    parts = {"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"patternProperties": {ENDLESS: {}}}}}
    schema = made({**dialect, **parts, "unevaluatedProperties": False})
    assert schema.reason({"aa": 1}) is None
    left_over = f"the answer: Unevaluated properties are not allowed ('{AAAA}' was unexpected)"
    assert schema.reason({AAAA: 1, "aa": 1}) == left_over


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^a$", "a\n", False),
        (r"^\p{Lu}\w*$", "\u00c9t\u00e9", True),
        (r"^\d{4}-\d\d$", "2024-01", True),
        ("^.$", "\ud800", True),
        ("^.$", "\U0001f600", True),
        ("", "", True),
    ],
)
def test_a_pattern_is_looked_for_anywhere(pattern, text, found):
    """As JSON Schema has it: anchors are the author's, classes know Unicode, and the end is the end."""
    assert (made({"pattern": pattern}).reason(text) is None) == found


SAME_WORDS = [
    ({"patternProperties": {"^a": {}, "^b": {}}, "additionalProperties": False}, {"c": 1, "a": 1, "b": 1}),
    ({"patternProperties": {"^a": {}, "^b": {}}, "additionalProperties": False}, {"d": 1, "c": 1}),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 1}),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "c": 1, "b": 1}),
    ({"patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}}, {"a": 1, "b": 1, "c": None}),
    ({"patternProperties": {"a": {"type": "null"}, "b": {"type": "string"}}}, {"ab": 1}),
    ({"additionalProperties": False}, [1]),
    ({"pattern": "^a"}, "b"),
    ({"pattern": "^a"}, 1),
    ({"unevaluatedProperties": False}, {"b": 1, "a": 1}),
    ({"unevaluatedProperties": {"type": "null"}}, {"a": 1, "b": None}),
    ({"unevaluatedProperties": {"type": "null"}}, {"a": 1, "b": 2}),
    ({"anyOf": [{"properties": {"a": {}}}, {"required": ["x"]}], "unevaluatedProperties": False}, {"a": 1}),
    ({"anyOf": [{"properties": {"a": False}}, {}], "unevaluatedProperties": False}, {"a": 1}),
    ({"oneOf": [{"additionalProperties": True}], "unevaluatedProperties": False}, {"a": 1}),
    ({"dependentSchemas": {"a": {"properties": {"a": {}}}}, "unevaluatedProperties": False}, {"a": 1, "b": 1}),
    ({"if": {"required": ["a"]}, "then": {"patternProperties": {"": {}}}, "unevaluatedProperties": False}, {"a": 1}),
    ({"if": {"required": ["a"]}, "else": {"properties": {"b": {}}}, "unevaluatedProperties": False}, {"b": 1}),
    ({"if": {"properties": {"a": {}}}, "unevaluatedProperties": False}, {"a": 1}),
    ({"if": False, "then": {"properties": {"a": {}}}, "unevaluatedProperties": False}, {"a": 1}),
    ({"not": {"properties": {"a": {}}, "required": ["b"]}, "unevaluatedProperties": False}, {"a": 1}),
    *(
        ({"uniqueItems": True}, value)
        for value in (
            [1, 1.0], [1, True], [0, False], ["1", 1], [[], {}], [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}],
            [{"a": 1}, {"a": True}], [[1], [True]], [None, None], [{}, {}], "aa", [],
        )
    ),
    ({"uniqueItems": False}, [1, 1]),
]  # fmt: skip


@pytest.mark.parametrize("dialect", [{}, {"$schema": "https://json-schema.org/draft/2019-09/schema"}])
@pytest.mark.parametrize(("schema", "value"), SAME_WORDS)
def test_our_keywords_say_what_the_library_says(monkeypatch, dialect, schema, value):
    """Where the library's own keywords end in time, they and ours agree, word for word."""
    said = made({**dialect, **schema}).reason(value)
    monkeypatch.setattr(schema_checks, "replaced", dict)
    assert said == made({**dialect, **schema}).reason(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"$dynamicRef": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}}}},
        {
            "$ref": "item.json",
            "$defs": {"i": {"$id": "item.json", "$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}}}}},
        },
    ],
)
def test_references_start_from_where_they_stand(schema):
    """In a resource of its own a reference leads to a part of that."""
    whole = made({**schema, "unevaluatedProperties": False})
    assert whole.reason({"a": 1}) is None
    assert "('b' was unexpected)" in str(whole.reason({"a": 1, "b": 1}))


@pytest.mark.parametrize("reference", ["$recursiveRef", "$ref"])
def test_references_are_followed_for_what_is_left_over(reference):
    """2019-09 has one more kind of reference."""
    name = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
    node = {"properties": {"next": {reference: "#", "unevaluatedProperties": False}}}
    schema = made({**name, **node})
    assert schema.reason({"next": {"next": {}}}) is None
    assert "('x' was unexpected)" in str(schema.reason({"next": {"x": 1}}))
    within = made({**name, "allOf": [{"unevaluatedProperties": {"type": "null"}}], "unevaluatedProperties": False})
    assert within.reason({"a": None}) is None


def test_many_items_that_must_differ_take_no_longer_than_others():
    """They are not compared with each other one by one."""
    items = [{"a": number} for number in range(60_000)]
    assert made({"uniqueItems": True}).reason(items) is None
    assert "has non-unique elements" in str(made({"uniqueItems": True}).reason([*items, {"a": 7.0}]))


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
    """The line says where and what, of alternatives the one that was meant, in the dialect of the schema."""
    reason = made(schema).reason(value)
    assert reason is None if said is None else str(reason).startswith(said)


def test_the_reason_names_three_places_at_most_and_the_outermost_first():
    """What is wrong at the top matters most; the rest shows once that is mended."""
    wrong = {"children": [{"name": 1}, {"name": 2}, {"name": 3}, {"name": 4}]}
    assert str(made(PERSON).reason(wrong)).split("; ") == [
        "the answer: 'name' is a required property",
        "children[0].name: 1 is not of type 'string'",
        "children[1].name: 2 is not of type 'string'",
    ]


def test_the_reason_stays_short_and_keeps_its_point():
    """Of a long value the middle is left out, never what is wrong with it."""
    schema = made({"additionalProperties": {"type": "number"}})
    reason = str(schema.reason({"k" * 500: "long\n" * 5_000}))
    assert reason.endswith("' is not of type 'number'")
    assert len(reason) <= 400
    assert reason.isprintable()


def test_a_schema_may_be_as_deep_as_a_file():
    """Sixty levels, as in YAML, are more than an author needs; more would not be safe to check."""
    schema: dict[str, Any] = {}
    for _ in range(59):
        schema = {"not": schema}
    assert "should not be valid under" in str(made(schema).reason(1))
    assert refused({"not": {"not": schema}}) == "is nested too deeply"


def test_an_answer_without_a_bottom_is_not_followed():
    """A value that is nested beyond what can be checked is a reason, not a crash."""
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    schema = made({"type": "array", "items": {"$ref": "#"}})

    def below(frames: int) -> str:
        return below(frames - 1) if frames else str(schema.reason(deep))

    # Wherever the call stands: some places of the library do not survive Python's own limit.
    assert {below(frames) for frames in range(40)} == {"the answer is nested too deeply to be checked"}
    itself = {"if": {"const": {"x": 1}}, "then": {"$ref": "#"}, "unevaluatedProperties": False}
    assert "nested too deeply" in str(made(itself).reason({"x": 1}))
    assert made(PERSON).reason({"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}] * 100}) is None


@pytest.mark.parametrize(
    ("schema", "embedded"),
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}, {"type": "null"}),
        ({"items": {"$ref": "#"}}, {"items": {"$ref": "#/properties/answer"}}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {}}},
            {"$ref": "#/properties/answer/$defs/a", "$defs": {"a": {}}},
        ),
        # References by an anchor are found wherever it stands.
        ({"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}, {"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}),
        # In data nothing is a reference, and in `properties` a name is no keyword.
        *(({key: [{"$ref": "#"}]}, {key: [{"$ref": "#"}]}) for key in ("const", "enum", "default", "examples")),
        (
            {"properties": {"$ref": {"type": "null"}, "default": {"items": {"$ref": "#"}}}},
            {"properties": {"$ref": {"type": "null"}, "default": {"items": {"$ref": "#/properties/answer"}}}},
        ),
        # An `$id` that nothing needs goes; one that is needed makes a resource of its own.
        ({"$id": "http://x/y", "items": {"$ref": "#"}}, {"items": {"$ref": "#/properties/answer"}}),
        ({"$id": "http://x/y", "items": {"$ref": "y#"}}, {"$id": "http://x/y", "items": {"$ref": "y#"}}),
        (
            {"$defs": {"i": NESTED}, "allOf": [{"$ref": "item.json"}, {"$ref": "#/$defs/i"}]},
            {"$defs": {"i": NESTED}, "allOf": [{"$ref": "item.json"}, {"$ref": "#/properties/answer/$defs/i"}]},
        ),
        # What an older dialect has and 2020-12 refuses cannot be embedded.
        ({**DRAFT7, "items": [{}]}, None),
        ({**DRAFT4, "maximum": 3, "exclusiveMaximum": True}, None),
    ],
)
def test_references_are_led_to_the_new_place(schema, embedded):
    """A schema keeps its meaning inside the arguments of `respond`."""
    assert made(schema).embedded(POINTER) == embedded


# Names that JSON pointers escape, and names that are keywords elsewhere.
NAMES = st.sampled_from(["a", "b", "a/b", "~", "% é", "$ref", "$id", "default", "enum", "properties", "$defs"])


def pointed(name: str) -> str:
    """Return a name as it stands in a reference."""
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
                "unevaluatedProperties": inner,
                "if": inner,
                "then": inner,
                "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
            },
        )
        | st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2), "unevaluatedProperties": inner})
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
def test_an_embedded_schema_decides_as_the_original_does(root, value):
    """For any schema with references and any value: embedded or not, and our own check, all agree."""
    defs, top = root
    try:
        schema = made({"$defs": defs, **top})
    except ValueError:
        assume(False)
    try:
        matches = Draft202012Validator(schema.schema, registry=Registry()).is_valid(value)
    except RecursionError:
        # Some only lead back to themselves for a value that nobody could guess; that is said in words.
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
def test_any_map_is_a_schema_or_is_refused_in_one_line(schema, value):
    """Whatever stands in a file, nothing but ValueError comes out, and what is taken can be used."""
    try:
        taken = made(schema)
    except ValueError as error:
        # It becomes a problem of a file, which shows it with escapes for what is not printable.
        taken, said = None, str(error)
    if taken is None:
        assert 0 < len(said) <= 500
        return
    reason = taken.reason(value)
    assert reason is None or "\n" not in reason
    taken.embedded(POINTER)


def test_a_bad_schema_makes_the_file_unusable_at_its_place(tmp_path):
    """A file never runs without what it promises; it is listed, with line, column, key and reason."""
    path = tmp_path / "finder.md"
    path.write_text("---\nname: finder\ndescription: d\noutput_schema: gone.json\n---\nBody\n", "utf-8")
    file = load(path)
    assert (file.name, file.status, file.specialist) == ("finder", "error", None)
    assert [str(problem) for problem in file.problems] == [
        f"{path}:4:16: output_schema: no such file: {tmp_path / 'gone.json'}"
    ]
    (tmp_path / "gone.json").write_text('{"type": "object"}', "utf-8")
    assert load(path).status == "ok"


def test_a_bad_schema_inside_a_file_is_told_beside_other_errors():
    """All that is wrong is said at once, and of one value only once."""
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


def test_files_without_a_schema_do_not_pay_for_the_library(tmp_path):
    """Listing and checking import the validator only when a file needs it."""
    (tmp_path / "finder.md").write_text("---\nname: finder\ndescription: d\n---\nBody\n", "utf-8")
    script = (
        "import sys; from run_specialist.cli.manage import main; sys.argv = ['specialists', 'check', sys.argv[1]]\n"
    )
    script += "try: main()\nfinally: print('jsonschema' in sys.modules, 'referencing' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False False"


def test_an_alternative_that_nothing_matches_is_not_what_was_meant():
    """`false` among the alternatives has no place to name; the reason is that of the whole."""
    schema = AnswerSchema.load({"anyOf": [False, {"type": "integer"}]}, Path())
    assert "integer" in schema.reason("x")
    assert schema.reason(3) is None
