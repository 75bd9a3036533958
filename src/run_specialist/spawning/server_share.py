"""Limit how often one request may use the tools that the API runs itself.

The limit of a tool is part of its definition. Definitions never change during a run: a change would invalidate the
whole prompt cache, and the newest models refuse one before thinking. Therefore every request may use the same share,
and the landing begins as soon as less than that is left, so that no reply can exceed the limit.
"""

from collections.abc import Mapping

from run_specialist.budget.budget import Budget, Kind
from run_specialist.providers.prices import SEARCH as SEARCH_PRICE
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import FETCH, SEARCH, names_tool, removes_tool
from run_specialist.tools.base import Toolset
from run_specialist.tools.server_tools import uses_at_once

MOST_AT_ONCE = 10
"""Number of uses after which the API pauses a turn anyway."""
SHARE = 5
"""Divisor of the limit of tool calls: the share of one request, if there are other tools, too."""
SEARCHES_PER_LIMIT = 8
"""Divisor of the cost limit: the share that the searches of one request may cost, as one reply may."""


def shares(settings: Specialist) -> Mapping[str, int]:
    """Return the maximum uses of `web_search` and `fetch` per request; 0 if the limits allow none.

    Only the tools that the file names are included.
    """
    named = [name for name in (SEARCH, FETCH) if _is_named(settings, name)]
    affordable = [name for name in named if name != SEARCH or _searches(settings) != 0]
    limit = settings.tool_calls_limit
    offered = affordable if limit is None else affordable[:limit]
    total = _total(settings, len(offered))
    found = dict.fromkeys(named, 0)
    for place, name in enumerate(offered):
        # The first of two tools gets the remainder.
        found[name] = total // len(offered) + (place < total % len(offered))
    if (searches := _searches(settings)) is not None and SEARCH in found:
        found[SEARCH] = min(found[SEARCH], searches)
    return found


def is_too_dear(settings: Specialist) -> bool:
    """Return whether one search would exceed its share of the cost limit."""
    return _searches(settings) == 0


def reserved(budget: Budget, tools: Toolset) -> Budget:
    """Return a budget whose landing begins as soon as less than the share of one request is left."""
    uses = uses_at_once(tools.on_server)
    return budget.hold(uses - 1, Kind.TOOL_CALLS) if uses else budget


def _total(settings: Specialist, tools: int) -> int:
    """Return the maximum number of uses of all these tools per request."""
    limit = settings.tool_calls_limit
    if limit is None:
        return MOST_AT_ONCE
    is_alone = len(settings.tools or ()) <= tools
    return max(min(limit if is_alone else limit // SHARE, MOST_AT_ONCE), tools)


def _searches(settings: Specialist) -> int | None:
    """Return the maximum number of searches per request under the cost limit; None = any number."""
    limit = settings.cost_limit
    return None if limit is None else int(limit / SEARCHES_PER_LIMIT / SEARCH_PRICE)


def _is_named(settings: Specialist, name: str) -> bool:
    return names_tool(settings.tools, name) and not removes_tool(settings.disallowed_tools, name)
