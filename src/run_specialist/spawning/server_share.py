"""Offer the tools that the API runs itself, and bound how often: one request may use them only a share of the limit.

The bound of a tool is part of its definition. Definitions never change in a run: a change loses the whole prompt cache,
and the newest models refuse one in front of thinking. Therefore every request may use the same share, and the landing
begins as soon as less than that is left, so that no reply can exceed the limit.
"""

from collections.abc import Sequence

from run_specialist.budget.budget import Budget, Kind
from run_specialist.providers.prices import SEARCH as SEARCH_PRICE
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import SEARCH
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.server_tools import fetch_tool, search_tool, uses_at_once
from run_specialist.tools.web.fetch import NAME as FETCH

MOST_AT_ONCE = 10
"""Uses after which the API pauses a turn anyway."""
SHARE = 5
"""One request may use a fifth of the limit of tool calls, if there are other tools as well."""
CHARACTERS_PER_TOKEN = 4
SEARCHES_PER_LIMIT = 8
"""The searches of one request may cost an eighth of the cost limit, as one reply may."""


def server_tools(names: Sequence[str], settings: Specialist, local: Tool | None) -> tuple[Tool, ...]:
    """Return the tools for these names; fewer if the limits leave nothing for one of them.

    names: of `web_search` and `fetch`, those that the specialist may have.
    local: the `fetch` of this program, for an endpoint that does not have the tool.
    """
    affordable = [name for name in names if name != SEARCH or _searches(settings) != 0]
    limit = settings.tool_calls_limit
    offered = affordable if limit is None else affordable[:limit]
    total = _total(settings, len(offered))
    tools = []
    for place, name in enumerate(offered):
        # The first of two gets the odd one.
        uses = total // len(offered) + (place < total % len(offered))
        tools.append(_tool(name, uses, settings, local))
    return tuple(tools)


def too_dear(settings: Specialist) -> bool:
    """Return whether one search would cost too much of the cost limit."""
    return _searches(settings) == 0


def reserved(budget: Budget, tools: Toolset) -> Budget:
    """Return a budget whose landing begins while what one request may use is no longer left."""
    uses = uses_at_once(tools.on_server)
    return budget.hold(uses - 1, Kind.TOOL_CALLS) if uses else budget


def _total(settings: Specialist, tools: int) -> int:
    """Return how many uses of all these tools one request may make."""
    limit = settings.tool_calls_limit
    if limit is None:
        return MOST_AT_ONCE
    is_alone = len(settings.tools or ()) <= tools
    return max(min(limit if is_alone else limit // SHARE, MOST_AT_ONCE), tools)


def _searches(settings: Specialist) -> int | None:
    """Return how many searches of one request the cost limit allows; None = any number."""
    limit = settings.cost_limit
    return None if limit is None else int(limit / SEARCHES_PER_LIMIT / SEARCH_PRICE)


def _tool(name: str, uses: int, settings: Specialist, local: Tool | None) -> Tool:
    if name == FETCH:
        tokens = max(settings.tool_result_limit // CHARACTERS_PER_TOKEN, 1)
        return fetch_tool(uses, settings.allowed_domains, tokens, local)
    searches = _searches(settings)
    return search_tool(uses if searches is None else min(uses, searches), settings.allowed_domains)
