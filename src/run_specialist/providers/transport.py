"""Send one request through an SDK, with a bounded reply; parse untrusted JSON."""

import gc
import json
import logging
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from operator import is_
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, ref

from run_specialist.errors import ProviderError
from run_specialist.providers.errors import Endpoint
from run_specialist.record.messages import Block, Message

if TYPE_CHECKING:
    import aiohttp
    import httpx2
    import yarl


# The header in which the SDKs send the number of retries.
_RETRIES = "x-stainless-retry-count"

Accepted = Callable[[], None]
"""Called as soon as the headers of a successful response have arrived."""


def connection(sdk: Any, *, direct: bool = False) -> dict[str, Any]:  # noqa: ANN401 - either SDK
    """Return client options that limit timeouts, reply sizes and redirects.

    direct: the server is on this machine: ignore proxies from the environment, and be patient.
    """
    no_proxies = {"trust_env": False} if direct else {}
    return {
        "http_client": sdk.DefaultAioHttpClient(event_hooks=_HOOKS, **no_proxies),
        # A model on this machine may take minutes for the prompt alone.
        "timeout": sdk.Timeout(LONGEST_REPLY if direct else LONGEST_PAUSE, connect=_LONGEST_CONNECT),
    }


async def stay_at_origin(response: "httpx2.Response") -> None:
    """Refuse a redirect to another scheme, host or port, which would get the question and the headers with the key.

    Used as a response hook of the HTTP client, which calls it before it follows a redirect.
    Raises ProviderError.
    """
    if not response.has_redirect_location:
        return
    import httpx2  # noqa: PLC0415 - already loaded by the request

    sent = response.request.url
    try:
        target = httpx2.URL(response.headers["location"])
        # The library completes a URL with a scheme but no host in its own way.
        target = sent.join(target) if target.host or not target.scheme else httpx2.URL()
    except (httpx2.InvalidURL, ValueError):
        target = httpx2.URL()
    if (target.scheme, target.host, target.port) == (sent.scheme, sent.host, sent.port) and not target.userinfo:
        return
    before, after = (
        f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}" if url.host else "an invalid address"
        for url in (sent, target)
    )
    raise ProviderError(
        f"{before} redirects to {after} (HTTP {response.status_code}), and a question is never passed on to another "
        "server; if the new one is right, set it as the base URL"
    )


class StreamedReply(Protocol):
    """Assembles a reply from the events of its stream."""

    white_space: "WhiteSpace"
    """That at the end of what has arrived: once it is endless, waiting is useless."""

    def add(self, event: object) -> None:
        """Process the next event."""

    def result(self) -> Block:
        """Return the reply; raises ProviderError if it is not complete."""


async def send(  # noqa: PLR0913, PLR0917 - what is sent, and how
    client: Any,  # noqa: ANN401 - of either SDK
    url: str,
    body: bytes,
    endpoint: Endpoint,
    accepted: Accepted,
    retries: int = 0,
    begin: Callable[[], StreamedReply] | None = None,
) -> Block:
    """Send a request once and return the reply as a JSON object.

    url: as returned by `url_of`.
    accepted: called once a successful response begins.
    retries: number of earlier attempts.
    begin: creates the assembler of a streamed reply; None = the reply is not streamed.
    Raises ProviderError if the response is not a JSON object, and any error of the SDK.
    """
    direct = _DIRECT.get(client) if begin is None and not retries else None
    if direct is not None and (direct.url, direct.auth) == (url, client.auth_headers):
        received = await direct.post(client, body, endpoint, accepted)
        if received is not None:
            return received
        _DIRECT.pop(client, None)
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    headers = {_RETRIES: str(retries)} if retries else {}
    # The SDK would deep-copy missing options from its defaults. Runs retry by themselves, so that they can report it.
    options = {"headers": headers, "timeout": client.timeout, "max_retries": 0}
    if begin is None:
        response = await client.post(url, cast_to=httpx2.Response, content=body, options=options)
        accepted()
        # A version of the SDK without one of its parts has no other way.
        with suppress(AttributeError, LookupError):
            if not (retries or response.history) and (found := Direct.after(response.request, client, url)):
                _DIRECT[client] = found
        return read_object(response.headers.get("content-type", ""), response.content, endpoint)
    stream_class = import_module(endpoint.sdk).AsyncStream[object]
    stream = await client.post(url, cast_to=object, content=body, options=options, stream=True, stream_cls=stream_class)
    async with stream:
        accepted()
        kind = stream.response.headers.get("content-type", "")
        if not kind.lower().startswith("text/event-stream"):
            # Some servers do not stream.
            return read_object(kind, await stream.response.aread(), endpoint)
        reply = begin()
        async for event in stream:
            reply.add(event)
            if reply.white_space.is_endless:
                # Leaving the context closes the connection, so that the server stops.
                break
        return reply.result()


