"""Tool calls in the loop: batches, failures, repeats, augmenters, calls beside an answer and calls in texts."""

import asyncio
import json

import anyio
import pytest

from run_specialist import prompts, tool
from run_specialist.budget import Kind
from run_specialist.loop.evidence import MARKS, ReturnReason
from run_specialist.loop.run import Run
from run_specialist.providers.base import Choice
from run_specialist.providers.knowledge import CALLS_AS_TEXT
from run_specialist.record.journal import Received
from run_specialist.record.outcome import Exit
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.base import Tool
from run_specialist.tools.respond import respond_tool
from tests.loop.replies import INVENTED, READ, beside, looks, looks_for, responds
from tests.loop_jobs import COUNT_DOWN, LOOK, job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says

DONE = says("done")


async def test_x_2_countdown_lines_follow_call_order():
    """Countdown lines follow call order: the first call finishes last and still shows the larger number."""
    order, first_may_end = [], asyncio.Event()

    async def race(query: str) -> str:
        if query == "slow":
            await first_may_end.wait()
        order.append(query)
        first_may_end.set()
        return query

    provider = ScriptedProvider([looks_for("slow", "fast"), DONE])
    await outcome_of(job(provider, 4, tools=[Tool("look", "Race.", race)]))
    assert order == ["fast", "slow"]
    assert results(provider.requests[1].messages[-1]) == ["slow", "fast\n2 tool calls remaining"]


@pytest.mark.parametrize("most", [1, 3])
async def test_s2_5_parallel_tools_limit_bounds_concurrent_calls(most):
    """Concurrent tool calls reach `parallel_tools_limit` and never exceed it."""
    running, peak = 0, 0

    async def work(query: str) -> str:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _ in range(20):
            await asyncio.sleep(0)  # let every call start that is allowed to
        running -= 1
        return query

    provider = ScriptedProvider([looks_for(*"abcdef"), DONE])
    await outcome_of(job(provider, None, tools=[Tool("look", "Work.", work)], parallel_tools_limit=most))
    assert peak == most
    assert results(provider.requests[1].messages[-1]) == list("abcdef")


async def test_s1_7_a_hanging_tool_ends_at_its_timeout():
    """A hanging tool call ends after `tool_timeout` with an error result, and the run continues."""
    never = asyncio.Event()

    async def hang(query: str) -> str:
        await never.wait()
        return query

    provider = ScriptedProvider([looks_for("a"), DONE])
    outcome = await outcome_of(job(provider, 9, tools=[Tool("look", "Hangs.", hang)], tool_timeout=0.01))
    assert results(provider.requests[1].messages[-1]) == ["look failed: no result within 0.01 seconds"]
    assert outcome.answer == "done"


async def test_x_13_repeated_calls_of_repeatable_tools_return_the_recorded_result_and_count():
    """A repeated call returns the recorded result with a hint, also within a batch; other tools run on every call."""
    ran = []

    @tool(repeatable=True)
    def once(word: str) -> str:
        """Look up."""
        ran.append("once")
        return word

    @tool
    def each(word: str) -> str:
        """Look up."""
        ran.append("each")
        return word

    both = [("once", {"word": "owl"}), ("each", {"word": "owl"})]
    provider = ScriptedProvider([calls(*both, *both), calls(*both, first_id=5), DONE])
    outcome = await outcome_of(job(provider, None, tools=[once, each]))
    assert (sorted(ran), outcome.tool_calls.used) == (["each"] * 3 + ["once"], 6)
    first, _, second, _ = results(provider.requests[1].messages[-1])
    third, again = results(provider.requests[2].messages[-1])
    assert (first, again) == ("owl", "owl")
    assert second == third == f"owl\n{prompts.SAME_CALL}"


async def test_secrets_are_masked_before_the_model_sees_them():
    """Keys are masked in transcript and outcome, and before a result is truncated, so that no part of one remains."""
    secret = "sk-ant-api03-" + "A1b2" * 10
    provider = ScriptedProvider([calls(("look", {"query": secret})), says(""), says("")])
    outcome = await outcome_of(job(provider, 9))
    assert results(provider.requests[1].messages[-1]) == ["note on '[redacted]', part 0"]
    assert "note on '[redacted]'" in outcome.answer
    assert all(secret not in one.quote for one in outcome.evidence)
    provider = ScriptedProvider([calls(("look", {"query": secret})), DONE])
    await outcome_of(job(provider, 9, tool_result_limit=30))
    assert results(provider.requests[1].messages[-1]) == ["note on '[redacted]', part 0"]


