"""Answers that must rest on what was read: those that come too early or without a quote go back to the model, once."""

from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist import prompts
from run_specialist.budget import Kind
from run_specialist.errors import ProviderError
from run_specialist.loop.evidence import MARKS, NOTHING_READ, ReturnReason
from run_specialist.record import journal
from run_specialist.record.journal import Checkpointed, Received
from run_specialist.record.messages import Stop
from run_specialist.record.outcome import Exit
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.base import Tool
from run_specialist.tools.respond import respond_tool
from tests.loop.replies import INVENTED, READ, WITHOUT, beside, looks, looks_for, responds
from tests.loop_jobs import LOOK, job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says


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


@pytest.mark.parametrize("evidence", ["off", "check", "require"])
async def test_g_5_an_answer_with_one_verified_quote_is_taken(evidence):
    """`check` and `require` look quotes up and warn; `off` does neither, and `verified` is null."""
    outcome = await outcome_of(job(ScriptedProvider([looks(1), responds("yes", INVENTED, READ)]), 9, evidence=evidence))
    assert outcome.status == "answered"
    verified = [quote.verified for quote in outcome.evidence]
    assert verified == ([None, None] if evidence == "off" else [False, True])
    assert len(outcome.warnings) == (0 if evidence == "off" else 1)


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


# G.9

SHOWN = {
    "read": "     7\tOwls eat mice.\n     8\tThey hunt at night.\n     9\tToads do not.\n[lines 7-9 of 20]",
    "search": "notes/owls.md:1: # Owls\nnotes/owls.md:4: An owl eats 3 mice … and\n\nold/owls.md:4: Nothing.",
    "bash": "first\nsecond line\nthird",
}


def showing():
    """Return tools that show lines: two file tools, and one whose results get a name."""
    texts = {name: (lambda path="", name=name: SHOWN[name]) for name in SHOWN}
    return [Tool(name, "Shows lines.", function, numbered=name == "bash") for name, function in texts.items()]


@pytest.mark.parametrize(
    ("given", "source", "quote"),
    [
        ({"source": "notes/toads.md:8"}, "notes/toads.md:8", "They hunt at night."),
        ("notes/toads.md:7-8", "notes/toads.md:7-8", "Owls eat mice.\nThey hunt at night."),
        ({"source": "`toads.md:9-40`", "quote": ""}, "notes/toads.md:9", "Toads do not."),
        ({"source": "./notes/owls.md:4"}, "notes/owls.md:4", "An owl eats 3 mice … and"),
        ({"source": "notes/owls.md:1-4"}, "notes/owls.md:1", "# Owls"),
        ({"source": "[r3:2]"}, "r3:2", "second line"),
        ({"source": "owls.md:4"}, "owls.md:4", None),
        ({"source": "notes/toads.md:10"}, "notes/toads.md:10", None),
        ({"source": "r1:7"}, "r1:7", None),
        ({"source": "notes/toads.md"}, "notes/toads.md", None),
    ],
)
async def test_g9_a_reference_to_lines_that_were_shown_is_filled_in(given, source, quote):
    """`path:line`, a range or `rN:line` is quoted as it was shown; ambiguous or unseen lines are not verified."""
    asked = calls(("read", {"path": "notes/toads.md"}), ("search", {}), ("bash", {}))
    outcome = await outcome_of(job(ScriptedProvider([asked, responds("yes", given)]), 9, tools=showing()))
    (one,) = outcome.evidence
    assert (one.source, one.quote, one.verified) == (source, quote or "", quote is not None)
    assert outcome.warnings == (() if quote else (f"no result showed these lines: {source}",))


