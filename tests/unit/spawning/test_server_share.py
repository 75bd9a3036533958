"""How often one request may use the tools of the API, and what is offered when a run is resumed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.budget import Budget, Kind, Phase
from run_specialist.spawning.server_tools import MOST_AT_ONCE, fetch_tool, reserved, search_tool, server_tools
from run_specialist.spawning.spawner import as_stored
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Tool, Toolset

LOCAL = Tool("fetch", "Reads a page.", lambda url: url)
BOTH = ("web_search", "fetch")


def settings(**fields):
    """Return the settings of a specialist."""
    return Specialist(
        name="x", description="", prompt="", **{"tools": ("search", *BOTH), "server_tools": True, **fields}
    )


def uses(**fields):
    """Return the bound of each tool that is offered."""
    found = server_tools(settings(**fields))
    return {tool.name: (tool.on_server or {})["max_uses"] for tool in found}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"web_search": 3, "web_fetch": 3}),
        ({"tool_calls_limit": 25}, {"web_search": 3, "web_fetch": 2}),
        ({"tool_calls_limit": 2}, {"web_search": 1, "web_fetch": 1}),
        ({"tool_calls_limit": 0}, {}),
        ({"tool_calls_limit": None}, {"web_search": 5, "web_fetch": 5}),
        ({"tools": BOTH, "tool_calls_limit": 7}, {"web_search": 4, "web_fetch": 3}),
        ({"cost_limit": 0.16}, {"web_search": 2, "web_fetch": 3}),
    ],
)
def test_the_share_of_one_request(fields, expected):
    """A fifth of the limit beside other tools, all of it without, at most ten, and an eighth of the cost limit."""
    assert uses(**fields) == expected


@given(st.integers(0, 60), st.integers(1, 4), st.booleans(), st.integers(0, 60))
def test_a_request_before_the_landing_cannot_exceed_the_limit(limit, count, alone, used):
    """Whatever was used, what one request may use is left, or the landing begins."""
    tools = ("fetch", "web_search") if alone else ("fetch", "web_search", *["search"] * count)
    offered = Toolset(server_tools(settings(tool_calls_limit=limit, tools=tools)))
    budget = reserved(Budget.of({Kind.TOOL_CALLS: limit}), offered).spend(min(used, limit))
    at_once = sum(tool.on_server["max_uses"] for tool in offered.on_server)
    assert at_once <= min(limit, MOST_AT_ONCE)
    if budget.phase is not Phase.SPENT:
        assert budget[Kind.TOOL_CALLS].used + at_once <= limit
    if used == 0 and limit:
        assert budget.phase is not Phase.SPENT


def test_a_resumed_run_keeps_its_bounds():
    """A tool that the run would get today has the definition of then, byte for byte."""
    then = [search_tool(3, ("example.com",)).definition, fetch_tool(3, (), 5_000, None).definition]
    now = Toolset([search_tool(6, ("example.com",)), fetch_tool(6, (), 900, LOCAL)])
    assert sorted((tool.definition for tool in as_stored(then, now)), key=str) == sorted(then, key=str)


def test_what_others_wrote_to_the_store_is_not_run():
    """A stored definition gives nothing that the run would not get: no tool, and no other domains."""
    stored = [search_tool(3, ()).definition, fetch_tool(3, (), 5_000, None).definition]
    kept = as_stored(stored, Toolset([search_tool(2, ("example.com",))]))
    assert (kept.get("web_search").on_server or {})["allowed_domains"] == ["example.com"]
    assert kept.get("web_fetch").on_server is None
    assert kept.get("web_fetch").definition["input_schema"] == {"type": "object"}
