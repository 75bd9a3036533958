"""An id names one question to one specialist with the same settings; each difference is named."""

import asyncio

import pytest

from run_specialist.errors import ProviderError, StoreUnusable, UsageError
from run_specialist.loop.run import EndedRun
from run_specialist.store.ledger import Ledger
from run_specialist.store.writer import Writer
from tests.loop.stored_replies import ANSWER, THREE, looks
from tests.scripted_specialists import write
from tests.stored_runs import LOOKER
from tests.taken_up import ID, Office, taken

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(tmp_path, monkeypatch):
    """Provide a store and its processes, which work in an empty project."""
    monkeypatch.chdir(tmp_path)
    return Office(tmp_path, f"sqlite:///{tmp_path}/runs.db")


DIFFERENCES = {
    "question": ({"question": "What else?"}, "question was What is known? and is What else?"),
    "limit": ({"tool_calls_limit": 3}, "tool_calls_limit was 30 and is 3"),
    "no limit": ({"turns_limit": 7}, "turns_limit was none and is 7"),
    "model": ({"model": "opus"}, "model was none and is opus"),
    "schema": ({"output_schema": {"type": "string"}}, "output_schema was none and is {'type': 'string'}"),
    "countdown": ({"countdown": "none"}, "countdown was "),
    "name": (
        {"specialist": LOOKER.model_copy(update={"name": "seeker"})},
        "specialist was looker and is seeker; name was looker and is seeker",
    ),
    "prompt": (
        {"specialist": LOOKER.model_copy(update={"prompt": "You guess."})},
        "prompt was You look things up. and is You guess.",
    ),
}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("case", DIFFERENCES)
async def test_another_run_is_refused_under_the_same_id(office, case):
    """Another question, specialist or setting is refused, whether the run has ended or broken off."""
    how, words = DIFFERENCES[case]
    await office.take(looks(1), ProviderError("gone"))
    for retry in ((), ("failed",)):
        with pytest.raises(UsageError) as refused:
            await office.take(retry=retry, **how)
        assert str(refused.value).startswith(f"{ID} is stored as another run: {words}")
        assert str(refused.value).endswith("; use another id")


async def test_every_difference_is_named(office):
    """Several differences are named in one line, and long values are cut."""
    await office.take(ANSWER, question="Q" * 1_000_000)
    with pytest.raises(
        UsageError, match=r"question was QQQ.*; tool_calls_limit was 30 and is 3; turns_limit"
    ) as refused:
        await office.take(tool_calls_limit=3, turns_limit=4)
    assert len(str(refused.value)) < 400


async def test_with_force_a_run_keeps_its_settings(office):
    """With force other settings are ignored: the run keeps those that it began with; another question is refused."""
    await office.take(looks(1), ProviderError("gone"), tool_calls_limit=5)
    again = await office.take(ANSWER, tool_calls_limit=9, force=True, retry="failed")
    assert (again.status, again.tool_calls.limit) == ("answered", 5)
    assert await office.take(turns_limit=9, force=True) == again
    with pytest.raises(UsageError, match="question was"):
        await office.take(question="Why?", force=True)


async def test_a_raised_limit_does_not_make_another_run(office):
    """A run whose limits were raised by resuming it is still recognized by those that it began with."""
    first = await office.take(*THREE, ANSWER, tool_calls_limit=3)
    for limit in (6, 9):
        async with office.process(looks(limit), *[looks(n) for n in range(limit + 1, limit + 3)], ANSWER) as runner:
            again = await (await runner.resume(ID, tool_calls_limit=limit)).outcome()
        assert again.tool_calls.limit == limit
        assert await office.take(tool_calls_limit=3) == again != first
    with pytest.raises(UsageError, match="tool_calls_limit was 3 and is 9"):
        await office.take(tool_calls_limit=9)


async def test_another_file_content_is_named_by_both_digests(office, tmp_path):
    """A changed file is refused with both digests; with force the run continues with its first instructions."""
    path = write(tmp_path, "finder", "tool_calls_limit: 5")
    how = {"specialist": "finder"}
    await office.take(looks(1), ProviderError("gone"), **how)
    write(tmp_path, "finder", "tool_calls_limit: 6")
    with pytest.raises(UsageError, match=rf"{path} has another content, its digest was \w{{12}} and is \w{{12}}; use"):
        await office.take(retry="failed", **how)
    again = await office.take(ANSWER, retry="failed", force=True, **how)
    assert (again.status, again.tool_calls.limit) == ("answered", 5)


async def test_without_a_store_an_id_is_only_a_name(office):
    """Without a store the id is in the outcome, and the run can be begun again."""
    async with office.process(ANSWER, ANSWER, store="none") as runner:
        outcomes = [await (await taken(runner)).outcome() for _ in range(2)]
    assert [outcome.run_id for outcome in outcomes] == [ID, ID]


@pytest.fixture
def breaks(monkeypatch):
    """Let the store refuse to begin runs."""

    def refuse(self, rows):
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Ledger, "_begin", refuse)


@pytest.mark.usefixtures("breaks")
async def test_a_store_lost_before_the_first_request_costs_a_warning(office, monkeypatch):
    """If the store is lost before the first request, the run continues with a warning; a needed store prevents it."""

    def fail(self, batch):
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Ledger, "_write", fail)
    outcome = await office.take(ANSWER)
    assert (outcome.status, outcome.run_id) == ("answered", ID)
    (warning,) = [text for text in outcome.warnings if "not stored" in text]
    assert warning.endswith("the disk is on fire')")
    async with office.process(on_lost="abort") as runner:
        with pytest.raises(StoreUnusable, match="the disk is on fire"):
            await taken(runner)


async def test_a_store_that_does_not_open_is_refused_if_it_was_named(office, tmp_path):
    """A named store that does not open is an error before any request; the default store is a warning."""
    (tmp_path / "file").write_text("no folder")
    async with office.process(store=f"sqlite:///{tmp_path}/file/runs.db") as runner:
        with pytest.raises(StoreUnusable, match=r"file/runs\.db"):
            await taken(runner)


async def test_a_store_that_cannot_be_queried_pays_nothing_twice(office, monkeypatch):
    """If an open store cannot say whether the run has ended, nothing is sent."""
    await office.take(ANSWER)

    def fail(self, run_id):
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Ledger, "_known", fail)
    with pytest.raises(StoreUnusable, match="the disk is on fire"):
        await office.take()


async def test_a_run_that_another_process_ends_meanwhile_is_returned(office, monkeypatch):
    """If another process begins and ends the run between the look and the commit, its outcome is returned."""
    first = []
    whole = Writer.begin

    def overtaken(self, opened):
        if not first:
            first.append(True)
            first.append(asyncio.run(office.take(ANSWER)))
        return whole(self, opened)

    monkeypatch.setattr(Writer, "begin", overtaken)
    async with office.process() as runner:
        run = await taken(runner)
    assert isinstance(run, EndedRun)
    assert run.ended == first[1]


async def test_a_run_that_another_process_resumes_first_is_not_resumed_twice(office, monkeypatch):
    """If another process resumes the run between the look and the claim, its outcome is returned, or AtWork raised."""
    await office.take(looks(1), ProviderError("gone"))
    whole, overtaken = Writer.claim, []

    def claim(self, run):
        if not overtaken:
            overtaken.append(True)
            overtaken.append(asyncio.run(office.take(ANSWER, retry="failed")))
        return whole(self, run)

    monkeypatch.setattr(Writer, "claim", claim)
    async with office.process() as runner:
        run = await taken(runner, retry="failed")
    assert isinstance(run, EndedRun)
    assert run.ended == overtaken[1]
