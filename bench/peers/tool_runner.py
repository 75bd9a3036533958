"""The SDK's `tool_runner` (beta): the server stores the history, and the limit counts requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.given import MAX_TOKENS, MODEL, PATIENCE, SYSTEM, Child, Conditions

CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Open a client for the lap."""
    import anthropic  # noqa: PLC0415 - part of what is measured

    @anthropic.beta_async_tool
    async def search_notes(query: str) -> str:  # noqa: ARG001 - the note is always the same
        """Search the notes and return matching passages.

        Args:
            query: words to look for
        """
        return conditions.search()

    async with anthropic.AsyncAnthropic(base_url=conditions.url, api_key="none", timeout=PATIENCE) as client:

        async def child(question: str) -> str:
            runner = client.beta.messages.tool_runner(
                model=MODEL,
                max_tokens=MAX_TOKENS,
                max_iterations=conditions.limit,
                system=[{"type": "text", "text": SYSTEM, **CACHED}],
                tools=[search_notes],
                messages=[{"role": "user", "content": question}],
                **CACHED,
            )
            last = await runner.until_done()
            return "".join(block.text for block in last.content if block.type == "text")

        yield child
