"""Stored runs that changed their model: begun with an id, resumed, and forked."""

from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import ChoiceRefused
from run_specialist.loop.transcript import portable_id
from run_specialist.tools.archive import Archive, get_tool_response_tool
from tests.journals import load
from tests.loop.scripted_chains import GONE, Model, chained
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import LOOK, job, outcome_of
from tests.scripted_provider import calls
from tests.stored_runs import LOOKER

pytestmark = pytest.mark.anyio


def thought(reply):
    """Return a reply with a thought before it."""
    return replace(reply, content=({"type": "thinking", "thinking": "hm"}, *reply.content))


@pytest.fixture
def runner(tmp_path):
    """Return a function that opens a runner with a provider; all of them have one store."""

    def make(provider):
        return Runner(root=tmp_path, provider=provider, tools=[LOOK], store=f"sqlite:///{tmp_path}/runs.db")

    return make


async def test_m_6_a_run_with_an_id_of_its_own_is_stored_with_its_new_model(runner, tmp_path):
    """The row of a run that was stored before its first request gets the model that it has changed to."""
    chain, _ = chained([looks(1), GONE], [ANSWER])
    async with runner(chain) as open_runner:
        run = await open_runner.take_up("my-run", LOOKER, "What?")
        assert (await run.outcome()).model == "b"
    assert load(f"sqlite:///{tmp_path}/runs.db", "my-run").model == "b"


async def test_m_7_a_fork_of_a_fork_knows_who_wrote_the_copied_turns(runner, tmp_path):
    """A fork that changed its model is forked within the turns of the first model, whose thoughts are left out."""
    url = f"sqlite:///{tmp_path}/runs.db"
    async with runner(Model("a", [thought(looks(1)), thought(looks(2)), ANSWER])) as one:
        source = await one.run(LOOKER, "What?")
    chain, models = chained([GONE], [looks(3), ANSWER])
    async with runner(chain) as two:
        middle = await (await two.fork(source.run_id, at=2)).outcome()
    assert "hm" not in str(models[1].requests[0].messages)
    assert [load(url, middle.run_id).model_of(turn) for turn in (1, 2, 3, 4)] == ["a", "a", "b", "b"]
    assert [(one.model, one.since_turn, one.turns) for one in middle.models] == [("a", 3, 0), ("b", 3, 2)]
    last = Model("b", [ANSWER])
    async with runner(last) as three:
        outcome = await (await three.fork(middle.run_id, at=1)).outcome()
    assert "hm" not in str(last.requests[0].messages)
    assert any("the thoughts of a were left out" in text for text in outcome.warnings)


async def test_m_4_a_fork_to_a_third_model_reads_the_outputs_by_its_own_ids(runner):
    """A call has one new id in the fork, whether the transcript has its first id or that for the second model."""
    archived = LOOKER.model_copy(update={"summarize_at": 100_000})
    chain, _ = chained([looks(1), GONE], [looks(2), ANSWER])
    async with runner(chain) as one:
        source = await one.run(archived, "What?")
    ids = [portable_id("call_1"), portable_id("call_2")]
    reads = [calls(("get_tool_response", {"execution_id": one}), first_id=at) for at, one in enumerate(ids, 8)]
    last = Model("c", [*reads, ANSWER])
    async with runner(last) as two:
        await (await two.fork(source.run_id, at=2)).outcome()
    sent = last.requests[0].messages
    assert [block["id"] for one in sent for block in one.blocks if block["type"] == "tool_use"] == ids
    assert [f"note on '{number}'" in str(last.requests[number].messages[-1]) for number in (1, 2)] == [True, True]


async def test_m_4_the_second_model_reads_an_output_of_the_first_one():
    """Within the run an output can be read by the id that the second model knows."""

    def reads(request):
        moved = request.messages[1].blocks[0]["id"]
        return calls(("get_tool_response", {"execution_id": moved}), first_id=9)

    archive = Archive()
    chain, models = chained([looks(1), GONE], [reads, ANSWER])
    tools = (LOOK, get_tool_response_tool(archive, 1_000))
    await outcome_of(replace(job(chain, tools=tools), archive=archive))
    assert "note on '1'" in str(models[1].requests[1].messages[-1])


async def test_m_3_what_one_endpoint_refuses_another_one_may_take():
    """A rung that the endpoint of the first model has refused is tried at that of the second one."""
    refusal = ChoiceRefused("tool_choice is not supported")
    chain, models = chained([looks(1), refusal, GONE], [ANSWER])
    outcome = await outcome_of(job(chain, 1))
    assert [request.choice for request in models[0].requests] == ["auto", "respond", "auto"]
    assert [request.choice for request in models[1].requests] == ["respond"]
    assert outcome.landing.how == "force"


async def test_m_2_the_span_of_a_request_names_its_own_vendor(spans):
    """Requests of one run may go to several vendors."""
    chain, models = chained([GONE], [ANSWER])
    models[1].capabilities = replace(models[1].capabilities, vendor="other")
    await outcome_of(job(chain))
    chats = [span.attributes["gen_ai.provider.name"] for span in spans.named("chat")]
    assert chats == ["scripted", "other"]
