"""Local model servers: their prefixes and addresses, and what they report about their models."""

import asyncio
import ipaddress
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from run_specialist.errors import RunSpecialistError, UsageError, errors_as
from run_specialist.providers.errors import NO_KEY, Endpoint

if TYPE_CHECKING:
    from run_specialist.providers.openai_chat import ChatProvider

API = "/v1"
"""Path of the chat completions API."""
_SCHEME_PORTS = {"http": 80, "https": 443}


def base_url_of(given: str, port: int) -> str:
    """Return the base URL for a variable such as VLLM_BASE_URL; a missing path is completed.

    given: `http://host:port` or `http://host:port/path`; empty = the default port on loopback.
    Raises ValueError with the reason if it is not an HTTP URL.
    """
    text = given.strip().rstrip("/")
    if not text:
        return f"http://127.0.0.1:{port}{API}"
    parts = urlsplit(text)
    if parts.scheme not in _SCHEME_PORTS or not parts.hostname:
        raise ValueError(f"must be a URL like http://127.0.0.1:{port}{API}")
    _refuse_user(parts.netloc)
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or a fragment")
    return f"{parts.scheme}://{_netloc(parts.hostname, parts.port)}{parts.path or API}"


def ollama_url(given: str, port: int) -> str:
    """Return the base URL for a value of OLLAMA_HOST, read as Ollama itself reads it.

    given: `host`, `host:port`, `:port`, `http://host:port` or `https://host/path`, possibly in quotes. With a scheme
        and no port, the port is that of the scheme. The address of all interfaces means this machine.
    Raises ValueError with the reason if it has no valid port.
    Source: `envconfig.Host` of Ollama.
    """
    text = given.strip().strip("\"'")
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "http", text
    elif scheme not in _SCHEME_PORTS:
        raise ValueError("must be a host, host:port or an http URL")
    else:
        port = _SCHEME_PORTS[scheme]
    place, _, path = rest.partition("/")
    _refuse_user(place)
    if _is_address(place.strip("[]")):
        # An IPv6 address may be written without brackets, but then has no port.
        return f"{scheme}://{_netloc(place.strip('[]'), port)}{_api_below(path)}"
    parts = urlsplit(f"//{place}")
    place = _netloc(parts.hostname or "127.0.0.1", port if parts.port is None else parts.port)
    return f"{scheme}://{place}{_api_below(path)}"


def root_of(base_url: str) -> str:
    """Return the URL to which a server's own paths are relative, without a trailing slash."""
    return base_url.removesuffix(API)


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine by a loopback address or as localhost."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _api_below(path: str) -> str:
    return f"/{path.strip('/')}{API}" if path.strip("/") else API


def _netloc(host: str, port: int | None) -> str:
    if _is_address(host):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            # This address tells a server to listen on all interfaces; a client cannot connect to it everywhere.
            address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")  # noqa: PLR2004
        host = str(address) if address.version == 4 else f"[{address}]"  # noqa: PLR2004
    if port == 0:
        raise ValueError("port 0 is not valid")
    return host if port is None else f"{host}:{port}"


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


def _refuse_user(place: str) -> None:
    # A request has only one Authorization header, which contains the key.
    if "@" in place:
        raise ValueError("contains a user name or a password; remove it")


