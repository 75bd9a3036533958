"""Forks in the store: committed whole, and found by the run that they are from."""

import pytest

from run_specialist.store.reader import Store
from run_specialist.store.selection import Selection
from tests.journals import load
from tests.loop.stored_replies import ANSWER, THREE
from tests.scripted_provider import ScriptedProvider
from tests.stored_runs import StoredRunHarness

pytestmark = pytest.mark.anyio


class Desk(StoredRunHarness):
    """Processes that use a given store."""

    url = ""


async def test_f_5_a_fork_is_committed_in_one_transaction(store_url, tmp_path):
    """Before its first request a fork has its turns, calls and messages; listings name the run that it is from."""
    desk = Desk(tmp_path)
    desk.url = store_url
    first = await desk.ask(*THREE, ANSWER)
    source = load(store_url, first.outcome.run_id)
    async with desk.process(ScriptedProvider([])) as runner:
        run = await runner.fork(source.run_id, at=2)
        prepared = load(store_url, run.run_id)
    assert prepared.turns == source.turns[:2]
    assert prepared.calls == source.calls[:2]
    assert [one.message.encoded for one in prepared.messages] == [one.message.encoded for one in source.messages[:5]]
    with Store(store_url) as store:
        assert store.forks(source) == [run.run_id]
        assert store.forks(prepared) == []
        listed = {one.run_id: (one.forked_from, one.forked_at) for one in store.trees(Selection(), 5)}
    assert listed == {run.run_id: (source.run_id, 2), source.run_id: (None, None)}
