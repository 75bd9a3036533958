"""`evidence: require` beside `output_schema`: the schema needs a place for quotes."""

from pathlib import Path

import pytest

from run_specialist.specialist.answer_schema import NEEDS_QUOTES, has_quotes
from run_specialist.specialist.loader import load_text

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
        {"allOf": [schema(LIST)]},
        schema({"$ref": "#/$defs/a~1b"}, **{"$defs": {"a/b": LIST}}),
    ],
)
def test_g_5_a_schema_with_quotes_is_recognized(given):
    """The array may be behind references and alternatives."""
    assert has_quotes(given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        schema({"type": "array"}),
        schema({"type": "array", "items": {"type": "string"}}),
        schema({"type": "array", "items": {"type": "object", "properties": {"quote": {}}}}),
        {"type": "object", "properties": {"quotes": LIST}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}], "anyOf": 3},
        {"$ref": "other.json"},
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
