"""A run with a given id is begun once, resumed if it broke off, and never paid for again once it has ended."""

import asyncio
import threading

import pytest

from run_specialist.errors import AtWork, NotResumable, ProviderError, UsageError
from run_specialist.loop.run import EndedRun, Run
from run_specialist.record.messages import Stop
from run_specialist.store import writer as writers
from run_specialist.store.writer import Writer
from tests.loop.nested_replies import asks
from tests.loop.stored_replies import ANSWER, looks
from tests.scripted_provider import says
from tests.scripted_specialists import ScriptedSpecialists, write
from tests.stored_runs import LOOKER
from tests.taken_up import ID, QUESTION, Office, taken
from tests.unit.store.records import ask

pytestmark = pytest.mark.anyio
RAW = "select run_id, status from runs"


@pytest.fixture
def office(tmp_path, store_url):
    """Provide a store and its processes, once on each kind of database."""
    return Office(tmp_path, store_url)


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


async def test_a_run_whose_process_died_is_resumed(office, monkeypatch):
    """A run whose process died is resumed, and no stored reply is requested again."""
    monkeypatch.setattr(writers, "GRACE", 0.01)
    await broken_off(office, looks(1), looks(2))
    assert ask(office.url, RAW) == [(ID, "running")]
    again = await office.take(ANSWER)
    assert (again.status, again.tool_calls.used, again.usage.output_tokens) == ("answered", 2, 15)
    assert await office.take() == again


async def test_of_eight_callers_at_once_one_works(office):
    """One of eight concurrent callers in two processes gets the run, and the others an error that names its process."""
    async with office.process(ANSWER) as runner, office.process(ANSWER) as other:
        calls = [taken(one) for one in (runner, other) * 4]
        found = await asyncio.gather(*calls, return_exceptions=True)
        (run,) = [one for one in found if isinstance(one, Run)]
        errors = [str(one) for one in found if isinstance(one, AtWork)]
        assert len(errors) == 7
        assert all(error.startswith(f"{ID} is being worked on: ") for error in errors)
        assert {error.split(": ")[1].split(";")[0].split()[0] for error in errors} == {"this", "process"}
        with pytest.raises(AtWork, match="is being worked on: "):
            await other.prepare(LOOKER, QUESTION, run_id=ID)
        assert await run.outcome() == (await taken(other)).ended


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
