"""Each regular peer of the benchmark runs against the benchmark's server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.lap import measure
from bench.server.http import Connection
from bench.server.script import ANSWER, Script, next_turn, script_in
from bench.server.service import Service

PEERS = ["bare", "tool_runner", "ours", "ours_stored"]


@asynccontextmanager
async def served() -> AsyncIterator[tuple[str, Service]]:
    """Run the benchmark's server on the loopback interface."""
    service = Service()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", service
    finally:
        server.close()


@pytest.fixture
def _own_folder(tmp_path, monkeypatch):
    """Use an empty working directory, and restore the environment variables that a peer sets."""
    monkeypatch.chdir(tmp_path)
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "")


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.anyio
@pytest.mark.usefixtures("_own_folder")
@pytest.mark.parametrize("peer", PEERS)
async def test_each_peer_sends_one_request_per_call(peer: str):
    """Each peer sends one request per call and one for the answer, and none is refused."""
    async with served() as (url, service):
        measured = await measure(peer, "calls", {"url": url, "run": "it", "calls": [2, 4]})
        told = service.statistics("it-")
    assert measured["answered"]
    assert [run["calls"] for run in measured["runs"]] == [2, 4]
    assert {name: tally["requests"] for name, tally in told.items()} == {"it-warm": 4, "it-2": 3, "it-4": 5}
    assert not any(tally["refusals"] for tally in told.values())


@pytest.mark.anyio
@pytest.mark.usefixtures("_own_folder")
async def test_children_and_a_landing_are_measured():
    """All children answer; with a limit of 3, a model that wants 9 calls makes 3."""
    async with served() as (url, _):
        given = {"url": url, "run": "many", "children": 4, "calls": 2, "delay": 1}
        many = await measure("ours", "children", given)
        how = {"limit": 3, "landing": "order", "wants": 9, "models": [{"abreast": 2}, {"obeys": 1}]}
        landed = await measure("ours", "landing", {"url": url, "run": "end", **how})
    assert many["answered"]
    assert many["memory"] > 1
    assert landed["runs"] == [{"answers": 1, "calls": 3}] * 2


@pytest.mark.anyio
@pytest.mark.usefixtures("_own_folder")
async def test_a_lap_without_an_answer_does_not_count():
    """A peer stopped by its limit did not run the measured work, so its lap does not count."""
    async with served() as (url, _):
        measured = await measure("bare", "calls", {"url": url, "run": "it", "calls": [5], "limit": 4})
    assert not measured["answered"]


def test_the_script_tag_is_found_in_a_request():
    """The script's tag is found in the bytes of a request, whatever surrounds it."""
    script = Script("a-run", wants=7, abreast=3, delay=2.5, obeys=1, tool="search", asks="one,two")
    assert script_in(f'{{"content": "{script.tag()} What?"}}'.encode()) == script
    assert script_in(b"{}") is None
    assert [script.query(number) for number in range(4)] == ["one", "two", "one 2", "two 3"]


@pytest.mark.parametrize(("told", "calls"), [("10 tool calls remaining", 2), ("0 tool calls remaining", 0)])
def test_an_obedient_model_reacts_only_to_the_end_of_its_calls(told: str, calls: int):
    """A scripted model that obeys reacts to notices that no calls are left, and to no other notice."""
    script = Script("it", wants=9, abreast=2, obeys=1)
    turn = next_turn(script, 3, {"tools": [{"name": "search_notes", "input_schema": {}}]}, told)
    assert turn == ANSWER if not calls else len(turn) == calls
