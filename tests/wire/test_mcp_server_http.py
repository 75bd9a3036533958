"""An MCP server over HTTP: clients that call tools or disconnect; hosts, origins, tokens, addresses."""

import asyncio
import signal
import socket

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.datastructures import Headers

from run_specialist.errors import UsageError
from run_specialist.mcp_server.http import LOOPBACK, Address, Guard
from run_specialist.store.reader import Store
from tests.loop_jobs import LOOK
from tests.scripted_provider import calls, says
from tests.wire import stdio_client
from tests.wire.http_requests import ACCEPT, asks, begins, post, serving
from tests.wire.looker_script import LOOKS
from tests.wire.serving import PATIENCE, BlockingTool, ProgressLog
from tests.wire.simulator import Gate, MessagesSimulator, replies
from tests.wire.stdio_client import READY

pytestmark = pytest.mark.usefixtures("looker")

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


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
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


@pytest.mark.exhaustive
@pytest.mark.parametrize("age", ["older", "newer"])
async def test_a_disconnect_aborts_the_run_of_the_call(age, store, caplog):
    """A client's disconnect aborts the run that it waited for, without a cancellation message."""
    held = BlockingTool()
    async with (
        serving([LOOKS, HOLDS], tools=[LOOK, held.tool], store=store) as served,
        httpx2.AsyncClient(timeout=PATIENCE) as client,
    ):
        if age == "older":
            headers = {**ACCEPT, "mcp-session-id": (await begins(client, served.url)).headers["mcp-session-id"]}
            assert (await client.post(served.url, headers=headers, json=READY)).status_code == 202
            call = client.post(served.url, headers=headers, json=stdio_client.asks(2, "looker", query="?"))
        else:
            call = post(served.url, asks(name="looker", arguments={"query": "?"}))
        asked = asyncio.ensure_future(call)
        await asyncio.wait([asked, asyncio.ensure_future(held.entered.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert not asked.done(), asked.result().text
        asked.cancel()
        await asyncio.wait([asked])
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


TOKEN = "a secret"  # noqa: S105 - token of a server that runs for one test only
GUARD = Guard(None, LOOPBACK)


def refused(guard, host, origin=(), authorization=()):
    """Return the status of the refusal of a request with all these values of its headers; None if it is accepted."""
    given = (("host", host), ("origin", origin), ("authorization", authorization))
    raw = [(name.encode(), value.encode("latin-1")) for name, values in given for value in values]
    refusal = guard.refusal(Headers(raw=raw))
    return refusal and refusal.status_code


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8000", None, None),
        ("localhost", None, None),
        ("[::1]:8000", None, None),
        ("evil.example:8000", None, 421),
        ("localhost.evil.example", None, 421),
        ("localhost:evil", None, 421),
        ("evil.example@localhost", None, 421),
        ("0.0.0.0:8000", None, 421),
        ("[::1].evil.example", None, 421),
        ("localhost:8000", "http://localhost:8000", None),
        ("localhost:8000", "http://127.0.0.1:6274", None),
        ("localhost:8000", "http://evil.example", 403),
        ("localhost:8000", "http://localhost:1.evil.example", 403),
        ("localhost:8000", "null", 403),
        ("localhost:8000", "http://localhost@evil.example", 403),
    ],
)
def test_host_and_origin_must_name_this_machine(host, origin, status):
    """A request whose Host or Origin is not this machine is refused, as a web page in a browser would send it."""
    assert refused(GUARD, [host], [] if origin is None else [origin]) == status


def test_a_repeated_header_is_refused():
    """A repeated Host, Origin or Authorization header, or a missing Host, is refused whatever its value."""
    assert refused(GUARD, []) == 421
    assert refused(GUARD, ["localhost", "localhost"]) == 421
    assert refused(GUARD, ["localhost"], ["http://localhost"] * 2) == 403
    assert refused(Guard("t", LOOPBACK), ["localhost"], [], ["Bearer t", "Bearer t"]) == 401


def test_a_public_server_accepts_any_host_but_no_foreign_origin():
    """A server on a public address accepts any Host with a valid token, and refuses foreign origins."""
    guard = Guard("secret", None)
    known = ["Bearer secret"]
    assert refused(guard, ["box.example:80"], [], known) is None
    assert refused(guard, ["box.example:80"], ["http://box.example:80"], known) is None
    assert refused(guard, ["box.example:80"], ["http://localhost:6274"], known) is None
    assert refused(guard, ["box.example:80"], ["http://evil.example"], known) == 403
    assert refused(guard, ["box.example:80"]) == 401


@pytest.mark.parametrize(
    ("sent", "is_let_in"),
    [
        ("Bearer sécret", True),
        ("bearer  sécret ", True),
        ("Bearer secret", False),
        ("Bearer sécret2", False),
        ("Basic sécret", False),
    ],
)
def test_only_the_exact_token_is_accepted(sent, is_let_in):
    """Only the exact token in the Bearer scheme is accepted."""
    assert refused(Guard("sécret", LOOPBACK), ["localhost"], [], [sent]) == (None if is_let_in else 401)


async def test_each_refusal_has_its_status_and_reason():
    """Each refusal has its status, reason and WWW-Authenticate header; with the token the official client is served."""
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


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:8000", "127.0.0.1", 8000), ("8000", "127.0.0.1", 8000), ("[::1]:65535", "::1", 65535)],
)
def test_an_address_is_host_and_port_or_a_local_port(text, host, port):
    """`--http` takes HOST:PORT or a port of this machine; an IPv6 address is in brackets, as in a URL."""
    assert Address.parse(text) == Address(host, port)


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", "::1:80", "1:2:3", "x:99999", "http://x:1", "x:-1", "a:1b"]
)
def test_an_invalid_address_is_refused_with_the_expected_form(text):
    """An invalid address is refused with one line that names the expected form."""
    with pytest.raises(UsageError, match="expected HOST:PORT"):
        Address.parse(text)
