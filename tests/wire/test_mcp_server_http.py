"""The server over HTTP: who is let in, who is told why not, and what becomes of runs whose client hangs up."""

import asyncio
import json
import signal
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.mcp_server.guard import LOOPBACK, Guard
from run_specialist.mcp_server.http import LONGEST_BODY, Address, Http
from run_specialist.mcp_server.server import make_server
from run_specialist.mcp_server.server_limits import ServerLimits
from run_specialist.mcp_server.service import Service
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from run_specialist.store.reader import Store
from tests.loop_jobs import LOOK
from tests.wire.serving import PATIENCE, Heard, Held, Program, write_specialist
from tests.wire.simulator import Gate, MessagesSimulator, replies

pytestmark = pytest.mark.anyio
LOOKS = calls(("look", {"query": "owls"}))
HOLDS = calls(("hold", {}), first_id=2)
ACCEPT = {"accept": "application/json, text/event-stream"}
TOKEN = "a secret"  # noqa: S105 - of a server that lives for a test
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": "p",
}


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    """A project with one specialist, entered."""
    root = tmp_path / "project"
    for folder in (".git", "specialists"):
        (root / folder).mkdir(parents=True)
    write_specialist(root, "looker", "tools: []", "tool_calls_limit: 4")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def store(tmp_path) -> str:
    """A store that is not there yet."""
    return f"sqlite:///{tmp_path}/runs.db"


@asynccontextmanager
async def serving(script=(), *, tools=(), store="none", host="127.0.0.1", token=None, bounds=None):
    """Serve with a scripted model on a port that is free."""
    async with Runner(provider=ScriptedProvider(script), tools=tools, store=store) as runner:
        service = Service(runner, print)
        http = Http(Address(host, 0), token, bounds=bounds)
        ready = asyncio.Event()
        serving = asyncio.create_task(http.serve(make_server(service), lambda _: ready.set()))
        try:
            await asyncio.wait_for(ready.wait(), PATIENCE)
            yield SimpleNamespace(url=http.url, runs=service.runs)
        finally:
            await service.close(PATIENCE)
            http.stop()
            await asyncio.wait_for(serving, PATIENCE)


def asks(name="tools/call", **params) -> dict:
    """Return a request of the newer protocol, which stands for itself."""
    return {"jsonrpc": "2.0", "id": 1, "method": name, "params": {**params, "_meta": META}}


async def post(url: str, body: object, **headers: str) -> httpx2.Response:
    """Send a request as the newer protocol wants it, and these headers."""
    given = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        **({"mcp-method": body["method"]} if isinstance(body, dict) else {}),
        **headers,
    }
    content = json.dumps(body) if isinstance(body, dict) else body
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        return await client.post(url, content=content, headers=given)


async def until_idle(served) -> None:
    """Wait until no run is at work."""
    async with asyncio.timeout(PATIENCE):
        while served.runs._active:
            await asyncio.wait([one.task for one in served.runs._active])


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_the_official_client_asks_over_http(mode, host):
    """List, call and progress, by each name of this machine."""
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    heard = Heard()
    async with (
        asyncio.timeout(PATIENCE),
        serving([LOOKS, says("Mice.")], tools=[LOOK], host=host) as served,
        Client(served.url, mode=mode) as client,
    ):
        assert "looker" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("looker", {"query": "?"}, progress_callback=heard)
    assert result.structured_content["answer"] == "Mice."
    assert "look: 'owls' · 1 of 4 tool calls used, 3 remaining" in heard.messages


