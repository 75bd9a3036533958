"""A run with several scripted models: which failures change the model, and what is charged, stored and reported."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.budget import Kind
from run_specialist.errors import ForcingRefused, ProviderError, Unavailable, UsageError
from run_specialist.loop.run import Run
from run_specialist.providers.choose import ModelChain
from run_specialist.record.journal import Checkpointed, EventLogged, Opened
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Exit
from run_specialist.spawning.resuming import ResumeRequest, resume
from run_specialist.spawning.spawner import RunEnvironment, spawn
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.store.stored import transcript_rows
from tests.journals import Notebook, stored
from tests.loop.scripted_chains import GONE, Model, chained
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import LOOK, Clock, job, outcome_of
from tests.scripted_provider import calls, says
from tests.stored_runs import LOOKER

pytestmark = pytest.mark.anyio


async def test_m_2_each_reply_is_charged_at_the_price_of_its_model():
    """The cost of the run is the sum over its models, and its limits continue."""
    chain, models = chained([looks(1), looks(2), GONE], [looks(3), GONE], [ANSWER])
    outcome = await outcome_of(job(chain))
    assert [one.cost_usd for one in outcome.models] == [0.0003, 0.0003, 0.0006]
    assert [(one.model, one.since_turn, one.turns) for one in outcome.models] == [("a", 1, 2), ("b", 3, 1), ("c", 4, 1)]
    assert (outcome.cost_usd, outcome.usage) == (0.0012, Usage(40, 0, 0, 20))
    assert (outcome.limits[Kind.TURNS].used, outcome.tool_calls.used, outcome.model) == (4, 3, "c")
    assert [len(one.requests) for one in models] == [3, 2, 1]
    assert outcome.models[0].failure == str(GONE)
    assert outcome.models[2].failure is None


@pytest.mark.parametrize(
    ("kind", "leads_on"),
    [
        *[(kind, (True, True)) for kind in ("model_missing", "overloaded", "quota", "rate_limited")],
        ("connection", (False, False)),
        ("server_error", (True, True)),
        ("credentials", (False, True)),
        ("invalid_request", (False, True)),
        ("context_exceeded", (False, False)),
    ],
)
def test_m_5_which_failures_lead_on(kind, leads_on):
    """Failures that another model may avoid change the model; mistakes do so only after a first change."""
    chain, _ = chained([], [], [])
    error = ProviderError("no", kind=kind)
    first = bool(chain.left_after(error))
    asyncio.run(chain.advance())
    assert (first, bool(chain.left_after(error))) == leads_on
    asyncio.run(chain.advance())
    assert not chain.left_after(error)


async def test_m_2_a_server_that_cannot_be_reached_is_not_asked_for_its_other_models():
    """Without a connection the whole patience applies; then the first model of another server continues."""
    down = Unavailable("cannot reach http://a")
    waits = []
    chain, models = chained([down] * 40, [], [down, ANSWER])
    run = Run(job(chain, patience=60), lambda event: waits.append(event) if event.event == "retrying" else None)
    assert (await run.outcome()).status == "failed"
    assert sum(event.seconds for event in waits) == pytest.approx(60, abs=0.1)
    chain, models = chained([down] * 40, [], [down, ANSWER])
    models[2].capabilities = replace(models[2].capabilities, vendor="other")
    waits.clear()
    outcome = await Run(job(chain), lambda event: waits.append(event) if event.event == "retrying" else None).outcome()
    assert [one.model for one in outcome.models] == ["a", "c"]
    assert sum(event.seconds for event in waits[:-1]) == pytest.approx(10, abs=0.1)


async def test_m_2_the_last_model_has_the_whole_patience():
    """While another model is left, a request is retried for ten seconds; the last one as long as the run says."""
    busy = Unavailable("busy", status=529, kind="overloaded")
    waits = []
    chain, _ = chained([busy] * 40, [busy] * 40)
    run = Run(job(chain, patience=60), lambda event: waits.append(event) if event.event == "retrying" else None)
    outcome = await run.outcome()
    restarts = [place for place, event in enumerate(waits) if event.attempt == 1]
    assert len(restarts) == 2
    assert sum(event.seconds for event in waits[: restarts[1]]) == pytest.approx(10, abs=0.1)
    assert sum(event.seconds for event in waits[restarts[1] :]) == pytest.approx(60, abs=0.1)
    assert outcome.error_kind == "overloaded"
    assert outcome.error.startswith("no model of this run answers: a: busy")
    assert "; b: busy (retried " in outcome.error


async def test_m_2_half_of_the_time_left_remains_for_the_next_model():
    """With a time limit the first model does not use up the time of the others."""
    busy = Unavailable("busy", status=529, kind="overloaded")
    waits = []
    chain, _ = chained([busy] * 40, [ANSWER])
    run = Run(
        job(chain, limits={Kind.TIME: 16}),
        lambda event: waits.append(event.seconds) if event.event == "retrying" else None,
        clock=lambda: 0.0,
    )
    assert (await run.outcome()).status == "answered"
    assert sum(waits) == pytest.approx(5.5, abs=0.1)


async def test_m_2_a_requested_wait_that_is_too_long_is_not_waited_for():
    """A wait of eleven seconds changes the model immediately; only the last model waits."""
    busy = Unavailable("busy", status=529, wait=11, kind="overloaded")
    waits = []
    chain, _ = chained([busy], [busy, ANSWER])
    run = Run(job(chain), lambda event: waits.append(event.seconds) if event.event == "retrying" else None)
    assert (await run.outcome()).status == "answered"
    assert waits == [11]


async def test_m_3_the_landing_goes_on_where_it_was():
    """Rungs that the first model ignored are not tried again, and only answered requests count as landing."""
    chain, models = chained([looks(1), looks(2), GONE], [ANSWER], schema=True)
    models[0].capabilities = replace(models[0].capabilities, forced_choice=False)
    outcome = await outcome_of(job(chain, 1))
    assert [request.choice for request in models[0].requests] == ["auto", "auto", "schema"]
    assert [request.choice for request in models[1].requests] == ["respond"]
    assert (outcome.status, outcome.landing.how, outcome.landing.requests) == ("landed", "force", 2)


async def test_m_3_what_the_first_model_refused_is_asked_of_the_next_one():
    """The first model refuses a forced choice; the next one, whose endpoint takes it, is forced again."""
    chain, models = chained([looks(1), ForcingRefused("not supported"), GONE], [ANSWER])
    outcome = await outcome_of(job(chain, 1))
    assert [request.choice for request in models[0].requests] == ["auto", "respond", "auto"]
    assert [request.choice for request in models[1].requests] == ["respond"]
    assert (outcome.status, outcome.landing.how, outcome.landing.requests) == ("landed", "force", 1)


async def test_m_3_a_model_that_the_cost_limit_cannot_pay_for_lands_at_once():
    """The reserve is that of the new model: the remainder does not cover another call."""
    chain, models = chained([looks(1), looks(2), GONE], [ANSWER])
    models[1]._price = 1_000.0
    outcome = await outcome_of(job(chain, limits={Kind.COST: 0.5}))
    assert [request.choice for request in models[1].requests] == ["respond"]
    assert outcome.status == "landed"


async def test_m_9_a_model_that_cannot_be_asked_is_left_out():
    """If the server of the second model does not run, a warning says so, and the third model continues."""

    async def make(model):
        if model == "b":
            raise UsageError("Ollama does not answer; start it")
        return last

    described, last = Model("c", []), Model("c", [ANSWER])
    chain = ModelChain(Model("a", [looks(1), GONE]), [Model("b", []), described], make)
    outcome = await outcome_of(job(chain))
    assert outcome.status == "answered"
    assert "b cannot be asked (Ollama does not answer; start it)" in outcome.warnings
    assert [one.model for one in outcome.models] == ["a", "c"]


async def test_m_5_if_the_others_cannot_be_asked_the_error_names_them_too():
    """The first failure decides kind and exit code, since no other model was asked."""

    async def make(model):
        raise UsageError(f"{model} does not answer")

    chain = ModelChain(Model("a", [looks(1), GONE]), [Model("b", []), Model("c", [])], make)
    outcome = await outcome_of(job(chain))
    assert outcome.error == f"no model of this run answers: a: {GONE}; b: b does not answer; c: c does not answer"
    assert (outcome.error_kind, outcome.exit_code, len(outcome.models)) == ("model_missing", Exit.PROVIDER, 1)
    assert "note on '1'" in outcome.answer


async def test_m_9_a_server_that_is_not_ready_in_time_is_left_out():
    """Loading weights takes no longer than the time limit of the run."""
    clock = Clock()

    async def make(_model):
        clock.now += 100
        await asyncio.sleep(30)

    chain = ModelChain(Model("a", [looks(1), GONE]), [Model("b", [])], make)
    run = Run(job(chain, limits={Kind.TIME: 0.2}), clock=clock)
    outcome = await run.outcome()
    assert "b: it was not ready within the time limit" in outcome.error


async def test_m_6_the_adapted_transcript_is_stored_before_the_model_is():
    """After a crash between the two, the first model continues with a transcript that it can read."""
    chain, _ = chained([looks(1), GONE], [looks(2), ANSWER])
    notebook = Notebook()
    await Run(job(chain), journal=notebook).outcome()
    opened = [place for place, one in enumerate(notebook.records) if isinstance(one, Opened)]
    assert [notebook.records[place].model for place in opened] == ["a", "b"]
    before = notebook.records[opened[1] - 1]
    assert isinstance(before, Checkpointed)
    assert before.part == 1
    assert "moved_" in str(before.messages)
    after = notebook.records[opened[1] + 1]
    assert isinstance(after, EventLogged)
    assert after.event.event == "model_changed"


async def test_m_4_an_output_can_be_read_by_its_new_id_after_a_resumption(tmp_path):
    """The stored outputs of the first model can be read by the ids in the transcript of the second one."""
    chain, models = chained([looks(1), GONE], [looks(2), ProviderError("no", kind="context_exceeded")])
    notebook = Notebook()
    archived = LOOKER.model_copy(update={"summarize_at": 100_000})
    environment = RunEnvironment(tmp_path, chain, [LOOK])
    file = SpecialistFile(tmp_path / "looker.md", "looker", "", specialist=archived)
    await Run(spawn(file, archived, "What?", environment), journal=notebook).outcome()
    moved = models[1].requests[0].messages[1].blocks[0]["id"]
    assert moved.startswith("moved_")
    read = calls(("get_tool_response", {"execution_id": moved}), first_id=9)
    again = Model("b", [read, ANSWER])
    past = stored(notebook.records)
    assert past.model == "b"
    outcome = await outcome_of(resume(past, ResumeRequest(), RunEnvironment(tmp_path, again, [LOOK])))
    assert outcome.status == "answered"
    assert "note on '1'" in str(again.requests[1].messages[-1])
    assert [one.model for one in outcome.models] == ["a", "b"]


async def test_m_2_the_transcript_of_a_changed_run_has_each_message_once():
    """Adapted messages are not shown twice, and the note to the new model is shown."""
    thought = replace(looks(1), content=({"type": "thinking", "thinking": "hm"}, *looks(1).content))
    chain, _ = chained([thought, GONE], [looks(2), ANSWER])
    notebook = Notebook()
    await Run(job(chain), journal=notebook).outcome()
    rows = transcript_rows(stored(notebook.records))
    assert [row["kind"] for row in rows] == [
        *("user", "tool_call", "tool_result", "tool_call", "tool_result", "tool_call", "tool_result")
    ]
    assert [row["name"] for row in rows if row["kind"] == "tool_result"] == ["look", "look", "respond"]
    assert rows[2]["content"].endswith("did the work above; its thinking was left out.")


async def test_m_8_a_child_changes_its_model_without_its_parent(run_lead, files):
    """A child begins with the current model of its parent, and its changes do not affect the parent."""
    files()
    asks = calls(("delegate", {"specialist": "finder", "query": "What?"}), first_id=7)
    chain, models = chained([asks, GONE, says("mice")], [says("owls eat mice")])
    chain.assert_used_up = models[0].assert_used_up
    outcome, events = await run_lead(chain)
    assert (outcome.answer, outcome.model) == ("mice", "a")
    assert [event.told.event for event in events if event.event == "child"].count("model_changed") == 1
    assert "owls eat mice" in str(models[0].requests[-1].messages[-1])
