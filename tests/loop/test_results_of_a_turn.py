"""The results of one turn share a length, so that many calls do not fill a small context."""

import pytest

from run_specialist.tools.archive import Archive
from run_specialist.tools.base import Output, Tool
from tests.loop_jobs import job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls

SLICE = Tool("slice", "Returns a slice.", lambda part=0: Output("x" * 1000, f"[go on with part={part + 1}]"))


@pytest.mark.parametrize(("number", "length"), [(1, 1000), (2, 600), (4, 300), (20, 200)])
@pytest.mark.anyio
async def test_a_result_that_is_cut_for_the_others_names_its_own_rest(number, length):
    """The note of the tool stays with a whole result; a cut one says where the rest of it can be read."""
    provider = ScriptedProvider(
        [
            calls(*(("slice", {"part": part}) for part in range(number))),
            calls(("respond", {"answer": "a"}), first_id=99),
        ]
    )
    made = job(provider, 60, tools=[SLICE], tool_result_limit=1000, turn_chars=1200, archive=Archive())
    await outcome_of(made)
    results = [block["content"] for block in provider.requests[1].messages[-1].content]
    assert [result.count("x") - result.count("execution_id") for result in results] == [length] * number
    for part, result in enumerate(results):
        if number == 1:
            assert f"[go on with part={part + 1}]" in result
        else:
            assert f"[cut at {length} of 1000 characters; read on by get_tool_response" in result
            assert "go on with part" not in result