@dataclass(frozen=True, slots=True)
class Direct:
    """The way to a server past the layers of its SDK: what the SDK has sent once, sent again with other bytes.

    The SDK and its HTTP client build each request anew, in four of five function calls that a request takes.
    """

    url: str
    """As passed to `send`."""
    auth: Mapping[str, str]
    """Headers with the key of the client, which may get another one."""
    request: "httpx2.Request"
    """The request that the server has accepted, without its body; errors name it."""
    session: "aiohttp.ClientSession"
    """The connections of the client."""
    address: "yarl.URL"
    headers: Mapping[str, str]
    """Those of the request, without the length of its body."""
    timeout: "aiohttp.ClientTimeout"
    mapped: Callable[[], AbstractContextManager[None]]
    """Converts the errors of the connection as for the SDK."""

    @classmethod
    def after(cls, request: "httpx2.Request", client: Any, url: str) -> "Direct | None":  # noqa: ANN401 - as above
        """Return the way that a request has taken; None if something on it has to see each request.

        That is an HTTP client of the caller, a proxy, middleware, a tracer, a key that changes, or a log of requests.
        """
        http = client._client  # noqa: SLF001 - the SDKs do not offer it
        transport = http._transport_for_url(request.url)  # noqa: SLF001 - as above
        trace = sys.modules.get("opentelemetry.trace")
        is_own = http.event_hooks == {"request": [], **_HOOKS} and hasattr(transport, "client") and not transport.proxy
        is_known = hasattr(client, "_make_status_error_from_response")
        logs = map(logging.getLogger, ("httpx2", type(client).__module__.partition(".")[0]))
        is_seen = (
            any(getattr(client, name, None) for name in _VARYING)
            or (trace and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider))
            or any(log.isEnabledFor(logging.INFO) for log in logs)
        )
        if not (is_own and is_known) or is_seen or request.headers.get("accept-encoding") != _ENCODINGS:
            return None
        import aiohttp  # noqa: PLC0415 - loaded with the request
        import httpx2  # noqa: PLC0415 - as above
        import yarl  # noqa: PLC0415 - as above

        limits = request.extensions["timeout"]
        return cls(
            url,
            client.auth_headers,
            httpx2.Request(request.method, request.url, headers=request.headers),
            transport.client,
            yarl.URL(str(request.url)),
            {name: value for name, value in request.headers.items() if name not in {"content-length", "cookie"}},
            aiohttp.ClientTimeout(sock_connect=limits["connect"], sock_read=limits["read"], connect=limits["pool"]),
            sys.modules[type(transport).__module__].map_aiohttp_exceptions,
        )

    async def post(self, client: Any, body: bytes, endpoint: Endpoint, accepted: Accepted) -> Block | None:  # noqa: ANN401 - as above
        """Send a body and return the reply, as `send` does; None for a redirect, which the SDK has to follow.

        client: the client of the SDK, which makes the errors.
        """
        import httpx2  # noqa: PLC0415 - loaded with the request

        sdk: Any = import_module(endpoint.sdk)
        try:
            with self.mapped():
                async with self.session.post(
                    self.address, data=body, headers=self.headers, allow_redirects=False, timeout=self.timeout
                ) as response:
                    status = response.status
                    if status in {301, 302, 303, 307, 308}:  # redirects
                        return None
                    if is_success := status < 300:  # noqa: PLR2004 - the first redirect
                        accepted()
                    content = b"".join([part async for part in _bounded(response.content.iter_any())])
        except ProviderError:
            raise
        except httpx2.TimeoutException as error:
            raise sdk.APITimeoutError(request=self.request) from error
        except Exception as error:
            raise sdk.APIConnectionError(request=self.request) from error
        if is_success:
            return read_object(response.headers.get("content-type", ""), content, endpoint)
        headers = [(name, value) for name, value in response.headers.items() if name.lower() != "content-encoding"]
        answer = httpx2.Response(status, headers=headers, content=content, request=self.request)
        raise client._make_status_error_from_response(answer)  # noqa: SLF001 - as in `after`


