"""Runs of an MCP server over HTTP: clients that call tools, cancel, or disconnect."""

import asyncio
import signal
import socket

import httpx2
import pytest
from mcp import Client

from run_specialist.store.reader import Store
from tests.loop_jobs import LOOK
from tests.scripted_provider import calls, says
from tests.wire.http_requests import MODERN, asks, begins, serving
from tests.wire.looker_script import LOOKS
from tests.wire.serving import PATIENCE, BlockingTool, ProgressLog
from tests.wire.simulator import Gate, MessagesSimulator, replies

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("looker")]


HOLDS = calls(("hold", {}), first_id=2)


@pytest.fixture
def store(tmp_path) -> str:
    """Return the path of a store that does not exist yet."""
    return f"sqlite:///{tmp_path}/runs.db"


async def until_idle(served) -> None:
    """Wait until no run is active."""
    async with asyncio.timeout(PATIENCE):
        while served.runs._active:
            await asyncio.wait([one.task for one in served.runs._active])


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_the_official_client_calls_a_tool_over_http(mode, host):
    """The official client lists tools, calls one and receives progress, by each name of the local machine."""
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    progress_log = ProgressLog()
    async with (
        asyncio.timeout(PATIENCE),
        serving([LOOKS, says("Mice.")], tools=[LOOK], host=host) as served,
        Client(served.url, mode=mode) as client,
    ):
        assert "looker" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("looker", {"query": "?"}, progress_callback=progress_log)
    assert result.structured_content["answer"] == "Mice."
    assert "look: 'owls' · 1 of 4 tool calls used, 3 remaining" in progress_log.messages


async def test_a_started_run_survives_the_disconnect_of_its_client():
    """Another client gets the outcome of a started run by its id after the first client has disconnected."""
    held = BlockingTool()
    async with serving([calls(("hold", {})), says("Here.")], tools=[held.tool]) as served:
        async with Client(served.url, mode="legacy") as client:
            begun = await client.call_tool("start_run", {"specialist": "looker", "query": "?"})
            await asyncio.wait_for(held.entered.wait(), PATIENCE)
        held.released.set()
        async with Client(served.url, mode="auto") as client:
            given = {"run_id": begun.structured_content["run_id"], "wait_seconds": PATIENCE}
            done = await client.call_tool("get_run", given)
    assert done.structured_content["outcome"]["answer"] == "Here."


async def hangs_up(url: str, held: BlockingTool, session: str | None) -> None:
    """Call a tool, and close the connection while the run is active, without a cancellation message."""
    body = asks(name="tools/call")
    body["params"] |= {"name": "looker", "arguments": {"query": "?"}}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        **({"mcp-session-id": session} if session else {"mcp-protocol-version": MODERN, "mcp-method": "tools/call"}),
        **({} if session else {"mcp-name": "looker"}),
    }
    if session:
        del body["params"]["_meta"]
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        asked = asyncio.ensure_future(client.post(url, json=body, headers=headers))
        await asyncio.wait([asked, asyncio.ensure_future(held.entered.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert not asked.done(), asked.result().text
        asked.cancel()
        await asyncio.wait([asked])


@pytest.mark.parametrize("age", ["older", "newer"])
async def test_a_disconnect_aborts_the_run_of_the_call(age, store, caplog):
    """A client's disconnect aborts the run that it waited for."""
    held = BlockingTool()
    async with serving([LOOKS, HOLDS], tools=[LOOK, held.tool], store=store) as served:
        session = None
        if age == "older":
            async with httpx2.AsyncClient() as client:
                session = (await begins(client, served.url)).headers["mcp-session-id"]
                ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                sent = {"mcp-session-id": session, "accept": "application/json, text/event-stream"}
                assert (await client.post(served.url, headers=sent, json=ready)).status_code == 202
        await hangs_up(served.url, held, session)
        await until_idle(served)
        assert held.cancelled
    assert [record.getMessage() for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []
    with Store(store) as opened:
        assert opened.load("last").status == "aborted"


@pytest.mark.exhaustive
async def test_a_signal_ends_the_program_and_its_runs(store, program, monkeypatch):
    """A signal stops the server despite idle connections and an open stream."""
    gate = Gate()
    with MessagesSimulator([replies.says("too late", gate=gate)]) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        server = program("--http", "127.0.0.1:0", "--no-token", "--store", store)
        async with Client(await asyncio.to_thread(server.url), mode="legacy") as client:
            asked = asyncio.ensure_future(client.call_tool("looker", {"query": "?"}))
            await asyncio.to_thread(gate.wait_for_request, PATIENCE)
            server.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                result = await asked
            assert await asyncio.to_thread(server.process.wait, PATIENCE) == 0
    assert result.is_error
    assert result.structured_content["status"] == "aborted"
    assert server.process.stderr.read() == server.process.stdout.read() == ""
    with Store(store) as opened:
        assert opened.load("last").status == "aborted"
