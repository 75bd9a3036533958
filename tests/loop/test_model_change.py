"""A run with several scripted models: which failures change the model, and what is charged, stored and reported."""

import asyncio
import threading
from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.errors import ForcingRefused, NotResumable, ProviderError, Unavailable, UsageError
from run_specialist.loop.run import EndedRun, Run
from run_specialist.loop.transcript import portable_id
from run_specialist.providers.choose import ModelChain
from run_specialist.record.journal import Checkpointed, EventLogged, Opened
from run_specialist.record.messages import Stop, Usage
from run_specialist.record.outcome import Exit
from run_specialist.spawning.resuming import ResumeRequest, resume
from run_specialist.spawning.spawner import RunEnvironment, spawn
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.store import writer as writers
from run_specialist.store.stored import transcript_rows
from run_specialist.store.writer import Writer
from tests.journals import Notebook, load, stored
from tests.loop.replies import ANSWER, GONE, Model, asks, chained, looks
from tests.loop_jobs import LOOK, Clock, job, outcome_of
from tests.scripted_provider import calls, says
from tests.scripted_specialists import ScriptedSpecialists, write
from tests.stored_runs import ID, LOOKER, QUESTION, StoredRunHarness, taken
from tests.unit.store.records import ask

BUSY = Unavailable("busy", status=529, kind="overloaded")


async def retried(chain, **settings):
    """Run a chain while the clock stands still; return its outcome and the events of its waits."""
    events = []
    outcome = await Run(job(chain, **settings), events.append, clock=lambda: 0.0).outcome()
    return outcome, [event for event in events if event.event == "retrying"]


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
    chain, models = chained([down] * 40, [], [down, ANSWER])
    outcome, waits = await retried(chain, patience=60)
    assert outcome.status == "failed"
    assert sum(event.seconds for event in waits) == pytest.approx(60, abs=0.1)
    chain, models = chained([down] * 40, [], [down, ANSWER])
    models[2].capabilities = replace(models[2].capabilities, vendor="other")
    outcome, waits = await retried(chain)
    assert [one.model for one in outcome.models] == ["a", "c"]
    assert sum(event.seconds for event in waits[:-1]) == pytest.approx(10, abs=0.1)


async def test_m_2_the_last_model_has_the_whole_patience():
    """While another model is left, a request is retried for ten seconds; the last one as long as the run says."""
    chain, _ = chained([BUSY] * 40, [BUSY] * 40)
    outcome, waits = await retried(chain, patience=60)
    restarts = [place for place, event in enumerate(waits) if event.attempt == 1]
    assert len(restarts) == 2
    assert sum(event.seconds for event in waits[: restarts[1]]) == pytest.approx(10, abs=0.1)
    assert sum(event.seconds for event in waits[restarts[1] :]) == pytest.approx(60, abs=0.1)
    assert outcome.error_kind == "overloaded"
    assert outcome.error.startswith("no model of this run answers: a: busy")
    assert "; b: busy (retried " in outcome.error


async def test_m_2_half_of_the_time_left_remains_for_the_next_model():
    """With a time limit the first model does not use up the time of the others."""
    chain, _ = chained([BUSY] * 40, [ANSWER])
    outcome, waits = await retried(chain, limits={Kind.TIME: 16})
    assert outcome.status == "answered"
    assert sum(event.seconds for event in waits) == pytest.approx(5.5, abs=0.1)


async def test_m_2_a_requested_wait_that_is_too_long_is_not_waited_for():
    """A wait of eleven seconds changes the model immediately; only the last model waits."""
    busy = Unavailable("busy", status=529, wait=11, kind="overloaded")
    chain, _ = chained([busy], [busy, ANSWER])
    outcome, waits = await retried(chain)
    assert (outcome.status, [event.seconds for event in waits]) == ("answered", [11])


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


@pytest.mark.exhaustive
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


async def test_m_2_the_span_of_a_request_names_its_own_vendor(spans):
    """Requests of one run may go to several vendors."""
    chain, models = chained([GONE], [ANSWER])
    models[1].capabilities = replace(models[1].capabilities, vendor="other")
    await outcome_of(job(chain))
    chats = [span.attributes["gen_ai.provider.name"] for span in spans.named("chat")]
    assert chats == ["scripted", "other"]


# A run with a given id is begun once, resumed if it broke off, and never paid for again once it has ended.
RAW = "select run_id, status from runs"


@pytest.fixture
def office(tmp_path, store_url):
    """Provide a store and its processes, once on each kind of database."""
    return StoredRunHarness(tmp_path, store=store_url)


async def broken_off(office, *script, **how):
    """Take up the run in a process that dies before its last reply has arrived."""
    died = asyncio.Event()

    def die(request):
        died.set()
        raise asyncio.CancelledError

    async with office.process(*script, die) as runner:
        run = await taken(runner, **how)
        journal = run._run.observers.journal
        lost, journal.write = journal.write, lambda record: None if died.is_set() else lost(record)
        with pytest.raises(asyncio.CancelledError):
            await run.outcome()


async def test_an_unknown_id_begins_a_run_that_is_stored_before_its_first_request(office):
    """An unknown id begins a run, which is stored before its first request and has this id in its outcome."""
    stored = []

    def answer(request):
        stored.extend(ask(office.url, f"{RAW} where owner != ''"))
        return ANSWER

    outcome = await office.take(answer)
    assert stored == [(ID, "running")]
    assert (outcome.run_id, outcome.status) == (ID, "answered")
    assert ask(office.url, RAW) == [(ID, "answered")]


