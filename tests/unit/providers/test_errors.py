"""What an error of an API is, the wait it asks for, addresses of local servers, and the pace of requests."""

import asyncio
import math
from itertools import pairwise
from typing import get_args
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist import errors
from run_specialist.errors import ProviderError, ProviderErrorKind, Unavailable
from run_specialist.providers.admission import PER_TURN, Pace, pace_of
from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.base import Choice, Opening, Request
from run_specialist.providers.errors import KINDS, NAMES, is_retryable, kind_of, passing_status, requested_wait
from run_specialist.providers.local_servers import base_url_of, is_loopback, ollama_url
from run_specialist.record.messages import Message
from run_specialist.record.outcome import ErrorKind
from run_specialist.tools.base import Toolset

ALL = set(get_args(ProviderErrorKind))


def named(name, message="odd"):
    """Return the body of an error with a code."""
    return {"error": {"type": "invalid_request_error", "code": name, "message": message}}


def test_every_status_has_a_kind():
    """Each status of an error has a kind, that of the table if it is there; unknown ones go by their class."""
    kinds = {status: kind_of(status, None) for status in range(400, 600)}
    assert set(kinds.values()) <= ALL
    assert {status: kinds[status] for status in KINDS} == KINDS
    others = {kind for status, kind in kinds.items() if status not in KINDS and status < 500}
    assert others == {"invalid_request"}
    assert {kind for status, kind in kinds.items() if status not in KINDS and status >= 500} == {"server_error"}


def test_every_kind_has_a_cause():
    """Each kind follows from a status, a name, or an exception of its own; those of a run are two more."""
    by_class = {kind.default_kind for kind in subclasses(ProviderError)}
    assert {*KINDS.values(), *(kind for kind, _ in NAMES.values()), *by_class} == ALL
    assert set(get_args(ErrorKind)) == ALL | {"store_lost", "internal"}


def subclasses(kind):
    """Return a class and all below it."""
    return {kind, *(one for below in kind.__subclasses__() for one in subclasses(below))}


def test_every_exception_has_a_kind():
    """Each exception of a provider has a kind without being given one, and keeps the one that it is given."""
    made = {one.__name__: one("odd").kind for one in subclasses(ProviderError) if one.__module__ == errors.__name__}
    assert made == {
        "ProviderError": "server_error",
        "Unavailable": "connection",
        "ChoiceRefused": "invalid_request",
        "ForcingRefused": "invalid_request",
        "SchemaRefused": "invalid_request",
        "ContextExceeded": "context_exceeded",
    }
    assert Unavailable("busy", status=500).kind == "server_error"
    assert Unavailable("busy", status=429, kind="rate_limited", wait=3).as_final("given up").kind == "rate_limited"


@pytest.mark.parametrize("status", [400, 403, 404, 429, 503])
@pytest.mark.parametrize(
    "name", sorted(name for name, (kind, _) in NAMES.items() if kind in {"quota", "model_missing"})
)
def test_a_named_cause_is_more_specific_than_the_status(status, name):
    """An exhausted quota and a missing model are recognized by their name under any status."""
    assert kind_of(status, named(name)) == NAMES[name][0]
    assert kind_of(status, named(name)["error"]) == NAMES[name][0]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_without_a_status_decides(name):
    """In the body of a successful response the code decides, else the type."""
    assert kind_of(200, named(name)) == kind_of(None, {"error": {"type": name}}) == NAMES[name][0]


def test_errors_that_pass_in_a_stream_have_a_kind_of_their_own():
    """Each error that may pass in the middle of a stream has a kind, and an exhausted quota does not pass."""
    temporary = [name for name, (_, status) in NAMES.items() if status]
    assert {kind_of(None, {"type": name}) for name in temporary} == {"overloaded", "rate_limited", "server_error"}
    assert passing_status({"type": "insufficient_quota", "code": 429}) is None
    assert (
        passing_status({"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}) is None
    )


CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
SPENT = "You have reached your API usage limits: your organization has crossed its monthly API usage threshold."


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, named("", CREDIT), "quota"),
        (
            400,
            named("", "You have reached your specified API usage limits. You will regain access on 2026-12-01."),
            "quota",
        ),
        (429, {"error": {"type": "rate_limit_error", "message": SPENT}}, "quota"),
        (403, {"error": {"message": "Key limit exceeded (monthly limit).", "code": 403}}, "quota"),
        (401, named("", CREDIT), "credentials"),
        (500, named("", CREDIT), "server_error"),
        (429, {"error": {"type": "rate_limit_error", "message": "This would exceed your rate limit."}}, "rate_limited"),
        (429, [{"error": {"code": 429, "message": "You exceeded your current quota", "status": "X"}}], "rate_limited"),
        (None, {"error": {"code": 503, "message": "busy"}}, "overloaded"),
        (200, {"error": {"details": ["odd"], "type": "brand_new"}}, "server_error"),
    ],
)
def test_kinds_of_errors_as_servers_send_them(status, body, kind):
    """The messages that alone tell an exhausted quota count under the statuses that are used for it."""
    assert kind_of(status, body) == kind


