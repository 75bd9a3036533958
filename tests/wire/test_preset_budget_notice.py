"""The preset `budget-notice` over the wire."""

import json

import pytest

from run_specialist.record.messages import text_of
from tests.wire.preset_texts import NOW, last_lines, left
from tests.wire.simulator import policies
from tests.wire.simulator.replies import calls, says
from tests.wire.specialists import DONE, FORCED, NO_TOOLS, looks, note

pytestmark = pytest.mark.anyio


def paragraphs(request):
    """Return the paragraphs of the system prompt."""
    return text_of(request.body["system"]).split("\n\n")


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    "lines",
    [
        ("preset: soft-landing",),
        ("preset: budget-notice",),
        ("preset: soft-warning", "budget_notice: true"),
        ("preset: finalize", "budget_notice: true"),
        ("preset: openai-loop", "budget_notice: true"),
        (),
    ],
)
@pytest.mark.parametrize(("limit", "amount"), [(30, "30 tool calls"), (2, "2 tool calls"), (1, "1 tool call")])
async def test_s3_1_the_system_prompt_ends_with_the_resolved_budget(ask_once, lines, limit, amount):
    """With any preset that has a notice, the last paragraph of the system prompt states the run's resolved budget.

    At 1 it is in the singular.
    """
    told = await ask_once([says("done")], *lines, "tool_calls_limit: 17", tool_calls_limit=limit)
    *others, last = paragraphs(told.requests[0])
    assert f"{last} ".replace(",", " ").startswith(f"Tool budget: you have {amount} ")
    assert not any("Tool budget" in other for other in others)


@pytest.mark.parametrize("preset", ["soft-warning", "finalize", "openai-loop"])
async def test_s3_1_without_a_notice_the_request_mentions_no_budget(ask_once, preset):
    """With a preset without a notice, nothing in the child's first request mentions a budget."""
    told = await ask_once([says("done")], f"preset: {preset}", "tool_calls_limit: 7")
    assert "udget" not in text_of(told.requests[0].body["system"])
    assert b"7 tool calls" not in told.requests[0].raw


@pytest.mark.parametrize(
    ("limit", "lines"),
    [
        (5, [None, left(3, 5), left(2, 5), left(1, 5), NOW]),
        (3, [left(2, 3), left(1, 3), NOW]),
        (1, [NOW]),
        (30, [None] * 26 + [left(3, 30), left(2, 30), left(1, 30), NOW]),
    ],
)
async def test_s3_2_the_last_three_calls_are_counted_down(ask, limit, lines):
    """The last three calls have the exact countdown lines, plural even at 1, and `finalize NOW` at the end."""
    told = await ask(policies.always_tool("look"), "preset: budget-notice", f"tool_calls_limit: {limit}")
    assert last_lines(told) == lines
    assert (told.outcome.status, told.outcome.landing.how) == ("landed", "force")


async def test_s3_3_augmenters_run_before_the_countdown_on_failures_too(ask):
    """An augmenter's line comes before the countdown, on failed calls too.

    An augmenter that raises causes a warning and leaves the result intact.
    """

    def tag(executed):
        return f"[{executed.call.name} {'failed' if executed.is_error else 'found something'}]"

    def bad(executed):
        raise KeyError("oops")

    script = [looks("a"), calls("fly", {}), DONE]
    told = await ask(script, "preset: budget-notice", "tool_calls_limit: 2", augmenters=[bad, tag])
    assert told.results[0] == [f"{note('a')}\n[look found something]\n{left(1, 2)}"]
    (failed,) = told.results[1]
    assert failed.startswith("fly failed: there is no such tool")
    assert failed.splitlines()[-2:] == ["[fly failed]", NOW]
    assert [event.text.partition(":")[0] for event in told.named("warning")] == [
        "an augmenter failed on look",
        "an augmenter failed on fly",
    ]
    assert told.outcome.status == "landed"


async def test_s3_3_fields_of_an_augmenter_are_merged_with_the_limit_fields(ask_once):
    """Fields returned by an augmenter are merged with the limit fields into the result's one JSON object."""

    def rank(executed):
        return {"rank": executed.number}

    lines = ("preset: openai-loop", "tool_calls_limit: 2")
    told = await ask_once([looks("a", "b"), says("done")], *lines, augmenters=[rank])
    first, last = (json.loads(result) for result in told.results[0])
    assert first == {"output": note("a"), "rank": 1}
    assert last == {
        "output": note("b"),
        "rank": 2,
        "limit_reached": True,
        "limit_message": "Tool call limit reached (2). Stopping tool loop.",
    }


@pytest.mark.parametrize(
    ("lines", "settings", "limit"),
    [
        ((), {}, 30),
        (("tool_calls_limit: 7",), {}, 7),
        (("tool_calls_limit: 7",), {"tool_calls_limit": 4}, 4),
        (("tool_calls_limit: 7",), {"tool_calls_limit": 0}, 0),
        ((), {"tool_calls_limit": 4}, 4),
        (("tool_calls_limit: 7",), {"tool_calls_limit": None}, None),
        (("tool_calls_limit: none",), {}, None),
    ],
)
async def test_s3_4_an_explicit_limit_overrides_the_file_and_the_default(ask_once, lines, settings, limit):
    """A call's limit overrides the file's, which overrides the default: in the notice, the outcome and the landing."""
    told = await ask_once([DONE], "preset: budget-notice", *lines, **settings)
    system = text_of(told.requests[0].body["system"])
    assert told.outcome.tool_calls.limit == limit
    assert (f"Tool budget: you have {limit} tool calls" in system) is (limit is not None)
    assert ("Tool budget" in system) is (limit is not None)
    assert told.choices == [FORCED if limit == 0 else None]


async def test_s3_4_precedence_is_flag_call_preset_file_file_preset(ask_once):
    """Precedence is: call option, call preset, file option, file preset; each applies where no stronger one does."""
    lines = ("preset: openai-loop", "budget_notice: true", "landing: order", "tool_calls_limit: 3")
    told = await ask_once(policies.always_tool("look"), *lines, preset="finalize", budget_notice=False, landing="none")
    assert "udget" not in text_of(told.requests[0].body["system"])
    assert last_lines(told) == [None] * 3
    assert told.choices == [None] * 3 + [NO_TOOLS]
    told = await ask_once(policies.always_tool("look"), *lines)
    assert "Tool budget: you have 3 tool calls" in text_of(told.requests[0].body["system"])
    assert told.outcome.landing.how == "order"
    assert '"limit_reached": true' in told.results[-1][0]
