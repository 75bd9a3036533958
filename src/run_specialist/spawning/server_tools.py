"""Tools that the API runs itself: definitions, offers, and how often a request may use them.

The basic versions are used: later ones start a code sandbox on the server to filter the results, which makes replies
longer and is not available for all models and clouds.
Source: platform.claude.com, "Server tools", "Web search tool" and "Web fetch tool".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from run_specialist.budget import Budget, Kind
from run_specialist.errors import ToolError
from run_specialist.installation import adding
from run_specialist.providers.models import SEARCH as SEARCH_PRICE
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import FETCH, SEARCH, names_tool, removes_tool
from run_specialist.tools.base import Offer, Tool, Toolset

API_FETCH = "web_fetch"
SEARCH_TYPE = "web_search_20250305"
FETCH_TYPE = "web_fetch_20250910"


def search_tool(max_uses: int, domains: Sequence[str]) -> Tool:
    """Return the tool that searches the web.

    max_uses: maximum number of uses per request.
    domains: domains of the results, with their subdomains; empty = all.
    """
    return server_tool({"type": SEARCH_TYPE, "name": SEARCH, "max_uses": max_uses, **_only(domains)})


def fetch_tool(max_uses: int, domains: Sequence[str], content_tokens: int, instead: Tool | None) -> Tool:
    """Return the tool that reads a page.

    max_uses, domains: as for `search_tool`.
    content_tokens: maximum size of the text of one page [tokens].
    instead: the tool of this program, for an endpoint that does not have this one.
    """
    limits = {"max_uses": max_uses, "max_content_tokens": content_tokens}
    return server_tool({"type": FETCH_TYPE, "name": API_FETCH, **limits, **_only(domains)}, instead)


def server_tool(definition: Mapping[str, Any], instead: Tool | None = None) -> Tool:
    """Return a tool that the API runs.

    definition: as the API expects it.
    instead: as for `fetch_tool`.
    """

    def not_here(**_arguments: Any) -> str:  # noqa: ANN401 - the model may give any arguments
        raise ToolError("the API was to run it, and did not")

    return Tool(str(definition["name"]), "", not_here, on_server=definition, instead=instead)


def _only(domains: Sequence[str]) -> dict[str, Any]:
    return {"allowed_domains": list(domains)} if domains else {}


def _fetch(settings: Specialist, _root: Path) -> Tool:
    from run_specialist.tools.web import Downloads, fetch_tool  # noqa: PLC0415 - few files ask for it

    return fetch_tool(Downloads(settings.allowed_domains), settings.tool_result_limit)


def _sites(settings: Specialist) -> str:
    return ", ".join(settings.allowed_domains) or "any web site"


FETCH_OFFER = Offer(
    FETCH,
    ("allowed_domains",),
    # A specialist can send data away as part of a URL.
    lambda settings: f"fetch pages of {_sites(settings)}",
    _fetch,
    lambda _settings, _root: "" if find_spec("trafilatura") else f"it needs the extra `web`; {adding('web')}",
)
"""The offer of the tool of this program."""


NO_CONSENT = "the API would run and bill it; allow that with `server_tools: true`"
CHARACTERS_PER_TOKEN = 4
"""Estimated length of a token, for the size of a page [characters]."""


def with_server_tools(offers: Iterable[Offer], settings: Specialist, *, on_server: bool) -> tuple[Offer, ...]:
    """Return offers with `web_search` added and, where allowed, the API's own tool in place of `fetch`.

    on_server: whether the endpoint may run tools itself.
    """
    share = shares(settings)
    reasons = (
        (not settings.server_tools, NO_CONSENT),
        (settings.tool_calls == "json", "the API runs it only with `tool_calls: native`"),
        (not on_server, "only the Messages API runs it, and this endpoint does not"),
        (_searches(settings) == 0, "the searches of one request could exceed an eighth of cost_limit"),
        (not share.get(SEARCH), "tool_calls_limit leaves no call for it"),
    )
    lacking = next((reason for is_so, reason in reasons if is_so), "")
    search = replace(SEARCH_OFFER, lacking=lambda _settings, _root: lacking)
    if not (on_server and settings.server_tools and share.get(FETCH)):
        return (*offers, search)

    def by_api(settings: Specialist, root: Path) -> Tool:
        local = None if FETCH_OFFER.lacking(settings, root) else FETCH_OFFER.make(settings, root)
        return _tool(FETCH, settings, local)

    fetch = replace(FETCH_OFFER, keys=_KEYS, make=by_api, lacking=lambda _settings, _root: "")
    return (*(fetch if offer is FETCH_OFFER else offer for offer in offers), search)


def server_tools(settings: Specialist) -> tuple[Tool, ...]:
    """Return the tools of the API that settings allow, regardless of trust."""
    if not settings.server_tools or settings.tool_calls == "json":
        return ()
    return tuple(_tool(name, settings, None) for name, uses in shares(settings).items() if uses)


def _tool(name: str, settings: Specialist, local: Tool | None) -> Tool:
    uses, domains = shares(settings)[name], settings.allowed_domains
    if name == SEARCH:
        return search_tool(uses, domains)
    return fetch_tool(uses, domains, max(settings.tool_result_limit // CHARACTERS_PER_TOKEN, 1), local)


_KEYS = ("allowed_domains", "server_tools")
SEARCH_OFFER = Offer(
    SEARCH,
    _KEYS,
    lambda settings: f"search {_sites(settings)} through the API, which bills each search",
    lambda settings, _root: _tool(SEARCH, settings, None),
)


# Limit how often one request may use the tools that the API runs itself.
#
# The limit of a tool is part of its definition. Definitions never change during a run: a change would invalidate the
# whole prompt cache, and the newest models refuse one before thinking. Therefore every request may use the same share,
# and the landing begins as soon as less than that is left, so that no reply can exceed the limit.

MOST_AT_ONCE = 10
"""Number of uses after which the API pauses a turn anyway."""
SHARE = 5
"""Divisor of the limit of tool calls: the share of one request, if there are other tools, too."""
# Divisor of the cost limit: the share that the searches of one request may cost, as one reply may.
_SEARCHES_PER_LIMIT = 8


def shares(settings: Specialist) -> Mapping[str, int]:
    """Return the maximum uses of `web_search` and `fetch` per request; 0 if the limits allow none.

    Only the tools that the file names are included.
    """
    disallowed = settings.disallowed_tools
    named = [one for one in (SEARCH, FETCH) if names_tool(settings.tools, one) and not removes_tool(disallowed, one)]
    offered = [name for name in named if name != SEARCH or _searches(settings) != 0]
    total, limit = MOST_AT_ONCE, settings.tool_calls_limit
    if limit is not None:
        offered = offered[:limit]
        is_alone = len(settings.tools or ()) <= len(offered)
        total = max(min(limit if is_alone else limit // SHARE, MOST_AT_ONCE), len(offered))
    found = dict.fromkeys(named, 0)
    for place, name in enumerate(offered):
        # The first of two tools gets the remainder.
        found[name] = total // len(offered) + (place < total % len(offered))
    if (searches := _searches(settings)) is not None and SEARCH in found:
        found[SEARCH] = min(found[SEARCH], searches)
    return found


def reserved(budget: Budget, tools: Toolset) -> Budget:
    """Return a budget whose landing begins as soon as less than the share of one request is left."""
    uses = sum(int((tool.on_server or {}).get("max_uses", 0)) for tool in tools.on_server)
    return budget.hold(uses - 1, Kind.TOOL_CALLS) if uses else budget


def _searches(settings: Specialist) -> int | None:
    """Return the maximum number of searches per request under the cost limit; None = any number."""
    limit = settings.cost_limit
    return None if limit is None else int(limit / _SEARCHES_PER_LIMIT / SEARCH_PRICE)
