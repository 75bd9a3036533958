"""Reading an archived output in slices, over the wire."""

import pytest

from run_specialist.tools.base import Tool
from tests.wire.specialists import texts
from tests.wire.summary_scripts import LONG, SMALL, first_id, ids, reading, summarized

pytestmark = pytest.mark.anyio


async def test_s2_8_an_archived_output_is_read_in_exact_slices(ask):
    """An archived output is read in exact slices of up to `tool_result_limit`, each with the next offset.

    Each read is a counted call.
    """
    whole = "".join(f"{number:04}," for number in range(10_000))
    tool = Tool("look", "Looks.", lambda query: whole)
    told = await ask(reading(first_id, [0, 20_000, 40_000]), *SMALL, "tool_calls_limit: none", tools=[tool])
    assert all("get_tool_response" in request.tool_names for request in told.requests)
    call_id = ids(told.requests[0])[0]
    # A cut output says how to read the rest; the id is that of its call.
    said = f"read on by get_tool_response with execution_id={call_id} and offset=20000"
    assert told.results[0] == [f"{whole[:20_000]}\n[truncated]\n[cut at 20000 of 50000 characters; {said}]"]
    assert summarized(call_id) in texts(told.requests[3].messages[2])
    assert [results[0] for results in told.results[3:]] == [
        f"{whole[:20_000]}\n[characters 0-20000 of 50000; go on with offset=20000]",
        f"{whole[20_000:40_000]}\n[characters 20000-40000 of 50000; go on with offset=40000]",
        f"{whole[40_000:]}\n[characters 40000-50000 of 50000; this is the end]",
    ]
    assert told.outcome.tool_calls.used == 6
    assert told.outcome.limits["characters"].used == 5 * 20_000 + 10_000


async def test_s2_8_the_result_limit_applies_to_slices(ask_once):
    """The file's `tool_result_limit` applies to results and slices, so no slice is cut."""
    tool = Tool("look", "Looks.", lambda query: "0123456789" * 250)
    lines = ("preset: finalize", "tool_result_limit: 1000")
    told = await ask_once(reading(first_id, [2, 1_500]), *lines, tools=[tool])
    assert [results[0] for results in told.results[3:]] == [
        f"{('0123456789' * 101)[2:1_002]}\n[characters 2-1002 of 2500; go on with offset=1002]",
        f"{'0123456789' * 100}\n[characters 1500-2500 of 2500; this is the end]",
    ]


@pytest.mark.parametrize(
    ("execution_id", "offset", "why"),
    [
        ("toolu_nobody", 0, "there is no output of the id 'toolu_nobody'; there are "),
        (None, 9_999_999, "offset 9999999 is beyond the end"),
        (None, -1, "offset"),
    ],
)
async def test_s2_8_an_unknown_id_or_offset_is_an_error_result(ask_once, execution_id, offset, why):
    """An unknown id or an offset out of range gives an error result, and the run continues."""
    script = reading(lambda request: execution_id or first_id(request), [offset or 0])
    told = await ask_once(script, *SMALL, tools=[LONG])
    (block,) = told.requests[-1].messages[-1]["content"]
    assert block["is_error"] is True
    assert block["content"].startswith("get_tool_response failed: ")
    assert why in block["content"]
    assert (told.outcome.status, told.outcome.tool_calls.failed) == ("answered", 1)
