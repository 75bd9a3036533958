"""Every kind of fault and every moment at least once; `python -m bench.fault_matrix` tests every combination."""

import asyncio
import tempfile
from dataclasses import replace
from itertools import cycle

import pytest

from run_specialist.providers import transport
from tests.leak_check import Census, leaks_since_async, resident
from tests.loop_jobs import job, outcome_of
from tests.wire.liar import plays
from tests.wire.liar.case import Case, play, provider_of
from tests.wire.liar.kinds import KINDS, MIB, End
from tests.wire.liar.lying_proxy import Liar
from tests.wire.liar.moments import MOMENTS

SLOW = {End.STALLS, End.LASTS}
SMALLER = {"100 MB": plays.large(4 * MIB), "gzip bomb": plays.bomb(4 * MIB)}
"""Smaller versions of oversized replies, which would take too long in full size."""
WAYS = [("messages", True), ("chat", False), ("messages", False), ("chat", True)]
SHARED = Case(KINDS[0], MOMENTS[1], "messages", stream=False)


def chosen():
    """Yield one case for each kind of fault, cycling through moments and APIs to which it applies."""
    turns = cycle((moment, *way) for way in WAYS for moment in MOMENTS)
    for kind in KINDS:
        smaller = replace(kind, play=SMALLER.get(kind.name, kind.play))
        yield next(case for turn in turns if (case := Case(smaller, *turn)).makes_sense)


CHOSEN = list(chosen())


@pytest.fixture(autouse=True)
def _short_bodies(monkeypatch):
    """Limit a reply to one mebibyte, so that exceeding the limit is cheap."""
    monkeypatch.setattr(transport, "LONGEST_BODY", MIB)


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path, monkeypatch):
    """Use a temporary folder that no other process writes to."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def folder(tmp_path):
    """Return a folder for files and a store."""
    made = tmp_path / "work"
    made.mkdir()
    return made


async def check(cases, folder):
    """Play cases at the same time, because they mostly wait; check each of them, and that nothing leaked."""
    before = Census.take()
    for number in range(len(cases)):
        (folder / str(number)).mkdir()
    came = await asyncio.gather(*(play(case, folder / str(at), alone=False) for at, case in enumerate(cases)))
    assert [(str(one.case), one.wrong) for one in came if one.wrong] == []
    assert await leaks_since_async(before) == []


@pytest.mark.exhaustive(one_in=16)
@pytest.mark.parametrize("first", range(16))
async def test_x_12_any_server_fault_ends_in_an_answer_or_a_resumable_failure(first, folder):
    """The run ends in an answer or a resumable failure, with the expected number of requests and no leaks."""
    await check([case for case in CHOSEN if case.kind.end not in SLOW][first::16], folder)


@pytest.mark.exhaustive
async def test_x_12_a_silent_or_endless_server_is_abandoned(folder):
    """The client's timeout or the time limit ends each of these runs."""
    await check([case for case in CHOSEN if case.kind.end in SLOW], folder)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.tries == (3, 3)][1::5], ids=lambda kind: kind.name)
async def test_one_corrupted_reply_costs_one_more_request(kind, folder):
    """One corrupted reply is repaired by a retry, and the run shows no warning."""
    came = await play(replace(SHARED, kind=kind, heals_after=1), folder)
    assert (came.wrong, came.outcome.status, came.outcome.warnings, came.struck) == ([], "landed", (), 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["endless stream", "gzip bomb"])
async def test_a_reply_that_is_too_long_is_a_one_line_error(name, folder):
    """A reply that is too long is hung up on and reported in one line, without waiting for a time limit."""
    (case,) = (case for case in CHOSEN if case.kind.name == name)
    came = await play(replace(case, moment=MOMENTS[1]), folder)
    assert came.outcome.error == "the server's reply is longer than 1 MiB; try again"


ENDLESS = ["stall before the head", "stall in the head", "stall in the body", "drip of the body", "endless event"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ENDLESS)
async def test_s3_6_an_abort_during_a_stalled_reply_leaves_nothing_open(name, folder):
    """Stopping a run during a stalled reply closes the connection and keeps the work; the run can be resumed."""
    (case,) = (case for case in CHOSEN if case.kind.name == name)
    came = await play(replace(case, moment=MOMENTS[1], stream=True, aborts=True), folder)
    assert (came.wrong, came.resumed.status) == ([], "landed")


@pytest.mark.exhaustive
async def test_x_12_text_before_an_error_event_is_kept(folder):
    """After an `error` event in the middle of the answer, the text shown until then is the salvage."""
    (case,) = (case for case in CHOSEN if case.kind.name == "an error in mid-stream")
    for api in ("messages", "chat"):
        (folder / api).mkdir()
        came = await play(replace(case, moment=MOMENTS[2], api=api), folder / api)
        assert (came.wrong, came.outcome.status) == ([], "failed")
        assert "what" in came.outcome.answer.splitlines()[2]


@pytest.mark.parametrize("api", ["messages", "chat"])
async def test_a_secret_in_the_base_url_is_not_shown(api):
    """A secret in the base URL is not shown, though the HTTP library's error for an unreadable head holds the URL."""
    (case,) = (case for case in CHOSEN if case.kind.name == "two lengths")
    async with Liar("http://127.0.0.1:9", case.kind.play, lambda body: True) as liar:
        provider = provider_of(replace(case, api=api), f"{liar.url}/?key=hush-hush-hush")
        outcome = await outcome_of(job(provider, 2))
        await provider.aclose()
    assert "cannot be parsed (Duplicate Content-Length); does " in outcome.error
    assert "hush" not in outcome.error


def test_the_selection_covers_every_kind_and_moment():
    """The selection covers every kind and every moment, streamed and not, on both APIs."""
    assert [case.kind.name for case in CHOSEN] == [kind.name for kind in KINDS]
    met = {(case.moment.name, case.api, case.stream) for case in CHOSEN}
    assert met >= {(moment.name, api, stream) for moment in MOMENTS[:4] for api, stream in WAYS}
    assert {moment for moment, _, _ in met} == {moment.name for moment in MOMENTS}


async def test_leaked_tasks_descriptors_and_files_are_reported(folder, tmp_path):
    """A leaked task, file descriptor and temporary file are each reported by name."""
    before = Census.take()
    task = asyncio.create_task(asyncio.Event().wait())
    with (folder / "open").open("w"):
        (tmp_path / "tmp" / "left").touch()
        left = Census.take().new_since(before)
    task.cancel()
    assert [one.split(":")[0] for one in left] == ["tasks", "descriptors", "files"]
    assert resident() > MIB
