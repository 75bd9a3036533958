"""Create the provider of a model on a local server, after querying the server about it."""

import os
from dataclasses import replace

from run_specialist.errors import UsageError
from run_specialist.providers.choose import NO_KEY, chat_client
from run_specialist.providers.local import server_facts
from run_specialist.providers.local.addresses import is_loopback, root_of
from run_specialist.providers.local.local_servers import LLAMACPP, LMSTUDIO, OLLAMA, SERVERS, VLLM, LocalServer
from run_specialist.providers.local.server_facts import ContextLength
from run_specialist.providers.local.server_questions import NothingListens, ServerRequest, ServerResponse, ask_all
from run_specialist.providers.openai_chat import ChatProvider

DEFAULT_CONTEXT = 4_096
"""Default context length with which Ollama and LM Studio load a model [tokens]."""
REPLY_SHARE = 4
"""A reply takes at most one part in this many of the context."""
MODELS = ServerRequest("/v1/models")
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
        return name, server_facts.of_lmstudio(name, native.value, listed.value, DEFAULT_CONTEXT)
    (listed,) = await ask_all(root, server.key, [MODELS])
    names = server_facts.model_names(listed.value)
    if names and name not in names:
        raise UsageError(f"{VLLM.title} has no model {name}; {_on_offer(server, root, listed)}")
    return name, server_facts.of_vllm(name, listed.value)


async def _llamacpp(name: str, root: str) -> tuple[str, ContextLength]:
    listed, props = await ask_all(root, LLAMACPP.key, [MODELS, ServerRequest("/props")])
    if not name:
        names = server_facts.loaded_names(listed.value)
        if len(names) != 1:
            raise UsageError(
                f"`model={LLAMACPP.prefix}` needs the name of a model, unless exactly one is loaded; "
                f"{_on_offer(LLAMACPP, root, listed)}"
            )
        name = names[0]
    return name, server_facts.of_llamacpp(props.value)


async def _ollama(name: str, root: str) -> ContextLength:
    shown, running, listed = await ask_all(
        root, OLLAMA.key, [ServerRequest("/api/show", {"model": name}), ServerRequest("/api/ps"), MODELS]
    )
    if shown.status == _NOT_FOUND and isinstance(shown.value, dict):
        raise UsageError(
            f"{OLLAMA.title} has no model {name}; get it with `ollama pull {name}`; {_on_offer(OLLAMA, root, listed)}"
        )
    given = os.environ.get("OLLAMA_CONTEXT_LENGTH", "").strip()
    assumed = server_facts.length(int(given)) if given.isdecimal() and len(given) <= _MOST_DIGITS else None
    return server_facts.of_ollama(name, shown.value, running.value, assumed, DEFAULT_CONTEXT)


def _on_offer(server: LocalServer, root: str, listed: ServerResponse) -> str:
    """Return the models that a server lists, as the end of a message."""
    names = server_facts.model_names(listed.value)
    if names:
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        return f"{root} has {', '.join(names[:_MOST_LISTED])}{more}"
    if isinstance(listed.value, dict) and listed.value.get("data") in ([], None) and listed.status == 200:  # noqa: PLR2004
        return f"{root} has no models yet"
    why = f" (HTTP {listed.status}; set {server.endpoint.key})" if listed.status in {401, 403} else ""
    return f"{root} does not list its models{why}"