# By client, which none of them refers to, so that it is freed.
_DIRECT: WeakKeyDictionary[Any, Direct] = WeakKeyDictionary()


def url_of(client: Any, path: str) -> str:  # noqa: ANN401 - as above
    """Return the absolute URL of a path below the client's base URL, which an SDK parses only once."""
    return str(client.base_url).rstrip("/") + path


MOST_TOKENS = 10**12
"""Upper bound of plausible token counts; larger ones are ignored."""
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)


def read_object(content_type: str, body: bytes, endpoint: Endpoint) -> dict[str, Any]:
    """Return the JSON object of a response body.

    Raises ProviderError for any other content.
    """
    if "json" not in content_type.lower():
        kind = _MEDIA_TYPE.match(content_type)
        named = kind[0] if kind else "no content type"
        raise ProviderError(f"the server answered with {named}, not JSON; {endpoint.wrong_server}")
    from jiter import from_json  # noqa: PLC0415 - as above

    try:
        value = from_json(body)
    except ValueError:
        # It is five times as fast, but takes no lone surrogates and no deep nesting.
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProviderError(f"the server answered with incomplete or invalid JSON ({error}); try again") from error
    if not isinstance(value, dict):
        raise ProviderError(f"the server answered with JSON that is not an object; {endpoint.wrong_server}")
    return value


def read_arguments(text: str, *, cut: bool) -> object:
    """Parse the arguments of a tool call; None if they are not JSON.

    cut: whether the arguments are truncated; the complete part is returned, because the call will not be executed.
    """
    from jiter import from_json  # noqa: PLC0415 - installed with the SDKs, needed only after a request

    with suppress(ValueError, RecursionError):
        return json.loads(text)
    with suppress(ValueError):
        return from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings") if cut else None
    return None


def count(values: object, key: str) -> int:
    """Return a token count; 0 if it is missing or implausible."""
    value = values.get(key) if isinstance(values, Mapping) else None
    # In Python, `True` is an int.
    return value if isinstance(value, int) and value is not True and 0 < value <= MOST_TOKENS else 0