@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError("mine"), SystemExit(3), StopIteration("odd"), GeneratorExit("odd"), TimeoutError("own")],
)
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_s1_7_any_exception_of_a_tool_becomes_an_error_result(error, kind):
    """Any exception of a tool, even one that would end a task, program or generator, becomes an error result."""

    def plain(query: str) -> str:
        raise error

    async def coroutine(query: str) -> str:
        raise RuntimeError(repr(error)) if isinstance(error, StopIteration | GeneratorExit) else error

    function = plain if kind == "plain" else coroutine
    provider = ScriptedProvider([looks_for("a"), DONE])
    outcome = await outcome_of(job(provider, 9, tools=[Tool("look", "Raises.", function)]))
    assert (outcome.status, outcome.tool_calls.failed) == ("answered", 1)
    assert results(provider.requests[1].messages[-1])[0].startswith("look failed: ")


class Unspeakable(Exception):
    """An error whose text cannot be made."""

    def __repr__(self):
        """Fail again."""
        raise ValueError("no words")

    __str__ = __repr__


async def test_s3_3_no_augmenter_damages_the_result():
    """A number becomes text; failures and values without a text are warnings, and the countdown still follows."""

    def raises(executed):
        raise Unspeakable

    odd = [lambda executed: 7, raises, lambda executed: {"x": object()}, lambda executed: Unspeakable()]
    provider = ScriptedProvider([looks_for("a"), DONE])
    outcome = await outcome_of(job(provider, 2, augmenters=[*odd, COUNT_DOWN]))
    (result,) = results(provider.requests[1].messages[-1])
    assert json.loads(result) == {"output": "note on 'a', part 0\n7\n1 tool call remaining", "x": "object"}
    assert outcome.status == "answered"
    assert "an augmenter failed on look" in outcome.warnings[0]


@pytest.mark.parametrize("quotes", [(), (INVENTED,), (READ, INVENTED), ({"source": "a", "quote": "note on 'a'"},)])
async def test_g_4_calls_beside_an_answer_run_and_the_answer_is_asked_for_again(quotes):
    """The calls run, `respond` gets an error between their results, and the next answer is taken."""
    provider = ScriptedProvider([looks(1), beside(*quotes), responds("late", READ)])
    outcome = await outcome_of(job(provider, 9))
    told = provider.requests[2].messages[-1]
    assert results(told) == ["note on 'a', part 0", prompts.TOO_EARLY, "note on 'b', part 0"]
    assert [block.get("is_error", False) for block in told.blocks] == [False, True, False]
    assert (outcome.status, outcome.answer) == ("answered", "late")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (3, 0)


async def test_g_4_happens_once_a_run():
    """The second time `respond` ends the run, and the calls beside it are not run."""
    provider = ScriptedProvider([looks(1), beside(), beside(first_id=30, answer="again")])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.answer) == ("answered", "again")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (3, 2)


async def test_g_4_only_results_of_earlier_turns_verify_a_quote():
    """Quotes of which one was not read before do not end the run; with `off` nothing is looked up."""
    for evidence, requests in (("check", 2), ("off", 3)):
        provider = ScriptedProvider([looks(1), beside(READ), responds("late")][:requests])
        outcome = await outcome_of(job(provider, 9, evidence=evidence))
        assert outcome.answer == ("early" if evidence == "check" else "late")


async def test_g_4_without_budget_the_answer_is_taken():
    """When the reply itself spent the last turn, its answer is taken and nothing is run."""
    provider = ScriptedProvider([beside()])
    limits = {Kind.TURNS: 2}
    outcome = await outcome_of(job(provider, 9, limits=limits))
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "early", 0)


async def test_g_4_an_answer_that_is_never_given_again_is_kept():
    """If no other answer follows, the early one is the answer, marked, and partial."""
    provider = ScriptedProvider([looks(1), beside(READ, INVENTED, answer="early"), says(""), says("")])
    outcome = await outcome_of(job(provider, 9))
    assert (outcome.status, outcome.exit_code) == ("partial", Exit.OK)
    assert outcome.answer == f"early\n{MARKS[ReturnReason.TOO_EARLY]}"
    assert [quote.verified for quote in outcome.evidence] == [True, False]


