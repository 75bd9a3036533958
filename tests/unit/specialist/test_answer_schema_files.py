"""Loading `output_schema`: its forms in a file, and errors that name the place inside."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.specialist.loader import load, load_text
from tests.unit.specialist.schemas import DRAFT7, PERSON, load_schema, refused

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


def test_the_schema_is_a_copy_of_the_given_dict():
    """Changing the given dict afterwards does not change the schema."""
    given_one = {"required": ["a"]}
    schema = load_schema(given_one)
    given_one["required"].append("b")
    assert schema.schema == {"required": ["a"]}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{\n  nope", "a.json:2:7: "),
        ("a.yaml", "type: [\n", "a.yaml:2:1: "),
        ("a.yaml", "? [a]\n: b\n", "a key must be a text"),
        ("a.yaml", "", "a.yaml: must be a JSON Schema, which is a map"),
        ("a.json", "[1]", "a.json: must be a JSON Schema, which is a map"),
        ("a.json", "false", "a.json: is false, which no answer can match"),
        ("a.json", '{"minimum": NaN}', "a.json: minimum: 'NaN' is not of type 'number'"),
        ("a.yaml", "minimum: .inf", "a.yaml: contains a value that JSON cannot represent"),
        ("a.json", "[" * 900, "nested more than 60 levels deep"),
        ("a.yaml", "- " * 1_000, "nested more than 60 levels deep"),
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


def test_a_path_that_is_no_regular_file_is_refused(tmp_path):
    """A missing file, a folder, a pipe that would block and an unusable name are refused."""
    os.mkfifo(tmp_path / "pipe")
    assert refused("gone.json", tmp_path) == f"{tmp_path / 'gone.json'}: cannot be read: No such file or directory"
    assert refused("", tmp_path).endswith("is not a regular file")
    assert refused("pipe", tmp_path).endswith("is not a regular file")
    assert "pipe/x: cannot be read: " in refused("pipe/x", tmp_path)
    assert "cannot be read" in refused("a\0b", tmp_path)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"age": {"type": "numbr"}}}, "properties.age.type: 'numbr' is not one of ['array', 'boolean'"),
        ({"properties": {"odd key": {"minimum": "x"}}}, "properties[\"odd key\"].minimum: 'x' is not of type 'number'"),
        ({"pattern": "("}, "pattern: '(' cannot be matched here: unclosed group"),
        (
            {"properties": {"a b": {"items": {"pattern": "(?=a)"}}}},
            "properties[\"a b\"].items.pattern: '(?=a)' cannot be matched here: look-around",
        ),
        ({"items": {**DRAFT7}}, "items.$schema: is allowed only at the top level"),
        ({"$schema": "https://example.com/own"}, "$schema: 'https://example.com/own' is not supported"),
        ({"items": {"unevaluatedProperties": False}}, "items.unevaluatedProperties: is not supported; use additionalP"),
        ({"$schema": 3}, "$schema: 3 is not supported"),
        ({"$ref": "#/$defs/x"}, "the reference '#/$defs/x' does not exist in the schema"),
        ({"$ref": "http://127.0.0.1:9/x"}, "does not exist in the schema; schemas are not fetched"),
        ({"title": "x", "$ref": "#/title"}, "the reference '#/title' does not lead to a schema"),
        ({"x": {"y": {"type": "numbr"}}, "$ref": "#/x/y"}, "at '#/x/y': type: 'numbr' is not one of"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"not": {"dependentSchemas": {"x": {"$ref": "#"}}}}, "refers to itself without end"),
        ({"x": {1, 2}}, "contains a value that JSON cannot represent: Object of type set"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(schema, said):
    """A bad schema is refused at load time, before any answer arrives."""
    assert said in refused(schema)


def test_a_dict_that_contains_itself_is_refused():
    """A dict that contains itself, which only a program can create, is refused."""
    schema: dict[str, Any] = {}
    schema["items"] = schema
    assert "contains a value that JSON cannot represent" in refused(schema)
    assert refused({"title": "x" * 300_000}) == "is longer than 262,144 characters"


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


@pytest.mark.exhaustive
def test_files_without_a_schema_do_not_import_the_validator(tmp_path):
    """Listing and checking import the validator only when a file needs it."""
    (tmp_path / "finder.md").write_text("---\nname: finder\ndescription: d\n---\nBody\n", "utf-8")
    script = (
        "import sys; from run_specialist.cli.manage import main; sys.argv = ['specialists', 'check', sys.argv[1]]\n"
    )
    script += "try: main()\nfinally: print('jsonschema' in sys.modules, 'referencing' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False False"


def test_aliases_that_expand_too_far_are_refused(tmp_path):
    """A few lines of YAML whose aliases expand to millions of values are refused."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    (tmp_path / "a.yaml").write_text(bomb, "utf-8")
    assert "has more than 50,000 values" in refused("a.yaml", tmp_path)
    (tmp_path / "b.yaml").write_text("a: &a\n  b: *a\n", "utf-8")
    # An alias inside its own anchor is read as plain text, as in front matter.
    assert AnswerSchema.load("b.yaml", tmp_path).schema == {"a": {"b": "*a"}}
