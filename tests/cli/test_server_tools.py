"""`--server-tools` on the command line: consent for one call."""

import json

from tests.wire.server_tool_runs import FOUND, PAGE, fetch, search
from tests.wire.simulator.replies import answers, says, tool_use

ASKS = "tools: read, WebSearch, WebFetch"
RESPOND = tool_use("respond", {"answer": "three times"})


def test_the_option_allows_what_the_file_names(api, write, call, store):
    """The option is consent for one call, and the outcome has the calls and the searches."""
    write("finder", ASKS)
    simulator = api([says(search(), FOUND, fetch(), PAGE, RESPOND)])
    result = call("finder", "How often?", "--server-tools", "--trust", "--json")
    outcome = json.loads(result.stdout)
    assert (outcome["status"], outcome["tool_calls"]["used"]) == ("answered", 2)
    assert outcome["usage"]["web_search_requests"] == 1
    assert not [text for text in outcome["warnings"] if "WebSearch" in text or "web_search" in text]
    assert simulator.requests[0].tool_names == ["read", "respond", "web_fetch", "web_search"]


def test_without_the_option_there_is_one_warning(api, write, call):
    """Nothing is searched, and one line says how to allow it."""
    write("finder", ASKS)
    simulator = api([answers("I do not know")])
    result = call("finder", "How often?", "--trust")
    assert "web_search" not in simulator.requests[0].tool_names
    (line,) = [line for line in result.stderr.splitlines() if "WebSearch" in line]
    assert "`server_tools: true` allows that" in line


def test_a_config_file_cannot_give_consent(api, write, call, notes):
    """A project cannot have searches billed that its user did not allow."""
    write("finder", ASKS)
    (notes / "pyproject.toml").write_text("[tool.run-specialist]\nserver_tools = true\n")
    simulator = api([answers("I do not know")], all_used=False)
    result = call("finder", "How often?", "--trust")
    assert "this cannot be set in a config file; use the option --server-tools" in " ".join(result.stderr.split())
    assert all("web_search" not in request.tool_names for request in simulator.requests)
