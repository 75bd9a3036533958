"""Calls as JSON: for any tools and arguments, what the schema allows is read as the same call."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.json_calls import call_schema, read_call, tool_list, written, written_arguments
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.respond import respond_tool
from tests.wire.json_mode import broken_in

NAMES = st.text("abcdefghijklmnop_", min_size=1, max_size=8)
SCALARS = {
    "string": st.text(max_size=20),
    "integer": st.integers(-1000, 1000),
    "boolean": st.booleans(),
    "number": st.floats(-100, 100, allow_nan=False),
}


@st.composite
def properties(draw):
    """Make the schema of one property, and a strategy of its values."""
    kind = draw(st.sampled_from([*SCALARS, "array", "object", "enum"]))
    if kind == "enum":
        values = draw(st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True))
        return {"enum": values}, st.sampled_from(values)
    scalar = draw(st.sampled_from([*SCALARS]))
    if kind == "array":
        return {"type": "array", "items": {"type": scalar}}, st.lists(SCALARS[scalar], max_size=3)
    if kind == "object":
        inner = {"type": "object", "properties": {"a": {"type": scalar}}, "required": ["a"]}
        return inner, st.fixed_dictionaries({"a": SCALARS[scalar]})
    return {"type": kind, "description": "What it is."}, SCALARS[kind]


@st.composite
def toolsets_with_a_call(draw):
    """Make a toolset, the name of one of its tools, and arguments that fit it."""
    tools, arguments = [], {}
    for name in draw(st.lists(NAMES.filter(lambda name: name != "respond"), min_size=1, max_size=4, unique=True)):
        parts = draw(st.dictionaries(NAMES, properties(), max_size=4))
        required = [key for key in parts if draw(st.booleans())]
        schema = {"type": "object", "properties": {key: part for key, (part, _) in parts.items()}, "required": required}
        tools.append(Tool(name, "Does something.", lambda **given: str(given), schema=schema))
        arguments[name] = {
            key: draw(values) for key, (_, values) in parts.items() if key in required or draw(st.booleans())
        }
    chosen = draw(st.sampled_from([*arguments]))
    return Toolset([*tools, respond_tool()]), chosen, arguments[chosen]


@given(toolsets_with_a_call())
def test_g8_any_call_is_read_as_it_was_meant(drawn):
    """A call whose omitted arguments are null, as the schema demands, is read as the call with them omitted."""
    tools, name, arguments = drawn
    strict = written_arguments(tools.get(name))
    complete = {key: arguments.get(key) for key in strict["properties"]}
    call = read_call(written(name, complete), tools)
    assert call == (name, arguments)
    assert read_call(written(name, arguments), tools)[1] == arguments


@given(toolsets_with_a_call())
def test_g8_any_union_is_fit_for_strict_decoding(drawn):
    """Every object of the schema is closed and requires all of its properties; no keyword is one that is refused."""
    tools, _, _ = drawn
    schema = call_schema(tools)
    assert not list(broken_in(schema))
    branches = schema["properties"]["call"]["anyOf"]
    assert [branch["properties"]["tool"]["enum"] for branch in branches] == [[name] for name in tools.names]
    assert "description" not in json.dumps(schema)


@given(toolsets_with_a_call(), st.data())
def test_g8_a_call_that_was_cut_is_never_complete(drawn, data):
    """A prefix of a call is never read as a complete one, and a cut reading of it never fails."""
    tools, name, arguments = drawn
    text = written(name, arguments)
    prefix = text[: data.draw(st.integers(0, len(text) - 1))]
    assert read_call(prefix, tools) is None
    cut = read_call(prefix, tools, cut=True)
    assert cut is None or name.startswith(cut[0])


@given(st.text())
def test_g8_other_text_is_no_call(text):
    """A text that is not JSON of this shape is never a call."""
    assert read_call(text, Toolset([respond_tool()])) is None


@pytest.mark.parametrize("text", ["[]", "{}", '{"call": 1}', '{"call": {"tool": ""}}', '{"tool": "respond"}'])
def test_g8_json_of_another_shape_is_no_call(text):
    """JSON of another shape is text."""
    assert read_call(text, Toolset([respond_tool()])) is None


def test_g8_arguments_that_are_no_object_are_invalid():
    """A call without arguments, or with others than an object, is a call with invalid arguments."""
    for rest in ("", ', "arguments": [1]', ', "arguments": "x"'):
        call = read_call(f'{{"call": {{"tool": "respond"{rest}}}}}', Toolset([respond_tool()]))
        assert call == ("respond", None)


def test_g8_respond_is_written_with_a_quote_first():
    """The quote that the answer rests on comes first, cannot be null, and becomes the first piece of evidence."""
    tools = Toolset([respond_tool()])
    arguments = written_arguments(respond_tool())
    assert [*arguments["properties"]] == ["source", "quote", "answer", "evidence", "gaps"]
    assert arguments["properties"]["quote"]["type"] == "string"
    given = {"quote": "q", "source": "a:1", "answer": "yes", "evidence": None, "gaps": None}
    first = {"quote": "q", "source": "a:1"}
    assert read_call(written("respond", given), tools)[1] == {"answer": "yes", "evidence": [first]}
    more = {"quote": "r", "source": "b:2"}
    meant = read_call(written("respond", {**given, "evidence": [more]}), tools)[1]
    assert meant == {"answer": "yes", "evidence": [first, more]}


def test_g8_an_answer_without_a_quote_has_none():
    """An empty quote is not evidence, and arguments of another shape stay unchanged."""
    tools = Toolset([respond_tool()])
    empty = {"quote": "", "source": "", "answer": "yes", "evidence": None, "gaps": ["x"]}
    assert read_call(written("respond", empty), tools)[1] == {"answer": "yes", "gaps": ["x"]}
    odd = {"quote": "q", "answer": "yes", "evidence": "in a.md"}
    assert read_call(written("respond", odd), tools)[1]["evidence"] == [{"quote": "q"}, "in a.md"]


def test_g8_the_list_of_tools_names_types_and_defaults():
    """Each tool has its description and its parameters; `respond` comes last."""
    schema = {
        "type": "object",
        "properties": {
            "words": {"type": "array", "items": {"type": "string"}, "description": "What to find."},
            "limit": {"type": "integer", "default": 10, "maximum": 50, "description": "How many."},
            "how": {"enum": ["a", "b"]},
        },
        "required": ["words", "how"],
    }
    tools = [respond_tool(), Tool("seek", "Seeks.", lambda **given: str(given), schema=schema)]
    listed = tool_list(tools).splitlines()
    assert listed[:4] == [
        "- seek: Seeks.",
        "  words ([string, ...]): What to find.",
        "  limit (integer | null): How many. null means 10. At most 50.",
        '  how ("a" | "b")',
    ]
    assert listed[4].startswith("- respond: ")
    assert listed[5].startswith("  source (string): The `path:line` of the line")
    assert listed[-1] == "  gaps ([string, ...] | null): Not found."


def test_g8_a_tool_without_parameters_takes_an_empty_object():
    """A schema without properties is closed, although it does not say so."""
    tools = Toolset([Tool("now", "Tells the time.", lambda: "noon", schema={"type": "object", "properties": {}})])
    assert written_arguments(tools.get("now"))["additionalProperties"] is False
    assert read_call(written("now", {}), tools)[1] == {}
    assert tool_list(tools) == "- now: Tells the time."


def test_g8_a_tool_with_open_parameters_takes_json_in_a_string():
    """Arguments that cannot be closed are written as JSON in a string, and the list of tools says so."""
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    tools = Toolset([Tool("count", "Counts.", lambda **given: str(given), schema=schema)])
    assert written_arguments(tools.get("count"))["type"] == "string"
    assert read_call(written("count", '{"owls": 2}'), tools)[1] == {"owls": 2}
    assert read_call(written("count", "owls"), tools)[1] is None
    assert tool_list(tools).splitlines() == ["- count: Counts.", "  arguments (string): As JSON in a string."]