PARTIAL = says("It is kn", Stop.TRUNCATED)
ENDS = {
    "answered": ([looks(1), ANSWER], {}),
    "landed": ([looks(1), ANSWER], {"tool_calls_limit": 1}),
    "partial": ([looks(1), PARTIAL, PARTIAL], {}),
    "failed": ([ProviderError("no credit is left; buy some")], {}),
}


@pytest.mark.parametrize("status", ENDS)
async def test_an_ended_run_is_returned_as_it_ended(office, status):
    """An ended run is returned with an equal outcome, also its error and exit code, and nothing is sent."""
    script, settings = ENDS[status]
    first = await office.take(*script, **settings)
    assert first.status == status
    async with office.process() as runner:
        run = await taken(runner, **settings)
        assert isinstance(run, EndedRun)
        assert (run.run_id, run.is_kept, run.ended) == (ID, True, first)
        assert await run.outcome() == first
        assert repr(run.ended) == repr(first)


async def test_an_aborted_run_is_returned_and_resumed_on_request(office):
    """An aborted run is returned; with `retry` it is resumed, and no stored reply is requested again."""
    async with office.process(looks(1), lambda request: run.abort() or looks(2)) as runner:
        run = await taken(runner)
        first = await run.outcome()
    assert first.status == "aborted"
    assert await office.take() == first
    assert await office.take(retry=("failed", "partial")) == first
    again = await office.take(ANSWER, retry=("aborted",))
    assert (again.status, again.usage.output_tokens) == ("answered", first.usage.output_tokens + 5)
    assert await office.take(retry=("aborted", "failed", "partial")) == again


async def test_a_failed_run_is_resumed_by_the_name_of_its_status(office):
    """A failed run is resumed with `retry="failed"`, from where it failed."""
    await office.take(looks(1), ProviderError("the endpoint is gone"))
    again = await office.take(ANSWER, retry="failed")
    assert (again.status, again.error, again.tool_calls.used) == ("answered", None, 1)


@pytest.mark.exhaustive
async def test_a_run_whose_process_died_is_resumed(office, monkeypatch):
    """A run whose process died is resumed, and no stored reply is requested again."""
    monkeypatch.setattr(writers, "GRACE", 0.01)
    await broken_off(office, looks(1), looks(2))
    assert ask(office.url, RAW) == [(ID, "running")]
    again = await office.take(ANSWER)
    assert (again.status, again.tool_calls.used, again.usage.output_tokens) == ("answered", 2, 15)
    assert await office.take() == again


async def test_a_cancellation_while_the_run_is_stored_leaves_no_run_behind(office, monkeypatch):
    """A caller that is cancelled while its run is being stored gets the run, which then ends as aborted."""
    begun, goes_on, whole = threading.Event(), threading.Event(), Writer.begin

    def slowly(self, opened):
        begun.set()
        assert goes_on.wait(60)
        return whole(self, opened)

    monkeypatch.setattr(Writer, "begin", slowly)

    async def call(runner):
        return await (await taken(runner)).outcome()

    async with office.process() as runner:
        task = asyncio.create_task(call(runner))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ask(office.url, RAW) == [(ID, "aborted")]
        assert (await taken(runner)).ended.status == "aborted"


async def test_prepare_refuses_a_stored_id(office):
    """`prepare` begins only: a stored run is refused, and another id is free."""
    await office.take(ANSWER)
    async with office.process(ANSWER) as runner:
        with pytest.raises(UsageError, match=f"run_id: {ID} is stored already; use another id, or take it up") as error:
            await runner.prepare(LOOKER, QUESTION, run_id=ID)
        assert not isinstance(error.value, NotResumable)
        outcome = await (await runner.prepare(LOOKER, QUESTION, run_id="free")).outcome()
    assert (outcome.run_id, sorted(ask(office.url, RAW))[1]) == ("free", ("free", "answered"))


async def test_a_run_deleted_before_it_is_resumed_is_not_mistaken(office, monkeypatch):
    """If a run is deleted while it is taken up, a longer id is not resumed in its place."""
    await office.take(looks(1), ProviderError("gone"), run_id=f"{ID}-2")
    async with office.process() as runner:
        known = await runner.environments.store.look(f"{ID}-2")

        async def look(run_id):
            return known

        monkeypatch.setattr(runner.environments.store, "look", look)
        with pytest.raises(NotResumable, match=f"{ID} was deleted"):
            await taken(runner, retry="failed")


@pytest.mark.exhaustive
async def test_a_run_with_children_is_taken_up(tmp_path, office, monkeypatch):
    """The children of a run are part of its outcome when it is resumed, and when it is returned."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder]")
    write(tmp_path, "finder")
    cast = ScriptedSpecialists(lead=[[asks("finder"), ProviderError("gone")]], finder=[[looks(5), ANSWER]])
    async with office.process(provider=cast) as runner:
        first = await (await taken(runner, specialist="lead")).outcome()
    cast = ScriptedSpecialists(lead=[[ANSWER]])
    async with office.process(provider=cast) as runner:
        again = await (await taken(runner, specialist="lead", retry="failed")).outcome()
        assert (await taken(runner, specialist="lead")).ended == again
    assert len(again.children) == 1
    assert again.children == first.children
    assert again.usage.output_tokens == first.usage.output_tokens + 5
