"""Property tests: for any model, tools, endpoint and listeners, a run ends within its limits with an outcome.

EXAMPLES in the environment sets how many scripts are tried. A script that once broke a rule stays here as a test.
"""

import pytest
from hypothesis import given, settings

from run_specialist.budget import Kind
from run_specialist.record.events import BudgetSpent, Landed, Requested
from run_specialist.record.messages import Stop, Usage
from tests.any_script.run_rules import RULES
from tests.any_script.run_script import ScriptedRun, play
from tests.any_script.scripted_model import Line, ScriptedCall
from tests.any_script.scripts import DUTIFUL, MUTE, SCRIPTS, STUBBORN, Script
from tests.any_script.spending_rules import SPENDING_RULES
from tests.plugins.tiers import examples


def checked(script: Script) -> ScriptedRun:
    """Run a script and check every rule."""
    played = play(script)
    for rule in (*RULES, *SPENDING_RULES):
        rule(played)
    return played


@settings(max_examples=examples(400))
@given(SCRIPTS)
def test_all_rules_hold_for_any_script(script):
    """All rules hold for any generated script."""
    checked(script)


@pytest.mark.parametrize("how", ["panic", "unspeakable"])
def test_a_tool_that_raises_a_base_exception_fails_one_call(how):
    """A tool that raises a BaseException, or an error without a valid text, fails one call, and the run continues."""
    played = checked(Script((Line(wishes=(ScriptedCall("do", {"how": how}),)),), DUTIFUL))
    assert played.end.status == "answered"
    assert played.end.tool_calls.failed == 1


@pytest.mark.parametrize("how", ["abort_at", "cancel_at"])
@pytest.mark.parametrize(
    ("line", "at"),
    [
        (Line(seconds=9, wishes=STUBBORN.wishes, spoils=True), 1),
        (Line(wishes=(ScriptedCall("do", {"how": "grumpy"}),)), 3),
    ],
    ids=["endpoint", "tool"],
)
def test_a_cancellation_converted_to_another_error_is_an_abort(how, line, at):
    """An abort stays an abort if a client or tool raises another error when it is cancelled."""
    played = checked(Script((line,), **{how: at}))
    assert played.end.status == "aborted"
    assert played.cancelled == (how == "cancel_at")


def test_a_request_over_the_time_limit_lands_even_if_the_client_raises():
    """A request that exceeds the time limit lands even if the client turns the cancellation into another error."""
    late = Line(seconds=100, wishes=STUBBORN.wishes, spoils=True)
    played = checked(Script((late,), DUTIFUL, {Kind.TIME: 60.0, Kind.TOOL_CALLS: 3}))
    assert played.end.status == "landed"
    assert played.end.landing.reason == "time"


@pytest.mark.parametrize("stop", [Stop.ANSWERED, Stop.PAUSED])
def test_calls_beside_a_stop_reason_without_calls_get_results(stop):
    """Calls beside a stop reason that allows none still get results, because endpoints refuse calls without results."""
    wrong = Line(stop, "no JSON", STUBBORN.wishes)
    answer = Line(wishes=(ScriptedCall("respond", {"answer": {"n": 1}}),))
    played = checked(Script((wrong,), answer, schema=True))
    assert played.end.output == {"n": 1}
    assert len(played.requests) == 2


def test_events_count_the_characters_left_after_truncation():
    """Events count the characters of a result after it is cut to the remaining budget."""
    long = Line(wishes=(ScriptedCall("do", {"how": "lots"}), ScriptedCall("do", {"how": "tell"})))
    played = checked(Script((long,), DUTIFUL, {Kind.TOOL_CALLS: 9, Kind.CHARACTERS: 10}))
    assert [event.used for event in played.of(BudgetSpent)] == [10, 10]


@pytest.mark.parametrize(
    "last",
    [
        Line(Stop.TRUNCATED, more_room_helps=False),
        Line(Stop.TRUNCATED, "", (ScriptedCall("respond", {}),), more_room_helps=False),
        Line(Stop.REFUSED),
        MUTE,
    ],
    ids=["full", "half", "refused", "mute"],
)
def test_an_unusable_reply_to_a_landing_request_counts(last):
    """A reply to a landing request counts, even if nothing in it can be used."""
    played = checked(Script((), last, {Kind.TOOL_CALLS: 0}))
    assert played.end.landing.requests == 1


def test_a_failed_landing_request_does_not_count_as_answered():
    """A landing request that fails with any error does not count as answered."""
    for does in ("bug", "error", "context"):
        assert checked(Script((), Line(does), {Kind.TOOL_CALLS: 0})).end.landing.requests == 0


LONG = Line(wishes=(ScriptedCall("do", {"how": "lots"}),))


def test_a_summary_that_spends_the_rest_is_followed_by_the_landing():
    """After a summary spends the last tokens, the run lands without another ordinary request."""
    dear = Line(Stop.ANSWERED, "notes", usage=Usage(0, 0, 0, 60_000))
    limits = {Kind.TOOL_CALLS: 9, Kind.TOKENS: 60_000}
    played = checked(Script((LONG, LONG), DUTIFUL, limits, summarize_at=500, summaries=(dear,)))
    assert [event.choice for event in played.of(Requested)] == ["auto", "auto", "respond"]
    assert played.of(Landed)[0].reason is Kind.TOKENS


def test_an_interrupted_summary_is_counted_in_the_usage():
    """A summary interrupted by the time limit counts: the tokens of its finished chunk are in the outcome."""
    summaries = (Line(Stop.ANSWERED, "notes"), Line("hang"))
    both = Line(wishes=(*LONG.wishes, *LONG.wishes))
    limits = {Kind.TOOL_CALLS: 9, Kind.TIME: 60.0}
    played = checked(Script((both, LONG), DUTIFUL, limits, summarize_at=500, summaries=summaries))
    assert played.end.usage == sum(played.model.used, Usage())
    assert len(played.model.used) > len([asked for asked in played.requests if asked.reply])


@pytest.mark.parametrize("text", ['{"n": 1}', '{"n": 1', "{}", "```json\n{}\n```"])
def test_a_cut_off_object_that_is_no_input_of_respond_is_text(text):
    """A reply to a landing by schema that was cut off, and holds none of the fields of `respond`, is kept as text."""
    wishes = (ScriptedCall("do"),)
    lines = (Line(wishes=wishes), Line(Stop.TRUNCATED, text, more_room_helps=False))
    limits = {Kind.TOOL_CALLS: 6, Kind.TURNS: 2}
    played = checked(Script(lines, limits=limits, forced_choice=False, takes_schema=True, schema_first=True))
    assert played.end.answer.strip()
