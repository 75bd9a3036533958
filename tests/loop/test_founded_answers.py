"""Answers that must rest on what was read: those that come too early or without a quote go back to the model, once."""

import pytest

from run_specialist import prompts
from run_specialist.budget import Kind
from run_specialist.errors import ProviderError
from run_specialist.loop.evidence import MARKS, NOTHING_READ, ReturnReason
from run_specialist.providers.base import Choice
from run_specialist.record.messages import Stop
from run_specialist.record.outcome import Exit
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.respond import respond_tool
from tests.loop.founded_replies import INVENTED, READ, WITHOUT, beside, responds
from tests.loop.stored_replies import looks
from tests.loop_jobs import LOOK, job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio


# G.5


async def test_g_5_an_answer_with_one_verified_quote_is_taken():
    """One quote that was read is enough; the others are warnings."""
    outcome = await outcome_of(
        job(ScriptedProvider([looks(1), responds("yes", INVENTED, READ)]), 9, evidence="require")
    )
    assert (outcome.status, [quote.verified for quote in outcome.evidence]) == ("answered", [False, True])
    assert len(outcome.warnings) == 1


@pytest.mark.parametrize(
    ("quotes", "named"),
    [
        ((), "it has no quote from the results"),
        ((INVENTED,), 'none of its quotes stands in the results of your calls: "owls read books"'),
    ],
)
async def test_g_5_an_answer_without_a_verified_quote_goes_back_once(quotes, named):
    """The result of `respond` names the quotes that were not found, or that none was given."""
    provider = ScriptedProvider([looks(1), responds("no", *quotes), responds("yes", READ, first_id=60)])
    outcome = await outcome_of(job(provider, 9, evidence="require"))
    (told,) = provider.requests[2].messages[-1].blocks
    assert told["is_error"] is True
    assert named in told["content"]
    assert (outcome.status, outcome.answer, outcome.warnings) == ("answered", "yes", ())


async def test_g_5_a_text_goes_back_with_a_message():
    """A text has no quotes: it goes back as a message, and its answer may come as JSON."""
    provider = ScriptedProvider([looks(1), says("It is."), says('{"answer": "yes", "evidence": ["note on \'1\'"]}')])
    outcome = await outcome_of(job(provider, 9, evidence="require"))
    assert provider.requests[2].messages[-1].content == ({"type": "text", "text": WITHOUT.to_text},)
    assert (outcome.status, outcome.answer, outcome.evidence[0].verified) == ("answered", "yes", True)


async def test_g_5_a_second_one_is_partial_and_says_how_many_quotes_were_found():
    """The second answer without a verified quote is kept as it is, partial, with exit code 0."""
    provider = ScriptedProvider([looks(1), responds("no"), responds("still no", INVENTED, first_id=60)])
    outcome = await outcome_of(job(provider, 9, evidence="require"))
    assert (outcome.status, outcome.exit_code, outcome.answer) == ("partial", Exit.OK, "still no")
    assert "0 of 1 quotes found" in outcome.error
    assert outcome.error in outcome.warnings


async def test_g_5_an_answer_with_gaps_after_a_call_needs_no_quote():
    """What was looked for and not found needs no quote; without any call it does."""
    gaps = responds("nothing", gaps=["owls"])
    outcome = await outcome_of(job(ScriptedProvider([looks(1), gaps]), 9, evidence="require"))
    assert (outcome.status, outcome.gaps) == ("answered", ("owls",))
    provider = ScriptedProvider([gaps, responds("nothing", gaps=["owls"], first_id=60)])
    outcome = await outcome_of(job(provider, 9, evidence="require"))
    assert outcome.status == "partial"
    assert NOTHING_READ in outcome.warnings


@pytest.mark.parametrize("evidence", ["off", "check"])
async def test_g_5_without_require_no_answer_goes_back(evidence):
    """`check` looks quotes up and warns; `off` does neither, and `verified` is null."""
    outcome = await outcome_of(job(ScriptedProvider([looks(1), responds("yes", INVENTED, READ)]), 9, evidence=evidence))
    assert outcome.status == "answered"
    verified = [quote.verified for quote in outcome.evidence]
    assert verified == ([None, None] if evidence == "off" else [False, True])
    assert len(outcome.warnings) == (0 if evidence == "off" else 1)


async def test_g_5_at_the_landing_a_return_counts_as_a_request_and_stays_on_its_rung():
    """The return is an answered request on the same rung; the next answer has landed."""
    provider = ScriptedProvider([looks(1), responds("no"), responds("yes", READ, first_id=60)])
    outcome = await outcome_of(job(provider, 1, evidence="require"))
    assert [asked.choice for asked in provider.requests] == [Choice.AUTO, Choice.RESPOND, Choice.RESPOND]
    assert (outcome.status, outcome.answer) == ("landed", "yes")
    assert (outcome.landing.how, outcome.landing.requests) == ("force", 2)


