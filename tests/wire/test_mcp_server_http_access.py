"""Access to an MCP server over HTTP: Host and Origin headers, tokens, and addresses."""

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.datastructures import Headers

from run_specialist.errors import UsageError
from run_specialist.mcp_server.http import LOOPBACK, Address, Guard
from tests.wire.http_requests import asks, post, serving
from tests.wire.serving import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("looker")]


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
        ("localhost:8000.evil.example", None, 421),
        ("localhost:evil", None, 421),
        ("evil.example@localhost", None, 421),
        ("", None, 421),
        ("0.0.0.0:8000", None, 421),
        ("[::1].evil.example", None, 421),
        ("localhost:8000", "http://localhost:8000", None),
        ("localhost:8000", "http://127.0.0.1:6274", None),
        ("localhost:8000", "http://evil.example", 403),
        ("localhost:8000", "http://localhost:1.evil.example", 403),
        ("localhost:8000", "null", 403),
        ("localhost:8000", "file://localhost", 403),
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
        ("Bearer ", False),
        ("sécret", False),
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
    [
        ("127.0.0.1:8000", "127.0.0.1", 8000),
        ("8000", "127.0.0.1", 8000),
        ("[::1]:65535", "::1", 65535),
    ],
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
