"""Offer the tool `fetch` to a file, or say why not; the tool is imported only if a file asks for it."""

from importlib.util import find_spec
from pathlib import Path

from run_specialist.installation import adding
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import FETCH as NAME
from run_specialist.tools.base import Tool
from run_specialist.tools.offer import Offer

EXTRA = "web"
"""The extra of this package that the tool needs."""


def is_installed() -> bool:
    """Return whether the packages of the extra are installed; imports none of them."""
    return find_spec("trafilatura") is not None


def _make(settings: Specialist, _root: Path) -> Tool:
    from run_specialist.tools.web.downloads import Downloads  # noqa: PLC0415 - few files ask for it
    from run_specialist.tools.web.fetch import fetch_tool  # noqa: PLC0415 - as above

    return fetch_tool(Downloads(settings.allowed_domains), settings.tool_result_limit)


def _action(settings: Specialist) -> str:
    # A specialist can send data away as part of a URL.
    return f"fetch pages of {', '.join(settings.allowed_domains) or 'any web site'}"


def _lacking(_settings: Specialist, _root: Path) -> str:
    return "" if is_installed() else f"it needs the extra `{EXTRA}`; {adding(EXTRA)}"


FETCH = Offer(NAME, ("allowed_domains",), _action, _make, _lacking)
"""The offer of the tool."""
