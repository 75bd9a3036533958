"""Runs that fetch web pages: the tool in requests, quotes from pages, and files that are not trusted."""

from functools import partial

import pytest

from run_specialist.api.runner import Runner
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.tools import web
from run_specialist.tools.web import Downloads
from tests.unit.tools.web_pages import replied, serving
from tests.wire.serving import write_specialist
from tests.wire.simulator.replies import answers, calls

pytestmark = pytest.mark.anyio
PAGE = replied(b"# Retries\n\nPayments are retried three times.\n")


async def asked(api, *, trust):
    """Ask the specialist `finder` of the current folder."""
    async with (
        make_client(base_url=api.base_url, api_key="test", max_retries=0) as client,
        Runner(provider=AnthropicProvider("haiku", client), trust=trust, store="none") as runner,
    ):
        return await runner.run("finder", "How often are payments retried?")


def offered(api):
    """Return the names of the tools in the first request."""
    return [tool["name"] for tool in api.requests[0].body["tools"]]


async def test_a_page_is_read_and_its_quote_is_verified(messages_api, project, monkeypatch):
    """The page is a tool result that counts like any other, and a quote from it is found."""
    monkeypatch.setattr(web, "Downloads", partial(Downloads, may_connect=bool))
    write_specialist(project, "finder", "tools: search, WebFetch", "tool_calls_limit: 2", "evidence: require")
    async with serving(PAGE) as pages:
        quote = {"source": pages.url(), "quote": "Payments are retried three times."}
        api = messages_api([calls("fetch", {"url": pages.url()}), answers("three times", evidence=[quote])])
        outcome = await asked(api, trust=True)
    assert offered(api) == ["fetch", "respond", "search"]
    (result,) = api.requests[1].results.values()
    assert "Payments are retried three times." in result
    assert result.endswith("1 tool call remaining")
    assert (outcome.status, [one.verified for one in outcome.evidence]) == ("answered", [True])


async def test_a_page_inside_is_an_error_for_the_model(messages_api, project):
    """A model that requests an internal address reads the reason for the refusal, and continues."""
    write_specialist(project, "finder", "tools: search, fetch")
    async with serving(PAGE) as pages:
        api = messages_api([calls("fetch", {"url": pages.url()}), answers("nothing")])
        outcome = await asked(api, trust=True)
    assert pages.requests == []
    assert "its address 127.0.0.1 is not public" in str(api.requests[1].results)
    assert outcome.tool_calls.failed == 1


async def test_a_file_that_is_not_trusted_runs_without_it(messages_api, project):
    """Without trust the tool is not in the requests, and the outcome says how to allow it."""
    write_specialist(project, "finder", "tools: search, fetch")
    api = messages_api([calls("search", {"query": "payments"}), answers("nothing")])
    outcome = await asked(api, trust=False)
    assert offered(api) == ["respond", "search"]
    assert any("`fetch` is not offered" in warning and "--trust" in warning for warning in outcome.warnings)
