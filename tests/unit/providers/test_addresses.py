"""The addresses of local servers: the forms of OLLAMA_HOST, and base URLs."""

import ipaddress
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.local_servers import base_url_of, is_loopback, ollama_url, root_of


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("  ", "http://127.0.0.1:11434/v1"),
        ("example.com", "http://example.com:11434/v1"),
        ("example.com:56789", "http://example.com:56789/v1"),
        (":56789", "http://127.0.0.1:56789/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),  # noqa: S104 - an address to connect to
        ("0.0.0.0:8000", "http://127.0.0.1:8000/v1"),
        ("http://0.0.0.0:11434", "http://127.0.0.1:11434/v1"),
        ("http://127.0.0.1:11434/", "http://127.0.0.1:11434/v1"),
        ("http://example.com", "http://example.com:80/v1"),
        ("https://example.com", "https://example.com:443/v1"),
        ("https://example.com:99/ollama/", "https://example.com:99/ollama/v1"),
        ("example.com/ollama", "http://example.com:11434/ollama/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("::1", "http://[::1]:11434/v1"),
        ("[::]:1234", "http://[::1]:1234/v1"),
        ("::", "http://[::1]:11434/v1"),
        ('"example.com"', "http://example.com:11434/v1"),
        ("'localhost:1'", "http://localhost:1/v1"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(value, url):
    """All forms of its documentation and its tests; the address of all interfaces means this machine."""
    assert ollama_url(value, 11434) == url


@pytest.mark.parametrize(
    "value", ["host:0", "host:99999", "host:x", "unix:///run/x", "me:hunter2@host:1", "http://a@b"]
)
def test_an_invalid_ollama_host_is_refused(value):
    """No default takes the place of a port that was meant."""
    with pytest.raises(ValueError, match=r"port|Port|must be|user name") as raised:
        ollama_url(value, 11434)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://127.0.0.1:8000/v1"),
        (" http://h:1\n", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("https://h/llm/v1", "https://h/llm/v1"),
        ("http://0.0.0.0:8000", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_a_base_url_needs_no_path(value, url):
    """The path of the API is added if there is none, and a path of the user's stays."""
    assert base_url_of(value, 8000) == url


@pytest.mark.parametrize("value", ["h:8000", "h", "ftp://h", "http://", "http://a:b@h", "http://h/?x=1", "http://h:0"])
def test_what_is_no_base_url_is_refused(value):
    """The reason is one line."""
    with pytest.raises(ValueError, match=r"\w") as raised:
        base_url_of(value, 8000)
    assert "\n" not in str(raised.value)


@given(st.text(max_size=40) | st.ip_addresses().map(str) | st.from_regex(r"[a-z]{1,9}(:[0-9]{1,6})?", fullmatch=True))
def test_any_text_gives_a_url_or_a_reason(value):
    """An address is an HTTP URL with a host, no user and no unspecified address, or a ValueError says what is wrong."""
    for read in (ollama_url, base_url_of):
        try:
            url = urlsplit(read(value, 11434))
        except ValueError:
            continue
        assert url.scheme in {"http", "https"}
        assert url.hostname
        assert "@" not in url.netloc
        assert url.path.endswith("/v1") or read is base_url_of
        assert url.hostname not in {"0.0.0.0", "::"}  # noqa: S104 - as above


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://127.9.9.9/v1", True), ("http://localhost:1", True), ("http://[::1]", True), ("http://10.0.0.1", False)],
)
def test_loopback_is_known(url, expected):
    """Only addresses of this machine count."""
    assert is_loopback(url) is expected
    assert not is_loopback("http://127.0.0.1.example.com")
    assert ipaddress.ip_address("127.9.9.9").is_loopback


def test_the_root_is_the_address_without_the_path_of_the_api():
    """The server's own paths begin there."""
    assert root_of("http://h:1/ollama/v1") == "http://h:1/ollama"
