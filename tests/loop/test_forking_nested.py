"""Forks of runs that asked other specialists, and of those specialists' own runs."""

import pytest

from run_specialist.api.runner import Runner
from run_specialist.store.reader import Store
from tests.loop_jobs import LOOK
from tests.scripted_provider import calls
from tests.scripted_specialists import ScriptedSpecialists, write

pytestmark = pytest.mark.anyio
ASKS = calls(("delegate", {"specialist": "finder", "query": "What of owls?"}))
LOOKS = calls(("look", {"query": "owls"}))
FOUND = {"answer": "mice", "evidence": [{"source": "n.md:1", "quote": "note on 'owls', part 0"}]}


def answers(**arguments):
    """Make a reply that ends a run."""
    return calls(("respond", arguments), first_id=90)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Return the URL of a store, and write a parent and its child."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 3")
    write(tmp_path, "finder", "tool_calls_limit: 2")
    return f"sqlite:///{tmp_path}/runs.db"


async def test_f_3_the_calls_of_children_belong_to_the_source(store):
    """The spending of copied children does not count; quotes that they have read are still verified, on resume too."""
    cast = ScriptedSpecialists(lead=[[ASKS, answers(answer="some")]], finder=[[LOOKS, answers(**FOUND)]])
    async with Runner(provider=cast, tools=[LOOK], store=store) as runner:
        first = await runner.run("lead", "What is known?")
    more = ScriptedSpecialists(lead=[[answers(**FOUND)], [answers(**FOUND)]], finder=[])
    async with Runner(provider=more, tools=[LOOK], store=store) as runner:
        outcome = await (await runner.fork(first.run_id, at=1)).outcome()
        again = await (await runner.resume(outcome.run_id, "Sure?")).outcome()
    assert (first.tool_calls.used, outcome.tool_calls.used, outcome.children) == (2, 1, ())
    assert [one.verified for one in (*outcome.evidence, *again.evidence)] == [True, True]


async def test_f_4_a_fork_of_a_child_has_no_parent(store):
    """A child run is forked as a separate run, which its parent does not count."""
    cast = ScriptedSpecialists(lead=[[ASKS, answers(answer="some")]], finder=[[LOOKS, answers(**FOUND)]])
    async with Runner(provider=cast, tools=[LOOK], store=store) as runner:
        first = await runner.run("lead", "What is known?")
    child = first.children[0].run_id
    async with Runner(provider=ScriptedSpecialists(finder=[[answers(**FOUND)]]), tools=[LOOK], store=store) as runner:
        outcome = await (await runner.fork(child, at=1)).outcome()
    with Store(store) as kept:
        assert [one.run_id for one in kept.load(first.run_id).children] == [child]
        fork = kept.load(outcome.run_id)
        (listed,) = [one for one in kept.runs() if one.run_id == outcome.run_id]
    assert (fork.parent_id, fork.forked_from, listed.forked_from, listed.forked_at) == (None, child, child, 1)
