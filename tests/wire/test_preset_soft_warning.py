"""The preset `soft-warning` over the wire."""

import json

import pytest

from run_specialist.errors import ToolError
from run_specialist.record.outcome import Exit
from run_specialist.tools.base import Tool
from tests.wire.preset_texts import ORDER, WARNING, last_lines
from tests.wire.simulator import faults, policies
from tests.wire.simulator.replies import calls, redacted_thinking, says, text, thinking, tool_use
from tests.wire.specialists import DONE, FORCED, batches, looks, note

pytestmark = pytest.mark.anyio


async def test_s1_1_the_warning_is_only_in_the_result_before_the_last_call(ask):
    """With one call a turn and a limit of 12, only the eleventh result has the warning, and all 12 calls run."""
    told = await ask(policies.always_tool("look"), "preset: soft-warning", "tool_calls_limit: 12")
    assert told.carrying(WARNING) == [12]
    assert last_lines(told) == [None] * 10 + [WARNING, None]
    assert told.requests[-1].raw.count(WARNING.encode()) == 1
    assert told.choices == [None] * 12 + [FORCED]
    assert (told.outcome.status, told.outcome.tool_calls.used, told.outcome.warnings) == ("landed", 12, ())


@pytest.mark.parametrize(
    ("limit", "sizes", "warned"),
    [
        (12, [2] * 6, [6]),
        (11, [2] * 6, [6]),
        (13, [2] * 7, [7]),
        (6, [1, 3, 2], [3]),
        (6, [3, 1, 1, 1], [2]),
        (5, [2, 2, 2], [3]),
        (6, [1, 1, 4], []),
        (6, [1, 5], []),
        (3, [4], []),
    ],
)
async def test_s1_1_the_warning_comes_before_the_last_turn_that_has_calls(ask_once, limit, sizes, warned):
    """The warning comes once the calls left are no more than the last turn made, and never after the last call."""
    told = await ask_once([*batches(*sizes), DONE], "preset: soft-warning", f"tool_calls_limit: {limit}")
    assert told.carrying(WARNING) == warned
    assert told.requests[-1].raw.count(WARNING.encode()) == len(warned)
    for number in warned:
        *before, last = told.results[number - 2]
        assert last.endswith(f"\n{WARNING}")
        assert not any(WARNING in result for result in before)
    assert told.outcome.tool_calls.used == limit


@pytest.mark.parametrize(("last", "warned"), [(10_000, [6]), (9_999, [7])])
async def test_s1_2_the_warning_comes_at_90_000_of_100_000_characters(ask, last, warned):
    """The warning comes at exactly 90,000 of 100,000 characters, and only once, although the calls run out later."""
    sizes = iter([20_000, 20_000, 20_000, 20_000, last, 1, 1, 1])
    tool = Tool("look", "Looks.", lambda query: "x" * next(sizes))
    told = await ask([*batches(*[1] * 8), DONE], "preset: soft-warning", "tool_calls_limit: 9", tools=[tool])
    assert told.carrying(WARNING) == warned
    assert told.requests[-1].raw.count(WARNING.encode()) == 1
    assert told.outcome.limits["characters"].limit == 100_000
    assert (told.outcome.status, told.outcome.warnings) == ("answered", ())


@pytest.mark.parametrize("limit", [0, 1])
async def test_s1_3_no_warning_comes_before_the_first_call(ask, limit):
    """With a limit of one call or none, the run lands without a warning."""
    told = await ask(policies.always_tool("look"), "preset: soft-warning", f"tool_calls_limit: {limit}")
    assert not any(WARNING.encode() in request.raw for request in told.requests)
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("landed", limit)
    assert told.choices == [None] * limit + [FORCED]


@pytest.mark.parametrize("sizes", [[1] * 12, [2] * 6, [5, 5, 5]])
async def test_s1_4_a_call_after_the_warning_runs_and_its_result_reaches_the_model(ask, sizes):
    """A call after the warning runs, and the next request has its output."""
    told = await ask([*batches(*sizes), DONE], "preset: soft-warning", "tool_calls_limit: 12")
    ran = told.phases("finished")
    answered = {call_id: content for request in told.requests for call_id, content in request.results.items()}
    assert len(ran) == told.outcome.tool_calls.used == 12
    assert all(answered[call_id].startswith("note on ") for call_id in ran)
    (warned,) = told.carrying(WARNING)
    assert set(told.requests[warned].results) & set(ran)


