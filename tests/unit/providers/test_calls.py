"""Calls as JSON and calls as text: whatever tools and arguments there are, the same call is read."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from run_specialist.loop.exchange import PartialReply
from run_specialist.providers.base import Delta
from run_specialist.providers.json_calls import (
    CallStream,
    call_schema,
    read_call,
    tool_list,
    written,
    written_arguments,
)
from run_specialist.providers.knowledge import MOST_NESTED, leaked_calls, with_calls
from run_specialist.providers.transport import COMPLETE, CUT, MOST_WHITE_SPACE, WhiteSpace, stop_reason
from run_specialist.record.messages import Reply, Stop
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.respond import respond_tool
from tests.scripted_provider import calls, says
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


@given(st.text() | st.sampled_from(["[]", "{}", '{"call": 1}', '{"call": {"tool": ""}}', '{"tool": "respond"}']))
def test_g8_other_text_is_no_call(text):
    """A text that is not JSON of this shape is never a call."""
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


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def shown(text: str, cuts: list[int]) -> list[Delta]:
    """Return what a watcher sees of a text that arrives in pieces."""
    seen: list[Delta] = []
    stream = CallStream(seen.append)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        stream.add(Delta(text[start:end]))
    return seen


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.lists(st.integers(0, 10_000), max_size=12))
@example({"a": "\\", "b": '"}', "c": '\\"{'}, [])
def test_g8_a_streamed_call_shows_its_arguments_only(arguments, cuts):
    """However a call is split, the pieces shown are the JSON of its arguments, each with the name of the tool."""
    seen = shown(f" {written('look', arguments)}\n ", cuts)
    assert "".join(delta.text for delta in seen) == json.dumps(arguments, ensure_ascii=False)
    assert {delta.tool for delta in seen} == {"look"}


@given(
    st.text(min_size=1).filter(lambda text: text.strip() and not text.lstrip().startswith("{")),
    st.lists(st.integers(0, 99)),
)
def test_g8_other_text_is_shown_as_it_is(text, cuts):
    """A text that is no JSON is shown unchanged."""
    seen = shown(text, cuts)
    assert "".join(delta.text for delta in seen) == text
    assert {delta.tool for delta in seen} == {None}


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_g8_what_arrived_of_an_answer_in_json_is_its_text(cuts):
    """Of an answer that was interrupted while it streamed, the part that arrived is kept."""
    text = written("respond", {"source": "a.md:1", "quote": "q", "answer": "so far so g"})[:-4]
    partial = PartialReply()
    for delta in shown(text, cuts):
        partial.add(delta)
    assert partial.is_answering
    assert partial.text == "so far so g"


# Recognize tool calls that a server returned as text.
TOOLS = ("read", "respond", "search")
ONE = '{"name": "search", "arguments": {"query": "x"}}'
TWO = '{"name": "read", "parameters": {"path": "a"}}'
ANSWER = '{"answer": "yes", "evidence": [{"source": "a:1", "quote": "b"}]}'


def found(text, **options):
    """Return name and arguments of the calls in a text."""
    return [(call.name, call.arguments) for call in leaked_calls(says(text), TOOLS, **options)]


def nested(levels):
    """Return JSON with this many levels of nesting."""
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("key", ["arguments", "parameters", "input"])
@pytest.mark.parametrize(
    "form",
    [
        "  \n{}\n",
        "```json\n{}```",
        "```json\r\n  {}\n\n```",
        "<tool_call>\n{}\n</tool_call>",
        "<think>I need to look.</think>\n{}",
    ],
)
def test_g_3_each_form_of_one_call_is_read(form, key):
    """A call counts bare, in a fence, in tags and after reasoning, with any of the three keys for its arguments."""
    text = form.replace("{}", json.dumps({"name": "search", key: {"query": "x"}}))
    assert found(text) == [("search", {"query": "x"})]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer.",
        f"I will search: {ONE}",
        f"{ONE} That should do.",
        f"{ONE}\n{{}}",
        f"[{ONE}]",
        f"```json\n{ONE}\n```\n```json\n{TWO}\n```",
        f"<tool_call>{ONE}",
        f"<tool_call>{ONE}{TWO}</tool_call>",
        ONE[:-1],
        '{"name": "delete", "arguments": {}}',
        '{"name": "Search", "arguments": {}}',
        '{"name": "search"}',
        '{"arguments": {"query": "x"}}',
        '{"name": "search", "arguments": "{}"}',
        '{"name": "search", "arguments": {}, "id": "1"}',
        '{"name": "search", "arguments": {}, "input": {}}',
        '{"function": {"name": "search", "arguments": {}}}',
        f'{ONE}\n{{"name": "delete", "arguments": {{}}}}',
        f"{ONE}\n{ANSWER}",
        f"Here it is: {ANSWER}",
    ],
)
def test_g_3_everything_else_stays_text(text):
    """JSON that names no offered tool, is surrounded by other words, has other keys, or is cut is not a call."""
    assert found(text) == []


@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "<think>so</think>{}"])
def test_g_3_the_input_of_respond_is_the_answer(form):
    """A text that is the input of `respond` is read as a call of it."""
    assert found(form.replace("{}", ANSWER)) == [("respond", json.loads(ANSWER))]


def test_g_3_the_bare_input_of_respond_stays_text_where_the_answer_has_a_schema():
    """With a schema it might be the answer itself; a call by name is read all the same."""
    assert found(ANSWER, bare_answer=False) == []
    named = json.dumps({"name": "respond", "arguments": {"answer": {"n": 1}}})
    assert found(named, bare_answer=False) == [("respond", {"answer": {"n": 1}})]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_g_3_numbers_that_are_no_json_stay_text(number):
    """A text whose arguments could not be sent back as JSON is not a call."""
    assert found(f'{{"name": "search", "arguments": {{"n": {number}}}}}') == []


@pytest.mark.parametrize("levels", [MOST_NESTED, 900, 100_000])
def test_g_3_deep_nesting_stays_text(levels):
    """Nesting has a limit, and text that even the parser refuses does not raise."""
    assert found(f'{{"name": "search", "arguments": {nested(levels)}}}') == []
    assert found(f'{{"answer": {nested(levels)}}}') == []
    below = nested(MOST_NESTED - 2)
    assert found(f'{{"name": "search", "arguments": {below}}}') == [("search", json.loads(below))]


@pytest.mark.exhaustive
def test_g_3_a_megabyte_of_one_call_is_read_and_of_something_else_stays_text():
    """A long text that only begins like a call is not one; the length of an argument does not matter."""
    for text in ("{" * 1_000_000, " " * 1_000_000 + "x", "```\n" + ONE * 20_000, '{"a":' * 200_000):
        assert found(text) == []
    assert found(json.dumps({"name": "search", "arguments": {"query": "x" * 1_000_000}}))[0][0] == "search"


@pytest.mark.parametrize("stop", [stop for stop in Stop if stop is not Stop.ANSWERED])
def test_g_3_a_reply_that_did_not_end_normally_keeps_its_text(stop):
    """Only a finished reply without calls is read, and none with an unknown stop reason."""
    assert leaked_calls(says(ONE, stop), TOOLS) == []
    unknown = Reply(Stop.ANSWERED, says(ONE).content, is_stop_known=False)
    assert leaked_calls(unknown, TOOLS) == []
    assert leaked_calls(calls(("search", {}), stop=Stop.ANSWERED), TOOLS) == []


def test_g_3_x_9_thinking_stays_where_it_was():
    """The new reply keeps all thinking, as blocks and as text, and holds the calls in place of their text."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    written = {"type": "text", "text": f"<think>so</think>\n{ONE}"}
    reply = Reply(Stop.ANSWERED, (thinking, written), reason="stop")
    made = with_calls(reply, leaked_calls(reply, TOOLS), ["id_1"])
    call = {"type": "tool_use", "id": "id_1", "name": "search", "input": {"query": "x"}}
    assert made.content == (thinking, {"type": "text", "text": "<think>so</think>\n"}, call)
    assert (made.stop, made.reason, made.text) == (Stop.WANTS_TOOLS, "stop", "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(TOOLS), st.sampled_from(["arguments", "parameters", "input"]), st.dictionaries(st.text(), JSON)
    ),
    min_size=1,
    max_size=4,
)
SPACE = st.text(" \n\t", max_size=3)


