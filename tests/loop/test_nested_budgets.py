"""Specialists that call each other share one budget, and everything is counted once."""

import asyncio

import pytest

from run_specialist.api.runner import Runner
from run_specialist.providers.base import Request
from run_specialist.record.events import ChildTold, Finished
from run_specialist.tools.base import Tool
from tests.loop.nested_replies import answers, asks, looks
from tests.loop_jobs import results
from tests.scripted_provider import calls, says
from tests.scripted_specialists import ScriptedSpecialists, write

pytestmark = pytest.mark.anyio


async def test_x_11_usage_and_cost_are_counted_once(run_lead, files):
    """Of four requests two are the child's: they count in the total once and are listed under `children`."""
    files()
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[looks("owls"), answers("mice")]])
    outcome, events = await run_lead(cast)
    (child,) = outcome.children
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (40, 20)
    assert (child.usage.input_tokens, child.usage.output_tokens) == (20, 10)
    assert (outcome.cost_usd, child.cost_usd) == (pytest.approx(0.0006), pytest.approx(0.0003))
    assert (child.specialist, child.status, child.tool_calls, child.children) == ("finder", "answered", 1, ())
    (told,) = (event for event in events if isinstance(event, ChildTold) and isinstance(event.told, Finished))
    assert told.run_id == child.run_id == told.told.outcome.run_id
    assert outcome.as_json()["children"][0]["usage"]["input_tokens"] == 20


async def test_x_11_the_calls_of_a_child_are_limited_by_the_parents_remainder(run_lead, files):
    """With 4 calls, the parent uses one to delegate; the child, whose limit is 6, gets 3, and both land."""
    files(lead=["tool_calls_limit: 4"])
    child = [looks("a", "b", first_id=1), looks("c", first_id=3), answers("some")]
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[child])
    outcome, _ = await run_lead(cast)
    finder, lead = cast.played["finder"][0], cast.played["lead"][0]
    assert [result.rsplit("\n", 1)[-1] for result in results(finder.requests[1].messages[-1])] == [
        "note on 'a', part 0",
        "1 tool call remaining",
    ]
    assert results(finder.requests[2].messages[-1])[-1].endswith("0 tool calls remaining")
    assert results(lead.requests[1].messages[-1])[-1].endswith("0 tool calls remaining")
    assert (outcome.tool_calls.used, outcome.status, outcome.children[0].status) == (4, "landed", "landed")


async def test_x_11_without_a_shared_budget_a_child_uses_its_own(run_lead, files):
    """With `share_budget: false` the child uses its own 6 calls, and the parent spends one of its 4."""
    files(lead=["tool_calls_limit: 4", "share_budget: false"])
    six = [looks(*"abcdef"), answers("some")]
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[six])
    outcome, _ = await run_lead(cast)
    assert (outcome.tool_calls.used, outcome.children[0].tool_calls, outcome.status) == (1, 6, "answered")
    assert outcome.usage.input_tokens == 40


async def test_x_11_parallel_children_share_the_remaining_calls(run_lead, tmp_path):
    """Three parallel children each get a third of the remaining calls, and the limit is not exceeded."""
    write(tmp_path, "lead", "agents: [one, two, three]", "tool_calls_limit: 9")
    greedy = [looks(*"abcdefgh"), answers("some")]
    for name in ("one", "two", "three"):
        write(tmp_path, name, "tool_calls_limit: 8")
    ran = []

    async def look(query: str) -> str:
        ran.append(query)
        await asyncio.sleep(0)
        return query

    cast = ScriptedSpecialists(
        lead=[[asks("one", "two", "three"), answers("all")]], one=[greedy], two=[greedy], three=[greedy]
    )
    outcome, _ = await run_lead(cast, tools=[Tool("look", "Look.", look)])
    assert sorted(ran) == sorted("ab" * 3)
    assert (outcome.tool_calls.used, [child.tool_calls for child in outcome.children]) == (9, [2, 2, 2])


async def test_x_11_a_refused_delegate_call_gets_no_share(run_lead, tmp_path):
    """A delegate call without a question gets no share: the two valid ones, run one at a time, get half each."""
    write(tmp_path, "lead", "agents: [one, two]", "tool_calls_limit: 9", "parallel_tools_limit: 1")
    write(tmp_path, "one", "tool_calls_limit: 8")
    write(tmp_path, "two", "tool_calls_limit: 8")
    greedy = [looks(*"abcdefgh"), answers("some")]
    asked = calls(
        *(
            ("delegate", {"specialist": name, "query": query})
            for name, query in (("one", ""), ("one", "a"), ("two", "b"))
        )
    )
    outcome, _ = await run_lead(ScriptedSpecialists(lead=[[asked, answers("all")]], one=[greedy], two=[greedy]))
    assert [child.tool_calls for child in outcome.children] == [3, 3]


