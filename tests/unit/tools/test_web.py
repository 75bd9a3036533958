"""Pages: their text, the tool that reads it in parts, bounded downloads, and the addresses that are refused."""

import gzip
import ipaddress
import re
import socket
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import ToolError
from run_specialist.tools import web
from run_specialist.tools.base import Output
from run_specialist.tools.web import (
    LONGEST,
    MAX_BYTES,
    MAX_REDIRECTS,
    Download,
    Downloads,
    checked,
    fetch_tool,
    is_public,
    text_of,
)
from run_specialist.tools.web_page import LONGEST_LINE
from tests.unit.tools.web_pages import replied, serving

HTML = b"""<html><head><title>Retries</title><meta charset="punycode"></head>
<body><nav><a href="/">Start</a></nav><main><h1>How it retries</h1>
<p>caf-3ba</p><p>Payments are retried <b>three times</b>, see <a href="/why">why</a>.</p><pre><code>for i in range(3):
    pay()</code></pre><table><tr><th>try</th><th>after</th></tr><tr><td>2</td><td>5 s</td></tr></table></main>
<script>alert(1)</script></body></html>"""


def page(body, media_type="text/html", charset=None):
    """Return a downloaded page."""
    return Download("https://example.com/a", media_type, charset, body, is_cut=False)


def test_p_7_html_becomes_markdown_without_navigation():
    """Content stays, navigation and scripts go; an encoding that is not one of pages is not used."""
    text = "\n".join(text_of(page(HTML)))
    assert "# How it retries" in text
    assert "Payments are retried **three times**, see [why](https://example.com/why)." in text
    assert "    pay()" in text
    assert "caf-3ba" in text
    assert "| 2 | 5 s |" in text
    assert "Start" not in text
    assert "alert" not in text


def test_other_text_stays_as_it_is():
    """Plain text, Markdown and JSON are returned as they are; a page without a type is taken as text."""
    for media_type in ("text/plain", "text/markdown", "application/json", "application/ld+json", ""):
        assert text_of(page(b"# a\n\nb <i>c</i>\n", media_type)) == ["# a", "", "b <i>c</i>"]


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("hé".encode("latin-1"), "latin-1"),
        ("hé".encode("utf-16"), None),
        ("\ufeffhé".encode(), None),
        ("hé".encode(), "zip"),
    ],
)
def test_the_encoding_is_that_of_the_server_or_the_page(body, charset):
    """The encoding comes from the server or a byte order mark; anything that is not a text encoding counts as UTF-8."""
    assert text_of(page(body, "text/plain", charset)) == ["hé"]


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "utf-7", "unicode_escape", "raw_unicode_escape", "hz", "rot13"]
)
def test_p_7_an_encoding_that_is_not_one_of_pages_counts_as_utf_8(charset):
    """Encodings of host names and programs, of which `punycode` takes quadratic time, are not used."""
    body = rb"caf\u00e9-3ba+AGE- ~{<:Ky2;S{#,~}"
    assert text_of(page(body, "text/plain", charset)) == [body.decode()]


@pytest.mark.parametrize("media_type", ["text/plain", ""])
def test_p_7_a_page_that_almost_looks_like_html_is_read_at_once(media_type):
    """A page of 290 empty comments, which a pattern could divide in 2^290 ways, is plain text."""
    body = b"<!---->" * 290 + b"needle"
    (line,) = text_of(page(body, media_type))[-1:]
    assert line.endswith("needle")


@pytest.mark.parametrize(
    ("media_type", "body"), [("image/png", b"\x89PNG"), ("application/pdf", b"%PDF"), ("text/plain", b"a\0b")]
)
def test_what_is_no_text_is_refused(media_type, body):
    """Images, PDF and binary data are refused with their type."""
    with pytest.raises(ToolError, match="only pages of text can be read"):
        text_of(page(body, media_type))


def test_a_page_that_takes_too_long_is_given_up(monkeypatch):
    """A page on which the parser spends minutes is ended, with a reason."""
    monkeypatch.setattr(web, "SECONDS", 0.05)
    with pytest.raises(ToolError, match="it takes more than 0 seconds"):
        text_of(page(HTML))


def test_long_lines_are_wrapped_at_blanks():
    """A long line becomes several, with the same words."""
    words = "word " * 1_000
    lines = text_of(page(words.encode(), "text/plain"))
    assert max(map(len, lines)) <= LONGEST_LINE
    assert " ".join(lines).split() == words.split()


async def fetched(tool, **arguments):
    """Return the text of a call."""
    output = await tool.call(arguments)
    assert isinstance(output, Output)
    return output.text


async def test_a_page_is_read_in_parts_with_one_request():
    """The note says how to read on, which sends no further request; the end is named."""
    lines = "\n".join(f"line {number}" for number in range(1, 51)).encode()
    async with serving(replied(lines)) as pages:
        tool = fetch_tool(Downloads(may_connect=bool), 20_000)
        first = await fetched(tool, url=pages.url(), limit=20)
        assert first.startswith(f"{pages.url()}:\n\nline 1\n")
        assert first.endswith("line 20\n[lines 1-20 of 50; read on with offset=21]")
        assert (await fetched(tool, url=pages.url(), offset=21)).endswith("line 50\n[lines 21-50 of 50]")
        with pytest.raises(ToolError, match="ends before line 51; it has 50 lines"):
            await fetched(tool, url=pages.url(), offset=51)
    assert len(pages.requests) == 1


