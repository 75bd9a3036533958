"""Measure the cost of each kind of landing, with the real loop and SDK against the simulated Messages API.

Run it from the top of the repository, in an environment with the `test` group:

    python -m bench.landing_cost

All figures are input in plain input tokens: a token written to the cache counts 1.25, a token read from it 0.1 (0.05 on
the newest Opus and Sonnet). The simulator counts 4 bytes as a token and follows the documented cache rules; no model
and no network is used. Only ratios are meaningful.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import anthropic
import httpx2

from run_specialist import prompts
from run_specialist.budget import Style
from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.base import Opening
from run_specialist.record.outcome import Outcome
from run_specialist.tools.base import Tool
from tests.loop_jobs import job, outcome_of
from tests.wire.simulator import MessagesSimulator, billed, find_model, policies

RESULT = 9_300
"""Length of a tool result, chosen so that a run of 30 calls lands with about 74,000 tokens [characters]."""
SYSTEM = "You answer a question from the notes at hand, with quotes. " * 85
"""Prompt of a fixed length; about 3,000 tokens together with the tools."""


def look(query: str = "") -> str:
    """Return a result of a fixed length that differs from call to call."""
    return (f"{query}: " + "what the notes say about it, line by line. " * (RESULT // 40))[:RESULT]


OTHERS = [Tool(f"tool_{number}", "Says what it is good for, and when. " * 25, look) for number in range(5)]
"""Tools that are offered but not called, like unused file tools."""

Body = dict[str, Any]
Alter = Callable[[Body], Body]


def as_it_is(body: Body) -> Body:
    """Send the landing request unchanged."""
    return body


def with_tail_marker(body: Body) -> Body:
    """Add the automatic cache marker to the forced request."""
    return {**body, "cache_control": {"type": "ephemeral"}}


def without_other_tools(body: Body) -> Body:
    """Remove the other tools, with the automatic cache marker."""
    return with_tail_marker({**body, "tools": [tool for tool in body["tools"] if tool["name"] == "respond"]})


def without_system_marker(body: Body) -> Body:
    """Remove the cache breakpoint on the system prompt; only the automatic one remains."""
    system = [{key: value for key, value in block.items() if key != "cache_control"} for block in body["system"]]
    return {**body, "system": system}


class Altering(httpx2.AsyncHTTPTransport):
    """Transport that modifies request bodies, to measure alternatives that the program does not implement."""

    def __init__(self, alter: Alter, *, every: bool) -> None:
        super().__init__()
        self._alter, self._every = alter, every

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request, modified if it is the landing or if all requests are to be modified."""
        body = json.loads(await request.aread())
        if self._every or body.get("tool_choice"):
            raw = json.dumps(self._alter(body), ensure_ascii=False).encode()
            headers = [pair for pair in request.headers.multi_items() if pair[0].lower() != "content-length"]
            request = httpx2.Request(request.method, request.url, headers=headers, content=raw)
        return await super().handle_async_request(request)


async def land(  # noqa: PLR0913 - a measurement has many parameters
    model: str,
    style: Style,
    *,
    alter: Alter = as_it_is,
    every: bool = False,
    hears: bool = True,
    parallel: int = 1,
    limit: int = 30,
) -> tuple[Outcome, list[Any]]:
    """Run a model that never stops by itself to its limit; return the outcome and the requests."""
    policy = policies.always_tool(
        "look",
        calls_per_turn=parallel,
        **({} if hears else {"obeys": lambda request: False}),  # noqa: ARG005 - the policy's signature
    )
    with MessagesSimulator(policy, may_refuse=["tool_choice.forced"]) as api:
        http = anthropic.DefaultAsyncHttpxClient(transport=Altering(alter, every=every))
        client = anthropic.AsyncAnthropic(base_url=api.base_url, api_key="none", max_retries=0, http_client=http)
        provider = AnthropicProvider(model, client)
        made = job(provider, limit, tools=[Tool("look", "Look something up.", look), *OTHERS], landing=style)
        system = prompts.system(SYSTEM, made.budget, budget_notice=True)
        made = replace(made, opening=Opening(system, made.opening.tools))
        outcome = await outcome_of(made)
        await provider.aclose()
        return outcome, list(api.requests)


def row(name: str, model: str, outcome: Outcome, requests: list[Any]) -> str:
    """Return one line of a table."""
    price = find_model(requests[0].body["model"]).cache_read_price
    accepted = [request for request in requests if request.status == 200]  # noqa: PLR2004 - HTTP
    landing = accepted[-(outcome.landing.requests if outcome.landing else 1) :]
    size = sum(landing[0].usage[key] for key in landing[0].usage if key.endswith("_tokens") and key != "output_tokens")
    cost = sum(billed(request.usage, price) for request in landing)
    total = sum(billed(request.usage, price) for request in accepted)
    refused = len(requests) - len(accepted)
    how = outcome.landing.how if outcome.landing else "-"
    return (
        f"| {name} | {model} | {how} | {len(accepted)}{f' + {refused} refused' if refused else ''} "
        f"| {size:,} | {cost:,.0f} | {total:,.0f} |"
    )


async def main() -> None:
    """Print the tables."""
    print("| landing | model | answered by | requests | tokens in landing | landing billed | whole run billed |")
    print("|---|---|---|---|---|---|---|")
    for name, model, style, options in (
        ("order: only the last result changes, the previous tail is marked", "haiku", "order", {}),
        ("force: tool choice names `respond`, no tail marker", "haiku", "force", {}),
        ("schema: the reply is constrained, tool choice forbids tools, no tail marker", "haiku", "schema", {}),
        ("none: tool choice forbids tools, no tail marker", "haiku", "none", {}),
        ("force with the tail marker left on", "haiku", "force", {"alter": with_tail_marker}),
        (
            "force without a breakpoint on the system prompt",
            "haiku",
            "force",
            {"alter": without_system_marker, "every": True},
        ),
        ("force with all other tools removed", "haiku", "force", {"alter": without_other_tools}),
        ("order, ignored by the model", "haiku", "order", {"hears": False}),
        ("order", "sonnet", "order", {}),
        ("force, refused by this model", "sonnet", "force", {}),
        ("order, ignored by the model", "sonnet", "order", {"hears": False}),
        ("schema", "sonnet", "schema", {}),
        ("none", "sonnet", "none", {}),
    ):
        outcome, requests = await land(model, style, **options)
        print(row(name, model, outcome, requests))

    print("\n| parallel calls per turn | previous tail marked | requests | whole run billed | read from the cache |")
    print("|---|---|---|---|---|")
    for parallel in (1, 4, 8, 10, 15):
        marked, unmarked = [await _large_turns(parallel, lookback) for lookback in (18, 10_000)]
        labelled = {"either way": marked} if marked == unmarked else {"yes": marked, "only in the landing": unmarked}
        for label, figures in labelled.items():
            print(f"| {parallel} | {label} | {figures} |")


async def _large_turns(parallel: int, lookback: int) -> str:
    """Return requests, bill and cache reads of a run of 60 calls.

    lookback: Number of blocks in a turn after which the previous tail is marked.
    """
    with patch("run_specialist.providers.anthropic.LOOKBACK_BLOCKS", lookback):
        outcome, requests = await land("haiku", "order", parallel=parallel, limit=60)
    total = sum(billed(request.usage) for request in requests)
    return f"{len(requests)} | {total:,.0f} | {outcome.usage.cache_read_input_tokens:,}"


if __name__ == "__main__":
    asyncio.run(main())
