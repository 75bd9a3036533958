"""A server whose project is slow to walk: one client's call does not block another client's."""

import asyncio

import pytest

from tests.scripted_provider import calls
from tests.slow_folders import PATIENCE, HeldWalk
from tests.wire.serving import serving, write_specialist

ANSWER = calls(("respond", {"answer": "mice"}), first_id=999)


@pytest.fixture(autouse=True)
def project(project):
    """The project with two specialists, one of which reads only files that match a glob."""
    write_specialist(project, "walker", "paths: '*.txt'")
    write_specialist(project, "thinker", "tools: []")
    return project


@pytest.mark.exhaustive
async def test_a_call_is_answered_while_another_walks_the_project(monkeypatch):
    """A call is answered while another call is still walking the project for its paths."""
    async with serving([ANSWER]) as served:
        walk = HeldWalk(monkeypatch)
        first = asyncio.create_task(served.call("walker", query="What is there?"))
        await asyncio.to_thread(walk.entered.wait, PATIENCE)
        second = await served.call("thinker", query="What do owls eat?")
        assert "mice" in second.content[0].text
        assert not walk.released.is_set()
        assert not first.done()
        walk.released.set()
        refused = await first
    assert refused.is_error
    assert "paths: no file under" in refused.content[0].text
