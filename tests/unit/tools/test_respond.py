"""The arguments of `respond` are read leniently, and nothing a model writes raises an exception; toolsets."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from run_specialist.budget import Budget
from run_specialist.record.messages import ToolCall
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.base import Context, Output, Toolset
from run_specialist.tools.python_tools import tool
from run_specialist.tools.respond import MOST_EVIDENCE, Citation, Response, respond_tool

SAID = [{"source": "", "quote": "said so"}]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"answer": "Yes.", "evidence": [{"source": "a.md:1", "quote": "yes"}], "gaps": ["the date"]},
            {"answer": "Yes.", "evidence": [{"source": "a.md:1", "quote": "yes"}], "gaps": ["the date"]},
        ),
        (None, {"answer": ""}),
        ({"answer": ["x"]}, {"answer": '["x"]'}),
        ({"evidence": "said so"}, {"evidence": SAID}),
        ({"evidence": '["said so"]'}, {"evidence": SAID}),
        ({"evidence": '{"quote": "said so", "source": null}'}, {"evidence": SAID}),
        ({"evidence": [{}, None, "", *["said so"] * 30]}, {"evidence": SAID * MOST_EVIDENCE}),
        ({"gaps": "the date"}, {"gaps": ["the date"]}),
        ({"question": " Which year? "}, {"answer": "Which year?", "question": "Which year?"}),
    ],
)
def test_arguments_are_read_in_any_form(arguments, expected):
    """Text in place of lists, JSON in strings and single items are accepted; missing parts are empty."""
    response = Response.parse(arguments).model_dump()
    assert response == {"answer": "", "evidence": [], "gaps": [], "question": None, **expected}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_the_arguments_of_respond_are_described():
    """`answer` is required, evidence is bounded, and each argument has a description."""
    schema = respond_tool().input_schema
    assert schema["required"] == ["answer"]
    assert schema["properties"]["evidence"]["maxItems"] == MOST_EVIDENCE
    assert all("description" in item for item in schema["properties"].values())


def shape(**schema: Any) -> AnswerSchema:
    """Return a loaded answer schema."""
    return AnswerSchema.load(schema, Path())


MENU = {"dish": "köttbullar", "price": 9}
DISH = shape(
    type="object",
    description="A dish.",
    required=["dish", "price"],
    properties={"dish": {"type": "string"}, "price": {"$ref": "#/$defs/money"}},
    **{"$defs": {"money": {"type": "number"}}},
)
TEXT, WORDS, ANY = shape(type="string"), shape(type="array", items={"type": "string"}), shape()


def test_without_a_schema_there_is_no_output():
    """Without a schema, an answer in JSON stays text and is not validated."""
    for response in (Response.parse({"answer": '{"a": 1}', "output": 3}), Response.of_text('{"a": 1}')):
        assert (response.answer, response.output, response.reason) == ('{"a": 1}', None, None)


@pytest.mark.parametrize(
    "arguments",
    [
        {"answer": MENU},
        {"answer": json.dumps(MENU)},
        {"answer": f"```json\n{json.dumps(MENU)}\n```"},
        {"answer": "See there.", "output": MENU},
        {"answer": {"dish": "x"}, "output": MENU},
        MENU,
        {"answer": "", **MENU},
    ],
)
def test_an_answer_that_matches_is_the_output(arguments):
    """A matching answer becomes the output, in any wrapping, and its JSON text becomes the answer."""
    evidence = [{"source": "menu.md:1", "quote": "9"}]
    response = Response.parse({**arguments, "evidence": evidence, "gaps": ["wine"]}, DISH)
    assert {key: response.output[key] for key in MENU} == MENU
    assert response.reason is None
    assert json.loads(response.answer) == response.output
    assert '\n  "dish": "köttbullar"' in response.answer
    assert (response.evidence[0].quote, response.gaps) == ("9", ["wine"])


@pytest.mark.parametrize(
    ("schema", "answer", "output"),
    [
        (TEXT, "Yes, [1] says so.", "Yes, [1] says so."),
        (TEXT, '{"a": 1}', '{"a": 1}'),
        (ANY, "42", "42"),
        (ANY, '{"a": 1}', {"a": 1}),
        (shape(type="integer"), "42", 42),
        (shape(type="null"), None, None),
        (WORDS, 'These:\n ["a"]\nand no more', ["a"]),
    ],
)
def test_text_is_parsed_as_the_schema_requires(schema, answer, output):
    """Objects and lists in JSON are parsed if the schema accepts them; other text stays a string if it accepts one."""
    response = Response.parse({"answer": answer}, schema)
    assert (response.output, response.reason) == (output, None)
    assert response.answer == (output if isinstance(output, str) else json.dumps(output, indent=2))


@pytest.mark.parametrize(
    ("arguments", "text", "reason"),
    [
        ({"answer": {"dish": "x"}}, '{"dish": "x"}', "the answer: 'price' is a required property"),
        ({"answer": '{"dish": 1, "price": 2}'}, '{"dish": 1, "price": 2}', "dish: 1 is not of type 'string'"),
        ({"answer": "Nothing.", "output": {"dish": 1, "price": 1}}, "Nothing.", "the answer: 'Nothing.' is not of"),
        ({"answer": {"dish": "x", "price": float("nan")}}, '{"dish": "x", "price": NaN}', "the answer cannot be"),
        ({"answer": " "}, " ", "there is no answer"),
        ({"evidence": [], "gaps": []}, "", "there is no answer"),
    ],
)
def test_an_invalid_answer_keeps_its_text_and_gets_a_reason(arguments, text, reason):
    """An answer that does not match keeps its text; the reason refers to the most likely candidate."""
    response = Response.parse(arguments, DISH)
    assert (response.answer, response.output) == (text, None)
    assert str(response.reason).startswith(reason)
    # Neither the arguments around an answer nor a reference in brackets is one.
    assert Response.parse({"answer": "Nothing.", "evidence": []}, shape(type="object")).reason is not None
    assert Response.of_text("See [1] for more.", shape(type="array")).output is None


def test_of_several_calls_the_one_that_matches_counts():
    """If a model calls `respond` several times in one turn, the matching call is used."""
    calls = [ToolCall("1", "respond", {"answer": "See below."}), ToolCall("2", "respond", {"answer": MENU})]
    found = Response.among(calls, DISH)
    assert found is not None
    assert found.output == MENU
    assert Response.among(calls[:1], DISH).answer == "See below."
    assert Response.among([ToolCall("0", "look", {"answer": MENU})], DISH) is None
    empty = [ToolCall("1", "respond", {}), ToolCall("2", "respond", {"answer": "x"}), calls[0]]
    assert Response.among(empty).answer == "x"
    assert Response.among(empty[:1]).answer == ""


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MENU),
        f"The menu:\n```json\n{json.dumps(MENU, indent=2)}\n```\nEnjoy {{it}}.",
        f"I saw {{x}} and {{}} first. Then {json.dumps(MENU)}, and {json.dumps({**MENU, 'price': 1})}",
        json.dumps({"answer": MENU, "gaps": []}),
        f"respond({json.dumps({'answer': json.dumps(MENU)})})",
    ],
)
def test_json_in_text_is_the_answer(text):
    """If `respond` was not called, JSON in the text is the answer."""
    response = Response.of_text(text, DISH)
    assert (response.output, response.reason) == (MENU, None)
    assert json.loads(response.answer) == MENU
    said = {"answer": MENU, "evidence": ["nine"], "gaps": ["wine"]}
    called = Response.of_text(json.dumps(said), DISH)
    assert (called.evidence, called.gaps) == ([Citation(quote="nine")], ["wine"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Nothing was found.", "the answer: 'Nothing was found.' is not of type 'object'"),
        ('{"dish": "x"}', "the answer: 'price' is a required property"),
        ("", "there is no answer"),
        ("{" * 5_000, "the answer: '{{{"),
        ("[" * 200_000, "the answer: '[[["),
    ],
)
def test_an_invalid_answer_in_text_gets_a_reason(text, reason):
    """Text that does not match stays the answer, with the reason."""
    response = Response.of_text(text, DISH)
    assert (response.answer, response.output) == (text, None)
    assert str(response.reason).startswith(reason)


@given(st.dictionaries(st.sampled_from(["answer", "output", "evidence", "gaps", "dish"]), ANYTHING))
def test_any_arguments_with_a_schema_give_an_output_or_a_reason(arguments):
    """Any JSON arguments give a response, and with a schema a matching output or a reason."""
    assert len(Response.parse(arguments).evidence) <= MOST_EVIDENCE
    response = Response.parse(arguments, DISH)
    assert (response.reason is None) == (response.output is not None)
    assert response.output is None or DISH.reason(response.output) is None


@given(st.text(st.sampled_from('{}[]",:`json\n 1a'), max_size=60))
def test_any_text_gives_an_output_or_a_reason(text):
    """Any text that resembles JSON gives an output or a reason."""
    response = Response.of_text(text, WORDS)
    assert (response.reason is None) == (response.output is not None)


def test_the_tool_contains_the_schema_of_the_answer():
    """`answer` has the schema, with adjusted references; the rest is the same as without a schema."""
    plain, tool = respond_tool(), respond_tool(DISH)
    parameters = tool.input_schema
    Draft202012Validator.check_schema(parameters)
    answer = parameters["properties"]["answer"]
    assert answer["properties"]["price"] == {"$ref": "#/properties/answer/$defs/money"}
    assert answer["description"].endswith("as JSON in a string. A dish.")
    assert Draft202012Validator(parameters).is_valid({"answer": MENU, "evidence": [{"source": "a", "quote": "b"}]})
    assert not Draft202012Validator(parameters).is_valid({"answer": {"dish": "x", "price": "y"}})
    assert not Draft202012Validator(parameters).is_valid({"evidence": []})
    without = {key: value for key, value in parameters["properties"].items() if key != "answer"}
    assert without == {key: value for key, value in plain.input_schema["properties"].items() if key != "answer"}
    assert {**parameters, "properties": None} == {**plain.input_schema, "properties": None}
    assert (tool.name, tool.description) == (plain.name, plain.description)


CONTEXT = Context("run-1", "call-1", Budget(()), 60)


async def test_functions_run_in_a_thread_and_coroutines_in_the_loop():
    """A plain function runs in a daemon thread with the caller's context, a coroutine in the event loop's thread."""
    threads = []

    @tool
    def plain() -> str:
        """Run."""
        threads.append(threading.current_thread())
        return "plain"

    @tool
    async def coroutine() -> str:
        """Run."""
        threads.append(threading.current_thread())
        return "coroutine"

    assert await asyncio.gather(plain.call({}), coroutine.call({})) == [Output("plain"), Output("coroutine")]
    assert {(thread is threading.main_thread(), thread.daemon) for thread in threads} == {(True, False), (False, True)}


async def test_cancelling_a_call_runs_its_callbacks():
    """Cancelling a call runs the callbacks that its function registered with `when_cancelled`."""
    begun, ended = threading.Event(), threading.Event()

    @tool
    def slow(ctx: Context) -> str:
        """Wait for something that it has started."""
        ctx.when_cancelled(ended.set)
        begun.set()
        return str(ended.wait(30))

    task = asyncio.create_task(slow.call_within(60, {}, CONTEXT))
    await asyncio.to_thread(begun.wait, 30)
    assert not ended.is_set()
    task.cancel()
    assert await asyncio.to_thread(ended.wait, 30)


def test_a_toolset_is_sorted_and_the_last_of_a_name_wins():
    """A toolset is sorted by name, because the prompt cache needs a fixed order; the last of a name wins."""

    def go() -> str:
        """Go."""
        return ""

    alpha, first, other = tool(name="alpha")(go), tool(go), tool(go)
    assert Toolset([first, alpha, other]).names == ("alpha", "go")
    assert Toolset([first, alpha, other]).get("go") is other