def anywhere(address):
    """Allow every address, so that a server on loopback can be read."""
    return bool(address)


HOSTS = ["127.0.0.1", "localhost", "0x7f.1", "0177.0.0.1", "2130706433", "127.1", "[::ffff:127.0.0.1]", "0", "[::1]"]


async def test_no_spelling_of_loopback_is_reached():
    """However an address of this machine is written, no request arrives."""
    async with serving(replied(b"inside")) as pages:
        for host in HOSTS:
            with pytest.raises(ToolError) as caught:
                await Downloads().get(pages.url(host=host))
            assert "\n" not in str(caught.value)
    assert pages.requests == []


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


async def test_a_compressed_page_is_unpacked_up_to_the_limit():
    """A page that is compressed as was asked for arrives whole, but one that unpacks to much more is cut."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    bomb = b"".join(packing.compress(bytes(2**20)) for _ in range(20)) + packing.flush()
    for packed, length, is_cut in ((gzip.compress(b"plain"), 5, False), (bomb, MAX_BYTES, True)):
        async with serving(replied(packed, "content-encoding: gzip")) as pages:
            found = await Downloads(may_connect=anywhere).get(pages.url())
        assert (len(found.body), found.is_cut) == (length, is_cut)
    assert found.body == bytes(MAX_BYTES)


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


INSIDE = re.findall(
    r"\S+",
    """127.0.0.1 127.8.9.10 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.1 198.18.0.1
    224.0.0.1 239.1.2.3 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 fe80::1 fe80::1%eth0 fc00::1
    fd00:ec2::254 fec0::1 ff02::1 2002:7f00:1:: 2002:a9fe:a9fe:: 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2001::1
    2001:0:7f00:1::1 2001:db8::1 100::1 3fff::1 5f00::1 168.63.129.16 ::ffff:168.63.129.16 64:ff9b::a83f:8110
    192.88.99.1 100.100.100.200 192.0.0.192 64:ff9b:1::1 64:ff9b:1::101:101 64:ff9b:1:ffff::808:808
    ::ffff:0:127.0.0.1 ::ffff:0:169.254.169.254 ::127.0.0.1 ::10.0.0.1 ::169.254.169.254 ::168.63.129.16 ::2
    2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:7f00:1 2002:a83f:8110:: fd20:ce::254 fe80::a9fe:a9fe""",
)
OUTSIDE = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::101:101", "2002:101:101::"]


def test_only_addresses_outside_are_public():
    """Loopback, private, link-local and metadata addresses are not public, nor is IPv6 that leads to one."""
    assert [address for address in INSIDE if is_public(address)] == []
    assert all(map(is_public, OUTSIDE))


@given(st.ip_addresses(v=4))
def test_ipv4_inside_ipv6_is_judged_like_itself(address):
    """An IPv4 address in any of its IPv6 forms is never more public than itself."""
    forms = [f"::ffff:{address}", str(ipaddress.IPv6Address((0x64FF9B << 96) | int(address)))]
    forms.append(str(ipaddress.IPv6Address((0x2002 << 112) | (int(address) << 80))))
    forms += [f"::{address}", f"::ffff:0:{address}", f"64:ff9b:1::{address}", f"2606:4700::5efe:{address}"]
    assert all(is_public(str(address)) >= is_public(form) for form in forms)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "only http:// and https://"),
        ("gopher://127.0.0.1:6379/", "only http:// and https://"),
        ("example.com", "only http:// and https://"),
        ("http://", "only http:// and https://"),
        ("http://example.com:99999/", "no valid URL"),
        ("http://key:word@example.com/", "user name or a password"),
        ("http://example.com/a b", "no valid URL"),
        ("http://example.com/" + "a" * LONGEST, "no valid URL"),
    ],
)
def test_urls_that_are_not_fetched(url, reason):
    """A URL of another kind, with credentials, too long or damaged is refused with the reason, in one line."""
    with pytest.raises(ToolError, match=reason) as caught:
        checked(url, ())
    assert "\n" not in str(caught.value)


def test_allowed_domains_hold_for_subdomains_and_redirects():
    """An allowed domain includes its subdomains, in any case and with a final dot, but no lookalike."""
    allowed = ["Example.com"]
    for host in ("example.com", "docs.example.com", "EXAMPLE.COM.", "a.b.example.com"):
        assert checked(f"https://{host}/x#part", allowed).endswith("/x")
    for host in ("notexample.com", "example.com.evil.org", "example.org", "1.1.1.1"):
        with pytest.raises(ToolError, match=r"not allowed; allowed_domains: Example\.com"):
            checked(f"https://{host}/", allowed)
    with pytest.raises(ToolError, match="not allowed"):
        checked("//evil.org/", allowed, base="https://example.com/")
    assert checked("../b?c=1", allowed, base="https://example.com:8443/a/") == "https://example.com:8443/b?c=1"