async def test_g9_results_of_other_tools_have_a_name_and_numbers():
    """A result of several lines begins with its name; a later call has another one, and one line stays as it is."""
    provider = ScriptedProvider([calls(("bash", {}), ("look", {})), calls(("bash", {}), first_id=9), says("Done.")])
    await outcome_of(job(provider, 9, tools=[*showing(), replace(LOOK, numbered=True)], augmenters=[]))
    named, plain = results(provider.requests[1].messages[-1])
    assert named == "[r1 3 lines]\n1\tfirst\n2\tsecond line\n3\tthird"
    assert plain == "note on '', part 0"
    assert results(provider.requests[2].messages[-1])[0].startswith("[r3 3 lines]")


async def test_g9_a_reference_to_unseen_lines_goes_back_under_require():
    """Under `require` lines that were not shown are no quote: the answer is returned once, and they are named."""
    unseen, seen = {"source": "notes/toads.md:20"}, {"source": "notes/toads.md:8"}
    read = calls(("read", {"path": "notes/toads.md"}))
    provider = ScriptedProvider([read, responds("yes", unseen), responds("yes", seen, first_id=60)])
    outcome = await outcome_of(job(provider, 9, tools=showing(), evidence="require"))
    assert '"notes/toads.md:20"' in results(provider.requests[2].messages[-1])[0]
    assert (outcome.status, outcome.evidence[0].quote) == ("answered", "They hunt at night.")


# G.11
async def test_g11_an_answer_that_its_evidence_does_not_bear_out_goes_back_once_under_require():
    """The sentences and what they lack are named once; a second answer is taken as it is, with its support."""
    read = calls(("read", {"path": "notes/toads.md"}))
    seen, wrong = {"source": "notes/toads.md:8"}, "They hunt at night [1]. Owls eat 5 mice [1]."
    again = responds(wrong, seen, first_id=60)
    provider = ScriptedProvider([read, responds(wrong, seen), again])
    outcome = await outcome_of(job(provider, 9, tools=showing(), evidence="require"))
    assert "Owls eat 5 mice [1]. (not there: 5)" in results(provider.requests[2].messages[-1])[0]
    assert (outcome.status, [one.missing for one in outcome.support]) == ("answered", [(), ("5",)])
    assert [one.sentence for one in outcome.doubtful] == ["Owls eat 5 mice [1]."]


@pytest.mark.parametrize("evidence", ["check", "off"])
async def test_g11_without_require_sentences_are_only_marked(evidence):
    """`check` holds each sentence against its lines; `off` checks nothing, and nothing goes back."""
    read = calls(("read", {"path": "notes/toads.md"}))
    answer = responds("Owls eat 5 mice [1]. Is it so?", {"source": "notes/toads.md:7"})
    outcome = await outcome_of(job(ScriptedProvider([read, answer]), 9, tools=showing(), evidence=evidence))
    found = [(one.sentence, one.evidence, one.missing) for one in outcome.support]
    assert found == ([("Owls eat 5 mice [1].", (1,), ("5",))] if evidence == "check" else [])


QUOTE = {"type": "object", "properties": {"source": {"type": "string"}, "quote": {"type": "string"}}}
EVIDENCE = {"type": "array", "items": QUOTE}
QUOTING = AnswerSchema({"type": "object", "properties": {"n": {"type": "integer"}, "evidence": EVIDENCE}})


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


@pytest.mark.parametrize("evidence", ["off", "check"])
async def test_g_6_an_answer_after_no_call_and_without_a_quote_carries_a_warning(evidence):
    """Nothing was read, and the outcome says so."""
    for reply in (responds("from memory"), says("from memory")):
        outcome = await outcome_of(job(ScriptedProvider([reply]), 9, evidence=evidence))
        assert (outcome.status, outcome.warnings) == ("answered", (NOTHING_READ,))


@pytest.mark.parametrize(
    ("reply", "settings"),
    [(responds("yes"), {"tools": ()}), (responds("yes"), {"limit": 0}), (says("", Stop.REFUSED), {})],
    ids=["no tools", "no calls allowed", "no answer"],
)
async def test_g_6_no_warning_where_nothing_could_be_read(reply, settings):
    """A specialist without tools or without calls is excepted, and so is a run without an answer."""
    outcome = await outcome_of(job(ScriptedProvider([reply]), **settings))
    assert NOTHING_READ not in outcome.warnings