async def test_g_4_an_abort_while_the_calls_run_leaves_one_result_for_each():
    """After an abort each call has its own result, with `respond` between them."""
    runs = []

    async def slow(query: str = "", part: int = 0) -> str:
        if query == "b":
            runs[0].abort()
            await anyio.sleep_forever()
        return f"note {query}"

    tool = Tool("look", "Look.", slow)
    runs.append(Run(job(ScriptedProvider([beside()]), 9, tools=[tool])))
    outcome = await runs[0].outcome()
    assert outcome.status == "aborted"
    assert results(runs[0].transcript[-1]) == ["note a", prompts.NOT_TAKEN, prompts.STOPPED.format(tool="look")]
    assert outcome.answer.count("early") == 1
    assert MARKS[ReturnReason.TOO_EARLY] in outcome.answer


# Runs whose endpoint sends tool calls as text.
def written(*wanted):
    """Script a reply whose text consists of calls."""
    return says("\n".join(json.dumps({"name": name, "arguments": arguments}) for name, arguments in wanted))


LOOKS = written(("look", {"query": "a"}), ("look", {"query": "b"}))
CALLS_ANSWER = written(("respond", {"answer": "yes", "evidence": [{"source": "a", "quote": "note on 'a'"}]}))


async def test_g_3_the_bare_input_of_respond_is_the_answer_without_a_warning():
    """The input of `respond` as text ends the run, with its quotes and gaps."""
    text = json.dumps({"answer": "yes", "evidence": [{"source": "a", "quote": "note on 'a'"}], "gaps": ["c"]})
    outcome = await outcome_of(job(ScriptedProvider([looks(1), says(text)]), 9))
    assert (outcome.status, outcome.answer, outcome.gaps) == ("answered", "yes", ("c",))
    assert [quote.quote for quote in outcome.evidence] == ["note on 'a'"]
    assert CALLS_AS_TEXT not in outcome.warnings


async def test_g_3_x_5_at_the_landing_calls_in_the_text_are_not_run_and_the_next_rung_follows():
    """A leaked call at the limit is answered without being run, and does not count as an answer."""
    provider = ScriptedProvider([looks(1), LOOKS, CALLS_ANSWER])
    outcome = await outcome_of(job(provider, 1))
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("landed", "yes", 1)
    assert outcome.landing.requests == 2
    assert all("Not run: limit reached" in text for text in results(provider.requests[2].messages[-1]))


async def test_g_3_where_only_text_is_allowed_calls_in_it_are_no_answer():
    """With `landing: none` a leaked call is not run, and the answer is made from what was gathered."""
    provider = ScriptedProvider([looks(1), LOOKS])
    outcome = await outcome_of(job(provider, 1, landing="none"))
    assert provider.requests[1].choice is Choice.NONE
    assert (outcome.status, outcome.tool_calls.used) == ("partial", 1)
    assert '"name"' not in outcome.answer
    outcome = await outcome_of(job(ScriptedProvider([looks(1), CALLS_ANSWER]), 1, landing="none"))
    assert (outcome.status, outcome.answer) == ("landed", "yes")


async def test_g_3_with_a_schema_the_answer_in_the_text_is_its_output():
    """A leaked `respond` is checked like one that was called, and so is its bare input."""
    schema = AnswerSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    settings = {"answer_schema": schema, "tools": [LOOK, respond_tool(schema)]}
    for text in (
        '{"name": "respond", "arguments": {"answer": {"n": 1}}}',
        '{"answer": {"n": 1}, "gaps": []}',
        '{"n": 1}',
    ):
        outcome = await outcome_of(job(ScriptedProvider([looks(1), says(text)]), 9, **settings))
        assert (outcome.status, outcome.output) == ("answered", {"n": 1})


@pytest.mark.exhaustive
async def test_g_3_the_store_and_a_resumed_run_see_calls(desk):
    """The reply is stored with its calls: after a crash they count as begun, and the warning is not repeated."""
    going = await desk.record(LOOKS, CALLS_ANSWER)
    await desk.keep(going.notebook.until(Received))
    pending = desk.load().pending
    assert [(call.id, call.name) for call in pending.reply.calls] == [("written_1_1", "look"), ("written_1_2", "look")]
    again = await desk.go_on(written(("look", {"query": "c"})), calls(("respond", {"answer": "yes"}), first_id=90))
    assert again.outcome.tool_calls.used == 3
    assert [text.startswith("Not finished") for text in results(again.requests[0].messages[-1])] == [True, True]
    assert again.outcome.warnings.count(CALLS_AS_TEXT) == 1