WEIGHTS = "local:"
"""Prefix of the path of a weights file."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """One kind of server."""

    title: str
    """Name in messages."""
    endpoint: Endpoint
    port: int
    """Port that it listens on by default."""
    start: str
    """Command or action that starts it, for messages."""
    parse: Callable[[str, int], str] = base_url_of
    """Returns the base URL for the value of its variable and its default port; raises ValueError."""

    @property
    def base_url(self) -> str:
        """Base URL of its chat completions API: from its variable, otherwise its default port on loopback.

        Raises ValueError with the reason if the variable is invalid.
        """
        return self.parse(os.environ.get(self.endpoint.url, ""), self.port)

    @property
    def key(self) -> str:
        """API key from the environment; empty if none is set."""
        return os.environ.get(self.endpoint.key, "").strip()


def _endpoint(name: str, url_variable: str = "") -> Endpoint:
    upper = name.upper()
    return Endpoint("openai", "chat completions", name, f"{upper}_API_KEY", url_variable or f"{upper}_BASE_URL")


LLAMACPP = LocalServer("llama.cpp", _endpoint("llamacpp"), 8080, "`llama-server -m FILE.gguf --jinja`")
OLLAMA = LocalServer("Ollama", _endpoint("ollama", "OLLAMA_HOST"), 11434, "`ollama serve`", ollama_url)
LMSTUDIO = LocalServer("LM Studio", _endpoint("lmstudio"), 1234, "`lms server start`")
VLLM = LocalServer("vLLM", _endpoint("vllm"), 8000, "`vllm serve NAME`")
SERVERS = {server.endpoint.prefix: server for server in (OLLAMA, LMSTUDIO, LLAMACPP, VLLM)}
"""Servers by their prefix."""
WEIGHTS_ENDPOINT = Endpoint("openai", "chat completions", WEIGHTS.removesuffix(":"), "the key", "the file of the model")
"""Endpoint of a server started by this program; it has no environment variable."""


def prefix_of(model: str) -> str | None:
    """Return the prefix of a local model with its colon; None for any other model."""
    prefix = model.partition(":")[0] + ":"
    return prefix if ":" in model and (prefix in SERVERS or prefix == WEIGHTS) else None


# What the servers report about their models, and the providers made from it.

QUERY_PATIENCE = 2.0
"""Timeout of all queries together [s]."""
# Maximum size of a response; the largest real one has 120 KB of license texts and tensor names [bytes].
_LARGEST_ANSWER = 512 * 1024
SHORTEST_CONTEXT, LONGEST_CONTEXT = 256, 2**25
"""Range of plausible context lengths; others are ignored [tokens]."""
# Default context length with which Ollama and LM Studio load a model [tokens].
_DEFAULT_CONTEXT = 4_096
LONGEST_NAME = 300
"""Maximum length of a model name; longer ones are ignored [characters]."""
# A reply takes at most one part in this many of the context.
_REPLY_SHARE = 4
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)
_MOST_LISTED, _MOST_DIGITS = 10, 9

Query = tuple[str, Mapping[str, Any] | None]
"""A path relative to the root of a server, and a body to send with POST as JSON; None = GET."""
Response = tuple[int, Any]
"""The HTTP status, 0 = no response in time or one that was too long; and the parsed JSON, None = none."""
MODELS, PROPS = ("/v1/models", None), ("/props", None)


class NothingListens(RunSpecialistError):
    """The server does not accept connections."""


class ContextLength(NamedTuple):
    """The context length that a server gives to one request."""

    tokens: int | None = None
    """None = not known [tokens]."""
    note: str = ""
    """A warning for the user; empty = none."""


async def local_provider(model: str) -> "ChatProvider":
    """Return the provider of a model whose id has the prefix of a local server.

    Raises UsageError if nothing listens there, if the server does not have the model, or if the configuration is
    invalid.
    """
    from run_specialist.providers.openai_chat import ChatProvider, chat_client  # noqa: PLC0415 - only a request needs it

    prefix, _, name = model.partition(":")
    server = SERVERS[f"{prefix}:"]
    with errors_as(UsageError, server.endpoint.url, ValueError):
        url = server.base_url
    options = {"api_key": server.key or NO_KEY, "base_url": url, "direct": is_loopback(url)}
    client = chat_client(model, server.endpoint, **options)
    try:
        name, context = await _find(server, name.strip(), root_of(url))
    except NothingListens:
        await client.close()
        raise UsageError(
            f"nothing listens at {root_of(url)}; start {server.title} ({server.start}), or set {server.endpoint.url}"
        ) from None
    except BaseException:
        await client.close()
        raise
    return with_context(ChatProvider(name, client, server.endpoint), context)


def with_context(provider: "ChatProvider", context: ContextLength) -> "ChatProvider":
    """Return a provider that knows the length of its context, which bounds its replies."""
    if context.tokens is not None:
        known = provider.capabilities
        longest = min(known.max_output_tokens, max(context.tokens // _REPLY_SHARE, 1))
        provider.knowledge.capabilities = replace(
            known, max_output_tokens=longest, context_tokens=context.tokens, context_note=context.note
        )
    return provider


async def _find(server: LocalServer, name: str, root: str) -> tuple[str, ContextLength]:
    """Return the server's name of a model, and the length of its context.

    name: as the user wrote it; may be empty only for llama.cpp.
    """
    queries: list[Query] = [MODELS]
    if server is LLAMACPP:
        queries.append(PROPS)
    elif name and server is LMSTUDIO:
        queries.append(("/api/v0/models", None))
    elif name and server is OLLAMA:
        queries += [("/api/show", {"model": name}), ("/api/ps", None)]
    listed, *others = await ask_all(root, server.key, *queries)
    nameless = f"`model={server.endpoint.prefix}` needs the name of a model"
    if server is LLAMACPP:
        names = [name] if name else loaded_names(listed[1])
        if len(names) != 1:
            raise UsageError(f"{nameless}, unless exactly one is loaded; {_on_offer(server, root, listed)}")
        return names[0], of_llamacpp(others[0][1])
    if not name:
        raise UsageError(f"{nameless}; {_on_offer(server, root, listed)}")
    if server is LMSTUDIO:
        return name, of_lmstudio(name, others[0][1], listed[1])
    if server is OLLAMA:
        (status, shown), (_, running) = others
        if status == HTTPStatus.NOT_FOUND and isinstance(shown, dict):
            advice = f"get it with `ollama pull {name}`; {_on_offer(server, root, listed)}"
            raise UsageError(f"{server.title} has no model {name}; {advice}")
        given = os.environ.get("OLLAMA_CONTEXT_LENGTH", "").strip()
        assumed = length(int(given)) if given.isdecimal() and len(given) <= _MOST_DIGITS else None
        return name, of_ollama(name, shown, running, assumed)
    if (names := model_names(listed[1])) and name not in names:
        raise UsageError(f"{server.title} has no model {name}; {_on_offer(server, root, listed)}")
    return name, of_vllm(name, listed[1])


def _on_offer(server: LocalServer, root: str, listed: Response) -> str:
    """Return the models that a server lists, as the end of a message."""
    status, value = listed
    if names := model_names(value):
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        return f"{root} has {', '.join(names[:_MOST_LISTED])}{more}"
    if status == HTTPStatus.OK and isinstance(value, dict) and value.get("data") in ([], None):
        return f"{root} has no models yet"
    why = f" (HTTP {status}; set {server.endpoint.key})" if status in {401, 403} else ""
    return f"{root} does not list its models{why}"


async def ask_all(root: str, key: str, *queries: Query) -> list[Response]:
    """Send queries concurrently and return the responses in their order.

    root: URL of the server.
    key: sent as a bearer token if not empty.
    Raises NothingListens if the server does not accept connections.
    """
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    async def ask(path: str, body: Mapping[str, Any] | None) -> Response:
        method, received = "GET" if body is None else "POST", bytearray()
        try:
            async with asyncio.timeout(QUERY_PATIENCE), client.stream(method, root + path, json=body) as response:
                async for part in response.aiter_raw():
                    received += part
                    if len(received) > _LARGEST_ANSWER:
                        return 0, None
        except httpx2.ConnectError as error:
            raise NothingListens(str(error)) from error
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError, ValueError):
            return 0, None
        try:
            return response.status_code, json.loads(received)
        except (ValueError, RecursionError):
            return response.status_code, None

    headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {key}"} if key else {})
    # A proxy must not see what goes to a server on this machine, and could not reach it.
    async with httpx2.AsyncClient(headers=headers, timeout=QUERY_PATIENCE, trust_env=not is_loopback(root)) as client:
        return await asyncio.gather(*(ask(path, body) for path, body in queries))


def length(value: object) -> int | None:
    """Return a context length; None for an implausible value [tokens]."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if SHORTEST_CONTEXT <= value <= LONGEST_CONTEXT else None