# Answers that went back to the model, in runs that are interrupted and resumed.
ENDED = prompts.PROCESS_ENDED.format(tool="look")
LATE = responds("late", READ, first_id=90)
UNFOUNDED = calls(("respond", {"answer": "early"}), first_id=70)


async def dies(desk, kind, number, *script, before=False, **settings):
    """Work in a process that dies right after a record of a kind, or before it."""
    going = await desk.record(*script, **settings)
    await desk.keep(going.notebook.until(kind, number, before=before))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "number", "known"), [(Received, 2, 0), (journal.Returned, 2, 1), (journal.Returned, 3, 2)]
)
async def test_g_4_calls_that_were_running_are_not_run_again(desk, kind, number, known):
    """After a crash while the calls ran, each has its stored result or the reason, and `respond` is asked for again."""
    await dies(desk, kind, number, looks(1), beside({"source": "a", "quote": "note on 'a'"}), LATE)
    begun = []
    desk.tools = [Tool("look", "Look something up.", lambda query="", part=0: begun.append(query))]
    again = await desk.go_on(LATE)
    first, told, last = results(again.requests[0].messages[-1])
    assert begun == []
    assert told == prompts.TOO_EARLY
    assert [first, last] == [*["note on 'a', part 0", "note on 'b', part 0"][:known], *[ENDED] * (2 - known)]
    assert (again.outcome.status, again.outcome.answer, again.outcome.tool_calls.used) == ("answered", "late", 3)


async def test_g_4_an_answer_that_is_taken_leaves_no_mark_on_calls_after_a_further_question(desk):
    """Calls beside an accepted answer were not begun: those after a follow-up question run."""
    await dies(desk, Received, 2, looks(1), beside(READ), LATE)
    again = await desk.go_on(looks(40, 2), LATE, question="And then?")
    assert results(again.requests[1].messages[-1]) == ["note on '40', part 0", "note on '41', part 0"]
    assert (again.outcome.answer, again.outcome.tool_calls.used) == ("late", 3)


async def test_g_4_once_a_run_holds_across_a_crash(desk):
    """After a crash the second early answer is taken, and the calls beside it are not run."""
    await dies(desk, Checkpointed, 3, looks(1), beside(), LATE)
    again = await desk.go_on(beside(first_id=30))
    assert (again.outcome.status, again.outcome.answer, again.outcome.tool_calls.used) == ("answered", "early", 3)


async def test_g_4_an_early_answer_from_a_landing_is_taken_also_under_a_higher_limit(desk):
    """Calls beside `respond` in a landing never run, so there is nothing to wait for."""
    await dies(desk, Received, 2, looks(1), beside(), tool_calls_limit=1)
    again = await desk.go_on(tool_calls_limit=9)
    assert (again.outcome.status, again.outcome.answer, again.outcome.tool_calls.used) == ("answered", "early", 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "number"), [(Received, 2), (Checkpointed, 3)])
async def test_g_5_once_a_run_and_the_kept_answer_hold_across_a_crash(desk, kind, number):
    """An answer goes back once, whether the process ended before or after that, and it is kept."""
    await dies(desk, kind, number, looks(1), UNFOUNDED, LATE, evidence="require")
    again = await desk.go_on(says(""), says(""))
    assert again.outcome.status == "partial"
    assert again.outcome.answer == f"early\n{MARKS[ReturnReason.WITHOUT_QUOTE]}"
    assert "it has no quote" in results(again.requests[0].messages[-1])[0]