async def test_g_5_where_no_request_is_left_the_answer_is_partial():
    """The third answered request of a landing is the last: its answer is partial immediately."""
    provider = ScriptedProvider([looks(1), looks(2), looks(3), responds("no")])
    outcome = await outcome_of(job(provider, 1, evidence="require"))
    assert (outcome.status, outcome.answer, outcome.landing.requests) == ("partial", "no", 3)
    provider = ScriptedProvider([responds("no")])
    outcome = await outcome_of(job(provider, 9, evidence="require", landing="stop", limits={Kind.TURNS: 2}))
    assert (outcome.status, outcome.answer) == ("partial", "no")


@pytest.mark.parametrize(
    ("then", "status", "exit_code"),
    [
        ([says(""), says("")], "partial", Exit.OK),
        ([says("", Stop.REFUSED)], "partial", Exit.OK),
        ([looks(2), looks(3), looks(4), looks(5)], "partial", Exit.OK),
        ([ProviderError("down")], "failed", Exit.PROVIDER),
        ([RuntimeError("a bug")], "failed", Exit.NO_ANSWER),
    ],
    ids=["mute", "refuses", "ignores", "down", "bug"],
)
async def test_g_5_an_answer_that_is_never_given_again_is_kept(then, status, exit_code):
    """However the run ends after a return, the answer that went back is in its answer, marked, with its quotes."""
    provider = ScriptedProvider([looks(1), responds("the one answer", INVENTED), *then])
    outcome = await outcome_of(job(provider, 2, evidence="require"))
    assert (outcome.status, outcome.exit_code) == (status, exit_code)
    assert f"the one answer\n{MARKS[ReturnReason.WITHOUT_QUOTE]}" in outcome.answer
    assert outcome.answer.count("the one answer") == 1
    assert outcome.evidence[0].verified is False
    if status == "failed":
        assert "note on '1'" in outcome.answer


async def test_g_5_calls_beside_an_answer_that_goes_back_are_refused_in_words_that_are_true():
    """Calls beside the second early answer are not run, and their results do not say that the run ended."""
    provider = ScriptedProvider([looks(1), beside(), beside(first_id=30), responds("yes", READ, first_id=60)])
    outcome = await outcome_of(job(provider, 9, evidence="require"))
    refused = prompts.NOT_RUN_BESIDE_RETURNED.format(tool="look")
    assert results(provider.requests[3].messages[-1]) == [refused, WITHOUT.to_call, refused]
    assert (outcome.status, outcome.tool_calls.used, outcome.tool_calls.skipped) == ("answered", 3, 2)


QUOTING = AnswerSchema(
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "evidence": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"source": {"type": "string"}, "quote": {"type": "string"}},
                },
            },
        },
    }
)


async def test_g_5_quotes_in_an_answer_with_a_schema_count_and_come_out():
    """Quotes in the `evidence` of the output are looked up and stand in `evidence` of the outcome."""
    settings = {"answer_schema": QUOTING, "tools": [LOOK, respond_tool(QUOTING)], "evidence": "require"}
    bad = calls(("respond", {"answer": {"n": 1, "evidence": [INVENTED]}}), first_id=50)
    good = calls(("respond", {"answer": {"n": 1, "evidence": [READ]}, "evidence": [READ]}), first_id=60)
    provider = ScriptedProvider([looks(1), bad, good])
    outcome = await outcome_of(job(provider, 9, **settings))
    assert '"owls read books"' in results(provider.requests[2].messages[-1])[0]
    assert (outcome.status, outcome.output) == ("answered", {"n": 1, "evidence": [READ]})
    assert [(quote.quote, quote.verified) for quote in outcome.evidence] == [("note on '1'", True)]


# G.6


@pytest.mark.parametrize("evidence", ["off", "check"])
async def test_g_6_an_answer_after_no_call_and_without_a_quote_carries_a_warning(evidence):
    """Nothing was read, and the outcome says so."""
    for reply in (responds("from memory"), says("from memory")):
        outcome = await outcome_of(job(ScriptedProvider([reply]), 9, evidence=evidence))
        assert (outcome.status, outcome.warnings) == ("answered", (NOTHING_READ,))


@pytest.mark.parametrize(
    ("reply", "settings"),
    [
        (responds("yes"), {"tools": ()}),
        (responds("yes"), {"limit": 0}),
        (says("", Stop.REFUSED), {}),
    ],
    ids=["no tools", "no calls allowed", "no answer"],
)
async def test_g_6_no_warning_where_nothing_could_be_read(reply, settings):
    """A specialist without tools or without calls is excepted, and so is a run without an answer."""
    outcome = await outcome_of(job(ScriptedProvider([reply]), **settings))
    assert NOTHING_READ not in outcome.warnings
