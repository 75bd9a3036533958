"""Compare the SDK's tool loop with run-specialist at the same limit, against the simulated Messages API.

Run it from the top of the repository, in an environment with the `test` group:

    python -m bench.hard_cutoff

The model never stops calling its tool by itself. Both loops have a limit of 30 calls.
"""

import asyncio

import anthropic

from run_specialist.providers.anthropic import AnthropicProvider
from tests.loop_jobs import job, outcome_of
from tests.wire.simulator import MessagesSimulator, policies

LIMIT = 30

Row = tuple[str, str, int, int, int]
"""Loop, answer, calls run, requests, number of results that no request contained."""


def connect(api: MessagesSimulator) -> anthropic.AsyncAnthropic:
    """Connect the SDK to the simulator."""
    return anthropic.AsyncAnthropic(base_url=api.base_url, api_key="none", max_retries=0)


def lost(api: MessagesSimulator, ran: int) -> int:
    """Return the number of results that never reached the model."""
    return ran - len({call_id for request in api.requests for call_id in request.results})


async def cut_off() -> Row:
    """Run the SDK's `tool_runner(max_iterations=30)`."""
    ran: list[str] = []

    @anthropic.beta_async_tool
    async def look(query: str) -> str:
        """Look something up."""
        ran.append(query)
        return f"note on {query!r}"

    with MessagesSimulator(policies.always_tool("look")) as api:
        client = connect(api)
        runner = client.beta.messages.tool_runner(
            model="claude-haiku-5-5",
            max_tokens=4_000,
            messages=[{"role": "user", "content": "What is known?"}],
            tools=[look],
            max_iterations=LIMIT,
            thread=False,
        )
        last = await runner.until_done()
        await client.close()
        answer = "".join(block.text for block in last.content if block.type == "text")
        return "SDK tool_runner, max_iterations=30", answer, len(ran), len(api.requests), lost(api, len(ran))


async def landed() -> Row:
    """Run run-specialist with a limit of 30 tool calls."""
    with MessagesSimulator(policies.always_tool("look")) as api:
        provider = AnthropicProvider("haiku", connect(api))
        outcome = await outcome_of(job(provider, LIMIT))
        await provider.aclose()
        ran = outcome.tool_calls.used
        return "run-specialist, tool_calls_limit: 30", outcome.answer, ran, len(api.requests), lost(api, ran)


async def main() -> None:
    """Print the table."""
    print("| loop | the parent gets | calls run | requests | results that the model never saw |")
    print("|---|---|---|---|---|")
    for name, answer, ran, requests, unseen in (await cut_off(), await landed()):
        print(f"| {name} | {answer or 'nothing: the last message has no text'} | {ran} | {requests} | {unseen} |")


if __name__ == "__main__":
    asyncio.run(main())
