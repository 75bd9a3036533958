"""Create the provider of a model on a local server, after querying the server, whose responses are not trusted."""

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from run_specialist.errors import RunSpecialistError, UsageError
from run_specialist.providers.choose import NO_KEY, chat_client
from run_specialist.providers.local.local_servers import (
    LLAMACPP,
    LMSTUDIO,
    OLLAMA,
    SERVERS,
    VLLM,
    LocalServer,
    is_loopback,
    root_of,
)
from run_specialist.providers.openai_chat import ChatProvider

if TYPE_CHECKING:
    import httpx2


PATIENCE = 2.0
"""Timeout of all queries together [s]."""
LARGEST_ANSWER = 512 * 1024
"""Maximum size of a response; the largest real one has 120 KB of license texts and tensor names [bytes]."""


class NothingListens(RunSpecialistError):
    """The server does not accept connections."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """One request to a server."""

    path: str
    """Relative to the root of the server, with a leading slash."""
    body: Mapping[str, Any] | None = None
    """Sent with POST as JSON; None = GET."""


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """The response of a server."""

    status: int = 0
    """HTTP status; 0 = no response in time, or one that was too long."""
    value: Any = None
    """The parsed JSON; None if there is none."""


async def ask_all(root: str, key: str, questions: Sequence[ServerRequest]) -> list[ServerResponse]:
    """Ask questions concurrently and return the answers in their order.

    root: URL of the server.
    key: sent as a bearer token if not empty.
    Raises NothingListens if the server does not accept connections.
    """
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {key}"} if key else {})
    # A proxy must not see what goes to a server on this machine, and could not reach it.
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=not is_loopback(root)) as client:
        return await asyncio.gather(*(_ask(client, root, question) for question in questions))


async def _ask(client: "httpx2.AsyncClient", root: str, question: ServerRequest) -> ServerResponse:
    import httpx2  # noqa: PLC0415 - as above

    method = "GET" if question.body is None else "POST"
    try:
        async with (
            asyncio.timeout(PATIENCE),
            client.stream(method, root + question.path, json=question.body) as response,
        ):
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > LARGEST_ANSWER:
                    return ServerResponse()
            return ServerResponse(response.status_code, _parsed(bytes(body)))
    except httpx2.ConnectError as error:
        raise NothingListens(str(error)) from error
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError, ValueError):
        return ServerResponse()


def _parsed(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


SHORTEST_CONTEXT, LONGEST_CONTEXT = 256, 2**25
"""Range of plausible context lengths; others are ignored [tokens]."""
LONGEST_NAME = 300
"""Maximum length of a model name; longer ones are ignored [characters]."""
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ContextLength:
    """The context length that a server gives to one request."""

    tokens: int | None = None
    """None = not known [tokens]."""
    note: str = ""
    """A warning for the user; empty = none."""


def length(value: object) -> int | None:
    """Return a context length; None for an implausible value [tokens]."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if SHORTEST_CONTEXT <= value <= LONGEST_CONTEXT else None


def model_names(listed: object) -> list[str]:
    """Return the ids in the answer to `GET /v1/models`, without invalid names."""
    return [entry["id"] for entry in _entries(listed) if _is_name(entry.get("id"))]


def loaded_names(listed: object) -> list[str]:
    """Return the ids of the models that llama.cpp has loaded; all models if it reports no status."""
    entries = [entry for entry in _entries(listed) if _is_name(entry.get("id"))]
    loaded = [entry for entry in entries if _at(entry, "status", "value") in {None, "loaded"}]
    return [entry["id"] for entry in loaded]


def of_llamacpp(props: object) -> ContextLength:
    """Return the length of one slot, from `GET /props`."""
    return ContextLength(length(_at(props, "default_generation_settings", "n_ctx")))


def of_vllm(name: str, listed: object) -> ContextLength:
    """Return the length in `GET /v1/models`, which is where vLLM reports it."""
    return ContextLength(next((length(entry.get("max_model_len")) for entry in _named(name, listed)), None))


def of_lmstudio(name: str, native: object, listed: object, assumed: int) -> ContextLength:
    """Return the length of a loaded model, from `GET /api/v0/models`.

    listed: answer to `GET /v1/models`, used if the native list does not have the model.
    assumed: length with which a model that is not loaded will be loaded [tokens].
    """
    for entry in _named(name, native):
        if loaded := length(entry.get("loaded_context_length")):
            return ContextLength(loaded)
        if longest := length(entry.get("max_context_length")):
            return _assumed(name, longest, assumed, "load it in LM Studio first")
    return of_vllm(name, listed)


def of_ollama(name: str, shown: object, running: object, assumed: int | None, default: int) -> ContextLength:
    """Return the length that Ollama gives to a request, which is often less than the model supports.

    shown: answer to `POST /api/show`.
    running: answer to `GET /api/ps`.
    assumed: OLLAMA_CONTEXT_LENGTH of this process [tokens]; None if not set.
    default: length with which Ollama loads a model on a machine with little memory [tokens].
    """
    info = shown.get("model_info") if isinstance(shown, dict) else None
    longest = next(
        (found for key, value in _pairs(info) if key.endswith(".context_length") and (found := length(value))), None
    )
    parameters = shown.get("parameters") if isinstance(shown, dict) else None
    fixed = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    # A request without `num_ctx` uses that of the model, even if another program has loaded it with more.
    if fixed and (told := length(int(fixed[1]))):
        return ContextLength(min(told, longest or told))
    for entry in _entries(running, "models"):
        if _with_tag(name) in {entry.get("name"), entry.get("model")} and (told := length(entry.get("context_length"))):
            return ContextLength(told)
    if longest is None:
        return ContextLength()
    if assumed is not None:
        return ContextLength(min(longest, assumed))
    return _assumed(
        name, longest, default, f"load it first (`ollama run {name}`), or set OLLAMA_CONTEXT_LENGTH here, too"
    )