async def test_a_started_run_outlives_the_client_that_began_it():
    """Another client, by the id, has its outcome."""
    held = Held()
    async with serving([calls(("hold", {})), says("Here.")], tools=[held.tool]) as served:
        async with Client(served.url, mode="legacy") as client:
            begun = await client.call_tool("start_run", {"specialist": "looker", "query": "?"})
            await asyncio.wait_for(held.entered.wait(), PATIENCE)
        held.released.set()
        async with Client(served.url, mode="auto") as client:
            given = {"run_id": begun.structured_content["run_id"], "wait_seconds": PATIENCE}
            done = await client.call_tool("get_run", given)
    assert done.structured_content["outcome"]["answer"] == "Here."


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_cancelled_call_aborts_its_run_over_http(mode, store):
    """By the notification of the older protocol, by the closed stream of the newer one."""
    held = Held()
    async with (
        serving([LOOKS, HOLDS], tools=[LOOK, held.tool], store=store) as served,
        Client(served.url, mode=mode) as client,
    ):
        asked = asyncio.ensure_future(client.call_tool("looker", {"query": "?"}))
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        asked.cancel()
        await asyncio.wait([asked])
        await until_idle(served)
    with Store(store) as opened:
        run = opened.load("last")
    assert run.status == "aborted"
    assert "note on 'owls'" in run.outcome["answer"]


async def begins(client: httpx2.AsyncClient, url: str) -> httpx2.Response:
    """Begin a session of the older protocol."""
    us = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": us}
    return await client.post(url, headers=ACCEPT, json=body)


