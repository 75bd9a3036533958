"""Tools that the API runs itself: how they are offered, counted, stored and quoted."""

import pytest

from tests.wire.server_tool_runs import BOTH, SEARCH, asked, tools_of
from tests.wire.simulator.replies import (
    answers,
    calls,
    cited,
    fetched,
    pauses,
    respond,
    says,
    searched,
    server_tool_use,
    tool_use,
)

pytestmark = pytest.mark.anyio
URL = "https://example.com/retries"
PAGE = fetched(URL, "Payments are retried three times.")
FOUND = searched(("Retries of payments", URL))


def search(words="retries"):
    """Return a use of the search."""
    return server_tool_use("web_search", {"query": words})


def fetch(url=URL):
    """Return a use of the tool that reads a page."""
    return server_tool_use("web_fetch", {"url": url})


@pytest.mark.parametrize("stream", [False, True])
async def test_uses_count_are_billed_and_prove_quotes(messages_api, project, stream):
    """Both tools run at the API; each use counts, a search costs a cent, and quotes are found in what can be read."""
    quotes = [
        {"source": URL, "quote": "Payments are retried three times."},
        {"source": URL, "quote": "Retries of payments"},
        {"source": URL, "quote": "three tries in all"},
    ]
    text = cited("Three times.", URL, "there are three tries in all")
    api = messages_api(
        [says(search(), FOUND, fetch(), PAGE, text, tool_use("search", {"query": "x"})), answers("three", evidence=quotes)]
    )
    done = await asked(api, project, *BOTH, "tool_calls_limit: 10", stream=stream)
    assert tools_of(api)["web_search"] == {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
    assert tools_of(api)["web_fetch"]["max_content_tokens"] == 5_000
    assert api.requests[1].messages[1]["content"] == api.requests[0].content
    (result,) = api.requests[1].results.values()
    assert result.endswith("7 tool calls remaining") is False
    outcome = done.outcome
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 3)
    assert [one.verified for one in outcome.evidence] == [True, True, True]
    assert outcome.usage.web_search_requests == 1
    assert done.phases("web_search") == ["started", "finished"]
    assert done.phases("web_fetch") == ["started", "finished"]