async def test_x_11_a_child_is_budgeted_at_the_price_of_its_own_model(tmp_path, monkeypatch):
    """A child's budget is checked at its own model's price: a cheap child runs where its parent could not."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder]", "cost_limit: 0.5", "model: opus")
    write(tmp_path, "finder", "model: haiku")
    dear = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]])
    cheap = ScriptedSpecialists(finder=[[answers("mice")]])
    dear.cost = lambda usage: usage.output_tokens / 60_000 + usage.input_tokens / 20_000
    cheap.cost = lambda usage: usage.total_tokens / 1_000_000
    monkeypatch.setattr("run_specialist.providers.choose.make_provider", {"opus": dear, "haiku": cheap}.__getitem__)
    async with Runner() as runner:
        outcome = await runner.run("lead", "What is known?")
    assert [child.specialist for child in outcome.children] == ["finder"], dear.played["lead"][0].requests[-1].messages


async def test_x_11_unused_calls_of_a_child_return_to_the_parent(run_lead, files):
    """A child that gets 6 of 9 calls and uses 1 returns the rest, so that the second child gets its full 6."""
    files()
    six = [looks(*"abcdef"), answers("more")]
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), asks("finder", first_id=2), answers("all")]],
        finder=[[looks("a"), answers("some")], six],
    )
    outcome, _ = await run_lead(cast)
    assert [child.tool_calls for child in outcome.children] == [1, 6]
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (9, 0)


async def test_x_11_a_child_without_remaining_budget_is_not_started(run_lead, files):
    """If the parent's last call delegates, no budget is left: the result says so and the child sends no request."""
    files(lead=["tool_calls_limit: 1"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[])
    outcome, _ = await run_lead(cast)
    (told,) = results(cast.played["lead"][0].requests[1].messages[-1])
    assert told.startswith("finder could not be asked: of the tool calls nothing is left that it could use")
    assert (outcome.tool_calls.used, outcome.tool_calls.failed, outcome.children) == (1, 1, ())


async def test_x_11_a_child_is_limited_by_the_parents_tokens_and_cost(run_lead, files):
    """A child gets the parent's remaining tokens and cost, and lands before the parent's limit is exceeded."""
    files(lead=["total_tokens_limit: 100000", "cost_limit: 1.5"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    outcome, events = await run_lead(cast)
    (begun,) = (event.told for event in events if isinstance(event, ChildTold) and event.told.event == "started")
    assert 0 < begun.limits["tokens"] < 100_000
    assert 0 < begun.limits["cost"] < 1.5
    assert outcome.limits["tokens"].used == 45
    assert outcome.limits["cost"].used == pytest.approx(0.00045)


@pytest.mark.parametrize(("limit", "words"), [("total_tokens_limit: 10000", "tokens"), ("cost_limit: 0.1", "cost")])
async def test_x_11_parallel_children_start_only_within_the_remaining_budget(run_lead, files, limit, words):
    """Only as many parallel children start as the remaining tokens or cost allow; the others are error results."""
    files(lead=["tool_calls_limit: 40", "parallel_tools_limit: 8", limit])
    cast = ScriptedSpecialists(lead=[[asks(*["finder"] * 8), answers("all")]], finder=[[answers("mice")]] * 2)
    outcome, events = await run_lead(cast)
    begun = [event.told for event in events if isinstance(event, ChildTold) and event.told.event == "started"]
    assert sum(one.limits["tokens"] or one.limits["cost"] * 100_000 for one in begun) <= 10_000
    assert (len(outcome.children), outcome.tool_calls.failed) == (2, 6)
    told = results(cast.played["lead"][0].requests[1].messages[-1])
    assert f"of the {words} nothing is left that it could use" in str(told)


async def test_x_11_the_time_of_a_child_ends_before_the_parents(run_lead, files):
    """A child's time limit ends before its parent's landing, whatever its own limit and `tool_timeout`."""
    files(lead=["time_limit: 100", "tool_timeout: 5"], finder=["time_limit: 500"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    _, events = await run_lead(cast)
    (begun,) = (event.told for event in events if isinstance(event, ChildTold) and event.told.event == "started")
    assert 60 < begun.limits["time"] < 90 / 1.1


def requests_of(cast: ScriptedSpecialists, name: str) -> list[Request]:
    """Return the requests of the only run of a specialist."""
    return cast.played[name][0].requests


async def test_a_child_lands_at_its_share_and_the_parent_continues(run_lead, files):
    """A child that never stops by itself answers at its limit, and the parent continues with its remaining calls."""
    files(finder=["tool_calls_limit: 2"])
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), looks("x", first_id=2), answers("all")]],
        finder=[[looks("a"), looks("b", first_id=2), says("as far as I know: mice")]],
    )
    outcome, _ = await run_lead(cast)
    assert (outcome.status, outcome.tool_calls.used, outcome.children[0].status) == ("answered", 4, "landed")
    assert requests_of(cast, "finder")[-1].choice == "respond"