@pytest.mark.parametrize(("model", "choice"), [("haiku", FORCED), ("sonnet", None)])
async def test_s1_5_a_result_over_the_remaining_characters_is_cut_and_then_the_run_lands(ask, model, choice):
    """A result over the remaining characters is cut and marked at its end, and the next request is the landing."""
    tool = Tool("look", "Looks.", lambda query: "abcdefgh")
    lines = ("preset: soft-warning", "tool_chars_limit: 20")
    told = await ask([*batches(1, 2), DONE], *lines, tools=[tool], model=model)
    first, cut = told.results[1]
    assert first == "abcdefgh"
    if choice:
        assert cut == "abcd\n[truncated]"
    else:
        assert cut.startswith(f"abcd\n[truncated]\n{ORDER}")
    assert told.choices == [None, None, choice]
    assert (told.outcome.status, told.outcome.landing.reason) == ("landed", "characters")
    assert told.outcome.limits["characters"].used == 20


SECRET, HIDDEN = "what I really think", "cannot be read"


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ([thinking(SECRET), text("one")], "one"),
        ([text("one"), thinking(SECRET)], "one"),
        ([thinking(SECRET), redacted_thinking(HIDDEN), text("one"), text("two")], "one\ntwo"),
        ([redacted_thinking(HIDDEN), text("one"), thinking(SECRET), text("two"), text("three")], "one\ntwo\nthree"),
    ],
)
async def test_s1_6_the_answer_is_found_by_type_without_thinking(ask, content, answer):
    """The answer is found by block type, in any block order.

    Thinking never reaches the watcher, the events or the outcome.
    """
    opening = says(thinking(SECRET), redacted_thinking(HIDDEN), tool_use("look", {"query": "a"}))
    told = await ask([opening, says(*content)], "preset: soft-warning", model="sonnet")
    assert (told.outcome.status, told.outcome.answer) == ("answered", answer)
    seen = json.dumps([event.as_json() for event in told.events]) + "".join(told.pieces)
    assert SECRET not in seen
    assert HIDDEN not in seen


async def test_s1_6_a_plain_string_is_accepted_as_the_answer(ask_once):
    """A plain string as reply content is accepted as the answer, since some servers send one in place of blocks."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"type": "message", "role": "assistant", "content": "in plain words", "usage": usage}
    told = await ask_once([faults.json_value({**message, "stop_reason": "end_turn"})], "preset: soft-warning")
    assert (told.outcome.status, told.outcome.answer) == ("answered", "in plain words")


@pytest.mark.parametrize("silent", [[thinking(SECRET)], [thinking(SECRET), redacted_thinking(HIDDEN)]])
async def test_s1_6_a_reply_with_only_thinking_is_retried_once(ask, silent):
    """A reply of thinking alone is retried once with the same request.

    A second one fails the run with exit code 4, and the results so far are kept.
    """
    told = await ask([looks("a"), says(*silent), says(*silent)], "preset: soft-warning", model="sonnet")
    assert told.requests[1].messages == told.requests[2].messages
    assert (told.outcome.status, told.outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert note("a") in told.outcome.answer
    assert SECRET not in json.dumps(told.outcome.as_json())

    told = await ask([looks("a"), says(*silent), says(*silent[:1], "one")], "preset: soft-warning", model="sonnet")
    assert (told.outcome.status, told.outcome.answer) == ("answered", "one")


def failing(query):
    """Raise a different error for each query."""
    if query == "kindly":
        raise ToolError("no such place; try another")
    raise RuntimeError("it broke")


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("look", {"query": "kindly"}, "no such place; try another"),
        ("look", {"query": "badly"}, "it broke"),
        ("look", {"question": 1}, "query"),
        ("fly", {"query": "up"}, "no such tool"),
    ],
)
async def test_s1_7_a_failed_call_returns_an_error_result_and_counts(ask, name, arguments, why):
    """A failed call returns an error result that names tool and reason, and counts: two use up a limit of two."""
    tool = Tool("look", "Looks.", failing)
    script = [calls(name, arguments), calls(name, arguments), DONE]
    told = await ask(script, "preset: soft-warning", "tool_calls_limit: 2", tools=[tool])
    for request in told.requests[1:]:
        (block,) = request.messages[-1]["content"]
        assert block["is_error"] is True
        assert block["content"].startswith(f"{name} failed: ")
        assert why in block["content"]
    assert told.choices == [None, None, FORCED]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.failed) == (2, 2)