def _assumed(name: str, longest: int, default: int, remedy: str) -> ContextLength:
    """Return the length for a model that is not loaded yet, with a note if it could be longer."""
    if longest <= default:
        return ContextLength(longest)
    note = (
        f"{name} is not loaded, so the server does not report the length of its context; "
        f"{default:,} of {longest:,} tokens are assumed; {remedy}"
    )
    return ContextLength(default, note)


def _with_tag(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _named(name: str, listed: object) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in _entries(listed) if entry.get("id") == name)


def _entries(listed: object, key: str = "data") -> list[dict[str, Any]]:
    entries = listed.get(key) if isinstance(listed, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _pairs(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable() and bool(value.strip())


DEFAULT_CONTEXT = 4_096
"""Default context length with which Ollama and LM Studio load a model [tokens]."""
REPLY_SHARE = 4
"""A reply takes at most one part in this many of the context."""
MODELS, PROPS = ServerRequest("/v1/models"), ServerRequest("/props")
_MOST_LISTED = 10
_MOST_DIGITS = 9
_NOT_FOUND = 404


async def local_provider(model: str) -> ChatProvider:
    """Return the provider of a model whose id has the prefix of a local server.

    Raises UsageError if nothing listens there, if the server does not have the model, or if the configuration is
    invalid.
    """
    prefix, _, name = model.partition(":")
    server, name = SERVERS[f"{prefix}:"], name.strip()
    try:
        url = server.base_url
    except ValueError as error:
        raise UsageError(f"{server.endpoint.url}: {error}") from None
    client = chat_client(model, server.endpoint, api_key=server.key or NO_KEY, base_url=url, direct=is_loopback(url))
    try:
        name, context = await _find(server, name, root_of(url))
    except NothingListens:
        await client.close()
        raise UsageError(
            f"nothing listens at {root_of(url)}; start {server.title} ({server.start}), or set {server.endpoint.url}"
        ) from None
    except BaseException:
        await client.close()
        raise
    return with_context(ChatProvider(name, client, server.endpoint), context)


def with_context(provider: ChatProvider, context: ContextLength) -> ChatProvider:
    """Return a provider that knows the length of its context, which bounds its replies."""
    if context.tokens is not None:
        known = provider.capabilities
        provider.capabilities = replace(
            known,
            max_output_tokens=min(known.max_output_tokens, max(context.tokens // REPLY_SHARE, 1)),
            context_tokens=context.tokens,
            context_note=context.note,
        )
    return provider


async def _find(server: LocalServer, name: str, root: str) -> tuple[str, ContextLength]:
    """Return the server's name of a model, and the length of its context.

    name: as the user wrote it; may be empty only for llama.cpp.
    """
    if server is LLAMACPP:
        return await _llamacpp(name, root)
    if not name:
        (listed,) = await ask_all(root, server.key, [MODELS])
        raise UsageError(f"`model={server.prefix}` needs the name of a model; {_on_offer(server, root, listed)}")
    if server is OLLAMA:
        return name, await _ollama(name, root)
    if server is LMSTUDIO:
        native, listed = await ask_all(root, server.key, [ServerRequest("/api/v0/models"), MODELS])
        return name, of_lmstudio(name, native.value, listed.value, DEFAULT_CONTEXT)
    (listed,) = await ask_all(root, server.key, [MODELS])
    names = model_names(listed.value)
    if names and name not in names:
        raise UsageError(f"{VLLM.title} has no model {name}; {_on_offer(server, root, listed)}")
    return name, of_vllm(name, listed.value)


async def _llamacpp(name: str, root: str) -> tuple[str, ContextLength]:
    listed, props = await ask_all(root, LLAMACPP.key, [MODELS, PROPS])
    if not name:
        names = loaded_names(listed.value)
        if len(names) != 1:
            raise UsageError(
                f"`model={LLAMACPP.prefix}` needs the name of a model, unless exactly one is loaded; "
                f"{_on_offer(LLAMACPP, root, listed)}"
            )
        name = names[0]
    return name, of_llamacpp(props.value)


async def _ollama(name: str, root: str) -> ContextLength:
    shown, running, listed = await ask_all(
        root, OLLAMA.key, [ServerRequest("/api/show", {"model": name}), ServerRequest("/api/ps"), MODELS]
    )
    if shown.status == _NOT_FOUND and isinstance(shown.value, dict):
        raise UsageError(
            f"{OLLAMA.title} has no model {name}; get it with `ollama pull {name}`; {_on_offer(OLLAMA, root, listed)}"
        )
    given = os.environ.get("OLLAMA_CONTEXT_LENGTH", "").strip()
    assumed = length(int(given)) if given.isdecimal() and len(given) <= _MOST_DIGITS else None
    return of_ollama(name, shown.value, running.value, assumed, DEFAULT_CONTEXT)


def _on_offer(server: LocalServer, root: str, listed: ServerResponse) -> str:
    """Return the models that a server lists, as the end of a message."""
    names = model_names(listed.value)
    if names:
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        return f"{root} has {', '.join(names[:_MOST_LISTED])}{more}"
    if isinstance(listed.value, dict) and listed.value.get("data") in ([], None) and listed.status == 200:  # noqa: PLR2004
        return f"{root} has no models yet"
    why = f" (HTTP {listed.status}; set {server.endpoint.key})" if listed.status in {401, 403} else ""
    return f"{root} does not list its models{why}"
