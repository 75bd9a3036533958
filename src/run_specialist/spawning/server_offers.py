"""The offers of tools that the API runs itself: `web_search`, and the API's own tool in place of `fetch`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from run_specialist.spawning.server_share import is_too_dear, shares
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import SEARCH
from run_specialist.tools.base import Tool
from run_specialist.tools.offer import Offer
from run_specialist.tools.server_tools import fetch_tool, search_tool
from run_specialist.tools.web.fetch_offer import FETCH

NO_CONSENT = "the API would run and bill it; allow that with `server_tools: true`"
_NO_SERVER = "only the Messages API runs it, and this endpoint does not"
_AS_JSON = "the API runs it only with `tool_calls: native`"
_TOO_DEAR = "the searches of one request could exceed an eighth of cost_limit"
_TOO_FEW = "tool_calls_limit leaves no call for it"
CHARACTERS_PER_TOKEN = 4
"""Estimated length of a token, for the size of a page [characters]."""


def with_server_tools(offers: Iterable[Offer], settings: Specialist, *, on_server: bool) -> tuple[Offer, ...]:
    """Return offers with `web_search` added and, where allowed, the API's own tool in place of `fetch`.

    on_server: whether the endpoint may run tools itself.
    """
    by_api = on_server and settings.server_tools and shares(settings).get(FETCH.name, 0) > 0
    found = (FETCH_BY_API if by_api and offer is FETCH else offer for offer in offers)
    return (*found, replace(SEARCH_OFFER, lacking=_lacking_on(on_server=on_server)))


def server_tools(settings: Specialist) -> tuple[Tool, ...]:
    """Return the tools of the API that settings allow, regardless of trust."""
    return tuple(_tool(name, settings, None) for name, uses in shares(settings).items() if uses and _allows(settings))


def _allows(settings: Specialist) -> bool:
    return settings.server_tools and settings.tool_calls == "native"


def _tool(name: str, settings: Specialist, local: Tool | None) -> Tool:
    uses, domains = shares(settings)[name], settings.allowed_domains
    if name == SEARCH:
        return search_tool(uses, domains)
    return fetch_tool(uses, domains, max(settings.tool_result_limit // CHARACTERS_PER_TOKEN, 1), local)


def _fetch_by_api(settings: Specialist, root: Path) -> Tool:
    local = None if FETCH.lacking(settings, root) else FETCH.make(settings, root)
    return _tool(FETCH.name, settings, local)


def _lacking_on(*, on_server: bool) -> Callable[[Specialist, Path], str]:
    def lacking(settings: Specialist, _root: Path) -> str:
        reasons: Sequence[tuple[bool, str]] = (
            (not settings.server_tools, NO_CONSENT),
            (settings.tool_calls == "json", _AS_JSON),
            (not on_server, _NO_SERVER),
            (is_too_dear(settings), _TOO_DEAR),
            (not shares(settings).get(SEARCH), _TOO_FEW),
        )
        return next((reason for is_so, reason in reasons if is_so), "")

    return lacking


def _search_action(settings: Specialist) -> str:
    return f"search {', '.join(settings.allowed_domains) or 'any web site'} through the API, which bills each search"


def _anything(_settings: Specialist, _root: Path) -> str:
    return ""


_KEYS = ("allowed_domains", "server_tools")
SEARCH_OFFER = Offer(SEARCH, _KEYS, _search_action, lambda settings, _root: _tool(SEARCH, settings, None))
FETCH_BY_API = replace(FETCH, keys=_KEYS, make=_fetch_by_api, lacking=_anything)
