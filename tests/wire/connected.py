"""Providers of the real SDKs, connected to a simulated API of either kind."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.providers import anthropic, openai_chat
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome
from tests.loop_jobs import job, outcome_of

MESSAGES, CHAT = "messages", "chat"


@asynccontextmanager
async def connected(
    api: Any, model: str = "", *, key: str = "test", retries: int = 0, **options: Any
) -> AsyncIterator[Any]:
    """Yield a provider for a simulator or an address; that of chat completions ends with `/v1`."""
    url = api if isinstance(api, str) else api.base_url
    is_chat = url.endswith("/v1")
    make = openai_chat.make_client if is_chat else anthropic.make_client
    async with make(base_url=url, api_key=key, max_retries=retries, **options) as client:
        if is_chat:
            yield openai_chat.ChatProvider(model or "some-model", client)
        else:
            yield anthropic.AnthropicProvider(model or "haiku", client)


@asynccontextmanager
async def runner_on(api: Any, model: str = "", *, retries: int = 0, **options: Any) -> AsyncIterator[Runner]:
    """Yield a Runner with a new provider; `options` are those of the Runner."""
    async with connected(api, model, retries=retries) as provider, Runner(provider=provider, **options) as runner:
        yield runner


async def asked(
    api: Any,
    limit: int | None = 30,
    *,
    model: str = "",
    key: str = "test",
    retries: int = 0,
    events: list[Event] | None = None,
    watch: Callable[[Any], object] | None = None,
    **settings: Any,
) -> Outcome:
    """Run a job on a new provider; `settings` are those of the job."""
    async with connected(api, model, key=key, retries=retries) as provider:
        return await outcome_of(job(provider, limit, **settings), events, watch)