def model_names(listed: object) -> list[str]:
    """Return the ids in the answer to `GET /v1/models`, without invalid names."""
    names = (entry.get("id") for entry in _entries(listed))
    return [
        one for one in names if isinstance(one, str) and len(one) <= LONGEST_NAME and one.isprintable() and one.strip()
    ]


def loaded_names(listed: object) -> list[str]:
    """Return the ids of the models that llama.cpp has loaded; all models if it reports no status."""
    loaded = [entry for entry in _entries(listed) if _at(entry, "status", "value") in {None, "loaded"}]
    return model_names({"data": loaded})


def of_llamacpp(props: object) -> ContextLength:
    """Return the length of one slot, from `GET /props`."""
    return ContextLength(length(_at(props, "default_generation_settings", "n_ctx")))


def of_vllm(name: str, listed: object) -> ContextLength:
    """Return the length in `GET /v1/models`, which is where vLLM reports it."""
    lengths = (length(entry.get("max_model_len")) for entry in _entries(listed) if entry.get("id") == name)
    return ContextLength(next(lengths, None))


def of_lmstudio(name: str, native: object, listed: object) -> ContextLength:
    """Return the length of a loaded model, from `GET /api/v0/models`.

    listed: answer to `GET /v1/models`, used if the native list does not have the model.
    """
    for entry in _entries(native):
        if entry.get("id") == name:
            if loaded := length(entry.get("loaded_context_length")):
                return ContextLength(loaded)
            if longest := length(entry.get("max_context_length")):
                return _assumed(name, longest, "load it in LM Studio first")
    return of_vllm(name, listed)


