"""LangChain's agent with its middlewares for caching and for a limit of tool calls, which lets the model continue."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.given import MAX_TOKENS, MODEL, SYSTEM, Child, Conditions

GRAPH_STEPS = 100_000
"""LangGraph's recursion limit, set so high that it never ends a run."""


@asynccontextmanager
async def opened(conditions: Conditions) -> AsyncIterator[Child]:
    """Create an agent."""
    from langchain.agents import create_agent  # noqa: PLC0415 - part of what is measured
    from langchain.agents.middleware import ToolCallLimitMiddleware  # noqa: PLC0415
    from langchain_anthropic import ChatAnthropic  # noqa: PLC0415
    from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware  # noqa: PLC0415

    async def search_notes(query: str) -> str:  # noqa: ARG001 - the note is always the same
        """Search the notes and return matching passages."""
        return conditions.search()

    agent = create_agent(
        ChatAnthropic(model=MODEL, base_url=conditions.url, api_key="none", max_tokens=MAX_TOKENS),
        [search_notes],
        system_prompt=SYSTEM,
        middleware=[ToolCallLimitMiddleware(run_limit=conditions.limit), AnthropicPromptCachingMiddleware()],
    )

    async def child(question: str) -> str:
        state = {"messages": [{"role": "user", "content": question}]}
        return str((await agent.ainvoke(state, {"recursion_limit": GRAPH_STEPS}))["messages"][-1].text)

    yield child
