"""A full context over the wire: the run lands from a summary, or the error suggests a remedy."""

import pytest

from run_specialist.loop.transcript import FEW_CHARACTERS
from tests.wire.simulator import faults
from tests.wire.simulator.replies import says, thinking, tool_use
from tests.wire.specialists import DONE, FORCED, batches, looks, note, noting, texts
from tests.wire.summary_scripts import LONG, NOTES

pytestmark = pytest.mark.anyio


TOO_LONG = faults.invalid("prompt is too long: 1000015 tokens > 1000000 maximum")


FULL = says("half", stop_reason="model_context_window_exceeded")


FULL_CALL = says(tool_use("look", {}), stop_reason="model_context_window_exceeded")


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("full", [TOO_LONG, FULL, FULL_CALL], ids=["400", "text cut", "call cut"])
@pytest.mark.parametrize(("model", "choice"), [("haiku", FORCED), ("sonnet", None)])
async def test_x_8_a_full_context_lands_from_a_summary(ask, full, model, choice):
    """In the default preset too, older turns are summarised immediately, and the next request is the landing."""
    script = noting(NOTES, [*batches(1, 1, 1), full, DONE])
    told = await ask(script, tools=[LONG], model=model)
    assert told.choices == [None] * 4 + [choice]
    assert len(told.named("summarized")) == 1
    assert "- owls eat mice (n.md:1)" in str(told.requests[-1].messages)
    assert LONG.function("3.0") in str(told.requests[-1].messages)
    assert LONG.function("1.0") not in str(told.requests[-1].messages)
    if choice is None:
        assert "only a call of `respond` will be heard" in told.requests[-1].last_line
    assert (told.outcome.status, told.outcome.answer) == ("landed", "what was found")
    assert (told.outcome.landing.reason, told.outcome.landing.requests) == ("tokens", 1)
    assert told.outcome.tool_calls.used == 3


async def test_g1_a_landing_by_schema_that_does_not_fit_follows_from_a_summary(ask):
    """The constrained request is refused as too long: the older turns are summarized, and it is sent again."""
    written = says('{"answer": "what was found", "evidence": null, "gaps": null}')
    script = noting(NOTES, [*batches(1, 1, 1), TOO_LONG, written])
    told = await ask(script, "landing: schema", "tool_calls_limit: 3", tools=[LONG])
    assert [sent.schema is None for sent in told.requests] == [True] * 3 + [False] * 2
    assert (told.outcome.status, told.outcome.answer, told.outcome.landing.how) == (
        "landed",
        "what was found",
        "schema",
    )
    assert len(told.named("summarized")) == 1


async def test_x_8_a_full_context_with_thinking_lands_from_one_message(ask):
    """If thinking blocks prevent editing the history, the landing starts a new transcript of one message."""
    wishes = [says(thinking("hm"), tool_use("look", {"query": one})) for one in "abc"]
    told = await ask(noting(NOTES, [*wishes, TOO_LONG, DONE]), tools=[LONG], model="sonnet")
    (message,) = told.requests[-1].messages
    assert LONG.function("c") in "\n".join(texts(message))
    assert told.requests[-1].last_line.startswith("0 tool calls remain and")
    assert (told.outcome.status, told.outcome.landing.how) == ("landed", "order")


@pytest.mark.parametrize("full", [TOO_LONG, FULL_CALL], ids=["400", "call cut"])
async def test_x_8_a_context_that_is_full_again_is_salvaged(ask_once, full):
    """After one summary and one cut of the newest results, the run ends as partial with the gathered results."""
    told = await ask_once(noting(NOTES, [*batches(1, 1), full, full, full]), tools=[LONG])
    assert (told.outcome.status, told.outcome.exit_code) == ("partial", 0)
    assert note("2.0") in told.outcome.answer


@pytest.mark.parametrize("full", [TOO_LONG, FULL_CALL], ids=["400", "call cut"])
async def test_x_8_a_context_filled_by_one_turn_lands_from_cut_results(ask_once, full):
    """The newest turn is never summarised; its long results, refused and so not yet history, are cut."""
    told = await ask_once([looks("a"), full, DONE], tools=[LONG])
    assert not told.named("summarized")
    (whole,), (cut,) = told.requests[1].results.values(), told.requests[2].results.values()
    assert len(whole) > FEW_CHARACTERS
    assert cut == f"{whole[:FEW_CHARACTERS]}\n[truncated]"
    assert (told.outcome.status, told.outcome.landing.reason) == ("landed", "tokens")


async def test_x_8_a_context_full_at_the_first_request_is_a_failure(ask_once):
    """With nothing gathered and nothing to cut, the run fails with exit code 3, as for a provider error."""
    told = await ask_once([TOO_LONG])
    assert (told.outcome.status, told.outcome.exit_code, told.outcome.answer) == ("failed", 3, "")
    assert told.outcome.error.endswith("the model's context is full; ask for less, or let it read less")