async def lists(client: httpx2.AsyncClient, url: str, session: str) -> httpx2.Response:
    """Ask for the tools in a session of the older protocol."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return await client.post(url, headers={**ACCEPT, "mcp-session-id": session}, json=body)


async def hangs_up(url: str, held: Held, session: str | None) -> None:
    """Ask, and break the connection while the run is at work; no word of the protocol is said."""
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
async def test_a_client_that_hangs_up_aborts_the_run_that_it_waited_for(age, store, caplog):
    """Nobody could have the answer any more: nothing more is spent on it, what was gathered is stored, all is quiet."""
    held = Held()
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


GUARD = Guard(None, LOOPBACK)


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8000", None, None),
        ("localhost", None, None),
        ("LocalHost:1", None, None),
        ("[::1]:8000", None, None),
        ("[::1]", None, None),
        ("127.0.0.2:8000", None, None),
        ("evil.example:8000", None, 421),
        ("localhost.evil.example", None, 421),
        ("localhost:8000.evil.example", None, 421),
        ("localhost:evil", None, 421),
        ("evil.example@localhost", None, 421),
        ("localhost/evil", None, 421),
        ("0.0.0.0:8000", None, 421),
        ("", None, 421),
        ("[::1", None, 421),
        ("[::1].evil.example", None, 421),
        ("evil.example[::1]", None, 421),
        ("@localhost", None, 421),
        ("localhost:8000", "http://localhost:8000", None),
        ("localhost:8000", "http://127.0.0.1:6274", None),
        ("localhost:8000", "https://[::1]:1", None),
        ("localhost:8000", "http://evil.example", 403),
        ("localhost:8000", "http://localhost.evil.example", 403),
        ("localhost:8000", "http://localhost:1.evil.example", 403),
        ("localhost:8000", "null", 403),
        ("localhost:8000", "", 403),
        ("localhost:8000", "file://localhost", 403),
        ("localhost:8000", "http://localhost@evil.example", 403),
        ("localhost:8000", "http://[::1].evil.example", 403),
    ],
)
def test_host_and_origin_must_mean_this_machine(host, origin, status):
    """A page on the web that makes a browser come here, by its own name or from its own place, is refused."""
    refusal = GUARD.refusal([host], [] if origin is None else [origin], [])
    assert (refusal and refusal.status) == status


def test_each_header_counts_once():
    """Sent twice, or no Host at all: refused, whatever the values."""
    assert GUARD.refusal([], [], []).status == 421
    assert GUARD.refusal(["localhost", "localhost"], [], []).status == 421
    assert GUARD.refusal(["localhost"], ["http://localhost"] * 2, []).status == 403
    assert Guard("t", LOOPBACK).refusal(["localhost"], [], ["Bearer t", "Bearer t"]).status == 401


def test_a_server_for_others_goes_by_any_name_and_lets_in_only_its_own_pages():
    """Its token is what guards it; a page of another place is refused although the browser would send one along."""
    guard = Guard("secret", None)
    known = ["Bearer secret"]
    assert guard.refusal(["box.example:80"], [], known) is None
    assert guard.refusal(["box.example:80"], ["http://box.example:80"], known) is None
    assert guard.refusal(["box.example:80"], ["http://localhost:6274"], known) is None
    assert guard.refusal(["box.example:80"], ["http://evil.example"], known).status == 403
    assert guard.refusal(["box.example:80"], [], []).status == 401


@pytest.mark.parametrize(
    ("sent", "is_let_in"),
    [
        ("Bearer sécret", True),
        ("bearer  sécret ", True),
        ("Bearer secret", False),
        ("Bearer sécret2", False),
        ("Bearer ", False),
        ("sécret", False),
        ("Basic sécret", False),
    ],
)
def test_the_token_is_the_whole_token(sent, is_let_in):
    """Of the right kind, letter by letter."""
    refusal = Guard("sécret", LOOPBACK).refusal(["localhost"], [], [sent])
    assert (refusal is None) == is_let_in
    if refusal:
        assert refusal.headers == {"WWW-Authenticate": 'Bearer error="invalid_token"'}


async def test_refusals_over_the_wire():
    """Status, reason and the header that names the way in; with the token the official client is served."""
    async with serving(token=TOKEN) as served:
        foreign = await post(served.url, asks("tools/list"), host="evil.example")
        page = await post(served.url, asks("tools/list"), origin="http://evil.example", authorization=f"Bearer {TOKEN}")
        nobody = await post(served.url, asks("tools/list"))
        wrong = await post(served.url, asks("tools/list"), authorization="Bearer another")
        elsewhere = await post(served.url.replace("/mcp", "/other"), asks("tools/list"))
        known = httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE)
        async with known, Client(streamable_http_client(served.url, http_client=known)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
    assert [one.status_code for one in (foreign, page, nobody, wrong, elsewhere)] == [421, 403, 401, 401, 401]
    assert nobody.headers["www-authenticate"] == "Bearer"
    assert wrong.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert "Authorization: Bearer TOKEN" in nobody.text
    assert "looker" in names


async def test_a_body_is_bounded():
    """A longer one is refused before it is read as JSON."""
    async with serving() as served:
        refused = await post(served.url, b"x" * (LONGEST_BODY + 1))
        broken = await post(served.url, b"{", **{"mcp-method": "ping"})
        assert (await post(served.url, asks("tools/list"))).status_code == 200
    assert refused.status_code == 413
    assert broken.status_code == 400


async def test_a_session_that_nobody_uses_is_forgotten():
    """Its tasks end by themselves; who comes back is told to begin another one."""
    async with serving(bounds=ServerLimits(idle=0.05)) as served:
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            # The library keeps one task of the first reply of all.
            await begins(client, served.url)
            before = asyncio.all_tasks()
            session = (await begins(client, served.url)).headers["mcp-session-id"]
        _, at_work = await asyncio.wait(asyncio.all_tasks() - before, timeout=PATIENCE)
        assert not at_work
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            gone = await lists(client, served.url, session)
            another = (await begins(client, served.url)).headers["mcp-session-id"]
    assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
    assert another != session


async def test_a_session_too_many_ends_the_one_that_is_idle_longest():
    """Its client is told to begin another one; the tasks of the ended session are gone, and the others go on."""
    async with serving(bounds=ServerLimits(sessions=2)) as served, httpx2.AsyncClient(timeout=PATIENCE) as client:
        first, second = [(await begins(client, served.url)).headers["mcp-session-id"] for _ in range(2)]
        assert "looker" in (await lists(client, served.url, first)).text
        third = await begins(client, served.url)
        gone = await lists(client, served.url, second)
        assert (third.status_code, gone.status_code) == (200, 404)
        for session in (first, third.headers["mcp-session-id"]):
            assert "looker" in (await lists(client, served.url, session)).text
        before = asyncio.all_tasks()
        for _ in range(20):
            assert (await begins(client, served.url)).status_code == 200
        assert len(asyncio.all_tasks()) < len(before) + 10


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8000", "127.0.0.1", 8000),
        ("8000", "127.0.0.1", 8000),
        (":0", "127.0.0.1", 0),
        ("[::1]:65535", "::1", 65535),
        ("box.example:80", "box.example", 80),
    ],
)
def test_an_address_is_a_host_and_a_port_or_a_port_of_this_machine(text, host, port):
    """IPv6 stands in brackets, as in a URL."""
    assert Address.parse(text) == Address(host, port)


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", "::1:80", "1:2:3", "x:99999", "http://x:1", "x:-1", "a:1b"]
)
def test_what_is_no_address_is_named(text):
    """One line that says what is wanted."""
    with pytest.raises(UsageError, match="wanted HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - it is refused
def test_who_listens_to_others_needs_a_token(host):
    """Nothing is bound without one; with one it is, and any Host is let in by it."""
    if host == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with pytest.raises(UsageError, match="set a token with --token or SPECIALIST_MCP_TOKEN, or"):
        Http(Address(host, 0), None)
    http = Http(Address(host, 0), "secret")
    assert http._guard == Guard("secret", None)
    http._socket.close()


def test_a_name_that_leads_nowhere_is_one_line():
    """The name and the reason."""
    with pytest.raises(UsageError, match=r"--http: no-such-host\.invalid: "):
        Http(Address("no-such-host.invalid", 0), "t")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_ends_the_program_and_its_runs(number, code, store, api_with_gate):
    """Idle connections and an open stream do not hold it up; the call under way is answered with what was gathered."""
    gate = api_with_gate
    program = Program.start("--http", "127.0.0.1:0", "--no-token", "--store", store)
    try:
        url = await asyncio.to_thread(program.url)
        assert url.startswith("http://127.0.0.1:")
        async with Client(url, mode="legacy") as client:
            asked = asyncio.ensure_future(client.call_tool("looker", {"query": "?"}))
            await asyncio.to_thread(gate.wait_for_request, PATIENCE)
            program.process.send_signal(number)
            async with asyncio.timeout(PATIENCE):
                result = await asked
            assert await asyncio.to_thread(program.process.wait, PATIENCE) == code
        assert result.is_error
        assert result.structured_content["status"] == "aborted"
        assert program.process.stderr.read() == ""
        assert program.process.stdout.read() == ""
    finally:
        program.end()
    with Store(store) as opened:
        assert opened.load("last").status == "aborted"


@pytest.mark.exhaustive
async def test_a_client_that_breaks_off_in_its_request_is_no_news():
    """The library's traceback of it does not reach the terminal."""
    program = Program.start("--http", "127.0.0.1:0", "--no-token", "--store", "none", "--model", "offline")
    try:
        url = httpx2.URL(await asyncio.to_thread(program.url))
        head = f"POST {url.path} HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
        more = "Accept: application/json, text/event-stream\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{"
        with socket.create_connection((url.host, url.port)) as connection:
            connection.sendall((head + more).encode())
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(PATIENCE)
            while connection.recv(4096):
                pass
        program.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(program.process.wait, PATIENCE) == 0
        assert program.process.stderr.read() == ""
    finally:
        program.end()


@pytest.fixture
def api_with_gate(monkeypatch):
    """A simulated API that holds its first reply back, and the gate that does."""
    gate = Gate()
    api = MessagesSimulator([replies.says("too late", gate=gate)]).start()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
    yield gate
    api.stop()