@pytest.mark.parametrize(("wait", "told"), [(None, None), (0.25, 0.25), (1e9, 1e9), (float("inf"), None)])
def test_the_wait_of_a_server_is_kept_unless_it_is_infinite(wait, told):
    """The requested wait stays with the failure after the last attempt; an infinite wait is not a JSON number."""
    assert Unavailable("busy", wait=wait).as_final().retry_after == told
    assert ProviderError("busy", retry_after=wait).retry_after == told


# Headers that say whether and when to retry; servers lie in them.
NOW = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, math.inf),
        ({"retry-after": "9" * 400}, math.inf),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:42 GMT", "date": NOW}, 42),
        ({"retry-after": "Wed, 21 Oct 2026 09:28:42 +0200", "date": NOW}, 42),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": NOW}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "yesterday"}, None),
    ],
)
def test_w3_the_requested_wait_is_read_or_ignored(headers, seconds):
    """Seconds, milliseconds and dates by the server's clock are read; values that make no sense are ignored."""
    assert requested_wait(headers) == seconds


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date"]), st.text(max_size=40)))
def test_w3_any_header_gives_a_wait_above_0_or_none(headers):
    """No text is an error, and no wait is negative or no number."""
    wait = requested_wait(headers)
    assert wait is None or wait > 0


@pytest.mark.parametrize(
    ("status", "headers", "retried"),
    [
        *((status, {}, True) for status in (408, 409, 429, 500, 502, 503, 504, 529)),
        *((status, {}, False) for status in (400, 401, 402, 403, 404, 413, 418, 422)),
        (529, {"x-should-retry": "false"}, False),
        (401, {"x-should-retry": "true"}, True),
        (401, {"x-should-retry": "maybe"}, False),
    ],
)
def test_w1_the_statuses_that_are_retried_are_those_of_the_sdks(status, headers, retried):
    """Timeouts, locks, rate limits and server errors are retried, unless the server says otherwise."""
    assert is_retryable(status, headers) is retried


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("example.com", "http://example.com:11434/v1"),
        ("example.com:56789", "http://example.com:56789/v1"),
        (":56789", "http://127.0.0.1:56789/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),  # noqa: S104 - an address to connect to
        ("0.0.0.0:8000", "http://127.0.0.1:8000/v1"),
        ("http://example.com", "http://example.com:80/v1"),
        ("https://example.com", "https://example.com:443/v1"),
        ("https://example.com:99/ollama/", "https://example.com:99/ollama/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("::1", "http://[::1]:11434/v1"),
        ("::", "http://[::1]:11434/v1"),
        ('"example.com"', "http://example.com:11434/v1"),
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
        ("http://0.0.0.0:8000", "http://127.0.0.1:8000/v1"),
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


async def begin(paced=None):
    """Wait until one more request may start, as a request does."""
    loop = asyncio.get_running_loop()
    turn = (paced or pace_of(loop)).turn(loop)
    if turn is not None:
        await turn


@given(st.sets(st.integers(0, 39)), st.integers(0, 6))
def test_a_cancelled_request_does_not_delay_the_others(cancelled, later):
    """A request cancelled before, during or after its start does not delay the others."""
    broken = []

    async def play() -> tuple[set[int], list[object]]:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: broken.append(told))
        paced, begun = Pace(), set()

        async def ask(name: int) -> None:
            await begin(paced)
            begun.add(name)

        tasks = [asyncio.create_task(ask(name)) for name in range(40)]
        for _ in range(later):
            await asyncio.sleep(0)
        for name in cancelled:
            tasks[name].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return begun, [*paced._waiting]

    begun, waiting = asyncio.run(play())
    assert begun >= set(range(40)) - cancelled
    assert waiting == broken == []


class Unanswered:
    """Replaces a client whose server never answers."""

    base_url, timeout, max_retries = "http://127.0.0.1", None, 0

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def post(self, path, *, content, **_):
        """Record a request, and never answer it."""
        self.bodies.append(content)
        await asyncio.Event().wait()


@pytest.mark.exhaustive
async def test_many_simultaneous_requests_start_a_few_per_turn():
    """Many simultaneous requests start a few per turn: waiting ones have no body yet, and finally all of them run."""
    children, client = 5 * PER_TURN, Unanswered()
    provider = AnthropicProvider("haiku", client)
    question = [Message.user("What?")]
    conversations = [provider.open(Opening("Look.", Toolset([]))) for _ in range(children)]
    asking = [asyncio.create_task(each.ask(Request(question, Choice.AUTO, 100))) for each in conversations]
    sent = []
    while len(client.bodies) < children:
        await asyncio.sleep(0)
        sent.append(len(client.bodies))
    new = [now - before for before, now in pairwise([0, *sent])]
    assert max(new) == PER_TURN
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
