"""Tools that the Messages API runs itself: web search, and reading a page.

The basic versions are used: later ones start a code sandbox on the server to filter the results, which makes replies
longer and is not available for all models and clouds.
Source: platform.claude.com, "Server tools", "Web search tool" and "Web fetch tool".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.specialist.tool_names import SEARCH
from run_specialist.tools.base import Tool

FETCH = "web_fetch"
SEARCH_TYPE = "web_search_20250305"
FETCH_TYPE = "web_fetch_20250910"


def search_tool(max_uses: int, domains: Sequence[str]) -> Tool:
    """Return the tool that searches the web.

    max_uses: maximum number of uses per request.
    domains: domains of the results, with their subdomains; empty = all.
    """
    return server_tool({"type": SEARCH_TYPE, "name": SEARCH, "max_uses": max_uses, **_allowed(domains)})


def fetch_tool(max_uses: int, domains: Sequence[str], content_tokens: int, instead: Tool | None) -> Tool:
    """Return the tool that reads a page.

    max_uses, domains: as for `search_tool`.
    content_tokens: maximum size of the text of one page [tokens].
    instead: the tool of this program, for an endpoint that does not have this one.
    """
    limits = {"max_uses": max_uses, "max_content_tokens": content_tokens}
    return server_tool({"type": FETCH_TYPE, "name": FETCH, **limits, **_allowed(domains)}, instead)


def server_tool(definition: Mapping[str, Any], instead: Tool | None = None) -> Tool:
    """Return a tool that the API runs.

    definition: as the API expects it.
    instead: as for `fetch_tool`.
    """
    return Tool(str(definition["name"]), "", _not_here, on_server=definition, instead=instead)


def uses_at_once(tools: Sequence[Tool]) -> int:
    """Return the maximum number of uses of all these tools per request."""
    return sum(int((tool.on_server or {}).get("max_uses", 0)) for tool in tools)


def _allowed(domains: Sequence[str]) -> dict[str, Any]:
    return {"allowed_domains": list(domains)} if domains else {}


def _not_here(**arguments: Any) -> str:  # noqa: ANN401 - the model may give any arguments
    del arguments
    raise ToolError("the API was to run it, and did not")
