"""Two small agents that call specialists, on the Messages API and on chat completions; docs/agents.md shows them."""

import asyncio
from typing import Any

from run_specialist import Delegate, delegate_tool

MODEL = "claude-sonnet-5"
CHAT_MODEL = "some-model"


async def answer(client: Any, question: str) -> str:
    """Answer a question with the help of two specialists, neither of which makes more than 12 tool calls."""
    async with delegate_tool(["thoughts-analyzer", "fact-checker"], tool_calls_limit=12) as delegate:
        return await ask_messages(client, delegate, question)


async def ask_messages(client: Any, delegate: Delegate, question: str) -> str:
    """Answer a question with the Messages API, by an `AsyncAnthropic`, and the help of specialists."""
    messages = [{"role": "user", "content": question}]
    while True:
        reply = await client.messages.create(
            model=MODEL, max_tokens=4096, tools=[delegate.definition], messages=messages
        )
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        messages.append({"role": "user", "content": await asyncio.gather(*map(delegate.result, calls))})


async def ask_chat(client: Any, delegate: Delegate, question: str) -> str:
    """Answer a question with chat completions, by an `AsyncOpenAI`, and the help of specialists."""
    messages = [{"role": "user", "content": question}]
    while True:
        reply = await client.chat.completions.create(model=CHAT_MODEL, tools=[delegate.function], messages=messages)
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content
        messages += await asyncio.gather(*map(delegate.message, message.tool_calls))
