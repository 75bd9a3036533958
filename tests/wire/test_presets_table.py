"""All presets over the wire: the settings that each changes, and no others."""

import json

import pytest

from run_specialist.record.messages import text_of
from tests.wire.preset_texts import NOW, ORDER, WARNING, last_lines, left
from tests.wire.simulator import policies
from tests.wire.simulator.replies import calls, says
from tests.wire.specialists import DONE, FORCED, NO_TOOLS, batches, note

pytestmark = pytest.mark.anyio


def remaining(*numbers):
    """Return the lines of the default countdown."""
    return [f"{number} tool call{'' if number == 1 else 's'} remaining" for number in numbers]


FIELDS = {"limit_reached": True, "limit_message": "Tool call limit reached (4). Stopping tool loop."}


TABLE = {
    "soft-landing": (True, [None, *remaining(2, 1, 0)], [FORCED], ["order"]),
    "soft-warning": (False, [None, None, WARNING, None], [FORCED], ["order"]),
    "finalize": (False, [None] * 4, [None, None, NO_TOOLS], [None, "notice", "none"]),
    "budget-notice": (True, [left(3, 4), left(2, 4), left(1, 4), NOW], [FORCED], ["order"]),
    "openai-loop": (False, [None, None, None, FIELDS], [NO_TOOLS], ["none"]),
}
"""By preset: notice, endings of the four results, and requests of the landing with and without forced choice."""


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("how", ["preset of the file", "preset of the call"])
@pytest.mark.parametrize("preset", TABLE)
async def test_presets_that_force_a_choice_have_their_landing(ask_once, preset, how):
    """Each preset has its notice, exact result endings and `tool_choice` at the limit where forcing is possible."""
    notice, ends, landing, _ = TABLE[preset]
    lines, settings = ([f"preset: {preset}"], {}) if "file" in how else ([], {"preset": preset})
    told = await ask_once(policies.always_tool("look"), *lines, "tool_calls_limit: 4", **settings)
    assert ("Tool budget: you have 4 tool calls" in text_of(told.requests[0].body["system"])) is notice
    for call, (end, results) in enumerate(zip(ends, told.results, strict=False)):
        raw = note(f"question {call}")
        if isinstance(end, dict):
            assert [json.loads(result) for result in results] == [{"output": raw, **end}]
        else:
            assert results == [raw if end is None else f"{raw}\n{end}"]
    assert told.choices == [None] * 4 + landing
    assert (told.outcome.status, told.outcome.tool_calls.used, told.outcome.warnings) == ("landed", 4, ())


async def test_only_the_last_result_of_a_turn_has_the_limit_fields(ask_once):
    """With three calls in the last turn that may call tools, only the last result has the limit fields."""
    told = await ask_once([*batches(3), says("done")], "preset: openai-loop", "turns_limit: 2")
    *earlier, last = told.results[0]
    assert earlier == [note("1.0"), note("1.1")]
    fields = {"limit_reached": True, "limit_message": "Turn limit reached (2). Stopping tool loop."}
    assert json.loads(last) == {"output": note("1.2"), **fields}
    assert told.choices == [None, NO_TOOLS]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("preset", TABLE)
async def test_presets_that_cannot_force_a_choice_use_the_instruction(ask_once, preset):
    """Where forcing is impossible, an order in the last line of the last result replaces it.

    The other landings are unchanged.
    """
    notice, ends, _, landing = TABLE[preset]
    told = await ask_once(policies.always_tool("look"), f"preset: {preset}", "tool_calls_limit: 4", model="sonnet")
    assert ("Tool budget" in text_of(told.requests[0].body["system"])) is notice
    assert last_lines(told)[:3] == ends[:3]
    at_limit = told.results[3][0].splitlines()
    assert (ORDER in at_limit[-1]) is (landing == ["order"])
    if landing == ["order"]:
        assert at_limit[1:-1] == ([ends[3]] if ends[3] else [])
    assert told.choices == [None] * 4 + [NO_TOOLS if rung == "none" else None for rung in landing]
    assert told.outcome.status == "landed"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("preset", [None, *TABLE])
async def test_presets_set_only_their_named_limit(ask_once, preset):
    """Only `soft-warning` limits characters; every preset has the default of 30 calls and no other limit."""
    told = await ask_once([DONE], *([f"preset: {preset}"] if preset else []))
    limits = {kind: spent.limit for kind, spent in told.outcome.limits.items() if spent.limit is not None}
    assert limits == {"tool_calls": 30, **({"characters": 100_000} if preset == "soft-warning" else {})}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("preset", [None, *TABLE])
async def test_s2_8_get_tool_response_is_offered_only_with_summaries(ask_once, tmp_path, preset):
    """The tool that reads archived output is offered only with `finalize`, which summarises.

    It is offered from the first request.
    """
    (tmp_path / "note.md").write_text("Owls eat mice.\n")
    script = [calls("read", {"path": "note.md"}), DONE]
    told = await ask_once(script, "tools: read", *([f"preset: {preset}"] if preset else []), tools=[])
    names = ["get_tool_response", "read", "respond"] if preset == "finalize" else ["read", "respond"]
    assert [request.tool_names for request in told.requests] == [names] * 2
