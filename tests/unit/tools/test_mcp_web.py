"""MCP servers behind a URL: streamable HTTP on loopback, and its failure modes."""

import socket
import subprocess
import sys

import httpx2
import pytest

from run_specialist.safety.redact import redact
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.tools.mcp_session import Web
from tests.wire.mcp_servers.running_servers import connected
from tests.wire.mcp_servers.web import good_web, raw_web

pytestmark = pytest.mark.anyio


@pytest.fixture
def raw():
    """Start a raw HTTP server."""
    with raw_web() as server:
        yield server


@pytest.mark.exhaustive
async def test_a_real_server_answers_over_http(tmp_path, capfd):
    """A real server answers calls over HTTP, and nothing reaches the terminal.

    Covers an error, 5 MB, a result that is too large, a timeout, and a server that was killed.
    """
    with good_web() as (url, process):
        async with connected(tmp_path, ServerConfig("good", url=url)) as one:
            assert one.warnings == ()
            assert one.tools["add"].name == "mcp__good__add"
            assert await one.call("add", a=1, b=2) == "3"
            assert (await one.call("fail")).startswith("ToolError: Error executing tool fail")
            assert (await one.call("large", characters=5_000_000)).endswith("[3,000,000 more characters were not kept]")
            assert "10 MiB" in await one.call("large", characters=11_000_000)
            assert await one.call("slow", within=0.2, seconds=60) == "nothing"
            assert await one.call("add", a=1, b=3) == "4"
            process.kill()
            process.wait()
            assert (await one.call("add", a=1, b=2)).startswith("ToolError: the server ended before it answered: ")
            assert "could not be started again" in await one.call("add", a=1, b=2)
    assert capfd.readouterr() == ("", "")


async def test_requests_have_the_configured_headers(tmp_path, monkeypatch, raw):
    """Every request has the configured headers, with variables expanded in headers and URL."""
    monkeypatch.setenv("KEY", "geheim")
    server = ServerConfig("raw", url=f"{raw.url}/plain?key=${{KEY}}", headers=(("X-Key", "${KEY}"),))
    async with connected(tmp_path, server) as one:
        assert await one.call("look") == "seen"
    assert {headers["X-Key"] for headers, _ in raw.seen} == {"geheim"}
    assert "geheim" not in str(one.warnings)


async def test_an_answer_sent_as_an_event_may_be_large(tmp_path, raw):
    """A single server-sent event may hold 5 MB."""
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/events")) as one:
        assert await one.call("look") == "x" * 2_000_000 + "\n[3,000,000 more characters were not kept]"


async def test_an_invalid_tool_is_omitted_with_a_warning(tmp_path, raw):
    """Over HTTP too, an invalid tool is omitted with a warning, and the others can be called."""
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/worn")) as one:
        (told,) = one.warnings
        assert "its tools torn are not what the protocol wants: inputSchema: Field required; the run continues" in told
        assert await one.call("look") == "seen"


async def test_loopback_requests_bypass_the_proxy(tmp_path, monkeypatch, raw):
    """Loopback requests bypass any proxy that the environment sets."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/plain")) as one:
        assert await one.call("look") == "seen"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("401", "Server returned an error response (HTTP 401 Unauthorized)"),
        ("404", "Not Found (HTTP 404 Not Found)"),
        ("500", "Server returned an error response (HTTP 500 Internal Server Error)"),
        ("html", "Unexpected content type: text/html"),
        ("json", "Failed to parse JSON response"),
        ("huge", "Failed to parse JSON response: it is larger than 10 MiB"),
        ("gzip", "StreamError: its answer is compressed, which was not asked for"),
        ("hang", "it did not tell its tools within 0.5 seconds"),
    ],
)
async def test_a_url_that_is_no_mcp_server_causes_a_warning(tmp_path, raw, how, why, capfd):
    """A URL that is not an MCP server causes a one-line warning with the response that was received."""
    server = ServerConfig("raw", url=f"{raw.url}/{how}", timeout=0.5 if how == "hang" else 30)
    async with connected(tmp_path, server) as one:
        assert one.warnings == (f"mcp_servers: raw: {why}; the run continues without its tools",)
        assert one.tools == {}
    assert capfd.readouterr() == ("", "")


async def test_an_unreachable_url_causes_a_warning(tmp_path):
    """A closed port and invalid ports each cause a warning."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    urls = [f"http://127.0.0.1:{port}/mcp", "http://127.0.0.1:99999/mcp", "http://127.0.0.1:x/"]
    async with connected(tmp_path, *(ServerConfig(f"s{number}", url=url) for number, url in enumerate(urls))) as one:
        assert [warning.split(": ")[2] for warning in one.warnings] == ["ConnectError", "OverflowError", "InvalidURL"]


async def test_a_forgotten_session_is_restarted_without_an_error(tmp_path, raw):
    """If the server has forgotten the session, the call is repeated once in a new session.

    The repetition is safe, because the first call was not run.
    """
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/forgets")) as one:
        assert await one.call("look") == "seen"
    assert [asked["method"] for _, asked in raw.seen].count("initialize") == 2
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/forgetful")) as one:
        assert await one.call("look") == "ToolError: the server forgets who asks between one request and the next"


async def test_only_a_refused_post_is_reported_as_a_failure():
    """Only a refused POST is reported as a failure.

    A server need not offer the GET stream that the library requests.
    """
    web = Web("http://127.0.0.1/mcp", {}, loopback=True)
    for method, status, words in (
        ("GET", 405, ""),
        ("POST", 401, "HTTP 401 Unauthorized"),
        ("DELETE", 405, "HTTP 401 U"),
    ):
        await web._check_response(httpx2.Response(status, request=httpx2.Request(method, "http://127.0.0.1/mcp")))
        assert web.failure(redact).startswith(words)
        assert bool(web.failure(redact)) is bool(words)


PROGRAM = """
import asyncio, sys
from pathlib import Path
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.tools.mcp import McpClients

async def main():
    clients = McpClients()
    tools, warnings = await clients.tools({"raw": ServerConfig("raw", url=sys.argv[1])}, root=Path.cwd())
    await clients.aclose()
    print(*warnings)

asyncio.run(main())
"""


@pytest.mark.exhaustive
def test_the_log_of_the_library_does_not_reach_stderr(raw):
    """The library's error log with a traceback does not reach stderr if logging is not configured."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, f"{raw.url}/json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("mcp_servers: raw: Failed to parse JSON response;")
    assert done.stderr == ""