async def test_g_5_a_further_question_begins_anew(desk):
    """The answer to a follow-up question goes back once, and the earlier answer is not kept for it."""
    await desk.ask(looks(1), UNFOUNDED, says("still nothing"), evidence="require")
    again = await desk.go_on(says("no quote"), says(""), says(""), question="And then?")
    assert (again.outcome.status, again.outcome.answer.splitlines()[0]) == ("partial", "no quote")
    again = await desk.go_on(says(""), says(""), question="And now?")
    assert again.outcome.status == "failed"


# Answers with `output_schema`: a valid one is the output, an invalid one is returned once, then it is partial.
SCHEMA = AnswerSchema.load(
    {
        "type": "object",
        "properties": {"food": {"type": "string"}, "owls": {"type": "integer"}},
        "required": ["food"],
        "additionalProperties": False,
    },
    Path(),
)
LOOKS = looks_for("owls")
GOOD = calls(("respond", {"answer": {"food": "mice"}}), first_id=50)


def bad(first_id=30, answer=None):
    """Make a turn that responds out of shape."""
    return calls(("respond", {"answer": answer or {"food": 3}}), first_id=first_id)


def shaped(provider, limit=9, **settings):
    """Make a job whose answer has a shape."""
    return job(provider, limit, answer_schema=SCHEMA, tools=[LOOK, respond_tool(SCHEMA)], **settings)


async def test_an_invalid_answer_is_returned_once_with_the_reason():
    """An invalid answer gets an error result with the validator's message, costs no call, and the next one is used."""
    provider = ScriptedProvider([LOOKS, bad(), GOOD])
    outcome = await outcome_of(shaped(provider))
    (told,) = provider.requests[2].messages[-1].blocks
    assert told["is_error"] is True
    assert "food: 3 is not of type 'string'" in told["content"]
    assert (outcome.status, outcome.output, outcome.tool_calls.used) == ("answered", {"food": "mice"}, 1)
    assert not outcome.warnings


async def test_a_second_invalid_answer_is_partial():
    """A second invalid answer is partial: its text is kept, and the outcome names the error."""
    provider = ScriptedProvider([LOOKS, bad(), bad(40, {"food": "mice", "owls": "two"})])
    outcome = await outcome_of(shaped(provider))
    assert (outcome.status, outcome.output, outcome.exit_code) == ("partial", None, 0)
    assert "mice" in outcome.answer
    assert outcome.error == "the answer does not match output_schema: owls: 'two' is not of type 'integer'"


async def test_an_invalid_text_answer_is_returned_as_a_user_message():
    """An invalid answer in plain text stays in the history, and the reason follows as a user message."""
    provider = ScriptedProvider([LOOKS, says("They eat mice."), GOOD])
    outcome = await outcome_of(shaped(provider))
    said, told = provider.requests[2].messages[-2:]
    assert (said.role, told.role) == ("assistant", "user")
    assert told.blocks[0]["type"] == "text"
    assert outcome.output == {"food": "mice"}


async def test_calls_beside_an_invalid_answer_are_skipped():
    """At a limit calls beside an invalid answer get skipped results in call order, and the next answer is used."""
    both = calls(("look", {"query": "a"}), ("respond", {"answer": {}}), ("look", {"query": "b"}), first_id=30)
    provider = ScriptedProvider([LOOKS, both, GOOD])
    outcome = await outcome_of(shaped(provider, 1))
    first, told, last = results(provider.requests[2].messages[-1])
    assert first.startswith("Not run: ")
    assert "'food' is a required property" in told
    assert last.startswith("Not run: ")
    assert (outcome.status, outcome.tool_calls.used, outcome.tool_calls.skipped) == ("landed", 1, 2)


async def test_a_cut_answer_has_no_output():
    """A cut answer has no `output`, because half an object is not valid."""
    half = calls(("respond", {"answer": {"food": "mi"}}), first_id=30, stop=Stop.TRUNCATED)
    outcome = await outcome_of(shaped(ScriptedProvider([half, half])))
    assert (outcome.status, outcome.output) == ("partial", None)
    assert outcome.answer.endswith("\n[truncated]")
