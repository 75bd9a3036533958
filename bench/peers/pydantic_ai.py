"""pydantic-ai's agent with its limit of tool calls and prompt caching."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.given import MAX_TOKENS, MODEL, SYSTEM, Child, Conditions


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a client for the lap."""
    from anthropic import AsyncAnthropic  # noqa: PLC0415 - part of what is measured
    from pydantic_ai import Agent  # noqa: PLC0415
    from pydantic_ai.exceptions import UsageLimitExceeded  # noqa: PLC0415
    from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415
    from pydantic_ai.usage import UsageLimits  # noqa: PLC0415

    settings = AnthropicModelSettings(
        max_tokens=MAX_TOKENS, anthropic_cache_instructions=True, anthropic_cache_messages=True
    )
    limits = UsageLimits(request_limit=None, tool_calls_limit=conditions.limit)
    async with AsyncAnthropic(base_url=conditions.url, api_key="none") as client:
        model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
        agent = Agent(model, instructions=SYSTEM, model_settings=settings)

        @agent.tool_plain
        async def search_notes(query: str) -> str:  # noqa: ARG001 - the note is always the same
            """Search the notes and return matching passages.

            Args:
                query: words to look for
            """
            return conditions.search()

        async def child(question: str) -> str:
            try:
                return str((await agent.run(question, usage_limits=limits)).output)
            except UsageLimitExceeded:
                return ""

        yield child