@given(CALLS, st.sampled_from(["{}", "<tool_call>{}</tool_call>"]), SPACE, st.booleans())
def test_g_3_whatever_calls_are_written_are_read(wanted, form, space, fenced):
    """Any arguments come back as they were written, in every form."""
    objects = [json.dumps({"name": name, key: arguments}) for name, key, arguments in wanted]
    if fenced:
        text = f"```json\n{space.join(objects)}{space}```"
    else:
        text = space.join(form.replace("{}", f"{space}{one}{space}", 1) for one in objects)
    assert found(text) == [(name, arguments) for name, _, arguments in wanted]


@given(st.text() | JSON.map(json.dumps))
def test_g_3_no_text_raises(text):
    """Any text is either calls of offered tools or nothing."""
    assert all(name in TOOLS for name, _ in found(text))


@given(CALLS, st.data())
def test_g_3_a_cut_call_stays_text(wanted, data):
    """A text that ends anywhere inside its last object is not a call."""
    objects = [json.dumps({"name": name, key: arguments}) for name, key, arguments in wanted]
    text = "\n".join(objects)
    cut = data.draw(st.integers(len(text) - len(objects[-1]) + 1, len(text) - 1))
    assert found(text[:cut]) == []


BLANK = st.text(" \n\t\r", max_size=30)


def count(pieces: list[str]) -> WhiteSpace:
    """Return the counter after some pieces."""
    white_space = WhiteSpace()
    for piece in pieces:
        white_space.add(piece)
    return white_space


@given(st.lists(st.text() | BLANK), st.integers(0, 3), st.sampled_from([" ", "\n", "\\n", "\\t", "\\r"]))
def test_g7_white_space_counts_from_the_last_word(before, less, blank):
    """It is endless from 2,000 characters on after the last word, and an escape of JSON counts as two."""
    times = MOST_WHITE_SPACE // len(blank)
    assert count([*before, "word", *[blank] * times]).is_endless
    assert not count([*before, "word", *[blank] * (times - 1 - less)]).is_endless
    assert not count([*before, *[blank] * times, "word"]).is_endless


@given(st.integers(1, 31))
def test_g7_white_space_counts_however_it_is_split(step):
    """The pieces may be of any length, and may end within an escape."""
    text = "word" + "\\n \n" * (MOST_WHITE_SPACE // 4)
    assert count([text[at : at + step] for at in range(0, len(text), step)]).is_endless
    assert not count([text[at : at + step] for at in range(0, len(text) - 4, step)][:-1]).is_endless


def test_g7_only_json_can_break_off():
    """A reply that breaks off in the middle of JSON is cut; text and complete JSON may be all there is."""
    assert stop_reason(["The answer.", '{"a": 1}']) == COMPLETE
    assert stop_reason([]) == COMPLETE
    assert stop_reason(["The answer.", '{"a": "b']) == CUT
    assert stop_reason([' {"a"']) == CUT
