"""Tool calls in the loop: batches, failures, repeats, augmenters."""

import asyncio

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.base import Tool
from tests.loop_jobs import job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio
DONE = says("done")
ANSWER = calls(("respond", {"answer": "the answer"}), first_id=999)


def batch(*queries, first=1):
    """Script one turn of several calls."""
    return calls(*(("look", {"query": query}) for query in queries), first_id=first)


async def test_x_2_countdown_lines_follow_call_order():
    """Countdown lines follow call order: the first call finishes last and still shows the larger number."""
    order, first_may_end = [], asyncio.Event()

    async def race(query: str) -> str:
        if query == "slow":
            await first_may_end.wait()
        order.append(query)
        first_may_end.set()
        return query

    provider = ScriptedProvider([batch("slow", "fast"), DONE])
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

    provider = ScriptedProvider([batch(*"abcdef"), DONE])
    await outcome_of(job(provider, None, tools=[Tool("look", "Work.", work)], parallel_tools_limit=most))
    assert peak == most
    assert results(provider.requests[1].messages[-1]) == list("abcdef")


def broken(query: str) -> str:
    """Fail in the way that the query says."""
    if query == "own":
        raise ToolError("no such place; try another")
    raise RuntimeError(query)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("look", {"query": "own"}, "look failed: no such place; try another"),
        ("look", {"query": "boom"}, "look failed: RuntimeError: boom"),
        ("look", {"question": "x"}, "look failed: invalid arguments: query: Missing required argument"),
        ("fly", {}, "fly failed: there is no such tool; there are look, respond"),
    ],
)
async def test_s1_7_x_3_failures_go_to_the_model_and_spend_budget(name, arguments, said):
    """A failed, unknown or invalid call counts and returns an error result with the tool's name and the reason."""
    provider = ScriptedProvider([calls((name, arguments)), ANSWER])
    outcome = await outcome_of(job(provider, 1, tools=[Tool("look", "Breaks.", broken)]))
    (block,) = provider.requests[1].messages[-1].content
    assert block["is_error"] is True
    assert block["content"].startswith(said)
    assert block["content"].splitlines()[-1] == "0 tool calls remaining"
    assert (outcome.tool_calls.used, outcome.tool_calls.failed) == (1, 1)


async def test_x_3_malformed_arguments_are_an_error_and_replaced_in_history():
    """The transcript replaces malformed arguments with `{}`, because the API accepts only objects."""
    reply = calls(("look", {}))
    reply = type(reply)(reply.stop, ({**reply.content[0], "input": "oops"},), reply.usage)
    provider = ScriptedProvider([reply, DONE])
    await outcome_of(job(provider, 5))
    assistant, user = provider.requests[1].messages[-2:]
    assert assistant.content[0]["input"] == {}
    assert results(user) == ["look failed: the arguments are no JSON object"]


async def test_s1_7_a_hanging_tool_ends_at_its_timeout():
    """A hanging tool call ends after `tool_timeout` with an error result, and the run continues."""
    never = asyncio.Event()

    async def hang(query: str) -> str:
        await never.wait()
        return query

    provider = ScriptedProvider([batch("a"), DONE])
    outcome = await outcome_of(job(provider, 9, tools=[Tool("look", "Hangs.", hang)], tool_timeout=0.01))
    assert results(provider.requests[1].messages[-1]) == ["look failed: no result within 0.01 seconds"]
    assert outcome.answer == "done"


async def test_x_13_a_repeated_call_returns_the_recorded_result_and_counts():
    """A repeated call, also within a batch, returns the recorded result with a hint instead of running, and counts."""
    ran = []

    def note(query: str) -> str:
        ran.append(query)
        return f"note {query}"

    tool = Tool("look", "Looks.", note, repeatable=True)
    provider = ScriptedProvider([batch("a", "a"), batch("a", first=3), DONE])
    outcome = await outcome_of(job(provider, 9, tools=[tool]))
    assert ran == ["a"]
    first, second = results(provider.requests[1].messages[-1])
    (third,) = results(provider.requests[2].messages[-1])
    assert first == "note a"
    assert second == third
    assert second.startswith("note a\n[You made this very call before")
    assert outcome.tool_calls.used == 3


async def test_long_results_are_cut_before_anything_is_added():
    """A long result is truncated first; `[truncated]` and the countdown follow the raw output."""
    provider = ScriptedProvider([calls(("look", {"query": "x" * 100})), ANSWER])
    outcome = await outcome_of(job(provider, 1, tool_result_limit=12))
    (text,) = results(provider.requests[1].messages[-1])
    assert text == "note on 'xxx\n[truncated]\n0 tool calls remaining"
    assert outcome.limits["characters"].used == len("note on 'xxx")  # without the lines that the program adds


async def test_secrets_are_masked_before_the_model_sees_them():
    """API keys and tokens are masked in the transcript and in the outcome."""
    secret = "sk-ant-api03-" + "A1b2" * 10
    provider = ScriptedProvider([calls(("look", {"query": secret})), says(""), says("")])
    outcome = await outcome_of(job(provider, 9))
    assert results(provider.requests[1].messages[-1]) == ["note on '[redacted]', part 0"]
    assert "note on '[redacted]'" in outcome.answer
    assert all(secret not in one.quote for one in outcome.evidence)


async def test_a_secret_at_the_truncation_point_is_masked_completely():
    """Secrets are masked before truncation, so that no part of a key remains."""
    secret = "sk-ant-api03-" + "A1b2" * 10
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
    provider = ScriptedProvider([batch("a"), DONE])
    outcome = await outcome_of(job(provider, 9, tools=[Tool("look", "Raises.", function)]))
    assert (outcome.status, outcome.tool_calls.failed) == ("answered", 1)
    assert results(provider.requests[1].messages[-1])[0].startswith("look failed: ")


async def test_s3_3_an_augmenter_value_becomes_text_and_its_failure_a_warning():
    """A number returned by an augmenter is converted to text; an exception becomes a warning in the outcome."""

    def bad(executed):
        raise KeyError("oops")

    provider = ScriptedProvider([batch("a"), DONE])
    outcome = await outcome_of(job(provider, 9, augmenters=[lambda executed: 7, bad]))
    assert results(provider.requests[1].messages[-1]) == ["note on 'a', part 0\n7"]
    assert "an augmenter failed on look" in outcome.warnings[0]