def of_ollama(name: str, shown: object, running: object, assumed: int | None) -> ContextLength:
    """Return the length that Ollama gives to a request, which is often less than the model supports.

    shown: answer to `POST /api/show`.
    running: answer to `GET /api/ps`.
    assumed: OLLAMA_CONTEXT_LENGTH of this process [tokens]; None if not set.
    """
    info, parameters = _at(shown, "model_info"), _at(shown, "parameters")
    pairs = info.items() if isinstance(info, dict) else ()
    lengths = (length(value) for key, value in pairs if key.endswith(".context_length"))
    longest = next((found for found in lengths if found), None)
    fixed = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    # A request without `num_ctx` uses that of the model, even if another program has loaded it with more.
    if fixed and (told := length(int(fixed[1]))):
        return ContextLength(min(told, longest or told))
    tagged = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    for entry in _entries(running, "models"):
        if tagged in {entry.get("name"), entry.get("model")} and (told := length(entry.get("context_length"))):
            return ContextLength(told)
    if longest is None:
        return ContextLength()
    if assumed is not None:
        return ContextLength(min(longest, assumed))
    return _assumed(name, longest, f"load it first (`ollama run {name}`), or set OLLAMA_CONTEXT_LENGTH here, too")


def _assumed(name: str, longest: int, remedy: str) -> ContextLength:
    """Return the length for a model that is not loaded yet, with a note if it could be longer."""
    if longest <= _DEFAULT_CONTEXT:
        return ContextLength(longest)
    note = (
        f"{name} is not loaded, so the server does not report the length of its context; "
        f"{_DEFAULT_CONTEXT:,} of {longest:,} tokens are assumed; {remedy}"
    )
    return ContextLength(_DEFAULT_CONTEXT, note)


def _entries(listed: object, key: str = "data") -> list[dict[str, Any]]:
    entries = _at(listed, key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
