"""Recognize tool calls that a server returned as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.knowledge import MOST_NESTED, leaked_calls, with_calls
from run_specialist.record.messages import Reply, Stop
from tests.scripted_provider import calls, says

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
        "{}",
        "  \n{}\n",
        "```\n{}\n```",
        "```json\n{}```",
        "```json\r\n  {}\n\n```",
        "<tool_call>{}</tool_call>",
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
        f"{ONE}\n{TWO}",
        f"{ONE}{TWO}",
        f"```json\n{ONE}\n\n{TWO}\n```",
        f"<tool_call>\n{ONE}\n</tool_call>\n<tool_call>\n{TWO}\n</tool_call>",
    ],
)
def test_g_3_several_calls_are_read_in_their_order(text):
    """Several objects are several calls, in the order in which they are written."""
    assert found(text) == [("search", {"query": "x"}), ("read", {"path": "a"})]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer.",
        f"I will search: {ONE}",
        f"{ONE} That should do.",
        f"{ONE}\n{{}}",
        f"{ONE}\n[]",
        f"[{ONE}]",
        f"{ONE}, {TWO}",
        f"```json\n{ONE}\n```\n```json\n{TWO}\n```",
        f"```json\n{ONE}\n``` done",
        f"```json\n{ONE}",
        f"<tool_call>{ONE}",
        f"<tool_call>{ONE}{TWO}</tool_call>",
        f"<tool_call>{ONE}</tool_call>{TWO}",
        f"{ONE}<tool_call>{TWO}</tool_call>",
        ONE[:-1],
        ONE[:-2],
        "```json\n```",
        "<tool_call></tool_call>",
        '{"name": "delete", "arguments": {}}',
        '{"name": "Search", "arguments": {}}',
        '{"name": "search"}',
        '{"arguments": {"query": "x"}}',
        '{"name": "search", "arguments": "{}"}',
        '{"name": "search", "arguments": [1]}',
        '{"name": "search", "arguments": null}',
        '{"name": ["search"], "arguments": {}}',
        '{"name": "search", "arguments": {}, "id": "1"}',
        '{"name": "search", "arguments": {}, "input": {}}',
        '{"function": {"name": "search", "arguments": {}}}',
        f'{ONE}\n{{"name": "delete", "arguments": {{}}}}',
        f"{ONE}\n{ANSWER}",
        f"{ANSWER}\n{ANSWER}",
        '{"evidence": []}',
        '{"answer": "yes", "sources": []}',
        f"Here it is: {ANSWER}",
        ANSWER[:-1],
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


def test_g_3_nesting_below_the_limit_is_a_call():
    """Ordinary nesting is read."""
    arguments = nested(MOST_NESTED - 2)
    assert found(f'{{"name": "search", "arguments": {arguments}}}') == [("search", json.loads(arguments))]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("text", ["{" * 1_000_000, " " * 1_000_000 + "x", "```\n" + ONE * 20_000, '{"a":' * 200_000])
def test_g_3_a_megabyte_of_something_else_stays_text(text):
    """A long text that only begins like a call is not one."""
    assert found(text) == []


def test_g_3_a_megabyte_of_one_call_is_read():
    """The length of an argument does not matter."""
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
