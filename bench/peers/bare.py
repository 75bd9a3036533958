"""Minimal hand-written loop on the SDK; at the limit it forces `respond`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.given import MAX_TOKENS, MODEL, PATIENCE, SCHEMA, SYSTEM, TOOL, TOOL_SAYS, Child, Conditions

RESPOND = {
    "name": "respond",
    "description": "Give the answer.",
    "input_schema": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
}
TOOLS = [{"name": TOOL, "description": TOOL_SAYS, "input_schema": SCHEMA}, RESPOND]
CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


@asynccontextmanager
async def opened(conditions: Conditions, **options: Any) -> AsyncIterator[Child]:  # noqa: ANN401 - the SDK's
    """Open a client for the lap.

    options: Further options of the client.
    """
    import anthropic  # noqa: PLC0415 - part of what is measured

    given = {"base_url": conditions.url, "api_key": "none", "timeout": PATIENCE}
    async with anthropic.AsyncAnthropic(**given, **options) as client:

        async def child(question: str) -> str:
            messages: list[Any] = [{"role": "user", "content": question}]
            made = 0
            while True:
                spent = made >= conditions.limit
                reply = await client.messages.create(
                    model=MODEL,
                    max_tokens=MAX_TOKENS,
                    system=[{"type": "text", "text": SYSTEM, **CACHED}],
                    tools=TOOLS,
                    messages=messages,
                    **CACHED,
                    **({"tool_choice": {"type": "tool", "name": "respond"}} if spent else {}),
                )
                uses = [block for block in reply.content if block.type == "tool_use"]
                if not uses:
                    return "".join(block.text for block in reply.content if block.type == "text")
                results = []
                for use in uses:
                    if use.name == "respond":
                        return str(use.input["answer"])
                    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": use.id}
                    if made < conditions.limit:
                        made += 1
                        result["content"] = conditions.search()
                    else:
                        result |= {"content": "Not run: no tool calls are left.", "is_error": True}
                    results.append(result)
                messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]

        yield child
