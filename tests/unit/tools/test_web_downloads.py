"""Downloads: refused by address at the connection, and bounded in size, time and redirects."""

import gzip
import socket
import zlib

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.web import MAX_BYTES, MAX_REDIRECTS, Downloads
from tests.unit.tools.web_pages import replied, serving

pytestmark = pytest.mark.anyio


def anywhere(address):
    """Allow every address, so that a server on loopback can be read."""
    return bool(address)


HOSTS = ["127.0.0.1", "localhost", "0x7f.1", "0177.0.0.1", "2130706433", "127.1", "[::ffff:127.0.0.1]", "0", "[::1]"]


@pytest.mark.parametrize("host", HOSTS)
async def test_no_spelling_of_loopback_is_reached(host):
    """However an address of this machine is written, no request arrives."""
    async with serving(replied(b"inside")) as pages:
        with pytest.raises(ToolError) as caught:
            await Downloads().get(pages.url(host=host))
    assert pages.requests == []
    assert "\n" not in str(caught.value)


async def test_the_metadata_of_a_cloud_is_not_reached():
    """The address of cloud metadata is refused by name, before anything is sent."""
    with pytest.raises(ToolError, match=r"its address 169\.254\.169\.254 is not public"):
        await Downloads().get("http://169.254.169.254/latest/meta-data/")


async def test_what_a_name_resolves_to_is_checked_where_it_is_connected_to(monkeypatch):
    """A name that first resolves to a public address and then to loopback is refused, whichever lookup is used."""
    looked_up = []

    def lookup(host, port, *_rest, **_named):
        looked_up.append(host)
        address = "93.184.216.34" if len(looked_up) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async with serving(replied(b"inside")) as pages:
        asked = []

        def may_connect(address):
            asked.append(address)
            return address == "93.184.216.34"

        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        downloads = Downloads(may_connect=may_connect, seconds=0.5)
        for _ in range(2):
            with pytest.raises(ToolError):
                await downloads.get(pages.url(host="rebinding.example"))
    assert (pages.requests, asked) == ([], ["93.184.216.34", "127.0.0.1"])


@pytest.mark.parametrize("target", ["http://169.254.169.254/", "//[::1]/", "file:///etc/passwd", "http://evil.org/"])
async def test_a_redirect_is_checked_like_a_url(target):
    """A redirect to an address inside, to another scheme or domain is not followed."""
    moved = replied(b"", f"location: {target}", status="302 Found")
    async with serving(moved) as pages:
        downloads = Downloads(["127.0.0.1", "169.254.169.254", "::1"], may_connect=lambda one: one == "127.0.0.1")
        with pytest.raises(ToolError, match=r"not public|only http|not allowed"):
            await downloads.get(pages.url())
    assert len(pages.requests) == 1


async def test_redirects_are_followed_so_many_times():
    """A relative redirect is followed, and an endless chain ends."""

    def moving(head):
        number = int(head.split()[1].removeprefix("/"))
        return replied(b"here") if number == 3 else replied(b"", f"location: /{number + 1}", status="301 Moved")

    async with serving(moving) as pages:
        found = await Downloads(may_connect=anywhere).get(pages.url("/0"))
        assert (found.body, found.url) == (b"here", pages.url("/3"))
        with pytest.raises(ToolError, match=f"redirects more than {MAX_REDIRECTS} times"):
            await Downloads(may_connect=anywhere).get(pages.url("/4"))
    assert len(pages.requests) == 4 + MAX_REDIRECTS + 1


async def test_no_cookie_credential_or_proxy_is_used(monkeypatch):
    """A request carries no cookie of an earlier reply, no credentials of the user, and takes no proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    async with serving(replied(b"x", "set-cookie: a=1")) as pages:
        downloads = Downloads(may_connect=anywhere)
        for _ in range(2):
            await downloads.get(pages.url())
    assert len(pages.requests) == 2
    assert not any(word in head.lower() for head in pages.requests for word in ("cookie:", "authorization:"))


async def test_an_endless_page_is_cut():
    """Of a page without an end the first part is kept."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n"
    async with serving(head, endless=b"word " * 20_000) as pages:
        found = await Downloads(may_connect=anywhere).get(pages.url())
    assert (len(found.body), found.is_cut) == (MAX_BYTES, True)


async def test_a_small_page_that_unpacks_to_gigabytes_is_cut():
    """A compressed page is unpacked up to the limit only, also if it is compressed twice as far as it says."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    bomb = b"".join(packing.compress(bytes(2**20)) for _ in range(200)) + packing.flush()
    async with serving(replied(bomb, "content-encoding: gzip")) as pages:
        found = await Downloads(may_connect=anywhere).get(pages.url())
    assert (len(found.body), found.is_cut) == (MAX_BYTES, True)


async def test_a_compressed_page_is_unpacked():
    """A page that is compressed as was asked for arrives whole."""
    async with serving(replied(gzip.compress(b"plain"), "content-encoding: gzip")) as pages:
        found = await Downloads(may_connect=anywhere).get(pages.url())
    assert (found.body, found.is_cut) == (b"plain", False)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (replied(b"x", status="404 Not Found"), "answered with HTTP 404 Not Found"),
        (replied(b"x", "content-encoding: br"), "encoded as br, which was not asked for"),
        (replied(b"not packed", "content-encoding: gzip"), "damaged: it cannot be unpacked"),
        (b"", "cannot be fetched"),
        (b"SSH-2.0-Server\r\n\r\n", "cannot be fetched"),
        (replied(b"x", "a: " + "b" * 100_000), "cannot be fetched"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", "cannot be fetched"),
    ],
)
async def test_a_server_that_fails_or_lies_gives_one_line(reply, reason):
    """What a server does wrong becomes an error for the model, in one line."""
    async with serving(reply) as pages:
        with pytest.raises(ToolError, match=reason) as caught:
            await Downloads(may_connect=anywhere).get(pages.url())
    assert "\n" not in str(caught.value)


async def test_a_server_that_never_answers_is_left():
    """The timeout holds for the whole download."""
    async with serving(None) as pages:
        with pytest.raises(ToolError, match="did not answer within"):
            await Downloads(may_connect=anywhere, seconds=0.1).get(pages.url())