class EncodedMessages:
    """A cache of encoded messages: each request encodes only the messages that are new in the transcript."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """Ids of all tool calls in the transcript."""
        self.pieces: list[bytes] = []
        """Encoded messages in order."""
        self._messages: Sequence[Message] = ()

    def take(self, messages: Sequence[Message], encoded: Callable[[Message], bytes]) -> None:
        """Update the cache for a transcript, which extends the previous one or replaces it.

        encoded: encodes one message; a message encoded before keeps the same bytes.
        """
        known = len(self._messages)
        if known > len(messages) or not all(map(is_, self._messages, messages)):
            known, self.ids, self.pieces = 0, set(), []
        for message in messages[known:]:
            self.pieces.append(encoded(message))
            for block in message.blocks:
                if block["type"] == "tool_use":
                    self.ids.add(block["id"])
        self._messages = messages


def unique_id(sent: object, taken: Collection[str], prefix: str) -> str:
    """Return the id of a tool call; a new id if it is invalid or taken.

    prefix: start of a new id, followed by a number.
    """
    if isinstance(sent, str) and sent and sent not in taken:
        return sent
    number = len(taken) + 1
    while f"{prefix}{number}" in taken:
        number += 1
    return f"{prefix}{number}"


MIB = 2**20
LONGEST_BODY = 32 * MIB
"""Maximum size of a body; the largest requested reply has 32,000 tokens, with some hundred bytes per event [bytes]."""
LONGEST_REPLY = 3600.0
"""Maximum duration of a reply, which ends replies that trickle in byte by byte [s]."""
LONGEST_PAUSE = 600.0
"""Read timeout, the default of the SDKs [s]."""
# Connect timeout; the SDKs' 5 s are too short if one loop connects for a thousand children [s].
_LONGEST_CONNECT = 20.0


async def bound_body(response: "httpx2.Response") -> None:
    """Limit the body of a response, including small bodies that decompress to huge ones.

    Used as a response hook of the HTTP client. Reading a body beyond the limits raises ProviderError.
    """
    kind, reference = type(response), ref(response)

    async def bounded(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        if (unbounded := reference()) is not None:
            async with aclosing(kind.aiter_bytes(unbounded, chunk_size)) as parts:
                async for part in _bounded(parts):
                    yield part

    # Plain and streamed reading both use this method. The weak reference avoids a reference cycle.
    response.aiter_bytes = bounded  # type: ignore[method-assign, assignment]


async def _bounded(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the parts of a body; raise ProviderError at the limits."""
    size, begun = 0, time.monotonic()
    async for part in parts:
        size += len(part)
        if size > LONGEST_BODY:
            raise ProviderError(f"the server's reply is longer than {LONGEST_BODY // MIB} MiB; try again")
        if time.monotonic() - begun > LONGEST_REPLY:
            raise ProviderError(f"the server's reply took more than {LONGEST_REPLY:.0f} seconds; try again")
        yield part


_HOOKS = {"response": [stay_at_origin, bound_body]}
# What the HTTP client of the SDKs offers, unless a package for more is installed that the direct way does not use.
_ENCODINGS = "gzip, deflate"
# Attributes of the clients that are set if requests have changing keys, or pass code of the caller.
_VARYING = ("custom_auth", "_api_key_provider", "_workload_identity_auth", "_middleware")


@contextmanager
def paused(module: str) -> Iterator[None]:
    """Import a module without garbage collections, which takes a third less time.

    Afterwards all objects belong to the oldest generation, where two more collections would have moved them. Nothing
    stays disabled, frozen or changed; a collector that the program has disabled or frozen stays so. If the module is
    already imported, nothing is done, because even counting a million frozen objects takes longer than a request.
    """
    if module in sys.modules:
        yield
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


COMPLETE = "white_space"
"""Stop reason of a reply that was ended for this reason and may be complete; no server sends it."""
CUT = "white_space_cut"
"""Stop reason of such a reply that breaks off in the middle of JSON."""
MOST_WHITE_SPACE = 2_000
"""Length of white space in a row after which a reply is ended [characters]."""
ENDED = f"the model wrote nothing but white space for {MOST_WHITE_SPACE:,} characters; its reply was ended there"


# Escaped white space in a JSON string.
_ESCAPES = ("\\n", "\\r", "\\t")


class WhiteSpace:
    """Counts the white space at the end of a reply."""

    def __init__(self) -> None:
        self._length = 0
        self._backslash = ""

    def add(self, text: str) -> None:
        """Count the next piece."""
        text = self._backslash + text
        # An escape may be split between two pieces.
        self._backslash = "\\" if text.endswith("\\") else ""
        text = text.removesuffix(self._backslash)
        for escape in _ESCAPES:
            text = text.replace(escape, "  ")
        blank = len(text) - len(text.rstrip())
        self._length = self._length + blank if blank == len(text) else blank

    @property
    def is_endless(self) -> bool:
        """True once the reply should be ended."""
        return self._length >= MOST_WHITE_SPACE


def stop_reason(texts: Iterable[str]) -> str:
    """Return the stop reason of a reply that was ended.

    texts: its text, and the arguments of its calls.
    """
    for text in texts:
        if text.lstrip().startswith("{"):
            try:
                json.loads(text)
            except (ValueError, RecursionError):
                return CUT
    return COMPLETE


def warning(reason: str) -> str:
    """Return the warning about a reply with this stop reason; empty if it was not ended for white space."""
    return ENDED if reason in {COMPLETE, CUT} else ""
